"""The command `fgsv value`: a file in, a table and a folder out."""

import io
import json
import sys

import numpy as np
import pandas as pd
import pytest
from cli_cases import COLUMNS, providers

import fgsv
from fgsv.pipeline import folder
from fgsv.results import Result


def test_a_file_in_and_a_table_out(fgsv_command, train, tmp_path):
    out = tmp_path / "out"
    pay = ["--payout", "1000", "--pay-anyway", "--out", out]
    text, notes = fgsv_command.done("value", train, *COLUMNS, "--budget", 400, *pay)
    for word in ("north", "south", "east", "west", "players", "payment", "interval", "score without", "score alone"):
        assert word in text
    assert "classification" in notes
    assert "plan: about 400 evaluations" in notes
    frame = pd.read_csv(out / "valuation.csv")
    assert list(frame.columns) == [
        "group", "players", "value", "stderr", "share", "share_low", "share_high", "payout", "without", "alone",
    ]  # fmt: skip
    assert frame["payout"].sum() == pytest.approx(1000)
    loaded = Result.load(out / "valuation.json")
    assert loaded.source.columns["group"] == ["provider"]
    assert len(loaded.source.sha256) == 64
    assert loaded.history[-1].n_evaluations == loaded.valuation.n_evaluations
    np.testing.assert_allclose(loaded.valuation.values, frame["value"])


def test_the_same_command_gives_the_same_bytes_but_for_the_date(fgsv_command, train, tmp_path, monkeypatch):
    written = []
    for seconds in ("0", "0", "86400"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
        command = ["value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o", "--force"]
        assert fgsv_command(*command)[0] == 0
        names = ("valuation.json", "valuation.csv", "report.html")
        written.append([(tmp_path / "o" / name).read_bytes() for name in names])
    assert written[0] == written[1]
    assert [text.replace(b"1970-01-02", b"1970-01-01") for text in written[2]] == written[0]


def test_stdin(fgsv_command, train, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(train.read_bytes())))
    command = ["value", "-", *COLUMNS, "--budget", 200, "--json"]
    assert fgsv_command(*command) == fgsv_command("value", train, *command[2:])


def test_several_group_columns_from_one_run(fgsv_command, train, tmp_path):
    out = tmp_path / "out"
    columns = ["--group", "provider,site", "--target", "y"]
    text, _ = fgsv_command.done("value", train, *columns, "--budget", 200, "--out", out)
    assert "old" in text
    first = fgsv.Valuation.load(out / "valuation.json")
    second = fgsv.Valuation.load(out / "valuation-site.json")
    assert second.names == ("old", "new")
    # sites are made of whole providers here
    assert second.values.sum() == pytest.approx(first.values.sum())
    assert second.values[0] == pytest.approx(first.values[0] + first.values[2])


def test_regrouping_by_columns_that_stay_features(fgsv_command, train):
    command = ["value", train, "--group", "provider", "--target", "y", "--budget", 100, "--json"]
    document = json.loads(fgsv_command(*command, "--regroup", "site,a")[1])
    assert [row["group"] for row in document["groupings"]["site"]] == ["old", "new"]
    assert len(document["groupings"]["a"]) == 3
    plain = json.loads(fgsv_command(*command)[1])
    assert plain["groupings"]["provider"] == document["groupings"]["provider"]


def test_several_metrics_are_shown_and_not_audited(fgsv_command, train):
    command = ["value", train, *COLUMNS, "--metric", "accuracy,neg_log_loss", "--budget", 100]
    assert "needs one output" in fgsv_command.refused(*command, "--audit")
    assert fgsv_command(*command)[0] == 0


def test_json_is_json_and_nothing_else(fgsv_command, train):
    pay = ["--payout", 10, "--pay-anyway"]
    text, notes = fgsv_command.done("value", train, *COLUMNS, "--budget", 200, *pay, "--json")
    assert notes == ""
    document = json.loads(text)
    assert [row["group"] for row in document["groupings"]["provider"]] == ["north", "south", "east", "west"]
    assert sum(float(row["payout"]) for row in document["payout"]["payments"]) == pytest.approx(10)
    assert fgsv_command.json("version") == {"fgsv": fgsv.__version__}


def test_regression_units_and_refitted_preprocessing(fgsv_command, tmp_path):
    frame = providers(40)
    frame["y"] = frame["a"] * 2 + frame["b"]
    frame["patient"] = np.arange(40) // 8 * 4 + np.arange(40) % 4
    frame["kind"] = np.where(frame["c"] > 0, "x", "y")
    path = tmp_path / "r.csv"
    frame.to_csv(path, index=False)
    options = ["--unit", "patient", "--refit-preprocessing", "--metric", "neg_mean_squared_error", "--budget", 20]
    document = fgsv_command.json("value", path, *COLUMNS, *options)
    assert any(note.startswith("regression") for note in document["notes"])
    assert any("preprocessing is refitted for each coalition" in note for note in document["notes"])
    assert sum(row["players"] for row in document["groupings"]["provider"]) == 17


def test_the_error_from_the_test_rows(fgsv_command, tmp_path):
    providers(240).to_csv(tmp_path / "t.csv", index=False)
    command = ["value", tmp_path / "t.csv", *COLUMNS, "--metric", "neg_log_loss", "--budget", 300, "--json"]
    ledger, out = tmp_path / "run.db", tmp_path / "out"
    text, _ = fgsv_command.done(*command, "--ledger", ledger, "--out", out)
    assert fgsv_command("verify", out / "valuation.json", "--ledger", ledger)[0] == 0
    tested, plain = json.loads(text), json.loads(fgsv_command(*command, "--monte-carlo-only")[1])
    for one, other in zip(tested["groupings"]["provider"], plain["groupings"]["provider"], strict=True):
        assert one["share"] == pytest.approx(other["share"])
        assert one["share_high"] - one["share_low"] > other["share_high"] - other["share_low"]
    assert all(0 < row["test_rows"] < 1 for row in tested["errors_of_shares"])
    assert plain["errors_of_shares"] is None
    assert "Monte Carlo error only" in plain["intervals"]
    found = fgsv_command.json("payout", out / "valuation.json", "--amount", 100, "--pay-anyway")
    widths = [float(row["high"]) - float(row["low"]) for row in found["payments"]]
    shares = [row["share_high"] - row["share_low"] for row in tested["groupings"]["provider"]]
    assert widths == pytest.approx([100 * each for each in shares], abs=0.03)


def test_the_test_error_where_there_is_nothing_to_share(fgsv_command, tmp_path):
    frame = providers(240)
    frame["fold"] = frame.index % 2
    frame.loc[frame["fold"] == 1, "y"] = 1 - frame["y"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    command = ["value", tmp_path / "t.csv", *COLUMNS, "--test-by", "fold", "--metric", "accuracy"]
    text, notes = fgsv_command.done(*command, "--budget", 100, "--out", tmp_path / "o")
    assert "north" in text
    assert notes.count("plan: ") == 1


def test_names_are_harmless_everywhere(fgsv_command, tmp_path):
    frame = providers()
    frame["provider"] = frame["provider"].replace(
        {"north": "=cmd()", "south": "<script>alert(1)</script>", "east": "\x1b[31mred", "west": "[bold]"}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    text, _ = fgsv_command.done("value", tmp_path / "a.csv", *COLUMNS, "--budget", 100, "--out", tmp_path / "o")
    assert "\x1b" not in text
    assert "[bold]" in text
    names = pd.read_csv(tmp_path / "o" / "valuation.csv")["group"].tolist()
    assert "'=cmd()" in names
    assert fgsv.Valuation.load(tmp_path / "o" / "valuation.json").names[0] == "=cmd()"


def test_without_the_packages_of_the_report_there_is_none_and_it_says_so(fgsv_command, train, tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "find_spec", lambda name: None)
    _, notes = fgsv_command.done("value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o")
    assert "report.html was not written" in notes
    assert "'jinja2>=3.1' 'vl-convert-python>=1.6'" in notes
    assert not (tmp_path / "o" / "report.html").exists()


def test_a_finished_valuation_is_not_replaced_in_silence(fgsv_command, train, tmp_path):
    command = ["value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o"]
    assert fgsv_command(*command)[0] == 0
    before = (tmp_path / "o" / "valuation.json").read_bytes()
    assert "--force" in fgsv_command.refused(*command, "--seed", 1)
    assert (tmp_path / "o" / "valuation.json").read_bytes() == before
    assert fgsv_command(*command, "--seed", 1, "--force")[0] == 0
    assert (tmp_path / "o" / "valuation.json").read_bytes() != before
    assert not list((tmp_path / "o").glob("*.part"))
    assert "is a file" in fgsv_command.refused(*command[:-1], train)
