"""Shared by all tests: under CI a skipped test is a failure, unless it needs a GPU."""

import gc
import json
import os
import sys

import numpy as np
import pytest
from hypothesis import settings

from fgsv.cli import main

gc.disable()  # what is imported stays: nothing is gained by looking through it again and again

collect_ignore_glob = ["*conftest.py"]  # several modules of one name: none of them has doctests

settings.register_profile("fgsv", deadline=None, derandomize=True)
settings.load_profile("fgsv")


def is_marked(item, name):
    """Say whether a test has a mark, or its module has."""
    return item.get_closest_marker(name) is not None


def pytest_collection_modifyitems(items):
    """Let the workers of pytest-xdist end together.

    Each gets a part of the list, and those that are done steal from the ends of the others' parts. So every part
    begins with what is slow, and the first with what needs torch.
    """
    parts = [[] for _ in range(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))]
    slow = sorted({item.path for item in items if is_marked(item, "slow") and not is_marked(item, "torch")})
    rest = []
    for item in items:
        if is_marked(item, "torch"):
            parts[0].append(item)
        elif item.path in slow:
            parts[-1 - slow.index(item.path) % max(1, len(parts) - 1)].append(item)
        else:
            rest.append(item)
    length = len(items) // len(parts)
    for part in parts:
        room = max(0, length - len(part))
        part += rest[:room]
        del rest[:room]
    items[:] = [item for part in parts for item in part] + rest


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    may_skip = os.environ.get("CI") != "true" or is_marked(item, "gpu")
    if report.skipped and not may_skip and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {reason}"


@pytest.fixture(autouse=True)
def no_einsum_of_empty_arrays(monkeypatch):
    """Let no test pass where fgsv gives einsum an empty array: it reads past the end (NumPy 2.4), rarely a NaN."""
    einsum = np.einsum

    def checked(subscripts, *operands, **options):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        assert not caller.startswith("fgsv") or all(np.size(operand) for operand in operands), (
            f"{caller}: einsum({subscripts!r}) of shapes {[np.shape(operand) for operand in operands]}"
        )
        return einsum(subscripts, *operands, **options)

    monkeypatch.setattr(np, "einsum", checked)


@pytest.fixture
def random_game():
    """Return a maker of games with n players and q outputs whose 2^n values are random numbers."""

    def make(n, seed=0, q=None):
        rng = np.random.default_rng(seed)
        table = rng.normal(size=2**n if q is None else (2**n, q))

        def game(masks):
            return table[masks @ (1 << np.arange(n))]

        return game

    return make


class Command:
    """Runs a command in this process: returns its exit code, output and errors, or expects how it ends."""

    def __init__(self, capsys):
        self._capsys = capsys

    def __call__(self, *arguments):
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def done(self, *arguments):
        """Return the output and the errors of a command that succeeds."""
        code, text, notes = self(*arguments)
        assert code == 0, notes
        return text, notes

    def json(self, *arguments):
        """Return what a command prints with --json."""
        return json.loads(self.done(*arguments, "--json")[0])

    def refused(self, *arguments):
        """Return the errors of a command that is refused."""
        code, text, notes = self(*arguments)
        assert code == 2, notes
        assert "Traceback" not in notes + text
        return notes


@pytest.fixture
def fgsv_command(capsys):
    return Command(capsys)
