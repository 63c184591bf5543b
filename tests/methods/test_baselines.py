"""The seven baselines against closed forms, on one table: method x game."""

from __future__ import annotations

import numpy as np
import pytest

import fgsv
from fgsv.games import Airport, Glove, SumOfUnanimity, WeightedMajority

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
GAMES = {
    "airport": Airport([1.0, 1.5, 2.0, 2.0, 3.0, 5.0, 8.0]),
    "glove": Glove(3, 5),
    "majority": WeightedMajority([5, 4, 3, 2, 2, 1, 1], quota=10),
    "unanimity": SumOfUnanimity(9, seed=1),
}
EFFICIENT = ("permutation", "kernelshap", "unbiased_kernelshap", "leverageshap")


def run(name: str, game, **arguments):
    return fgsv.value(game, method=name.split(",")[0], **BASELINES[name], **arguments)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("name", BASELINES)
def test_converges_to_the_closed_form(name, game):
    truth = GAMES[game].shapley
    settings = {"budget": 8_000, "round_size": 1000}  # few rounds: quicker, and no less exact
    runs = np.array([run(name, GAMES[game], seed=seed, **settings).player_values for seed in range(12)])
    error = runs.mean(axis=0) - truth
    stderr = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    # a t statistic with 11 degrees of freedom is beyond 6 about once in 10,000
    assert np.all(np.abs(error) < 6 * stderr + 1e-9)
    assert np.all(stderr < 0.06 * np.ptp(np.append(truth, 0)))


@pytest.mark.parametrize("name", BASELINES)
def test_error_falls_with_the_square_root_of_the_budget(name):
    game = GAMES["unanimity"]

    def rmse(budget):
        runs = np.array([run(name, game, budget=budget, seed=seed).player_values for seed in range(10)])
        return np.sqrt(np.mean((runs - game.shapley) ** 2))

    assert 2.7 < rmse(500) / rmse(8000) < 6  # sqrt(16) = 4


@pytest.mark.parametrize("name", BASELINES)
def test_spends_at_most_the_budget_and_counts_what_it_spends(name):
    asked = []

    def function(masks):
        asked.append(masks)
        return masks.sum(axis=1) ** 0.5

    result = run(name, fgsv.Game(function, 23), budget=1000)
    masks = np.concatenate(asked)
    assert len(masks) == result.n_evaluations
    assert 750 < result.n_evaluations <= 1000
    assert np.isin(masks.sum(axis=1), [0, 23]).sum() == 2, "the ends are evaluated once"


@pytest.mark.parametrize("name", BASELINES)
def test_many_outputs_are_as_many_runs(name):
    first, second = GAMES["majority"], Airport([3.0, 1.0, 2.0, 2.0, 7.0, 1.0, 1.0])
    both = fgsv.Game(lambda masks: np.stack([first(masks), second(masks)], axis=1), 7)
    result = run(name, both, budget=900)
    for output, game in enumerate((first, second)):
        alone = run(name, game, budget=900)
        np.testing.assert_allclose(result.player_values[:, output], alone.player_values, atol=1e-9)


@pytest.mark.parametrize("name", BASELINES)
def test_a_constant_changes_nothing(name):
    game = GAMES["glove"]
    shifted = fgsv.Game(lambda masks: game(masks) + 1000.0, game.n_players)
    np.testing.assert_allclose(
        run(name, shifted, budget=800).player_values, run(name, game, budget=800).player_values, atol=1e-8
    )


@pytest.mark.parametrize("name", BASELINES)
def test_values_sum_to_the_total_where_promised(name):
    for n_rounds in (1, 10):
        result = run(name, SumOfUnanimity(40, seed=0), budget=2 + 200 * n_rounds)
        assert result.efficient == (name.split(",")[0] in EFFICIENT)
        if result.efficient:
            np.testing.assert_allclose(result.player_values.sum(), result.total)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", BASELINES)
def test_few_players(name, n):
    weights = np.arange(1.0, n + 1)
    game = fgsv.Game(lambda masks: (masks @ weights) ** 2, n)
    result = run(name, game, budget=4000)
    expected = fgsv.exact(game).values
    np.testing.assert_allclose(result.values, expected, atol=0.05 * result.total if n > 1 else 1e-12)


@pytest.mark.parametrize("name", BASELINES)
def test_estimates_stay_finite_before_enough_is_known(name):
    """With 60 players the first rounds leave sizes unseen and regressions open."""
    game = SumOfUnanimity(60, seed=0)
    for valuation in fgsv.iterate(game, method=name.split(",")[0], **BASELINES[name], budget=600):
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
    game = GAMES["unanimity"]
    runs = [fgsv.value(game, game_groups(9), method="permutation", budget=1000, seed=s) for s in range(60)]
    errors = np.array([r.values for r in runs]) - fgsv.value(game, game_groups(9), budget=2**9).values
    claimed = np.sqrt(np.mean([r.stderr**2 for r in runs], axis=0))
    np.testing.assert_allclose(claimed, errors.std(axis=0), rtol=0.35)  # a deviation from 60 runs: +- 9%
    inside = np.mean([np.abs(e) < r.half_width(0.95) for e, r in zip(errors, runs, strict=True)])
    assert 0.90 < inside <= 1


def game_groups(n: int) -> list[int]:
    return [i % 3 for i in range(n)]


@pytest.mark.parametrize("name", BASELINES)
def test_refusals(name):
    method = name.split(",")[0]
    for size in (0, 2.5, "many"):
        with pytest.raises(ValueError, match="round_size must be at least 1 and whole"):
            fgsv.value(GAMES["glove"], method=method, round_size=size)
    with pytest.raises(ValueError, match="estimates only Shapley values"):
        fgsv.value(GAMES["glove"], method=method, semivalue="banzhaf", budget=1000)
    with pytest.raises(ValueError, match="needs a budget of at least"):
        fgsv.value(GAMES["glove"], method=method, budget=5)
    with pytest.raises(TypeError, match="no option rounds"):
        fgsv.value(GAMES["glove"], method=method, rounds=3, budget=1000)
