"""The diabetes experiment: which age group comes first, and totals that add up."""

import numpy as np
import pytest

import fgsv
from experiments.diabetes import make_game

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def diabetes_results(experiment, tmp_path_factory):
    out = tmp_path_factory.mktemp("diabetes")
    return experiment("diabetes", out, "--budget", 500, "--repeats", 2, "--jobs", 1)


def test_diabetes_first_age_group_depends_on_the_grouping_under_gsv_alone(diabetes_results):
    findings = diabetes_results[1]["findings"]
    assert set(findings["GSV, age"]["first"].values()) == {"Young", "Middle", "Old"}
    assert len(set(findings["FGSV, age"]["first"].values())) == 1
    assert findings["FGSV, age"]["largest move of a category's total"] < 1e-12
    assert findings["GSV, age"]["largest move of a category's total"] > 0.05


def test_diabetes_totals_are_those_of_the_whole(diabetes_results):
    table, _ = diabetes_results
    game, categories = make_game()
    assert len(categories) == game.n_players == 350
    ends = game(np.array([np.zeros(350), np.ones(350)], dtype=bool))
    totals = table.groupby(["method", "grouping", "variable"])["mean"].sum()
    assert len(totals) == 2 * 12
    np.testing.assert_allclose(totals, ends[1] - ends[0], atol=1e-12)
    by_sex = fgsv.exact(fgsv.grouped(game, categories["sex"].tolist()))
    chosen = table[(table.method == "GSV") & (table.grouping == "sex")].set_index("category")["mean"]
    chosen.index = chosen.index.astype(str)
    np.testing.assert_allclose([chosen[name] for name in by_sex.names], by_sex.values, atol=1e-12)
