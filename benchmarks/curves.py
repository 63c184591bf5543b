"""What a run has spent and how far off it is after each round, and what it takes to reach a given error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy import random_groups


@dataclass(frozen=True, eq=False)
class Curve:
    """One run: after each of k rounds what was spent (evaluations, seconds) and the player values."""

    spent: np.ndarray
    """(k,)"""
    values: np.ndarray
    """(k, n)"""

    def squares(self, truth: np.ndarray) -> np.ndarray:
        """Return (k,) mean squared errors of group values over 200 random partitions into 4 equal groups."""
        return np.mean(((self.values - truth) @ random_groups(len(truth)).T) ** 2, axis=1)


def on_grid(runs: Sequence[Curve], truth: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return (runs, grid) mean squared errors: those of the last round within what the grid allows."""
    rounds = [np.searchsorted(run.spent, grid, side="right") - 1 for run in runs]
    if min(at.min() for at in rounds) < 0:
        raise ValueError(f"a run spent {max(run.spent[0] for run in runs):.4g} before its first estimate")
    return np.array([run.squares(truth)[at] for run, at in zip(runs, rounds, strict=True)])


def needed(squares: np.ndarray, grid: np.ndarray, target: float) -> float:
    """Return what must be spent for a root mean squared error of `target`: between grid points on a line of logs."""
    falling = np.minimum.accumulate(np.sqrt(squares.mean(axis=0)))
    return float(np.exp(np.interp(-np.log(target), -np.log(falling), np.log(grid))))


def relative(
    other: tuple[np.ndarray, np.ndarray],
    reference: tuple[np.ndarray, np.ndarray],
    spent: float,
    n_resamples: int = 2000,
) -> dict[str, Any]:
    """Return what other runs need for the error that the reference has after spending so much, and the ratio of both.

    Both are (runs, grid) squared errors and their grid. The 95% interval resamples the runs of both. Where the other
    runs are as good from their first estimate on, they need at most what that took; where they never are
    (`reached` is False), more than all they spent.
    """
    rng = np.random.default_rng(0)
    (other_squares, other_grid), (squares, grid) = other, reference
    at = int(np.abs(np.log(grid / spent)).argmin())

    def ratio(other_rows: np.ndarray, rows: np.ndarray) -> float:
        return needed(other_rows, other_grid, float(np.sqrt(rows[:, at].mean()))) / float(grid[at])

    def resampled(rows: np.ndarray) -> np.ndarray:
        return rows[rng.integers(len(rows), size=len(rows))]

    ratios = [ratio(resampled(other_squares), resampled(squares)) for _ in range(n_resamples)]
    low, high = np.quantile(ratios, [0.025, 0.975])
    target = float(np.sqrt(squares[:, at].mean()))
    return {
        "rmse": target,
        "spent": float(grid[at]),
        "needed": needed(other_squares, other_grid, target),
        "ratio": ratio(other_squares, squares),
        "low": float(low),
        "high": float(high),
        "reached": bool(np.sqrt(other_squares.mean(axis=0)).min() <= target),
    }


def truth_of(runs: Sequence[Curve]) -> tuple[np.ndarray, float]:
    """Return (n,) values from two long runs, and the error of their mean over the random partitions."""
    first, second = (run.values[-1] for run in runs)
    apart = Curve(np.zeros(1), (first - second)[None] / 2).squares(np.zeros(len(first)))
    return (first + second) / 2, float(np.sqrt(apart[0]))


def grid_of(runs: Sequence[Curve], n_points: int = 40) -> np.ndarray:
    """Return amounts from the first estimate of all runs to the end of the shortest, equally spaced in logs."""
    return np.geomspace(max(run.spent[0] for run in runs), min(run.spent[-1] for run in runs), n_points)
