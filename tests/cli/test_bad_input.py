"""Mistakes: each is one line that says what to do, and exit code 2."""

import json
from dataclasses import fields

import pytest
from cli_cases import COLUMNS

import fgsv
from fgsv.cli import command_line
from fgsv.results import Result


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["value", "nothing.csv", *COLUMNS], "no file"),
        (["value", "TRAIN", "--group", "providr", "--target", "y"], "did you mean 'provider'"),
        (["value", "TRAIN", "--group", "provider"], "--target"),
        (["value", "TRAIN", *COLUMNS, "--metric", "accurracy"], "error: 'accurracy' is not a score of scikit-learn"),
        (["value", "TRAIN", *COLUMNS, "--text", "site"], "--target is for tables and --text for texts"),
        (["value", "TRAIN", "."], "a folder of texts must be the only FILE"),
        (["value", "TRAIN", *COLUMNS, "--precision", "1"], "got 1: 1 percentage point is 0.01"),
        (
            ["value", "TRAIN", *COLUMNS, "--seal", ".", "--public", "1", "--ledger", "l"],
            ". is not a seal: it is a folder",
        ),
        (
            ["value", "TRAIN", *COLUMNS, "--test", "TRAIN", "--test-by", "site"],
            "with --test or --test-by, not both",
        ),
        (["value", "TRAIN", *COLUMNS, "--payout", "10,000.00"], "got 2: 10.00, 0.00. An amount has no commas"),
        (["payout", "TRAIN", "--amount", "1"], "; expected a valuation.json or its folder"),
        (["payout", "march", "--amount", "1"], "no saved valuation at march: expected"),
        (["value", "TRAIN", *COLUMNS, "--jobs", "0"], "--jobs must be a number of workers"),
        (["value", "TRAIN", *COLUMNS, "--seed", "-1"], "--seed"),
        (["value", "TRAIN", *COLUMNS, "--bugdet", "5"], "--budget"),
        (
            ["value", "no.csv", *COLUMNS, "--max-time", "soon"],
            "'--max-time': must be like 90s, 10m or 2h, got 'soon'",
        ),
        (["value", "no.csv", *COLUMNS, "--confidence", "1"], "such as 0.95, got 1 (see fgsv value --help)"),
        (["value", "TRAIN", *COLUMNS, "--training-seeds", "new"], "'fixed', 'fresh'"),
        (["value", "TRAIN", *COLUMNS, "--also-metric", "f1", "--empty", "0,1"], "--empty takes one number"),
        (["value", "TRAIN", "--text", "a", "--training-seeds", "fresh"], "can only be used with --target"),
        (["ledger", "show"], "fgsv ledger show --help"),
        (["value", "TRAIN", *COLUMNS, "--seal", "SEAL", "--ledger", "NEW"], "the seal: --public"),
        (["value", "TRAIN", *COLUMNS, "--seal", "SEAL", "--public", "1", "--seed", 0], "--seed cannot"),
        (["value", "NEW", *COLUMNS, "--seal", "NEW"], "there is no seal at"),
        (["value", "NEW", *COLUMNS, "--before", "NEW"], "there is no saved valuation at"),
        (["seal", "make", "TRAIN", *COLUMNS, "--seed", 1, "--out", "NEW"], "--seed cannot be sealed"),
        (["seal", "make", "TRAIN", *COLUMNS, "--out", "SEAL"], "already exists"),
        (["seal", "make", "TRAIN", *COLUMNS, "--currency", "KWD", "--out", "NEW"], "can only be used with --floor"),
        (["seal", "make", "TRAIN", *COLUMNS, "--floor", "1.234", "--out", "NEW"], "floor 1.234 is not a multiple"),
        (["seal", "challenge", "TRAIN", "--ledger", "L", "--random", "x", "--out", "NEW"], "not a saved valuation"),
        (["seal", "check", "TRAIN", "SEAL"], "is not a proof"),
        (["seal", "check", "NEW", "SEAL"], "there is no proof at"),
        (["seal", "check", "SEAL", "SEAL"], "is not a proof: it has no field 'values'"),
        (["nonsense"], "nonsense"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(fgsv_command, train, tmp_path, arguments, words):
    places = {"TRAIN": train, "SEAL": tmp_path / "seal.json", "NEW": tmp_path / "new"}
    if "SEAL" in arguments:
        fgsv_command.done("seal", "make", train, *COLUMNS, "--out", places["SEAL"])
    notes = fgsv_command.refused(*[places.get(argument, argument) for argument in arguments])
    assert words in notes
    assert "--debug" not in notes
    assert [line for line in notes.splitlines() if "error" in line] == notes.splitlines()[-1:]
    assert not places["NEW"].exists()


def test_limits_of_a_plan_are_checked_before_its_pilot(fgsv_command, train, monkeypatch):
    monkeypatch.setattr("fgsv.planning.plan_table", None)
    assert "5 percentage points are 0.05" in fgsv_command.refused("plan", train, *COLUMNS, "--precision", "5")


@pytest.mark.parametrize(
    ("command", "options", "needed"),
    [
        ("value", "--currency EUR", "--payout"),
        ("value", "--clip", "--payout"),
        ("value", "--audit --floor 3", "--payout"),
        ("value", "--cap 3", "--payout"),
        ("value", "--pay-anyway", "--payout"),
        ("value", "--audit-budget 100", "--audit"),
        ("value", "--payout 100 --parts 2,3,5", "--audit"),
        ("report", "--clip", "--payout"),
        ("verify", "--ledger no.db --sample 10", "--data"),
        ("ledger verify", "--seed 1", "--game"),
        ("value", "--shared-units split", "--unit"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused_before_a_file_is_opened(fgsv_command, command, options, needed):
    columns = ["--target", "y"] if command == "value" else []
    code, _, notes = fgsv_command(*command.split(), "no-such-file", *columns, *options.split())
    ignored = next(word for word in reversed(options.split()) if word.startswith("--"))
    assert (code, f"{ignored} can only be used with {needed} " in notes) == (2, True), notes


def test_debug_shows_the_traceback(train):
    with pytest.raises(ValueError, match="no file"):
        command_line.main(["value", "nothing.csv", *COLUMNS, "--debug"])


@pytest.mark.parametrize("broken", [None, lambda *_, **__: json.loads("{")], ids=["in fgsv", "in a library"])
def test_a_fault_of_the_program_says_how_to_see_the_traceback(fgsv_command, train, monkeypatch, broken):
    monkeypatch.setattr("fgsv.planning.plan_table", broken)
    notes = fgsv_command.refused("plan", train, *COLUMNS)
    assert notes.endswith(" (--debug shows the traceback)\n")


@pytest.fixture
def saved(tmp_path):
    """Return the file of a valuation with a ledger, a payout and an audit."""
    roots = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 12, fingerprint="roots")
    result = fgsv.value(roots, [0, 1, 2] * 4, budget=200, ledger=tmp_path / "run.db")
    found = fgsv.audit.audit(roots, result)
    paid = fgsv.payout.split(result, 100)
    path = tmp_path / "valuation.json"
    Result(result, payout=paid, audit=found).save(path)
    return path


FIELDS = ["info", *(each.name for each in fields(fgsv.Valuation))]


def test_a_file_that_lacks_a_field_is_one_line_that_names_it(fgsv_command, saved, tmp_path):
    document = json.loads(saved.read_text())
    assert set(document) == {"schema", *FIELDS}
    other, page = tmp_path / "other.json", tmp_path / "page.html"
    commands = [
        ["verify", other, "--ledger", tmp_path / "run.db"],
        ["report", other, "--out", page, "--force"],
        ["payout", other, "--amount", 100],
        ["compare", saved, other],
    ]
    for number, field in enumerate(FIELDS):
        other.write_text(json.dumps({name: part for name, part in document.items() if name != field}))
        code, text, notes = fgsv_command(*commands[number % len(commands)])
        assert (code, text, f"field '{field}'" in notes) == (2, "", True), notes
        assert len(notes.splitlines()) == 1


@pytest.mark.parametrize(
    ("place", "command", "words"),
    [
        (["settings", "cost"], "verify", "lacks the field 'settings.cost'"),
        (["info", "payout", "payments"], "report", "settings or info cannot be read: KeyError('payments')"),
        (["info", "audit", "attacks", 0, "parts"], "report", "settings or info cannot be read: KeyError('parts')"),
        (["partition", "owners", "zlib"], "payout", "'partition.owners' cannot be read"),
        (["ends", 0], "payout", "'ends' has shape (1,); expected (2,)"),
        (["partition", "names", 0], "compare", "'partition.owners' refers to a group that is not among"),
    ],
)
def test_a_file_that_was_edited_by_hand(fgsv_command, saved, tmp_path, place, command, words):
    document = json.loads(saved.read_text())
    part = document
    for step in place[:-1]:
        part = part[step]
    del part[place[-1]]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    options = {"verify": ["--ledger", tmp_path / "run.db"], "payout": ["--amount", 100], "compare": [saved]}
    code, text, notes = fgsv_command(command, other, *options.get(command, []))
    assert (code, text, words in notes) == (2, "", True), notes
    assert len(notes.splitlines()) == 1
