"""The motivating example and the diabetes experiment: what they write, and what the paper claims of them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fgsv
from fgsv.cli import app
from fgsv.experiments import diabetes, motivation


def reproduce(name, out, *options):
    result = CliRunner().invoke(app, ["reproduce", name, "--out", str(out), *options], catch_exceptions=False)
    assert result.exit_code == 0
    assert (out / f"{name}.png").stat().st_size > 10_000
    record = json.loads((out / f"{name}.json").read_text())
    assert {"settings", "findings", "versions", "seconds"} <= set(record)
    return pd.read_csv(out / f"{name}.csv"), record["findings"]


def test_motivation_splits_change_the_group_value_and_not_the_faithful_one(tmp_path):
    table, findings = reproduce("motivation", tmp_path / "new" / "folder", "--budget", "2000")
    assert findings["GSV of A falls with every split"]
    assert findings["FGSV of A moves by"] == 0
    totals = table.groupby(["method", "groups"])["value"].sum()
    np.testing.assert_allclose(totals, totals.iloc[0], atol=1e-12)
    assert [motivation.make_groups(4).count(name) for name in ("A", "B1", "B2", "B3")] == [100, 34, 33, 33]


@pytest.fixture(scope="module")
def diabetes_results(tmp_path_factory):
    out = tmp_path_factory.mktemp("diabetes")
    return reproduce("diabetes", out, "--budget", "3000", "--replications", "4", "--workers", "1")


def test_diabetes_first_age_group_depends_on_the_grouping_under_gsv_alone(diabetes_results):
    _, findings = diabetes_results
    assert set(findings["GSV, age"]["first"].values()) == {"Young", "Middle", "Old"}
    assert findings["FGSV, age"]["always the same"]
    assert findings["FGSV, age"]["largest move of a category's total"] < 1e-12
    assert findings["GSV, age"]["largest move of a category's total"] > 0.05


def test_diabetes_totals_are_those_of_the_whole(diabetes_results):
    table, _ = diabetes_results
    game, categories = diabetes.make_game()
    assert len(categories) == game.n_players == 350
    ends = game(np.array([np.zeros(350), np.ones(350)], dtype=bool))
    totals = table.groupby(["method", "grouping", "variable"])["mean"].sum()
    assert len(totals) == 2 * 12
    np.testing.assert_allclose(totals, ends[1] - ends[0], atol=1e-12)
    by_sex = fgsv.exact(fgsv.grouped(game, categories["sex"].tolist()))
    chosen = table[(table.method == "GSV") & (table.grouping == "sex")].set_index("category")["mean"]
    chosen.index = chosen.index.astype(str)
    np.testing.assert_allclose([chosen[name] for name in by_sex.names], by_sex.values, atol=1e-12)
