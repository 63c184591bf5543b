"""Whether corrected values are unbiased in runs that start from last month's ledger, and what intervals hold."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import f, norm

import fgsv
from benchmarks.few_games import load
from experiments.repeats import run_all

N = 18
OLD_LENGTH, NEW = 128, 40
SHIFTS = {
    "two leave": (range(N), range(2, N)),
    "two join": (range(2, N), range(N)),
    "one leaves, two join": (range(N - 2), range(1, N)),
}
"""The players of the old game and of the new one, some of eighteen: large enough that old draws have partners."""
GAMES = "noise", "unanimity", "clinics"


@cache
def everybody(name: str) -> np.ndarray:
    """Return the utilities of all coalitions: noise, a sum of unanimity games, or ridge regression."""
    if name == "noise":
        return np.random.default_rng(0).exponential(size=2**N) ** 2
    masks = (np.arange(2**N)[:, None] >> np.arange(N)) & 1 == 1
    game = fgsv.games.SumOfUnanimity(N, seed=1) if name == "unanimity" else load("clinics18")[0]
    return np.asarray(game(masks)).reshape(-1)


@cache
def truth_of(name: str, players: range) -> np.ndarray:
    """Return the player values by enumeration."""
    return fgsv.exact(game_of(name, players)).values


def game_of(name: str, players: range) -> fgsv.Game:
    """Return the game of some of them, which says who they are."""
    bits, utilities = 1 << np.array(players), everybody(name)
    names = [f"player {each}" for each in players]
    return fgsv.Game(lambda masks: utilities[masks @ bits], len(players), frame=name, players=names)


@dataclass(frozen=True)
class Task:
    """Seeds of some old runs, and of what starts from them."""

    name: str
    shift: str
    seeds: range


def measure(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (m, n) errors of the players' values, over old and new draws, standard errors, and half-widths."""
    before, after = (game_of(task.name, players) for players in SHIFTS[task.shift])
    truth = truth_of(task.name, SHIFTS[task.shift][1])
    errors, stated, widths = [], [], []
    for seed in task.seeds:
        with tempfile.TemporaryDirectory() as folder:
            ledger = Path(folder) / "old.db"
            fgsv.value(before, budget=OLD_LENGTH, seed=seed, ledger=ledger)
            found = fgsv.value(after, budget=NEW, seed=10**6 + seed, start=ledger, unbiased=True)
        errors.append(found.values - truth)
        stated.append(found.stderr)
        widths.append(found.half_width(0.95))
    return np.array(errors), np.array(stated), np.array(widths)


def rows(
    games: Sequence[str], shifts: Sequence[str], runs: int, jobs: int, at_once: int = 20
) -> Iterator[pd.DataFrame]:
    """Yield a row for each game and shift: mean errors in standard errors, and the coverage of 95% intervals."""
    starts = range(0, runs, at_once)
    for name in games:
        for shift in shifts:
            tasks = [Task(name, shift, range(start, min(start + at_once, runs))) for start in starts]
            found = run_all(measure, tasks, jobs=jobs, label=f"{name}, {shift}")
            summary = _summary(*(np.concatenate(each) for each in zip(*found, strict=True)))
            yield pd.DataFrame([{"game": name, "shift": shift} | summary])


def _summary(errors: np.ndarray, stated: np.ndarray, widths: np.ndarray) -> dict[str, float]:
    inside = np.abs(errors) <= widths
    mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1)
    # Hotelling's test; errors add up to nothing, so that those of all players but one say everything
    free, p = errors[:, :-1], errors.shape[1] - 1
    squared = len(errors) * float(free.mean(axis=0) @ np.linalg.solve(np.cov(free.T), free.mean(axis=0)))
    chance = f.sf(squared * (len(errors) - p) / (p * (len(errors) - 1)), p, len(errors) - p)
    return {
        "runs": len(errors),
        "largest mean error, in standard errors": np.abs(mean / spread * np.sqrt(len(errors))).max(),
        "chance of such means, all players": float(chance),
        "largest mean error, in standard deviations": np.abs(mean / spread).max(),
        "error of that": 1 / np.sqrt(len(errors)),
        "coverage": inside.mean(),
        "coverage, error": inside.mean(axis=1).std(ddof=1) / np.sqrt(len(inside)),
        "error over standard error": np.sqrt((errors**2).mean() / (stated**2).mean()),
        "coverage, normal quantiles": (np.abs(errors) <= norm.ppf(0.975) * stated).mean(),
    }
