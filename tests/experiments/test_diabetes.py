"""The diabetes experiment: which age group comes first, and totals that add up."""

import numpy as np
import pytest

import fgsv
from fgsv.experiments.diabetes import make_game, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def diabetes_results(reproduce, tmp_path_factory):
    out = tmp_path_factory.mktemp("diabetes")
    return reproduce("diabetes", out, "--budget", "500", "--replications", "2", "--workers", "1")


def test_diabetes_first_age_group_depends_on_the_grouping_under_gsv_alone(diabetes_results):
    _, findings = diabetes_results
    assert set(findings["GSV, age"]["first"].values()) == {"Young", "Middle", "Old"}
    assert findings["FGSV, age"]["always the same"]
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


def test_one_repeat_is_refused_before_anything_is_evaluated(tmp_path):
    with pytest.raises(ValueError, match="replications of at least 2, got 1"):
        run(tmp_path / "out", replications=1)
    assert not (tmp_path / "out").exists()
