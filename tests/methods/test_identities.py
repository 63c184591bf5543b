"""The identities that the estimators rest on, each against enumeration."""

from itertools import combinations

import numpy as np
import pytest
from oracles import hypergeometric, mean_utility, overlaps, shapley, value_of

from fgsv.methods.enumeration import semivalues
from fgsv.semivalue import Banzhaf, Beta, SizeWeights

N = 6
GROUPS = [(0,), (1, 4), (0, 2, 3), (1, 2, 3, 5)]


@pytest.fixture
def game(random_game):
    return random_game(N, seed=7)


def faithful(game, group):
    return shapley(game, N)[list(group)].sum()


def ends(game):
    return value_of(game, range(N), N) - value_of(game, (), N)


@pytest.mark.parametrize("group", GROUPS)
def test_lemma_1(game, group):
    s0 = len(group)
    total = s0 / N * ends(game)
    for s in range(1, N):
        for s1 in overlaps(N, s0, s):
            weight = hypergeometric(s1, N, s0, s) * N / (N - s) * (s1 / s - s0 / N)
            total += weight * mean_utility(game, N, group, s, s1)
    assert total == pytest.approx(faithful(game, group), abs=1e-12)


@pytest.mark.parametrize("group", GROUPS)
def test_theorem_2_has_an_exact_twin(game, group):
    """T(s) is a mean of finite differences over k ~ Hypergeometric(n - 2, s0 - 1, s - 1): no truncation."""
    s0 = len(group)
    a = s0 / N
    total = s0 / N * ends(game)
    for s in range(1, N):
        for k in overlaps(N - 2, s0 - 1, s - 1):
            difference = mean_utility(game, N, group, s, k + 1) - mean_utility(game, N, group, s, k)
            total += N / (N - 1) * a * (1 - a) * hypergeometric(k, N - 2, s0 - 1, s - 1) * difference
    assert total == pytest.approx(faithful(game, group), abs=1e-12)


@pytest.mark.parametrize("semivalue", [Beta(1, 1), Beta(4, 1), Beta(2, 3.5), Banzhaf()], ids=str)
def test_covariance_form(game, semivalue):
    """Equation (1) of the design for Shapley, and its twin for any semivalue."""
    weights = SizeWeights.of(semivalue, N)
    expected = np.full(N, weights.full * value_of(game, range(N), N) - weights.empty * value_of(game, (), N))
    for s in range(1, N):
        sets = list(combinations(range(N), s))
        for members in sets:
            inside = np.isin(np.arange(N), members)
            u = value_of(game, members, N) / len(sets)
            expected += (weights.gain[s - 1] * (inside - s / N) + weights.drift[s - 1]) * u
    masks = (np.arange(2**N)[:, None] >> np.arange(N)) & 1 == 1
    exact = semivalues(game(masks)[:, None], semivalue)[:, 0]
    np.testing.assert_allclose(expected, exact, atol=1e-12)


def test_beta_one_one_is_shapley(game):
    masks = (np.arange(2**N)[:, None] >> np.arange(N)) & 1 == 1
    np.testing.assert_allclose(semivalues(game(masks)[:, None], Beta(1, 1))[:, 0], shapley(game, N), atol=1e-12)
