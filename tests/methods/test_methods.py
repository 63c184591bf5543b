"""Every method: what `fgsv.testing.check_method` asks of one, and how errors fall, on one table."""

import numpy as np
import pytest

import fgsv
from fgsv.games import Airport, SumOfUnanimity
from fgsv.testing import GAMES, check_method

pytestmark = pytest.mark.slow

BASELINES = {
    "permutation": {},
    "group_testing": {},
    "complementary": {},
    "one_for_all": {},
    "kernelshap": {},
    "kernelshap, paired": {"paired": True},
    "unbiased_kernelshap": {},
    "unbiased_kernelshap, paired": {"paired": True},
    "leverageshap": {},
}
METHODS = {
    **BASELINES,
    "finite_difference": {"threshold": 20},  # so large that no size is extrapolated
    "gp": {"biased": True, "budget": 100, "runs": 6},
    "gp, unbiased": {"unbiased": True, "budget": 100},
    "gp, learning players": {"learn": "players", "biased": True, "budget": 100},
    "gp, learning sizes": {"learn": "sizes", "budget": 2000},
}
EFFICIENT = {"permutation", "kernelshap", "unbiased_kernelshap", "leverageshap", "gp"}


def of_name(name):
    return {"method": name.split(",")[0], **BASELINES[name]}


def test_every_method_is_in_the_table():
    assert {name.split(",")[0] for name in METHODS} == set(fgsv.METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_it_keeps_its_promises(name):
    check_method(name.split(",")[0], **METHODS[name])


@pytest.mark.parametrize("method", fgsv.METHODS)
def test_it_states_whether_values_sum_to_the_total(method):
    assert fgsv.value(GAMES["glove"], method=method, budget=1000).efficient == (method in EFFICIENT)


@pytest.mark.parametrize("name", BASELINES)
def test_error_falls_with_the_square_root_of_the_budget(name):
    game = SumOfUnanimity(9, seed=1)

    def rmse(budget):
        runs = np.array([fgsv.value(game, **of_name(name), budget=budget, seed=seed).values for seed in range(10)])
        return np.sqrt(np.mean((runs - game.shapley) ** 2))

    assert 2.7 < rmse(500) / rmse(8000) < 6  # sqrt(16) = 4


@pytest.mark.parametrize("name", BASELINES)
def test_many_outputs_are_as_many_runs(name):
    both = fgsv.Game(lambda masks: np.stack([GAMES["majority"](masks), GAMES["airport"](masks)], axis=1), 12)
    result = fgsv.value(both, **of_name(name), budget=900)
    for output, game in enumerate((GAMES["majority"], GAMES["airport"])):
        alone = fgsv.value(game, **of_name(name), budget=900)
        np.testing.assert_allclose(result.values[:, output], alone.values, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", BASELINES)
def test_few_players(name, n):
    weights = np.arange(1.0, n + 1)
    game = fgsv.Game(lambda masks: (masks @ weights) ** 2, n)
    result = fgsv.value(game, **of_name(name), budget=4000)
    expected = fgsv.exact(game).values
    np.testing.assert_allclose(result.values, expected, atol=0.05 * result.total if n > 1 else 1e-12)


@pytest.mark.parametrize("name", BASELINES)
def test_estimates_stay_finite_before_enough_is_known(name):
    """With 60 players the first rounds leave sizes unseen and regressions open."""
    for valuation in fgsv.iterate(SumOfUnanimity(60, seed=0), **of_name(name), budget=600):
        assert np.isfinite(valuation.player_values).all()


def test_rounds_that_draw_ends_alone_are_no_error():
    game = fgsv.Game(lambda masks: masks @ [1.0, 2.0] + masks.all(axis=1), 2)
    result = fgsv.value(game, method="group_testing", round_size=1, budget=400)
    np.testing.assert_allclose(result.values, [1.5, 2.5], atol=0.4)
    assert result.n_evaluations == 400


def test_an_open_regression_stays_near_equal_shares():
    game = fgsv.Game(lambda masks: masks.sum(axis=1) * 1.0, 60)
    result = fgsv.value(game, method="kernelshap", round_size=10, budget=12)
    np.testing.assert_allclose(result.player_values, 1.0)


def test_few_permutations_know_the_errors_of_groups_but_not_of_single_players_of_a_concave_game():
    """As its docstring says: 80% of the players' 95% intervals hold, and 95% of those of four groups."""
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 32)
    for groups, low, high in ((np.arange(32), 0.76, 0.84), (np.arange(32) % 4, 0.91, 0.98)):
        runs = [fgsv.value(game, groups, method="permutation", budget=1000, seed=seed) for seed in range(100)]
        truth = np.sqrt(32) / len(runs[0])
        held = [(each.interval()[:, 0] <= truth) & (truth <= each.interval()[:, 1]) for each in runs]
        assert low < np.mean(held) < high


def test_permutation_knows_its_error():
    game, groups = SumOfUnanimity(9, seed=1), np.arange(9) % 3
    runs = [fgsv.value(game, groups, method="permutation", budget=1000, seed=seed) for seed in range(60)]
    errors = np.array([each.values for each in runs]) - np.bincount(groups, game.shapley)
    claimed = np.sqrt(np.mean([each.stderr**2 for each in runs], axis=0))
    np.testing.assert_allclose(claimed, errors.std(axis=0), rtol=0.35)  # a deviation from 60 runs: +- 9%
    inside = np.mean([np.abs(e) < each.half_width(0.95) for e, each in zip(errors, runs, strict=True)])
    assert 0.90 < inside <= 1


def test_a_budget_below_a_round_gets_its_first_permutations():
    asked = {}
    for budget in (200, 202):
        masks = asked[budget] = []
        game = fgsv.Game(lambda some, masks=masks: masks.extend(some.tolist()) or some.sum(axis=1) ** 0.5, 11)
        fgsv.value(game, method="permutation", budget=budget)
    assert len(asked[200]) == 2 + 19 * 10
    assert asked[200] == asked[202][: len(asked[200])]


@pytest.mark.parametrize("method", sorted({name.split(",")[0] for name in BASELINES}))
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"round_size": 0}, ValueError, "round_size must be at least 1 and whole"),
        ({"round_size": 2.5}, ValueError, "round_size must be at least 1 and whole"),
        ({"round_size": "many"}, ValueError, "round_size must be at least 1 and whole"),
        ({"semivalue": "banzhaf"}, ValueError, "estimates only Shapley values"),
        ({"budget": 4}, ValueError, "needs a budget of at least"),
        ({"rounds": 3}, TypeError, "no option rounds"),
    ],
)
def test_refusals(method, arguments, error, words):
    with pytest.raises(error, match=words):
        fgsv.value(Airport([1.0, 2.0, 3.0, 3.0]), method=method, **{"budget": 1000} | arguments)
