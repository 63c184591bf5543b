"""Errors name what their reader can set: a parameter in Python, an option in a command; saved words name neither."""

import ast
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_cases import providers
from test_command_line import options

import fgsv
from fgsv import words
from fgsv.payout import PayoutRefused, Terms
from fgsv.pipeline import value_data
from fgsv.results import Result
from fgsv.words import in_command, option

TABLE = {"target": "y", "group": "provider", "ignore": "site"}
TEXT = {"text": "text", "group": "provider"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Go to a folder with tables that have something wrong with them, and one that has not."""
    monkeypatch.chdir(tmp_path)
    good = providers()
    odd = np.arange(len(good)) % 7 == 0
    good.to_csv("good.csv", index=False)
    good.drop(columns="c").to_csv("narrow.csv", index=False)
    good.assign(y=good["y"].mask(odd)).to_csv("no-targets.csv", index=False)
    good.assign(y=np.nan).to_csv("empty-target.csv", index=False)
    good.assign(provider=good["provider"].mask(odd)).to_csv("no-providers.csv", index=False)
    good.assign(unit=np.arange(len(good)) // 6).to_csv("units.csv", index=False)
    good.assign(name=[f"row {i}" for i in range(len(good))]).to_csv("names.csv", index=False)
    good.assign(site="Zürich").to_csv("latin.csv", index=False, encoding="latin-1")
    texts = [f"{word} {i}" for i, word in enumerate(["cat", "dog", "bird", "fish"] * 6)]
    corpus = pd.DataFrame({"text": texts, "provider": ["a", "b"] * 12, "domain": ["x", "y", "y", "x"] * 6})
    corpus.to_csv("texts.csv", index=False)
    corpus.assign(text=["", *texts[1:]]).to_csv("no-texts.csv", index=False)
    Path("out").mkdir()
    Path("out", "valuation.csv").write_text("mine")
    return tmp_path


MISTAKES = [
    # the file, what it is opened with, what it is valued with, what the error names in Python and in a command
    ("good.csv", {**TABLE, "group": ""}, {}, 'group="COLUMN"', "--group COLUMN"),
    ("good.csv", {**TABLE, "test": "good.csv", "test_by": "site"}, {}, "test_by", "--test-by"),
    ("good.csv", {**TABLE, "test_fraction": 2.0}, {}, "test_fraction", "--test-fraction"),
    ("good.csv", {**TABLE, "split_seed": 10**70}, {}, "split_seed", "--split-seed"),
    ("no-targets.csv", TABLE, {}, 'target_missing="drop"', "--target-missing drop"),
    ("empty-target.csv", {**TABLE, "target_missing": "drop"}, {}, "another target", "another --target"),
    ("no-providers.csv", TABLE, {}, 'group_missing="NAME"', "--group-missing NAME"),
    ("units.csv", {**TABLE, "unit": "unit"}, {}, 'shared_units="co-own"', "--shared-units co-own"),
    ("good.csv", {**TABLE, "target": "a", "task": "classification"}, {}, 'task="regression"', "--task regression"),
    ("good.csv", {**TABLE, "task": "regression", "model": "sklearn.svm:SVC"}, {}, "another model", "another --model"),
    ("good.csv", {**TABLE, "model": "no.such:Model"}, {}, "model: ", "--model: "),
    ("names.csv", {**TABLE, "also_slice": "name"}, {}, "also_slice", "--also-slice"),
    ("good.csv", {**TABLE, "metric": "accuracy,f1", "also_metric": "f1"}, {}, "a single metric", "a single --metric"),
    ("latin.csv", TABLE, {}, 'encoding="latin-1"', "--encoding latin-1"),
    ("good.csv", {**TABLE, "start": "old.db", "reference": "test"}, {}, "reference", "--reference"),
    ("good.csv narrow.csv", TABLE, {}, 'ignore="c"', "--ignore c"),
    ("good.csv", {**TABLE, "training_seeds": "fresh"}, {}, 'training_seeds="fresh"', "--training-seeds fresh"),
    ("no-texts.csv", TEXT, {}, 'text_missing="drop"', "--target-missing drop"),
    ("good.csv", TABLE, {"public": "4 2"}, "give seal,", "give --seal,"),
    ("good.csv", TABLE, {"audit": True, "audit_budget": 5}, "audit_budget", "--audit-budget"),
    ("good.csv", TABLE, {"n_jobs": 0}, "n_jobs", "--jobs"),
    ("good.csv", TABLE, {"budget": 50, "out": "out"}, "force=True", "--force"),
]


def opener(arguments):
    return fgsv.open_text if "text" in arguments else fgsv.open_table


def as_words(arguments):
    """Return arguments of Python as a command takes them."""
    names = {name: f"--{name.replace('_', '-')}" for name in arguments} | {"n_jobs": "--jobs"}
    given = {names[name]: value for name, value in arguments.items() if value != ""}
    return [word for name, value in given.items() for word in ([name] if value is True else [name, value])]


@pytest.mark.parametrize(("files", "opened", "run", "in_python", "in_a_command"), MISTAKES)
def test_an_error_names_a_parameter_in_python_and_an_option_in_a_command(
    fgsv_command, folder, files, opened, run, in_python, in_a_command
):
    code, _, notes = fgsv_command("value", *files.split(), *as_words(opened | run))
    error = notes.splitlines()[-1]
    assert (code, in_a_command in error) == (2, True), notes
    assert re.findall(rf"(?<![\w-]){re.escape(in_python)}", error) == []
    with pytest.raises((ValueError, FileExistsError)) as raised:
        value_data(opener(opened)(files.split(), **opened), **run)
    assert in_python in str(raised.value)  # a command that has ended leaves Python as it was
    functions = [opener(opened), *([value_data] if run else [])]
    known = {name for function in functions for name in inspect.signature(function).parameters}
    assert re.sub(r"=.*|\W+$", "", in_python).split()[-1] in known


def test_a_refused_payout_says_how_to_insist(fgsv_command, folder):
    data = fgsv.open_table("good.csv", **TABLE, metric="neg_log_loss", test="good.csv")
    made = value_data(data, budget=16, out="made", payout=Terms("1000000.00"))
    assert str(made.unpaid).endswith("To pay anyway, use pay_anyway=True")
    assert "pay_anyway" in inspect.signature(fgsv.payout.split).parameters
    with pytest.raises(PayoutRefused, match=r"use pay_anyway=True$"):
        fgsv.payout.split(made.valuation, "1000000.00")
    code, _, notes = fgsv_command("payout", "made", "--amount", "1000000.00")
    assert (code, notes.endswith("To pay anyway, use --pay-anyway\n")) == (3, True), notes
    assert fgsv_command("payout", "made", "--amount", "1000000.00", "--pay-anyway")[0] == 0


def test_saved_words_are_the_same_in_python_and_in_a_command(fgsv_command, folder):
    """A result is the same bits, whoever made it: its notes and warnings name neither options nor arguments."""
    frame = pd.read_csv("good.csv").assign(id=np.arange(60), after=lambda rows: rows["y"])
    frame.to_csv("leaks.csv", index=False)
    value_data(fgsv.open_table("leaks.csv", **TABLE), budget=50, payout=Terms("9", pay_anyway=True), out="python")
    run = ["--budget", 50, "--payout", 9, "--pay-anyway", "--out", "command"]
    assert fgsv_command("value", "leaks.csv", *as_words(TABLE), *run)[0] == 0
    saved = [json.loads(Path(name, "valuation.json").read_text()) for name in ("python", "command")]
    for document in saved:
        for part, name in (("info", "made"), ("info", "command"), ("settings", "opened_with")):
            document[part].pop(name, None)
    assert saved[0] == saved[1]
    results = [Result.load(name) for name in ("python", "command")]
    said, same = ["\n".join([*result.source.notes, *result.warnings]) for result in results]
    assert said == same
    assert all(
        each in said for each in ("option ignore: id", "option ignore: a,after", "option metric", "split seed")
    )
    assert re.findall(r"--[a-z]", said) == []


def test_every_option_that_a_message_names_exists():
    source, known = Path(fgsv.__file__).parent, set().union(*options().values())
    calls = [
        node
        for path in source.rglob("*.py")
        if path.parent.name != "cli"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option"
    ]
    named = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    assert len(named) > 30
    with in_command():
        assert [name for name in sorted(named | set(words.OPTIONS)) if option(name) not in known] == []


def test_values_are_written_as_each_reader_types_them():
    assert option("ignore", 'id,"Name, first"') == r'ignore="id,\"Name, first\""'
    with in_command():
        assert option("ignore", 'id,"Name, first"') == """--ignore 'id,"Name, first"'"""
        assert option("ignore", "*.png") == "--ignore '*.png'"
