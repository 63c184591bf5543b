"""The five axioms of faithful group valuation, on random games and partitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgsv

PLAYERS = st.integers(2, 6)
SEEDS = st.integers(0, 2**32 - 1)


def table_game(table):
    n = len(table).bit_length() - 1
    return lambda masks: table[masks @ (1 << np.arange(n))]


def random_table(n, seed):
    return np.random.default_rng(seed).normal(size=2**n)


def random_labels(n, seed):
    return np.random.default_rng(seed).integers(0, 3, size=n)


@given(PLAYERS, SEEDS)
def test_null_player(n, seed):
    table = random_table(n, seed)
    members = np.arange(2**n)
    table = table[members & ~0b11]  # players 0 and 1 change nothing
    result = fgsv.exact(table_game(table), ["null", "null", *["other"] * (n - 2)] if n > 2 else ["null"] * 2)
    assert abs(result.values[0]) < 1e-12


@given(st.integers(4, 6), SEEDS)
def test_symmetry(n, seed):
    table = random_table(n, seed)
    members = np.arange(2**n)
    swapped = (members & ~0b1111) | (members & 0b11) << 2 | (members & 0b1100) >> 2
    table = table + table[swapped]  # players 0, 1 play the part of 2, 3 and the other way round
    result = fgsv.exact(table_game(table), ["a", "a", "b", "b", *["c"] * (n - 4)])
    assert abs(result.values[0] - result.values[1]) < 1e-12


@given(PLAYERS, SEEDS, st.floats(-3, 3), st.floats(-3, 3))
def test_linearity(n, seed, a, b):
    one, two = random_table(n, seed), random_table(n, seed + 1)
    labels = random_labels(n, seed)
    combined = fgsv.exact(table_game(a * one + b * two), labels).values
    parts = a * fgsv.exact(table_game(one), labels).values + b * fgsv.exact(table_game(two), labels).values
    np.testing.assert_allclose(combined, parts, atol=1e-12)


@given(PLAYERS, SEEDS)
def test_efficiency(n, seed):
    table = random_table(n, seed)
    values = fgsv.exact(table_game(table), random_labels(n, seed)).values
    assert abs(values.sum() - (table[-1] - table[0])) < 1e-12


@given(st.integers(3, 6), SEEDS)
def test_faithfulness(n, seed):
    """A group keeps its value however the others are grouped."""
    game = table_game(random_table(n, seed))
    whole = fgsv.exact(game, ["mine", *["theirs"] * (n - 1)])
    split = fgsv.exact(game, ["mine", *range(n - 1)])
    assert whole.values[0] == split.values[0]
    assert abs(whole.values[1] - split.values[1:].sum()) < 1e-12


def test_the_usual_group_value_is_not_faithful(random_game):
    game = fgsv.Game(random_game(5), 5)
    whole = fgsv.exact(fgsv.grouped(game, ["mine", "b", "b", "b", "b"])).values[0]
    split = fgsv.exact(fgsv.grouped(game, ["mine", "b", "b", "c", "c"])).values[0]
    assert abs(whole - split) > 0.01


@pytest.mark.parametrize(
    ("utility", "sign"),
    [(np.sqrt, 1), (lambda s: -np.exp(-s / 4), 1), (lambda s: s**2.0, 0), (lambda s: -(s**3.0), -1)],
    ids=["root", "saturating", "square", "minus-cube"],
)
def test_splitting_pays_when_the_mean_utility_is_prudent(utility, sign):
    """Proposition 1, both ways, and the faithful value beside it."""
    game = fgsv.Game(lambda masks: utility(masks.sum(axis=1).astype(float)), 12)
    whole = ["rival"] * 5 + ["shell"] * 7
    split = ["rival"] * 5 + ["shell 1"] * 3 + ["shell 2"] * 4
    gain = fgsv.exact(fgsv.grouped(game, split)).values[1:].sum() - fgsv.exact(fgsv.grouped(game, whole)).values[1]
    if sign:
        assert sign * gain > 1e-3
    else:
        assert abs(gain) < 1e-9
    faithful = fgsv.exact(game, split).values[1:].sum() - fgsv.exact(game, whole).values[1]
    assert abs(faithful) < 1e-9


def test_splitting_pays_in_expectation():
    """Proposition 1 holds for the mean over random utilities, not for each of them."""
    rng = np.random.default_rng(0)
    whole, split = ["rival", "rival", "x", "x"], ["rival", "rival", "x", "y"]
    gains = []
    for _ in range(400):
        table = np.sqrt(np.bitwise_count(np.arange(16))) + rng.normal(scale=0.2, size=16)
        game = fgsv.Game(table_game(table), 4)
        before = fgsv.exact(fgsv.grouped(game, whole)).values[1]
        after = fgsv.exact(fgsv.grouped(game, split)).values[1:].sum()
        gains.append(after - before)
    mean, stderr = np.mean(gains), np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert mean > 4 * stderr
    assert min(gains) < 0


def test_splitting_changes_nothing_without_another_group():
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 6)
    assert abs(fgsv.exact(fgsv.grouped(game, [0, 0, 0, 1, 1, 1])).values.sum() - np.sqrt(6)) < 1e-12
