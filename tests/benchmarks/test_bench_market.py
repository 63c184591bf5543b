"""The benchmark of the market: its table, and the methods that it stands beside."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from benchmarks import market_dynamic, market_errors

N = 6
UTILITIES = np.random.default_rng(0).exponential(size=2**N)


def utility(masks):
    return UTILITIES[masks @ (1 << np.arange(N))]


def truth_of(players):
    bits = 1 << np.array(players)
    values = np.zeros(N)
    values[players] = fgsv.exact(fgsv.Game(lambda masks: UTILITIES[masks @ bits], len(players))).values
    return values


@pytest.mark.parametrize("method", ["pivot", "delta", "delta, leaving"])
def test_methods_of_dynamic_shapley_are_unbiased(method):
    everyone, some = np.arange(N), np.arange(N - 2)
    runs = []
    for seed in range(100):
        rng, memo = np.random.default_rng(seed), market_dynamic.Memo(utility)
        leave = "leaving" in method
        orders = market_dynamic.permutations(memo, N, everyone if leave else some, 12, rng)
        if method == "pivot":
            runs.append(market_dynamic.by_pivot(memo, N, orders, [4, 5], 1000, rng))
        else:
            runs.append(market_dynamic.by_delta(memo, N, orders, [4, 5], 1000, rng, leave=leave))
    apart = np.mean(runs, axis=0) - truth_of(some if leave else everyone)
    assert np.abs(apart).max() < 4 * (np.std(runs, axis=0) / 10).max()


def test_the_table_has_ratios_of_errors():
    columns = ["game", "shift", "seed", "kind", "evaluations", "square", "coverage", "seconds"]
    cells = (
        ("fresh", 1500, 1.0),
        ("started", 77, 4.0),
        ("fresh", 77, 16.0),
        ("started", 302, 1.0),
        ("fresh", 302, 9.0),
    )
    lines = [
        ("ridge", "three join", seed, kind, new, square * (1 + 0.1 * seed), 1.0, 2.0)
        for seed in range(3)
        for kind, new, square in cells
    ]
    found = market_errors.table(pd.DataFrame(lines, columns=columns), 1500)
    np.testing.assert_allclose(found["over fresh 1500"], [2, 1])
    np.testing.assert_allclose(found["over fresh"], [1 / 2, 1 / 3])
    np.testing.assert_allclose(found["over fresh 1500, error"], 0, atol=1e-12)  # the same factor for both
