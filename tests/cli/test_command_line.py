"""The command line as a whole: every command has an example, JSON and the options that it always had."""

import subprocess
import sys

import typer

from fgsv.cli import command_line


def commands(group, prefix=()):
    for command in group.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")
        yield (*prefix, name), command.help or command.callback.__doc__ or ""
    for sub in group.registered_groups:
        yield from commands(sub.typer_instance, (*prefix, sub.name or sub.typer_instance.info.name))


def test_every_command_has_an_example_in_its_help():
    found = dict(commands(command_line.app))
    assert {("value",), ("plan",), ("payout",), ("demo",)} <= set(found)
    for name, words in found.items():
        assert f"Example: fgsv {' '.join(name)}" in words, name
    assert isinstance(typer.main.get_command(command_line.app).name, (str, type(None)))


def test_every_command_prints_json():
    def walk(command, name):
        for sub in getattr(command, "commands", {}).values():
            yield from walk(sub, f"{name} {sub.name}")
        if not hasattr(command, "commands"):
            yield name, {word for parameter in command.params for word in parameter.opts}

    found = dict(walk(typer.main.get_command(command_line.app), "fgsv"))
    assert len(found) == len(dict(commands(command_line.app))) > 15
    assert [name for name, options in found.items() if "--json" not in options] == []


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom fgsv.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'pandas', 'sklearn', 'scipy', 'matplotlib', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
