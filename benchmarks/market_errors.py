"""Errors of group values where players leave or join and the run starts from last month's ledger."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks import market_dynamic as dynamic
from benchmarks.problems import CACHE
from experiments.repeats import run_all

OLD_LENGTH = 1500
PARTS = 0.05, 0.2
"""New evaluations over those of the old run."""
MOVING, JOINING = (3, 17, 40), (8, 29, 51)
GAMES = "ridge", "neighbours", "logistic", "unanimity"
SHIFTS = "three leave", "three join", "three leave and three join", "a fifth leaves", "three of 300 leave"
TRUTH_RUNS, TRUTH_LENGTH = 8, 50_000


def players_of(shift: str) -> tuple[int, np.ndarray, np.ndarray]:
    """Return of how many players a game is part, those that it has before, and after."""
    n = 300 if "300" in shift else 60
    everyone = np.arange(n)
    if "and" in shift:
        return n, np.setdiff1d(everyone, JOINING), np.setdiff1d(everyone, MOVING)
    fewer = everyone[everyone % 5 > 0] if "fifth" in shift else np.setdiff1d(everyone, MOVING)
    return (n, fewer, everyone) if "join" in shift else (n, everyone, fewer)


@cache
def everybody(name: str, n: int) -> Any:
    """Return a game of units of rows of a data set, one row each if there are 300, or a sum of unanimity games."""
    from sklearn.datasets import load_breast_cancer, load_diabetes
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neighbors import KNeighborsClassifier

    if name == "unanimity":
        return fgsv.games.SumOfUnanimity(n, seed=5)
    X, y = (load_diabetes if name == "ridge" else load_breast_cancer)(return_X_y=True)
    X, order = (X - X.mean(axis=0)) / X.std(axis=0), np.random.default_rng(3).permutation(len(X))
    X, y = X[order], y[order]
    per_player = 1 if n == 300 else 5 if name == "ridge" else 4
    rows = n * per_player
    data = X[:rows], y[:rows], X[rows:], y[rows:]
    units = np.arange(rows) // per_player
    if name == "ridge":
        y = (y - y.mean()) / y.std()
        return fgsv.utility(Ridge(1.0), data[0], y[:rows], data[2], y[rows:], units=units)
    model = LogisticRegression() if name == "logistic" else KNeighborsClassifier(5)
    return fgsv.utility(model, *data, "accuracy", units=units)


def game_of(name: str, n: int, players: np.ndarray) -> fgsv.Game:
    """Return the game of some of the n players, which says who they are."""

    def function(masks: np.ndarray) -> np.ndarray:
        chosen = np.zeros((len(masks), n), dtype=bool)
        chosen[:, players] = masks
        return np.asarray(everybody(name, n)(chosen)).reshape(-1)

    return fgsv.Game(function, len(players), frame=f"{name} {n}", players=[f"player {each}" for each in players])


@dataclass(frozen=True)
class Task:
    """A run with a seed: for the truth, or an old one and what starts from it."""

    name: str
    shift: str
    seed: int
    old_length: int = OLD_LENGTH


def _truth_path(task: Task) -> Path:
    return Path(CACHE).parent / "market" / f"{task.name}, {task.shift}, {TRUTH_LENGTH}, {task.seed}.npy"


def find_truth(task: Task) -> None:
    """Value the new game by a long run, and keep its values in a folder."""
    path = _truth_path(task)
    if path.exists() or task.name == "unanimity":
        return
    n, _, after = players_of(task.shift)
    found = fgsv.value(game_of(task.name, n, after), budget=TRUTH_LENGTH, seed=10**6 + task.seed, learn="sizes")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, found.values)


@cache
def truth_of(name: str, shift: str) -> np.ndarray:
    """Return the player values of the new game: in closed form, or the mean of long runs."""
    n, _, after = players_of(shift)
    if name == "unanimity":  # a set with somebody who is not there is worth nothing
        game = everybody(name, n)
        left = ~np.isin(np.arange(n), after)
        worth = np.where(game.sets[:, left].any(axis=1), 0.0, game.weights / game.sets.sum(axis=1))
        return np.asarray(worth @ game.sets)[after]
    return np.mean([np.load(_truth_path(Task(name, shift, seed))) for seed in range(TRUTH_RUNS)], axis=0)


def measure(task: Task) -> list[tuple[str, str, int, str, int, float, float, float]]:
    """Return a line for each run: new evaluations, squared error, coverage and seconds."""
    n, *both = players_of(task.shift)
    before, after = (game_of(task.name, n, players) for players in both)
    truth, n = truth_of(task.name, task.shift), after.n_players
    some = np.stack([np.random.default_rng(each).permutation(n) % 4 == 0 for each in range(100)]).astype(float)
    groups = np.arange(n) % 4
    lines = []

    def add(kind: str, budget: int, **options: Any) -> None:
        begun = time.perf_counter()
        found = fgsv.value(after, groups, budget=budget, seed=1000 + task.seed, **options)
        seconds = time.perf_counter() - begun
        error = found.player_values - truth
        inside = np.abs(np.bincount(groups, error)) <= found.half_width(0.95)
        square = float(((some @ error) ** 2).mean())
        lines.append((task.name, task.shift, task.seed, kind, budget, square, float(inside.mean()), seconds))

    for kind, budget, values in _dynamic(task):
        square = float(((some @ (values - truth)) ** 2).mean())
        lines.append((task.name, task.shift, task.seed, kind, budget, square, np.nan, np.nan))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "old.db"
        fgsv.value(before, budget=task.old_length, seed=task.seed, ledger=ledger)
        add("fresh", task.old_length)
        for part in PARTS:
            new = new_evaluations(part, task.old_length)
            add("started", new, start=ledger)
            if new >= n + 2:  # fewer do not correct
                add("unbiased", new, start=ledger, unbiased=True)
            add("fresh", new)
    return lines


def _dynamic(task: Task) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield the values of the new game by the methods of Dynamic Shapley, where the new evaluations suffice.

    They are for players who leave or join, not for both at once.
    """
    n, before, after = players_of(task.shift)
    if len(after) == len(before):
        return
    leave = len(after) < len(before)
    moving = np.setxor1d(before, after).tolist()
    for budget in (new_evaluations(part, task.old_length) for part in PARTS):
        for kind in ("delta",) if leave else ("pivot", "delta"):
            rng = np.random.default_rng([task.seed, budget])
            memo = dynamic.Memo(lambda masks: np.asarray(everybody(task.name, n)(masks), dtype=float).reshape(-1))
            orders = dynamic.permutations(memo, n, before, task.old_length, rng)
            memo(np.isin(np.arange(n), after)[None])
            if kind == "pivot":
                values = dynamic.by_pivot(memo, n, orders, moving, budget - 2, rng)
            else:
                values = dynamic.by_delta(memo, n, orders, moving, budget - 2, rng, leave=leave)
            if values is not None:
                yield kind, budget, values[after]


def new_evaluations(part: float, old_length: int) -> int:
    """Return the budget of a run, with U(0) and U(N)."""
    return round(part * old_length) + 2


def run(names: list[str], shifts: list[str], runs: int, jobs: int, old_length: int) -> pd.DataFrame:
    """Return a line for each run of each game and shift; the longest tasks are started first."""
    cells = [(name, shift) for shift in sorted(shifts, key=lambda each: "300" not in each) for name in names]
    truths = [Task(*cell, seed) for cell in cells for seed in range(TRUTH_RUNS)]
    run_all(find_truth, truths, jobs=jobs, label="truth")
    tasks = [Task(*cell, seed, old_length) for cell in cells for seed in range(runs)]
    found = run_all(measure, tasks, jobs=jobs, label="runs")
    columns = ["game", "shift", "seed", "kind", "evaluations", "square", "coverage", "seconds"]
    return pd.DataFrame([line for lines in found for line in lines], columns=columns)


def table(lines: pd.DataFrame, old_length: int) -> pd.DataFrame:
    """Return a row for each game, shift and number of new evaluations: ratios of errors with standard errors.

    Those of corrected values, and of the pivot and delta methods, are over the fresh run of the old length.
    """
    rows = []
    for (game, shift), cell in lines.groupby(["game", "shift"], sort=False):
        by_kind = cell.sort_values("seed").groupby(["kind", "evaluations"])
        square = {key: part["square"].to_numpy() for key, part in by_kind}
        whole = square["fresh", old_length]
        for part in PARTS:
            new = new_evaluations(part, old_length)
            started = square["started", new]
            own = cell[(cell["kind"] == "started") & (cell["evaluations"] == new)]
            row = {"game": game, "shift": shift, "new": new, "runs": len(whole), "error": np.sqrt(started.mean())}
            for name, other in ((f"over fresh {old_length}", whole), ("over fresh", square["fresh", new])):
                row[name], row[f"{name}, error"] = ratio(started, other)
            for kind in ("unbiased", "pivot", "delta"):
                theirs = square.get((kind, new), np.zeros(0))
                row[kind] = ratio(theirs, whole)[0] if len(theirs) == len(whole) else np.nan
            rows.append(row | {"coverage": own["coverage"].mean(), "seconds": own["seconds"].mean()})
    return pd.DataFrame(rows)


def ratio(squares: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Return the ratio of two root mean squares over the same seeds, and its standard error by the jackknife."""
    found = float(np.sqrt(squares.mean() / others.mean()))
    m = len(squares)
    if m < 2:
        return found, float("nan")
    without = np.sqrt((squares.sum() - squares) / (others.sum() - others))
    return found, float(np.sqrt((m - 1) / m * ((without - without.mean()) ** 2).sum()))
