"""The games that the benchmarks share, with their groups and their true values."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fgsv
from experiments.repeats import run_all

CACHE = Path(os.environ.get("FGSV_BENCH_CACHE", "bench-out/truth"))
TRUTH_RUNS, TRUTH_BUDGET = 4, 2_000_000
TRUTH_SEED = 1_000_000


@dataclass(frozen=True, eq=False)
class Case:
    """A game, the groups that are valued, and what the values are."""

    game: Any
    groups: dict[str, fgsv.Partition]
    truth: np.ndarray
    """(n,) player values; those of groups are their sums."""
    deviations: np.ndarray | None = None
    """(R, n): the error of the truth, where it comes from a long run."""
    source: str = "closed form"

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self.truth)

    def truth_stderr(self, groups: fgsv.Partition) -> float:
        """Return the root mean squared standard error of the true group values."""
        if self.deviations is None:
            return 0.0
        variances = sum(groups.sums(row.astype(float)) ** 2 for row in self.deviations)
        return float(np.sqrt(np.mean(variances)))


def case(name: str) -> Case:
    """Return a game by name: sou64, sou128, ... or diabetes."""
    return _case(name, str(CACHE), TRUTH_BUDGET)


@cache
def _case(name: str, folder: str, truth_budget: int) -> Case:
    if name.startswith("sou"):
        n = int(name.removeprefix("sou"))
        game = fgsv.games.SumOfUnanimity(n)
        return Case(game, {"i mod 4": fgsv.Partition.of(np.arange(n) % 4)}, game.shapley)
    if name != "diabetes":
        raise ValueError(f"unknown game {name!r}: expected sou64, sou128, ..., or diabetes")
    diabetes, groups = diabetes_game()
    truth, deviations = long_run(name, _diabetes, truth_budget, Path(folder))
    source = (
        f"mean of {TRUTH_RUNS} runs of the default method that learn nothing but sizes, {truth_budget:,} "
        f"evaluations each, seeds from {TRUTH_SEED}"
    )
    return Case(diabetes, groups, truth, deviations, source)


@cache
def diabetes_game() -> tuple[Any, dict[str, fgsv.Partition]]:
    """Return ridge regression on 350 patients, and the groups by sex, by age, and by sex, age and BMI."""
    from experiments.diabetes import make_game

    game, categories = make_game()
    by = {"sex": ["sex"], "age": ["age"], "sex x age x BMI": ["sex", "age", "bmi"]}
    groups = {
        name: fgsv.Partition.of(categories[columns].astype(str).agg(" ".join, axis=1).to_numpy())
        for name, columns in by.items()
    }
    return game, groups


def _diabetes() -> Any:
    return diabetes_game()[0]


def _truth_run(task: tuple[Callable[[], Any], int, int]) -> tuple[np.ndarray, np.ndarray]:
    make, seed, budget = task
    # at this length learning takes more time than the evaluations it saves
    found = fgsv.value(make(), budget=budget, seed=TRUTH_SEED + seed, learn="sizes")
    assert found.player_values is not None
    assert found.deviations is not None
    return found.player_values, found.deviations[:, :, 0]


def long_run(name: str, make: Callable[[], Any], budget: int, folder: Path = CACHE) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) values and (R, n) deviations of the mean of several very long runs, kept in a folder.

    The runs are independent of each other and of every run that is measured against them; being unbiased,
    their mean is worth as much as one run of all their evaluations.
    """
    path = folder / f"{name}-{TRUTH_RUNS}x{budget}.npz"
    if not path.exists():
        tasks = [(make, seed, budget) for seed in range(TRUTH_RUNS)]
        runs = run_all(_truth_run, tasks, label=f"true values of {name}")
        values = np.mean([values for values, _ in runs], axis=0)
        deviations = np.concatenate([deviations for _, deviations in runs]) / TRUTH_RUNS
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, values=values, deviations=deviations)
    with np.load(path) as stored:
        return stored["values"], stored["deviations"]
