"""Errors of group values where players leave or join and the run starts from last month's ledger."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.problems import CACHE
from fgsv.experiments.repeats import run_all

OLD_LENGTH = 1500
PARTS = 0.05, 0.2
"""New evaluations over those of the old run."""
MOVING = (3, 17, 40)
N = 60
SHIFTS = {
    "three leave": (range(N), [each for each in range(N) if each not in MOVING]),
    "three join": ([each for each in range(N) if each not in MOVING], range(N)),
    "a fifth leaves": (range(N), [each for each in range(N) if each % 5]),
}
"""The players of the old game and of the new one."""


@cache
def everybody(name: str) -> Any:
    """Return a game of sixty players: units of rows of a data set, or a sum of unanimity games."""
    from sklearn.datasets import load_breast_cancer, load_diabetes
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neighbors import KNeighborsClassifier

    if name == "unanimity":
        return fgsv.games.SumOfUnanimity(N, seed=5)
    X, y = (load_diabetes if name == "ridge" else load_breast_cancer)(return_X_y=True)
    X, order = (X - X.mean(axis=0)) / X.std(axis=0), np.random.default_rng(3).permutation(len(X))
    X, y = X[order], y[order]
    if name == "ridge":
        y = (y - y.mean()) / y.std()
        return fgsv.utility(Ridge(1.0), X[:300], y[:300], X[300:], y[300:], units=np.arange(300) // 5)
    model = LogisticRegression() if name == "logistic" else KNeighborsClassifier(5)
    return fgsv.utility(model, X[:240], y[:240], X[240:], y[240:], "accuracy", units=np.arange(240) // 4)


def game_of(name: str, players: Any) -> fgsv.Game:
    """Return the game of some of the sixty, which says who they are."""
    columns = np.array(players)

    def function(masks: np.ndarray) -> np.ndarray:
        chosen = np.zeros((len(masks), N), dtype=bool)
        chosen[:, columns] = masks
        return np.asarray(everybody(name)(chosen)).reshape(-1)

    return fgsv.Game(function, len(columns), frame=name, players=[f"player {each}" for each in columns])


@cache
def truth_of(name: str, shift: str) -> np.ndarray:
    """Return the player values of the new game, from two long runs, kept in a folder."""
    path = Path(CACHE).parent / "market" / f"{name} {shift}.npy"
    if not path.exists():
        options: dict[str, Any] = {"budget": 200_000, "surrogate": False, "opening": False}
        game = game_of(name, SHIFTS[shift][1])
        runs = [fgsv.value(game, seed=10**6 + seed, **options).values for seed in range(2)]
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.mean(runs, axis=0))
    return np.asarray(np.load(path))


@dataclass(frozen=True)
class Task:
    """One old run, and what starts from it."""

    name: str
    shift: str
    seed: int


def measure(task: Task) -> list[tuple[str, float, float]]:
    """Return squared error and coverage of a fresh run of the old length, and of each number of new evaluations."""
    before, after = (game_of(task.name, players) for players in SHIFTS[task.shift])
    truth, n = truth_of(task.name, task.shift), after.n_players
    some = np.stack([np.random.default_rng(each).permutation(n) % 4 == 0 for each in range(100)]).astype(float)
    groups = np.arange(n) % 4

    def outcome(budget: int, **options: Any) -> tuple[float, float]:
        found = fgsv.value(after, groups, budget=budget, seed=1000 + task.seed, **options)
        error = found.player_values - truth
        inside = np.abs(np.bincount(groups, error)) <= found.half_width(0.95)
        return float(((some @ error) ** 2).mean()), float(inside.mean())

    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "old.db"
        fgsv.value(before, budget=OLD_LENGTH, seed=task.seed, ledger=ledger)
        lines = [("fresh", *outcome(OLD_LENGTH))]
        for part in PARTS:
            new = round(part * OLD_LENGTH) + 2
            lines += [(f"{new}, started", *outcome(new, start=ledger)), (f"{new}, fresh", *outcome(new))]
    return lines


def rows(names: list[str], runs: int, jobs: int) -> Iterator[pd.DataFrame]:
    """Yield, for each game and shift, the errors over that of a fresh run of the old length, and the coverage."""
    for name in names:
        for shift in SHIFTS:
            truth_of(name, shift)
            found = run_all(measure, [Task(name, shift, seed) for seed in range(runs)], jobs=jobs, label=name)
            lines = pd.DataFrame([line for each in found for line in each], columns=["run", "square", "coverage"])
            table = lines.groupby("run", sort=False).mean()
            error = np.sqrt(table["square"])
            yield pd.DataFrame(
                {
                    "game": name,
                    "shift": shift,
                    "run": table.index,
                    "error": error.to_numpy(),
                    "over fresh": (error / error["fresh"]).to_numpy(),
                    "coverage": table["coverage"].to_numpy(),
                }
            )
