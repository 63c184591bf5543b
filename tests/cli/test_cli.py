"""The command line as a new user meets it: files in, tables out, one line for each mistake."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import typer

import fgsv
from fgsv import game
from fgsv.cli import commands as cli
from fgsv.cli import console
from fgsv.report import folder as results
from fgsv.running import workers as backends
from fgsv.tables import models
from fgsv.valuation import comparison


def providers(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    frame["provider"] = np.array(["north", "south", "east", "west"])[np.arange(n) % 4]
    frame["site"] = np.array(["old", "new"])[np.arange(n) % 2]
    return frame


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
            cli.main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


COLUMNS = ["--group", "provider", "--target", "y", "--ignore", "site"]


def test_a_file_in_and_a_table_out(fgsv_command, train, tmp_path):
    out = tmp_path / "out"
    code, text, notes = fgsv_command(
        "value", train, *COLUMNS, "--budget", 1500, "--payout", "1000", "--currency", "EUR", "--out", out
    )
    assert code == 0, notes
    for word in ("north", "south", "east", "west", "points", "value", "± stderr", "share", "payout"):
        assert word in text
    assert "classification" in notes
    assert "plan: about 1,500 evaluations" in notes
    frame = pd.read_csv(out / "valuation.csv")
    assert list(frame.columns) == [
        "group", "points", "value", "stderr", "share", "share_low", "share_high", "payout",
    ]  # fmt: skip
    assert frame["payout"].sum() == pytest.approx(1000)
    loaded = fgsv.Valuation.load(out / "valuation.json")
    assert loaded.settings["columns"]["group"] == ["provider"]
    assert len(loaded.settings["sha256"]) == 64
    assert loaded.info["history"][-1][0] == loaded.n_evaluations
    np.testing.assert_allclose(loaded.values, frame["value"])


def test_the_same_command_gives_the_same_bytes(fgsv_command, train, tmp_path):
    for folder in ("one", "two"):
        code, _, _ = fgsv_command("value", train, *COLUMNS, "--budget", 600, "--out", tmp_path / folder)
        assert code == 0
    for name in ("valuation.json", "valuation.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_several_group_columns_from_one_run(fgsv_command, train, tmp_path):
    out = tmp_path / "out"
    code, text, _ = fgsv_command(
        "value", train, "--group", "provider,site", "--target", "y", "--budget", 600, "--out", out
    )
    assert code == 0
    assert "old" in text
    first = fgsv.Valuation.load(out / "valuation.json")
    second = fgsv.Valuation.load(out / "valuation-site.json")
    assert second.names == ("old", "new")
    # sites are made of whole providers here
    assert second.values.sum() == pytest.approx(first.values.sum())
    assert second.values[0] == pytest.approx(first.values[0] + first.values[2])


def test_regrouping_by_columns_that_stay_features(fgsv_command, train):
    command = ["value", train, "--group", "provider", "--target", "y", "--budget", 300, "--json"]
    document = json.loads(fgsv_command(*command, "--regroup", "site,a")[1])
    assert [row["group"] for row in document["groupings"]["site"]] == ["old", "new"]
    assert len(document["groupings"]["a"]) == 3
    plain = json.loads(fgsv_command(*command)[1])
    assert plain["groupings"]["provider"] == document["groupings"]["provider"]


def test_several_metrics(fgsv_command, train):
    command = ["value", train, *COLUMNS, "--metric", "accuracy,neg_log_loss", "--budget", 300]
    code, text, notes = fgsv_command(*command, "--payout", "100,50", "--json")
    assert code == 0, notes
    document = json.loads(text)
    assert len(document["groupings"]["provider"]) == 8
    assert document["payout"]["amount"] == "150.00"
    code, _, notes = fgsv_command(*command, "--audit")
    assert (code, "one --metric" in notes) == (2, True)
    assert fgsv_command(*command)[0] == 0


def test_nothing_to_share_is_said_before_the_run(fgsv_command, tmp_path, monkeypatch):
    frame = providers()
    frame["y"] = np.random.default_rng(5).integers(0, 2, 60)
    frame.loc[frame.index % 2 == 0, "y"] = 1 - (frame["a"] > 0)
    frame["fold"] = frame.index % 2
    frame.loc[frame["fold"] == 1, "y"] = (frame["a"] > 0).astype(int)
    frame.to_csv(tmp_path / "w.csv", index=False)
    monkeypatch.setattr(console, "run", lambda *_, **__: pytest.fail("the run began"))
    code, _, notes = fgsv_command(
        "value", tmp_path / "w.csv", *COLUMNS, "--ignore", "site", "--test-by", "fold", "--payout", 100
    )
    assert (code, "nothing to share" in notes) == (2, True)


def test_json_is_json_and_nothing_else(fgsv_command, train):
    code, text, notes = fgsv_command("value", train, *COLUMNS, "--budget", 600, "--payout", 10, "--json")
    assert code == 0
    assert notes == ""
    document = json.loads(text)
    assert [row["group"] for row in document["groupings"]["provider"]] == ["north", "south", "east", "west"]
    assert sum(float(row["payout"]) for row in document["payout"]["payments"]) == pytest.approx(10)
    code, text, _ = fgsv_command("version", "--json")
    assert json.loads(text) == {"fgsv": fgsv.__version__}


def test_regression_units_and_refitted_preprocessing(fgsv_command, tmp_path):
    frame = providers(40)
    frame["y"] = frame["a"] * 2 + frame["b"]
    frame["patient"] = np.arange(40) // 8 * 4 + np.arange(40) % 4
    frame["kind"] = np.where(frame["c"] > 0, "x", "y")
    path = tmp_path / "r.csv"
    frame.to_csv(path, index=False)
    code, text, _ = fgsv_command(
        "value", path, *COLUMNS, "--unit", "patient", "--refit-preprocessing", "--budget", 60, "--json",
        "--metric", "neg_mean_squared_error",
    )  # fmt: skip
    assert code == 0
    document = json.loads(text)
    assert any(note.startswith("regression") for note in document["notes"])
    assert any("anew for each coalition" in note for note in document["notes"])
    assert sum(row["points"] for row in document["groupings"]["provider"]) == 15


def test_a_model_of_ones_own(fgsv_command, train, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\nmodel = GaussianNB()\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    code, _, notes = fgsv_command("value", train, *COLUMNS, "--budget", 100, "--model", "mine:model")
    assert code == 0
    assert "GaussianNB" in notes
    for wrong in ("mine:nothing", "nothing:model", "guess"):
        code, _, notes = fgsv_command("value", train, *COLUMNS, "--model", wrong)
        assert code == 2
        assert "model" in notes


@pytest.mark.parametrize(
    ("model", "task"),
    [
        (model, task)
        for model in models.NAMES
        for task in ("classification", "regression")
        if models.task_of(model) in (None, task)
    ],
)
def test_every_model_that_has_a_name(fgsv_command, train, model, task):
    target = ["--target", "y" if task == "classification" else "a", "--task", task]
    code, text, notes = fgsv_command(
        "value", train, "--group", "provider", *target, "--ignore", "site", "--model", model, "--budget", 34
    )
    assert code == 0, notes
    assert "north" in text


def test_plan_and_payout(fgsv_command, train, tmp_path):
    code, text, _ = fgsv_command("plan", train, *COLUMNS)
    assert code == 0
    assert "minutes" in text
    code, text, _ = fgsv_command("plan", train, *COLUMNS, "--json")
    widths = [row["half_width"] for row in json.loads(text)["plan"]]
    assert widths == sorted(widths, reverse=True)
    code, text, _ = fgsv_command("plan", train, *COLUMNS, "--pilot", 500, "--json")
    assert json.loads(text)["plan"][0]["evaluations"] == 1000  # the first budget beyond the pilot
    assert json.loads(text)["evaluations"] is None
    code, text, notes = fgsv_command("plan", train, *COLUMNS, "--pilot", 500, "--precision", 0.001, "--budget", 7000)
    assert (code, "plan: about 7,000 evaluations" in notes) == (0, True), notes
    fgsv_command("value", train, *COLUMNS, "--budget", 600, "--out", tmp_path / "o")
    saved = tmp_path / "o" / "valuation.json"
    code, text, _ = fgsv_command("payout", saved, "--amount", "100.00", "--json")
    assert code == 0
    assert json.loads(text)["faithful"] is True
    code, text, notes = fgsv_command("payout", saved, "--amount", "100.00", "--clip")
    assert code == 0
    assert "not faithful" in text + notes


def test_a_finished_valuation_is_not_replaced_in_silence(fgsv_command, train, tmp_path):
    command = ["value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o"]
    assert fgsv_command(*command)[0] == 0
    before = (tmp_path / "o" / "valuation.json").read_bytes()
    code, _, notes = fgsv_command(*command, "--seed", 1)
    assert code == 2
    assert "--force" in notes
    assert (tmp_path / "o" / "valuation.json").read_bytes() == before
    assert fgsv_command(*command, "--seed", 1, "--force")[0] == 0
    assert (tmp_path / "o" / "valuation.json").read_bytes() != before
    assert not list((tmp_path / "o").glob("*.part"))
    code, _, notes = fgsv_command(*command[:-1], train)
    assert (code, "is a file" in notes) == (2, True)


class Interrupting:
    """A game that is interrupted by Ctrl-C at its tenth batch."""

    n_players = 12

    def __init__(self, after):
        self.left = after

    def __call__(self, masks):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return masks.sum(axis=1) ** 0.5 + masks[:, 0]


def test_ctrl_c_keeps_what_was_evaluated(tmp_path):
    valuation = console.run(Interrupting(10), None, budget=3000, quiet=True)
    assert valuation.stopped == results.INTERRUPTED
    assert 2 < valuation.n_evaluations < 3000
    results.write(tmp_path, {"player": valuation}, None)
    results.check_folder(tmp_path, force=False)  # an interrupted valuation may be replaced
    with pytest.raises(KeyboardInterrupt):
        console.run(Interrupting(1), None, budget=3000, quiet=True)


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError("killed")])
def test_an_audit_that_ends_early_keeps_the_valuation(fgsv_command, train, tmp_path, monkeypatch, end):
    def fail(*_, **__):
        raise end

    command = ["audit", train, *COLUMNS, "--budget", 200, "--payout", 10, "--out", tmp_path / "o"]
    with monkeypatch.context() as patched:
        patched.setattr("fgsv.auditing.diagnose", fail)
        code, text, notes = fgsv_command(*command)
    assert code == 1
    kept = fgsv.Valuation.load(tmp_path / "o" / "valuation.json")
    assert kept.n_evaluations > 100
    if end is KeyboardInterrupt:
        assert "north" in text
        assert "the audit was interrupted" in notes
        assert kept.info["payout"]["amount"] == "10.00"
    else:  # as a killed run, it can be started again
        assert fgsv_command(*command)[0] == 0
        assert "audit" in fgsv.Valuation.load(tmp_path / "o" / "valuation.json").info


def test_names_are_harmless_everywhere(fgsv_command, tmp_path):
    frame = providers()
    frame["provider"] = frame["provider"].replace(
        {"north": "=cmd()", "south": "<script>alert(1)</script>", "east": "\x1b[31mred", "west": "[bold]"}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    code, text, _ = fgsv_command("value", tmp_path / "a.csv", *COLUMNS, "--budget", 300, "--out", tmp_path / "o")
    assert code == 0
    assert "\x1b" not in text
    assert "[bold]" in text
    names = pd.read_csv(tmp_path / "o" / "valuation.csv")["group"].tolist()
    assert "'=cmd()" in names
    assert fgsv.Valuation.load(tmp_path / "o" / "valuation.json").names[0] == "=cmd()"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["value", "nothing.csv", *COLUMNS], "no file"),
        (["value", "TRAIN", "--group", "providr", "--target", "y"], "did you mean 'provider'"),
        (["value", "TRAIN", "--group", "provider"], "--target"),
        (["value", "TRAIN", *COLUMNS, "--max-time", "soon"], "90s, 10m or 2h"),
        (["value", "TRAIN", *COLUMNS, "--metric", "accurracy"], "accurracy"),
        (["value", "TRAIN", *COLUMNS, "--payout", "12.345"], "whole number of units"),
        (["value", "TRAIN", *COLUMNS, "--precision", "-1"], "precision must be positive"),
        (["value", "TRAIN", *COLUMNS, "--test", "TRAIN", "--test-by", "site"], "not from both"),
        (["payout", "TRAIN", "--amount", "1"], "not a saved valuation"),
        (["value", "TRAIN", *COLUMNS, "--jobs", "0"], "--jobs) must be a number of workers"),
        (["value", "TRAIN", *COLUMNS, "--confidence", "2"], "must be between 0 and 1"),
        (["value", "TRAIN", *COLUMNS, "--seed", "-1"], "--seed"),
        (["value", "TRAIN", *COLUMNS, "--bugdet", "5"], "--budget"),
        (["ledger", "show"], "fgsv ledger show --help"),
        (["nonsense"], "nonsense"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(fgsv_command, train, arguments, words):
    code, text, notes = fgsv_command(*[train if argument == "TRAIN" else argument for argument in arguments])
    assert code == 2
    assert words in notes
    assert "Traceback" not in notes + text
    assert [line for line in notes.splitlines() if "error" in line] == notes.splitlines()[-1:]


def test_debug_shows_the_traceback(train):
    with pytest.raises(ValueError, match="no file"):
        cli.main(["value", "nothing.csv", *COLUMNS, "--debug"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--payout", "12.345"], "whole number"),
        (["--payout", "100", "--cap", "10"], "raise the cap"),
        (["--payout", "100", "--floor", "50"], "a floor of 50.00 for each of 4 groups"),
        (["--payout", "100", "--metric", "accuracy,neg_log_loss"], "give an amount for each"),
        (["--payout", "50,50"], "one amount"),
    ],
)
def test_money_that_cannot_be_split_is_refused_before_the_run(fgsv_command, train, monkeypatch, options, words):
    monkeypatch.setattr(console, "run", lambda *_, **__: pytest.fail("the run began"))
    code, _, notes = fgsv_command("value", train, *COLUMNS, *options)
    assert (code, words in notes) == (2, True), notes


def test_a_payout_warns_of_intervals_that_decide_nothing(fgsv_command, train, tmp_path):
    pytest.importorskip("altair")
    out = tmp_path / "out"
    code, _, notes = fgsv_command("value", train, *COLUMNS, "--budget", 200, "--payout", 100, "--out", out)
    assert code == 0
    assert "mind: these intervals are wider" in notes
    assert "these intervals are wider" in (out / "report.html").read_text()


def test_a_payout_that_fails_loses_no_valuation(fgsv_command, train, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("cannot be paid")

    monkeypatch.setattr("fgsv.payout.split", fail)
    code, text, notes = fgsv_command(
        "value", train, *COLUMNS, "--budget", 200, "--payout", 100, "--out", tmp_path / "out"
    )
    assert code == 2
    assert "cannot be paid" in notes
    assert "north" in text
    assert fgsv.Valuation.load(tmp_path / "out" / "valuation.json").n_evaluations > 100


def test_durations():
    assert [cli.parse_duration(text) for text in (None, "90", "90s", "10m", "2h")] == [None, 90, 90, 600, 7200]


def test_the_demo_has_what_it_promises():
    from fgsv.experiments import hospitals as demo

    hospitals, test = demo.tables()
    assert hospitals["hospital"].nunique() == 10
    aurora = hospitals[hospitals["hospital"] == "Aurora"].drop(columns="hospital")
    iris = hospitals[hospitals["hospital"] == "Iris"].drop(columns="hospital")
    assert len(iris.merge(aurora.drop_duplicates())) == len(iris)
    assert set(test.columns) == set(hospitals.columns) - {"hospital"}
    pd.testing.assert_frame_equal(demo.tables()[0], hospitals)


def test_the_demo_runs(fgsv_command, tmp_path):
    code, text, notes = fgsv_command("demo", "--out", tmp_path / "d", "--budget", 500)
    assert code == 0, notes
    for word in ("Aurora", "Iris", "points", "value", "± stderr", "share", "payout"):
        assert word in text
    written = {path.name for path in (tmp_path / "d").iterdir()}
    assert {"valuation.json", "valuation.csv", "report.html", "hospitals.csv", "test.csv"} == written
    assert "Iris" in text.split("who holds whose rows")[1]
    by_hand = next(line for line in notes.splitlines() if line.strip().startswith("fgsv value"))
    code, _, notes = fgsv_command(*shlex.split(by_hand)[1:])
    assert code == 0, notes
    both = [(tmp_path / folder / "valuation.json").read_bytes() for folder in ("d", "d-by-hand")]
    assert both[0] == both[1]


def test_an_audit_says_what_splitting_earns(fgsv_command, train, tmp_path):
    code, text, notes = fgsv_command("audit", train, *COLUMNS, "--test-error")
    assert code == 2  # 15 test rows are too few for ten folds
    assert "at least 20" in notes
    options = ["--budget", 400, "--payout", 100, "--clip", "--parts", "2,4"]
    code, text, notes = fgsv_command("audit", train, *COLUMNS, *options, "--json")
    assert code == 0, notes
    found = json.loads(text)["audit"]
    assert {row["group"] for row in found["attacks"]} == {"north", "south", "east", "west"}
    assert {row["way"] for row in found["attacks"]} == {
        "evenly",
        "at random",
        "by class",
        "one by one",
        "worst found",
    }
    assert {row["parts"] for row in found["attacks"] if row["way"] == "evenly"} == {2, 4}
    assert all(row["gain_low"] <= row["gain"] <= row["gain_high"] for row in found["attacks"])
    assert any("not faithful" in table["title"] for table in found["tables"])
    code, text, notes = fgsv_command("value", train, *COLUMNS, "--budget", 400, "--audit")
    assert code == 0
    assert "best split" in text
    assert "The audit spent" in notes


@pytest.mark.parametrize("unit", [[], ["--unit", "patient"]])
def test_an_audit_keeps_to_its_budget_whatever_it_looks_at(fgsv_command, tmp_path, monkeypatch, unit):
    frame = providers(80).assign(patient=np.arange(80) // 8 * 4 + np.arange(80) % 4)
    copied = frame[frame["provider"] == "north"].head(7).assign(provider="west")
    copied["patient"] += 1000
    pd.concat([frame, copied]).assign(fold=lambda rows: rows["patient"] % 5 == 0).to_csv(
        tmp_path / "t.csv", index=False
    )
    asked = []
    for module in (game, backends):
        ask = module.ask
        monkeypatch.setattr(module, "ask", lambda kind, sets, ask=ask: asked.append(len(sets)) or ask(kind, sets))
    columns = ["--group", "provider", "--target", "y", "--ignore", "site" if unit else "site,patient", *unit]
    command = ["audit", tmp_path / "t.csv", *columns, "--test-by", "fold", "--budget", 500, "--json"]
    code, text, notes = fgsv_command(*command, "--audit-budget", 3300)
    assert code == 0, notes
    document = json.loads(text)
    assert document["audit"]["n_evaluations"] == sum(asked) - document["n_evaluations"] <= 3300
    assert document["audit"]["spent"]["the valuation without copies"] > 100
    remedies = next(table for table in document["audit"]["tables"] if "two remedies" in table["title"])
    assert [row[0] for row in remedies["rows"]] == ["north", "south", "east", "west"]
    if unit:
        assert any("units are copies in all their rows" in words for words in document["audit"]["tables"][0]["words"])


def test_an_audit_that_cannot_keep_to_its_budget_is_refused(fgsv_command, train, tmp_path, monkeypatch):
    monkeypatch.setattr(console, "run", lambda *_, **__: pytest.fail("the run began"))
    code, _, notes = fgsv_command("audit", train, *COLUMNS, "--audit-budget", 1000)
    assert (code, "4 groups needs an --audit-budget of at least 2" in notes) == (2, True), notes
    code, _, notes = fgsv_command("audit", train, *COLUMNS, "--parts", "two")
    assert (code, "--parts must be like 2,3,5" in notes) == (2, True), notes
    providers().assign(y=0).assign(y=lambda f: (f.index % 7 == 0).astype(int)).to_csv(tmp_path / "w.csv", index=False)
    code, _, notes = fgsv_command("audit", tmp_path / "w.csv", *COLUMNS, "--metric", "accuracy")
    assert (code, "nothing to share" in notes) == (2, True), notes


def test_the_error_from_the_test_rows(fgsv_command, tmp_path):
    providers(240).to_csv(tmp_path / "t.csv", index=False)
    command = ["value", tmp_path / "t.csv", *COLUMNS, "--metric", "neg_log_loss", "--budget", 800, "--json"]
    ledger, out = tmp_path / "run.db", tmp_path / "out"
    code, text, _ = fgsv_command(*command, "--test-error", "--ledger", ledger, "--out", out)
    assert code == 0
    assert fgsv_command("verify", out / "valuation.json", "--ledger", ledger)[0] == 0
    with_folds = json.loads(text)
    code, _, notes = fgsv_command(*command, "--test-error", "--precision", 0.1)
    assert (code, "--precision does not go with --test-error" in notes) == (2, True)
    plain = json.loads(fgsv_command(*command)[1])
    for one, other in zip(with_folds["groupings"]["provider"], plain["groupings"]["provider"], strict=True):
        assert abs(one["share"] - other["share"]) < 4 * (one["share_high"] - one["share_low"])
    for row in with_folds["test_error"]["rows"]:
        assert 0 < row["test"] < 1


def test_the_test_error_where_there_is_nothing_to_share(fgsv_command, tmp_path):
    frame = providers(240)
    frame["fold"] = frame.index % 2
    frame.loc[frame["fold"] == 1, "y"] = 1 - frame["y"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    command = ["value", tmp_path / "t.csv", *COLUMNS, "--test-by", "fold", "--test-error", "--metric", "accuracy"]
    code, text, notes = fgsv_command(*command, "--budget", 300, "--out", tmp_path / "o")
    assert (code, "north" in text) == (0, True), notes
    assert notes.count("plan: ") == 1


def test_without_the_packages_of_the_report_there_is_none_and_it_says_so(fgsv_command, train, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "find_spec", lambda name: None)
    code, _, notes = fgsv_command("value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o")
    assert code == 0
    assert "pip install 'fgsv[report]'" in notes
    assert not (tmp_path / "o" / "report.html").exists()


def test_report_and_compare(fgsv_command, train, tmp_path):
    for seed in (0, 1):
        command = ["value", train, *COLUMNS, "--budget", 400, "--seed", seed, "--out", tmp_path / str(seed)]
        assert fgsv_command(*command)[0] == 0
    saved = [tmp_path / name / "valuation.json" for name in "01"]
    code, _, notes = fgsv_command("report", saved[0])
    assert (code, "--force" in notes) == (2, True)
    page = tmp_path / "page.html"
    assert fgsv_command("report", saved[0], "--out", page, "--aggregate-only")[0] == 0
    assert "<title>" in page.read_text(encoding="utf-8")
    code, text, _ = fgsv_command("compare", *saved, "--json")
    assert code == 0
    rows = json.loads(text)["groups"]
    assert [row["group"] for row in rows] == ["north", "south", "east", "west"]
    assert rows[0]["difference"] == pytest.approx(rows[0]["share_b"] - rows[0]["share_a"])
    code, _, notes = fgsv_command("compare", *saved)
    assert (code, "two different games" in notes) == (0, True)  # the seed draws the test rows


def test_groups_of_one_valuation_only_are_not_compared():
    airport = fgsv.games.Airport([1, 2, 3])
    first, second, third = (fgsv.exact(airport, names) for names in (["a", "b", "c"], ["a", "b", "d"], [0, 1, 2]))
    frame = comparison.compare(first, second)
    assert dict(zip(frame["group"], frame["clear"], strict=True)) == {"a": False, "b": False, "c": None, "d": None}
    with pytest.raises(ValueError, match="no group in common: a, b, c against 0, 1, 2"):
        comparison.compare(first, third)


def commands(group, prefix=()):
    for command in group.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")
        yield (*prefix, name), command.callback
    for sub in group.registered_groups:
        yield from commands(sub.typer_instance, (*prefix, sub.name or sub.typer_instance.info.name))


def test_every_command_has_an_example_in_its_help():
    found = dict(commands(cli.app))
    assert {("value",), ("plan",), ("payout",), ("demo",)} <= set(found)
    for name, callback in found.items():
        assert f"Example: fgsv {' '.join(name)}" in (callback.__doc__ or ""), name
    assert isinstance(typer.main.get_command(cli.app).name, (str, type(None)))


def test_every_command_prints_json():
    def walk(command, name):
        for sub in getattr(command, "commands", {}).values():
            yield from walk(sub, f"{name} {sub.name}")
        if not hasattr(command, "commands"):
            yield name, {word for parameter in command.params for word in parameter.opts}

    found = dict(walk(typer.main.get_command(cli.app), "fgsv"))
    assert len(found) == len(dict(commands(cli.app))) > 15
    assert [name for name, options in found.items() if "--json" not in options] == []


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["ledger", "show", "LEDGER"], {"games", "runs"}),
        (["ledger", "verify", "LEDGER"], {"same", "checked", "differences"}),
        (["ledger", "merge", "NEW.db", "LEDGER"], {"added", "known", "different", "largest_difference"}),
        (["ledger", "export", "LEDGER", "NEW.csv"], {"lines", "file"}),
        (["verify", "SAVED", "--ledger", "LEDGER"], {"same", "checked", "differences"}),
        (["compare", "SAVED", "OTHER"], {"groups", "notes"}),
        (["report", "SAVED", "--out", "NEW.html"], {"report"}),
        (
            ["reproduce", "motivation", "--out", "NEW", "--budget", "300"],
            {"experiment", "settings", "table", "files"},
        ),
        (
            ["bench", "sou", "--n", "8", "--budget", "400", "--repeats", "2", "--jobs", "1", "--out", "NEW"],
            {"summary", "statements", "folder"},
        ),
    ],
    ids=lambda part: " ".join(part[:2]) if isinstance(part, list) else "",
)
def test_json_is_one_document_and_nothing_else(capfd, tmp_path, arguments, keys):
    roots = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 8, fingerprint="roots")
    places = {"SAVED": tmp_path / "a.json", "OTHER": tmp_path / "b.json", "LEDGER": tmp_path / "run.db"}
    fgsv.value(roots, [0, 1] * 4, budget=100, ledger=places["LEDGER"]).save(places["SAVED"])
    fgsv.exact(fgsv.games.Airport([1, 2]), [0, 1]).save(places["OTHER"])
    paths = [
        str(places.get(word, tmp_path / word if word.startswith("NEW") else word)) for word in [*arguments, "--json"]
    ]
    with pytest.raises(SystemExit) as end:
        cli.main(paths)
    text = capfd.readouterr().out  # of the process, not only of this interpreter's stdout
    assert not end.value.code
    assert keys <= set(json.loads(text))
    assert text.count("\n") == 1


def test_json_says_what_is_not_the_same_and_which_games_differ(fgsv_command, tmp_path):
    path, ledger = tmp_path / "valuation.json", tmp_path / "run.db"
    for fingerprint, power in (("squares", 2.0), ("roots", 0.5)):
        powers = fgsv.Game(lambda masks, power=power: masks.sum(axis=1) ** power, 8, fingerprint=fingerprint)
        fgsv.value(powers, [0, 1] * 4, budget=100, ledger=ledger).save(tmp_path / f"{fingerprint}.json")
    code, text, _ = fgsv_command("compare", tmp_path / "squares.json", tmp_path / "roots.json", "--json")
    assert (code, "two different games" in json.loads(text)["notes"][0]) == (0, True)
    document = json.loads((tmp_path / "roots.json").read_text())
    path.write_text(json.dumps(document | {"values": [document["values"][0] + 1, document["values"][1]]}))
    code, text, _ = fgsv_command("verify", path, "--ledger", ledger, "--json")
    found = json.loads(text)
    assert (code, found["same"], found["differences"][0]["where"]) == (1, False, "values of group 0")


@pytest.fixture
def saved(tmp_path):
    """Return the file of a valuation with a ledger, a payout and an audit."""
    roots = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 12, fingerprint="roots")
    result = fgsv.value(roots, [0, 1, 2] * 4, budget=200, ledger=tmp_path / "run.db")
    found = fgsv.audit.audit(roots, result).to_dict()
    paid = fgsv.payout.split(result, 100).to_dict()
    path = tmp_path / "valuation.json"
    replace(result, info=result.info | {"payout": paid, "audit": found}).save(path)
    return path


FIELDS = ["method", "seed", "n_evaluations", "stopped", "outputs", "names", "groups", "values", "stderr", "total"]
FIELDS += ["player_values", "deviations", "degrees_of_freedom", "exact", "efficient", "grouped", "settings", "info"]


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
        assert (code, text, f"lacks the field '{field}'" in notes) == (2, "", True), notes
        assert len(notes.splitlines()) == 1


@pytest.mark.parametrize(
    ("place", "command", "words"),
    [
        (["settings", "cost"], "verify", "lack the field 'cost'"),
        (["info", "payout", "payments"], "report", "lack a field: 'dict object' has no attribute 'payments'"),
        (["info", "audit", "attacks", 0, "parts"], "report", "lack a field: 'parts'"),
        (["groups", "zlib"], "payout", "'groups' cannot be read"),
        (["values", 0], "payout", "'values' has the shape (2,); expected (3,)"),
        (["names", 0], "compare", "the shape (3,); expected (2,)"),
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


def test_a_ledger_of_another_game(fgsv_command, saved, train, tmp_path):
    squares = fgsv.Game(lambda masks: masks.sum(axis=1) ** 2, 12, fingerprint="squares")
    fgsv.value(squares, budget=100, ledger=tmp_path / "squares.db")
    code, _, notes = fgsv_command("verify", saved, "--ledger", tmp_path / "squares.db")
    assert (code, len(notes.splitlines())) == (2, 1)
    assert "is of another game" in notes
    for wrong in (tmp_path / "no.db", train, saved):
        code, _, notes = fgsv_command("verify", saved, "--ledger", wrong)
        assert (code, len(notes.splitlines())) == (2, 1), notes
    code, _, notes = fgsv_command("value", train, *COLUMNS, "--budget", 100, "--ledger", train)
    assert (code, "cannot open the ledger" in notes) == (2, True), notes
    # to value one more game a ledger of others will do: each keeps to its own evaluations
    plain = fgsv_command("value", train, *COLUMNS, "--budget", 100, "--json")[1]
    beside = fgsv_command("value", train, *COLUMNS, "--budget", 100, "--json", "--ledger", tmp_path / "squares.db")[1]
    assert json.loads(plain)["groupings"] == json.loads(beside)["groupings"]


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom fgsv.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'pandas', 'sklearn', 'scipy', 'matplotlib', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
