"""The command `fgsv value --audit`: what it says, and that it keeps to its budget."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_cases import COLUMNS, providers

from fgsv.evaluation import batch


def test_an_audit_says_what_splitting_earns(fgsv_command, train, tmp_path):
    options = ["--budget", 200, "--payout", 100, "--pay-anyway", "--clip", "--parts", "2,4"]
    found = fgsv_command.json("value", train, "--audit", *COLUMNS, *options)["audit"]
    assert {row["group"] for row in found["attacks"]} == {"north", "south", "east", "west"}
    assert {row["way"] for row in found["attacks"]} == {
        "evenly",
        "at random",
        "by class",
        "one by one",
        "found by search",
    }
    assert {row["parts"] for row in found["attacks"] if row["way"] == "evenly"} == {2, 4}
    assert all(row["gain_low"] <= row["gain"] <= row["gain_high"] for row in found["attacks"])
    assert any("not faithful" in table["title"] for table in found["tables"])
    text, notes = fgsv_command.done("value", train, *COLUMNS, "--budget", 200, "--audit")
    assert "best split" in text
    assert "The audit used" in notes


@pytest.mark.parametrize("unit", [[], ["--unit", "patient"]])
def test_an_audit_keeps_to_its_budget_whatever_it_looks_at(fgsv_command, tmp_path, monkeypatch, unit):
    frame = providers(80).assign(patient=np.arange(80) // 8 * 4 + np.arange(80) % 4)
    copied = frame[frame["provider"] == "north"].head(7).assign(provider="west")
    copied["patient"] += 1000
    pd.concat([frame, copied]).assign(fold=lambda rows: rows["patient"] % 5 == 0).to_csv(
        tmp_path / "t.csv", index=False
    )
    asked = []
    ask = batch.ask
    monkeypatch.setattr(batch, "ask", lambda game, sets: asked.append(len(sets)) or ask(game, sets))
    columns = ["--group", "provider", "--target", "y", "--ignore", "site" if unit else "site,patient", *unit]
    command = ["value", tmp_path / "t.csv", "--audit", *columns, "--test-by", "fold", "--budget", 400, "--json"]
    text, _ = fgsv_command.done(*command, "--audit-budget", 3000)
    document = json.loads(text)
    beside = document["n_evaluations"] + 2 * len(document["without"]["scores"])
    assert document["audit"]["n_evaluations"] == sum(asked) - beside <= 3000
    assert document["audit"]["spent"]["what copying earns"] > 200
    remedies = next(table for table in document["audit"]["tables"] if table["title"] == "What copying earns")
    by_share = sorted(document["groupings"]["provider"], key=lambda row: -row["share"])
    assert [row[0] for row in remedies["rows"]] == [row["group"] for row in by_share]
    if unit:
        assert any("units consist entirely of copies" in words for words in document["audit"]["tables"][0]["words"])


def test_an_audit_that_cannot_keep_to_its_budget_is_refused(fgsv_command, train, tmp_path, monkeypatch):
    monkeypatch.setattr("fgsv.pipeline.pipeline.value_with_plan", lambda *_, **__: pytest.fail("the run began"))
    code, _, notes = fgsv_command("value", train, "--audit", *COLUMNS, "--audit-budget", 1000)
    assert (code, "4 groups needs at least 2342" in notes, "raise --audit-budget" in notes) == (2, True, True), notes
    providers().assign(y=0).assign(y=lambda f: (f.index % 7 == 0).astype(int)).to_csv(tmp_path / "w.csv", index=False)
    notes = fgsv_command.refused("value", tmp_path / "w.csv", "--audit", *COLUMNS, "--metric", "accuracy")
    assert "nothing to share" in notes


def test_registration_times_say_whose_a_copied_row_is(fgsv_command, tmp_path):
    frame = providers(40).assign(when="2025-03-01")
    copied = frame[frame["provider"] == "north"].head(5).assign(provider="east", when="2025-03-02")
    path = tmp_path / "t.csv"
    pd.concat([copied, frame]).to_csv(path, index=False)  # the copies come first in the file
    command = ["value", path, "--audit", *COLUMNS, "--budget", 200, "--parts", "2", "--json", "--registered"]
    code, text, notes = fgsv_command(*command, "when")
    assert code == 0, notes
    document = json.loads(text)
    tables = {table["title"]: table for table in document["audit"]["tables"]}
    assert tables["Possible copies"]["rows"][0][:3] == ["east", "north", 5]
    assert tables["What copying earns"]["columns"][-1] == "precedence"
    assert document["audit"]["spent"]["what copying earns"] > 300
    for column, message in (("then", "no column 'then'"), ("site", "has 'old' in row 1: expected numbers, or dates")):
        assert message in fgsv_command.refused(*command, column)
