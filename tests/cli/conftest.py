"""Shared by the tests of the command line: a table, and a way to run a command."""

import pytest
from cli_cases import providers

from fgsv.cli import command_line


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.csv"
    providers().to_csv(path, index=False)
    return path


@pytest.fixture
def fgsv_command(capsys):
    """Run a command and return its exit code, output and errors."""

    def run(*arguments):
        try:
            command_line.main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
