"""The least error of an unbiased estimate that knows how far utilities vary, on the games of `few`.

Two oracles draw without replacement and divide their draws among the sizes in the best way. The first knows the mean
and the spread of the utilities of every size. The second also knows what the default method's process predicts from
all evaluations of a run, and how far these predictions are off at every size; it may then make as many draws again to
correct them. If what is left in a size were assigned to its coalitions at random, no unbiased estimate that knows as
much would have a smaller expected squared error (Godambe and Joshi, 1965).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import fgsv
from benchmarks.few_games import GAMES, load
from benchmarks.few_table import PEERS, best_of, read
from experiments.repeats import run_all
from fgsv.methods.covariance.design import counts
from fgsv.methods.covariance.opening_epoch import filled
from fgsv.methods.covariance.process import Process
from fgsv.types import Floats, Masks

DRAWS = 400
"""Coalitions of each size from which its spread is taken."""


def spreads(name: str) -> Floats:
    """Return (n - 1,): the standard deviation of the utilities of each size."""
    game = load(name)[0]
    return np.array([np.asarray(game(masks)).std() for masks in _some(game.n_players)])


def misses(game: fgsv.Game, predict: Callable[[Masks], Floats], known: Masks) -> Floats:
    """Return (n - 1,): how far predictions of unknown coalitions are off at each size (root mean square)."""
    seen, found = {row.tobytes() for row in known}, []
    for masks in _some(game.n_players):
        masks = masks[[row.tobytes() not in seen for row in masks]]
        errors = np.asarray(game(masks)) - predict(masks) if len(masks) else np.zeros(1)
        found.append(np.sqrt((errors**2).mean()))
    return np.array(found)


def _some(n: int) -> list[Masks]:
    ranks = np.random.default_rng(0).permuted(np.tile(np.arange(n), (DRAWS, 1)), axis=1)
    return [ranks < size for size in range(1, n)]


def error(truth: Floats, spread: Floats, budget: int) -> float:
    """Return the root mean square of the players' errors, over the standard deviation of the true values."""
    n = len(truth)
    s, n_coalitions = np.arange(1, n), counts(n)[1:-1]
    parts = np.maximum(spread, 1e-9 * spread.max()) * np.sqrt(n / (s * (n - s)))
    draws = filled(parts, n_coalitions, min(budget, 2**n - 1) - 2)
    return float(np.sqrt((parts**2 * (1 / draws - 1 / n_coalitions)).sum() / n) / truth.std())


def learned(task: tuple[str, int, int]) -> tuple[float, float]:
    """Return the error of a run of the default method, and that of the oracle with what was learned in it."""
    name, budget, seed = task
    game, truth = load(name)
    asked: list[Masks] = []

    def function(masks: Masks) -> Floats:
        asked.append(np.array(masks))
        return np.asarray(game(masks))

    n = game.n_players
    found = fgsv.value(fgsv.Game(function, n), budget=budget, seed=seed)
    known = np.unique(np.concatenate(asked), axis=0)
    values, (empty, full) = np.asarray(game(known)), np.asarray(game(np.array([[False] * n, [True] * n])))

    def line(masks: Masks) -> Floats:
        return np.asarray(empty + (full - empty) * masks.mean(axis=1))

    rest = (values - line(known))[:, None]
    process = Process.default(n).fitted(known, rest)
    loads = process.solve(known, rest).loads[:, 0]

    def predict(masks: Masks) -> Floats:
        return line(masks) + process.covariance(masks, known) @ loads

    square = ((found.player_values - truth) ** 2).mean() / truth.var()
    return float(np.sqrt(square)), error(truth, misses(game, predict, known), budget)


def main() -> None:
    """Print errors for each game and budget: the two oracles', the default method's and the best peer's."""
    parser = argparse.ArgumentParser("oracle", description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--budgets", nargs="+", type=int, default=[64, 128, 256, 512, 1024])
    parser.add_argument("--runs", type=int, default=10, help="runs of the default method in each cell")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--peers", type=Path, default=PEERS, help="what `python -m benchmarks peers` measured")
    arguments = parser.parse_args()
    peers, rows = read(arguments.peers), []
    for name in arguments.games:
        truth, spread = load(name)[1], spreads(name)
        for budget in (each for each in arguments.budgets if each < 2 ** len(truth)):
            tasks = [(name, budget, seed) for seed in range(arguments.runs)]
            runs = np.array(run_all(learned, tasks, jobs=arguments.jobs, label=f"{name}, {budget}"))
            ours, with_learned = np.sqrt((runs**2).mean(axis=0))
            best = best_of(peers, name, budget)
            rows.append(
                {
                    "game": name,
                    "budget": budget,
                    "sizes": error(truth, spread, budget),
                    "learned": with_learned,
                    "fgsv": ours,
                    "fgsv over learned": ours / with_learned,
                    "best peer": best["estimator"] if best else "–",
                    "its error": best["error"] if best else np.nan,
                    "learned over it": with_learned / best["error"] if best else np.nan,
                }
            )
            print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1, float_format="%.3g"))
    ratios = np.array([row["fgsv over learned"] for row in rows])
    print(f"fgsv over what an unbiased estimate reaches with what it learned: {np.exp(np.log(ratios).mean()):.2f}")
