"""The command line as a whole: every command has an example, JSON and the options that it always had."""

import re
import subprocess
import sys

import pytest
import typer

import fgsv
from fgsv.cli import command_line

OF_TABLES = (
    "--group --target --regroup --unit --test --test-fraction --test-by --monte-carlo-only --model --metric --task "
    "--ignore --group-missing --refit-preprocessing --encoding --seed --budget --precision --max-time --confidence "
    "--jobs --ledger --json"
)
OF_AUDITS = (
    f"{OF_TABLES} --on-error --payout --currency --clip --floor --cap --audit-budget --parts --aggregate-only --out "
    "--force"
)
OPTIONS_OF_0_1_0 = {
    "value": f"{OF_AUDITS} --audit",
    "audit": OF_AUDITS,
    "plan": f"{OF_TABLES} --pilot",
    "report": "--out --aggregate-only --force --json",
    "compare": "--confidence --json",
    "payout": "--amount --currency --clip --floor --cap --confidence --json",
    "demo": "--out --budget --seed --force --json",
    "version": "--json",
    "verify": "--ledger --json",
    "ledger show": "--json",
    "ledger verify": "--game --sample --tolerance --seed --json",
    "ledger merge": "--json",
    "ledger export": "--json",
}


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


def options():
    """Return the options of every command, by its name."""

    def walk(command, name):
        for sub in getattr(command, "commands", {}).values():
            yield from walk(sub, f"{name} {sub.name}".strip())
        if not hasattr(command, "commands"):
            yield name, {word for parameter in command.params for word in parameter.opts if word.startswith("--")}

    return dict(walk(typer.main.get_command(command_line.app), ""))


def test_every_command_prints_json():
    found = options()
    assert len(found) == len(dict(commands(command_line.app))) > 15
    assert [name for name, words in found.items() if "--json" not in words] == []


@pytest.mark.parametrize("command", OPTIONS_OF_0_1_0)
def test_every_option_of_0_1_0_is_still_there(command):
    assert set(OPTIONS_OF_0_1_0[command].split()) - options()[command] == set()


def test_value_and_audit_list_the_same_options(fgsv_command):
    listed = []
    for command in ("value", "audit"):
        code, text, _ = fgsv_command(command, "--help")
        assert code == 0
        listed.append(re.findall(r"^  (--[a-z-]+)", text.split("Arguments:")[1], re.MULTILINE))
    assert listed[0] == listed[1]
    assert set(listed[0]) == options()["value"] | {"--help"}


@pytest.mark.parametrize("command", ["value", "audit", "plan", "seal", "ledger applies"])
def test_long_help_has_sections_and_words_for_values(command, fgsv_command):
    code, text, _ = fgsv_command(*command.split(), "--help")
    assert code == 0
    titles = re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)
    assert titles[:4] == ["Arguments", "Data", "Test rows", "Model and score"]
    assert "Options" not in titles  # every option is in a section
    assert re.findall(r"list\[|<\w+|\{", text) == []
    assert {"--target COLUMN", "--test FILE", "FILE..."} <= set(re.findall(r"--t\w+ [A-Z]+|FILE\.\.\.", text))


def test_summaries_are_not_cut_off(fgsv_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for group in ((), ("ledger",)):
        code, text, _ = fgsv_command(*group, "--help")
        assert (code, [line for line in text.split("Commands:")[1].splitlines() if "..." in line]) == (0, [])


def test_seal_does_not_offer_what_it_refuses(fgsv_command):
    offered = re.findall(r"^  (--[a-z-]+)", fgsv_command("seal", "--help")[1], re.MULTILINE)
    assert {"--seed", "--start"} & set(offered) == set()
    assert {"--registered", "--split-seed"} <= set(offered)  # these decide what is sealed


def test_both_ways_to_ask_for_the_version(fgsv_command):
    assert fgsv_command("--version") == fgsv_command("version") == (0, f"{fgsv.__version__}\n", "")


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom fgsv.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'pandas', 'sklearn', 'scipy', 'matplotlib', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
