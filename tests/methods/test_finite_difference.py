"""The paper's Algorithm 1: convergence, and the bias that a threshold leaves."""

import numpy as np
import pytest
from oracles import GAMES, mean_utility

import fgsv


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())
def test_without_approximation_it_converges_to_the_exact_value(game):
    """Threshold = n: only the definition of T(s) is used, so the error is sampling alone."""
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    truth = np.bincount(labels, game.shapley)
    errors = []
    for budget in (2_000, 32_000):
        result = fgsv.value(game, labels, method="finite_difference", threshold=10, budget=budget, seed=3)
        assert (np.abs(result.values - truth) < 4.5 * result.stderr + 1e-9).all()
        errors.append(result.stderr.max())
    assert errors[1] < errors[0] / 3 or errors[1] == 0  # sixteen times the samples, a quarter of the error


def test_a_small_threshold_leaves_a_bias():
    """With threshold 1 the answer converges, but to the finite-difference sum, not to the value."""
    game, n = fgsv.games.Glove(4, 6), 10
    group = [0, 1, 2, 3]
    labels = np.isin(np.arange(n), group)
    a = len(group) / n
    limit = a * 4.0
    for s in range(1, n):
        k = s * len(group) // n
        difference = mean_utility(game, n, group, s, k + 1) - mean_utility(game, n, group, s, k)
        limit += n / (n - 1) * a * (1 - a) * difference
    result = fgsv.value(game, labels, method="finite_difference", threshold=1, budget=40_000)
    position = result.names.index(True)
    value, stderr = result.values[position], result.stderr[position]
    assert abs(value - limit) < 4 * stderr + 1e-9
    assert abs(value - game.shapley[group].sum()) > 20 * stderr + 0.1


def test_m1_and_m2_fix_the_evaluations():
    game = fgsv.games.SumOfUnanimity(12)
    labels = np.arange(12) % 2
    result = fgsv.value(game, labels, method="finite_difference", threshold=4, m1=5, m2=3)
    # for each of two groups of 6: sizes 1, 2, 3 have 2, 3, 4 overlaps; sizes 4..11 have a pair each
    assert result.n_evaluations == 2 + 2 * (5 * (2 + 3 + 4) + 3 * 2 * 8)
    assert result.end.detail == "nothing is left to draw"


def test_pairs_differ_in_one_swap_and_have_the_size_they_stand_for():
    seen = []

    def game(masks):
        seen.append(masks.copy())
        return masks.sum(axis=1)

    fgsv.value(game, np.arange(10) < 4, method="finite_difference", threshold=1, m1=1, m2=1)
    masks = np.concatenate(seen)[2:]
    upper, lower = masks[::2], masks[1::2]
    np.testing.assert_array_equal(upper.sum(axis=1), [*range(1, 10)] * 2)
    np.testing.assert_array_equal(lower.sum(axis=1), upper.sum(axis=1))
    assert ((upper ^ lower).sum(axis=1) == 2).all()


def test_theorem3_names_its_constants():
    plain = fgsv.theorem3(0.1, 0.05, 1.0, n=1000, s0=250)
    doubled = fgsv.theorem3(0.1, 0.05, 1.0, n=1000, s0=250, m2_constant=2.0)
    assert doubled.m2 == pytest.approx(2 * plain.m2, abs=1)
    assert plain.evaluations == 2 + plain.m1 * sum(s + 1 for s in range(1, 10)) + 2 * plain.m2 * 990
    with pytest.raises(ValueError, match="epsilon"):
        fgsv.theorem3(0, 0.05, 1.0, n=10, s0=2)
