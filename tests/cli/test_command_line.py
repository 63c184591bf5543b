"""The command line as a whole: every command has an example, JSON, and help that says what the reference says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import fgsv
from fgsv.cli import command_line
from fgsv.cli.help_texts import in_sections

ROOT = Path(__file__).parents[2]


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


def parameters():
    """Return the parameters of every command, by its name."""

    def walk(command, name):
        for sub in getattr(command, "commands", {}).values():
            yield from walk(sub, f"{name} {sub.name}".strip())
        if not hasattr(command, "commands"):
            yield name, command.params

    return dict(walk(typer.main.get_command(command_line.app), ""))


def options():
    """Return the options of every command, by its name."""
    return {
        name: {word for each in found for word in each.opts if word.startswith("--")}
        for name, found in parameters().items()
    }


def test_every_command_prints_json():
    found = options()
    assert len(found) == len(dict(commands(command_line.app))) > 15
    assert set(reference()) == set(found)
    assert [name for name, words in found.items() if "--json" not in words] == []


def listed(text):
    """Return the options in the sections of a help text."""
    return re.findall(r"^  (--[a-z-]+)", re.split(r"^(?:Arguments|Options):$", text, maxsplit=1, flags=re.M)[1], re.M)


@pytest.mark.parametrize("command", parameters())
def test_every_option_has_its_section(command):
    """Help and `--save-config` know an option of a long command by its section alone."""
    found = parameters()[command]
    visible = {each.name for each in found if each.param_type_name == "option" and not each.hidden}
    assert visible == {each.name for section in in_sections(found).values() for each in section}


LONG = ["value", "plan", "seal make", "ledger applies"]


@pytest.mark.parametrize("command", LONG)
def test_long_help_has_sections_and_words_for_values(command, fgsv_command):
    text, _ = fgsv_command.done(*command.split(), "--help-all")
    titles = re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)
    assert titles[:4] == ["Arguments", "Data", "Test rows", "Model and score"]
    assert "Options" not in titles
    hidden = {"--seed", "--start"} if command == "seal make" else set()
    assert set(listed(text)) == options()[command] - hidden | {"--help"}
    assert re.findall(r"list\[|<\w+|\{", text) == []
    assert {"--target COLUMN", "--test FILE", "FILE..."} <= set(re.findall(r"--t\w+ [A-Z]+|FILE\.\.\.", text))


@pytest.mark.parametrize("command", LONG)
def test_help_shows_the_options_that_people_need(command, fgsv_command):
    code, text, _ = fgsv_command(*command.split(), "--help")
    shown = listed(text)
    assert (code, shown[-2:]) == (0, ["--help", "--help-all"])
    assert len(shown) <= 25
    assert {"--target", "--group", "--text", "--test", "--model", "--metric", "--unit-size"} <= set(shown)
    assert {"--clip", "--encoding", "--on-error"} & set(shown) == set()


def reference():
    """Return the rows of docs/cli.md by command: each option with a word for its value, and what it means."""
    found = {}
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("<!-- commands")[2]
    for section in re.split(r"^## fgsv ", page, flags=re.MULTILINE)[1:]:
        cells = re.findall(r"^\| `([^`]*)` \| (.*?) \| (?:`.*`)? ?\|$", section, re.MULTILINE)
        rows = {written.split()[0]: (written, words) for written, words in cells}
        same = re.findall(r"`(--[a-z-]+)`", "".join(re.findall(r"^- .*$", section, re.MULTILINE)))
        rows |= {name: found["value"][name] for name in same}
        found[section.partition("\n")[0]] = rows
    return found


@pytest.mark.parametrize("command", list(reference()))
def test_help_says_what_the_reference_says(command, fgsv_command):
    rows = reference()[command]
    text, _ = fgsv_command.done(*command.split(), "--help-all" if "--help-all" in rows else "--help")
    said = " ".join(text.split())
    for written, words in rows.values():
        row = re.escape(f"{written} {words}".replace("\\|", "|"))
        assert re.search(rf"{row}(?: \[[^]]*\])?(?: --| [A-Z][a-z ]*:| [A-Z.]+ |$)", said), written
    assert set(listed(text)) == {name for name in rows if name.startswith("--")} | {"--help"}


def test_summaries_are_not_cut_off(fgsv_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for group in ((), ("ledger",), ("seal",)):
        code, text, _ = fgsv_command(*group, "--help")
        assert (code, [line for line in text.split("Commands:")[1].splitlines() if "..." in line]) == (0, [])


def test_seal_does_not_offer_what_it_refuses(fgsv_command):
    offered = listed(fgsv_command("seal", "make", "--help-all")[1])
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
