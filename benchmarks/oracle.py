"""What an oracle reaches that knows the mean and the spread of the utilities at every size, on the games of `few`.

It draws without replacement and allocates its draws to sizes in the best way. If the utilities of a size were
assigned to its coalitions at random, no unbiased estimate would have a smaller expected squared error (Godambe and
Joshi, 1965). An estimate with a smaller one has learned more than sizes.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from benchmarks.few_games import LARGER, TABLES, load
from fgsv.estimators.covariance.design import counts
from fgsv.estimators.covariance.opening_epoch import filled
from fgsv.types import Floats

DRAWS = 400
"""Coalitions of each size from which its spread is taken."""


def spreads(name: str) -> Floats:
    """Return (n - 1,): the standard deviation of the utilities of each size."""
    game, truth = load(name)
    n, rng = len(truth), np.random.default_rng(0)
    ranks = rng.permuted(np.tile(np.arange(n), (DRAWS, 1)), axis=1)
    return np.array([np.asarray(game(ranks < size)).std() for size in range(1, n)])


def error(name: str, budgets: list[int]) -> list[float]:
    """Return root mean squares of the players' errors, over the standard deviation of the true values."""
    truth, spread = load(name)[1], spreads(name)
    n = len(truth)
    s, n_coalitions = np.arange(1, n), counts(n)[1:-1]
    parts = np.maximum(spread, 1e-9 * spread.max()) * np.sqrt(n / (s * (n - s)))
    draws = [filled(parts, n_coalitions, min(budget, 2**n - 1) - 2) for budget in budgets]
    squares = [(parts**2 * (1 / each - 1 / n_coalitions)).sum() / n for each in draws]
    return [float(np.sqrt(square) / truth.std()) for square in squares]


def main() -> None:
    """Print the error for each game and budget."""
    parser = argparse.ArgumentParser("oracle", description=__doc__)
    parser.add_argument("--games", nargs="+", default=[*TABLES, *LARGER])
    parser.add_argument("--budgets", nargs="+", type=int, default=[64, 128, 256, 512, 1024])
    arguments = parser.parse_args()
    table = {name: error(name, arguments.budgets) for name in arguments.games}
    print(pd.DataFrame(table, index=arguments.budgets).T.to_string(float_format=lambda x: f"{x:.3g}"))
