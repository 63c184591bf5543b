"""Whether 95% intervals hold when a run stops at a target, on small games that are hard to see through.

Votes, gloves, a runway, sums of unanimity games and a rare large value: their utilities take few values, or a value
that few coalitions have, so that the first errors are rough. Beside them two easy games, for the cost of caution.
Run it as `make bench-stops`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.options import parsed
from experiments.repeats import run_all

RUNS_PER_TASK = 25


def _rare(masks: np.ndarray) -> np.ndarray:
    """Return a value for each member, and as much again for all when the first five are together."""
    return masks.mean(axis=1) + masks[:, :5].all(axis=1)


def _smooth(masks: np.ndarray) -> np.ndarray:
    return np.sqrt(masks @ np.linspace(0.2, 1.7, masks.shape[1]))


GAMES: dict[str, Callable[[], Any]] = {
    "vote of 14": lambda: fgsv.games.WeightedMajority([12, 9, 8, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 1], 38),
    "vote of 14, one nearly decides": lambda: fgsv.games.WeightedMajority([30] + [1] * 13, 32),
    "vote of 9": lambda: fgsv.games.WeightedMajority([5, 4, 4, 3, 3, 2, 2, 1, 1], 13),
    "gloves 12": lambda: fgsv.games.Glove(4, 8),
    "airport 13": lambda: fgsv.games.Airport([2.0**k for k in range(13)]),
    "unanimity 16": lambda: fgsv.games.SumOfUnanimity(16),
    "rare value 12": lambda: fgsv.Game(_rare, 12),
    "rare value 20": lambda: fgsv.Game(_rare, 20),
    "smooth 16": lambda: fgsv.Game(_smooth, 16),
    "unanimity 64": lambda: fgsv.games.SumOfUnanimity(64),
}


@cache
def _truth(name: str) -> np.ndarray:
    """Return (4,) true shares of the groups, by closed form or enumeration."""
    game = GAMES[name]()
    groups = np.arange(game.n_players) % 4
    if not hasattr(game, "shapley"):
        return fgsv.exact(game, groups).shares()
    return np.array([game.shapley[groups == k].sum() for k in range(4)]) / game.shapley.sum()


@dataclass(frozen=True)
class Task:
    """Consecutive runs on one game, each stopped at a precision."""

    game: str
    precision: float
    first_seed: int
    n_runs: int


def measure(task: Task) -> pd.DataFrame:
    """Return a line for each run: evaluations, how it ended, and the part of its four intervals that hold."""
    game, truth = GAMES[task.game](), _truth(task.game)
    groups = np.arange(game.n_players) % 4
    lines = []
    for seed in range(task.first_seed, task.first_seed + task.n_runs):
        result = fgsv.value(game, groups, precision=task.precision, seed=seed)
        low, high = np.moveaxis(result.share_interval(), -1, 0)
        inside = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
        lines.append(
            {
                "evaluations": result.n_evaluations,
                "enumerated": result.exact,
                "first": not result.exact and result.n_evaluations <= 34,
                "inside": inside.mean(),
            }
        )
    return pd.DataFrame(lines)


def repeat(game: str, precision: float, runs: int, jobs: int) -> dict[str, Any]:
    """Return what `runs` runs on one game came to; coverage is that of the runs that stopped at the target."""
    tasks = [
        Task(game, precision, start, min(RUNS_PER_TASK, runs - start)) for start in range(0, runs, RUNS_PER_TASK)
    ]
    lines = pd.concat(run_all(measure, tasks, jobs=jobs, label=f"{game}, {precision:g}"))
    stopped = lines[~lines["enumerated"]]
    return {
        "game": game,
        "precision": precision,
        "runs": len(lines),
        "evaluations": lines["evaluations"].mean(),
        "at first estimate": lines["first"].mean(),
        "enumerated": lines["enumerated"].mean(),
        "coverage": stopped["inside"].mean(),
        "coverage_stderr": stopped["inside"].std(ddof=1) / np.sqrt(max(len(stopped), 1)),
        "coverage of all": lines["inside"].mean(),
    }


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("stops", description=__doc__)
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--precision", type=float, nargs="+", default=[0.05])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parsed(parser, "stops")
    rows = []
    for game in asked.games:
        for precision in asked.precision:
            rows.append(repeat(game, precision, asked.runs, asked.jobs))
            print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print("coverage: of nominal 95% intervals of four groups, in runs that stopped at the target")
    asked.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(asked.out / "stops.csv", index=False)
