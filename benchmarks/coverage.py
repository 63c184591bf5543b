"""Whether the default method's intervals hold what they say, and its mean errors: `make bench-coverage`.

Three games, 1,000 runs each: a sum of unanimity games; ridge regression with as many features as a small coalition
has rows, where errors have heavy tails; and the accuracy of a logistic regression, which moves in steps. On request
(`--games`) two more: ridge regression on other data, with six features (`features6`), and a saturating sum of heavy
tails (`narrow`); or a game of `few` by its name. By default a game whose evaluations are known to be cheap is not
learned; `--learn` says what is. With `--unbiased` values are corrected.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kurtosis, norm

import fgsv
from benchmarks import few_games
from benchmarks.options import parsed
from experiments.repeats import run_all

RUNS_PER_TASK = 25


@cache
def game_of(name: str) -> Any:
    """Return a game by name."""
    if name == "sou64":
        return fgsv.games.SumOfUnanimity(64)
    from sklearn.linear_model import LogisticRegression, Ridge

    rng = np.random.default_rng(0)
    if name == "narrow":
        worth = np.random.default_rng(1).pareto(1.5, 14) + 0.3
        return fgsv.Game(lambda masks: masks @ worth / (2 + masks @ worth), 14)
    if name == "features6":
        rng = np.random.default_rng(1)
        X, coefficients = rng.normal(size=(116, 6)), rng.normal(size=6)
        y = X @ coefficients + rng.normal(size=116)
        return fgsv.utility(Ridge(alpha=0.01), X[:16], y[:16], X[16:], y[16:], "neg_mean_squared_error")
    if name == "ridge":
        X, coefficients = rng.normal(size=(120, 5)), rng.normal(size=5)
        y = X @ coefficients + rng.normal(size=120)
        return fgsv.utility(Ridge(alpha=0.01), X[:20], y[:20], X[20:], y[20:], "neg_mean_squared_error")
    if name == "accuracy":
        X = rng.normal(size=(218, 4))
        positive = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=218) > 0
        return fgsv.utility(LogisticRegression(), X[:18], positive[:18], X[18:], positive[18:], "accuracy")
    if name in few_games.TABLES:
        return few_games.load(name)[0]
    raise ValueError(f"unknown game {name!r}: expected sou64, ridge, features6, narrow, accuracy or a game of few")


@cache
def truth_of(name: str) -> np.ndarray:
    """Return (n,) true player values: by closed form, or by evaluating all coalitions."""
    game = game_of(name)
    return game.shapley if hasattr(game, "shapley") else fgsv.exact(game).values


@dataclass(frozen=True)
class Task:
    """Consecutive runs on one game, stopped by the budget or before it by a standard error."""

    game: str
    first_seed: int
    n_runs: int
    budget: int
    stderr: float | None
    options: dict[str, Any]
    """Of the default method."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What (r) runs estimated, and how sure they were."""

    values: np.ndarray
    """(r, n) player values"""
    stderr: np.ndarray
    """(r, K)"""
    half_widths: np.ndarray
    """(r, K) of the 95% intervals"""
    n_evaluations: np.ndarray
    """(r,)"""


def measure(task: Task) -> Outcome:
    """Run the default method several times."""
    game = game_of(task.game)
    groups = np.arange(game.n_players) % 4
    results = [
        fgsv.value(game, groups, budget=task.budget, stderr=task.stderr, seed=seed, method="gp", **task.options)
        for seed in range(task.first_seed, task.first_seed + task.n_runs)
    ]
    return Outcome(
        np.array([result.player_values for result in results]),
        np.array([result.stderr for result in results]),
        np.array([result.half_width(0.95) for result in results]),
        np.array([result.n_evaluations for result in results]),
    )


def repeat(game: str, runs: int, budget: int, stderr: float | None, jobs: int, options: dict[str, Any]) -> Outcome:
    """Run the default method `runs` times on several processes."""
    tasks = [
        Task(game, start, min(RUNS_PER_TASK, runs - start), budget, stderr, options)
        for start in range(0, runs, RUNS_PER_TASK)
    ]
    parts = run_all(measure, tasks, jobs=jobs, label=f"{game}, {'budget' if stderr is None else 'stderr'}")
    return Outcome(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.stderr for part in parts]),
        np.concatenate([part.half_widths for part in parts]),
        np.concatenate([part.n_evaluations for part in parts]),
    )


def errors_of_groups(game: str, outcome: Outcome) -> np.ndarray:
    """Return (r, K)."""
    errors = outcome.values - truth_of(game)
    return np.stack([errors[:, np.arange(errors.shape[1]) % 4 == k].sum(axis=1) for k in range(4)], axis=1)


def summarise(game: str, stop: str, outcome: Outcome, fixed: Outcome | None = None) -> dict[str, Any]:
    """Return coverage pooled over groups, and the mean errors of groups and players, in several units.

    A stopped run and one with a fixed budget (`fixed`) that have a seed in common have draws in common. Without what
    their errors have in common, the bias that the stop adds shows sooner.
    """
    errors = outcome.values - truth_of(game)
    runs, n = errors.shape
    groups = errors_of_groups(game, outcome)
    inside = (np.abs(groups) <= outcome.half_widths).mean(axis=1)
    own = groups.copy()
    if fixed is not None:
        for error, chance in zip(own.T, errors_of_groups(game, fixed).T, strict=True):
            error -= np.cov(error, chance)[0, 1] / chance.var(ddof=1) * chance
    # the largest of n z-scores that chance exceeds once in a hundred benchmarks
    limit = float(norm.isf(0.005 / n))
    return {
        "game": game,
        "stopped by": stop,
        "runs": runs,
        "evaluations": outcome.n_evaluations.mean(),
        "rmse": np.sqrt(np.mean(groups**2)),
        "claimed": np.sqrt(np.mean(outcome.stderr**2)),
        "coverage": inside.mean(),
        "coverage_stderr": inside.std(ddof=1) / np.sqrt(runs),
        "group_z": np.abs(_z(groups)).max(),
        "group_bias": np.abs(groups.mean(axis=0) / groups.std(axis=0, ddof=1)).max(),
        "stop_bias": np.nan if fixed is None else np.abs(own.mean(axis=0) / groups.std(axis=0, ddof=1)).max(),
        "its_chance": (own.std(axis=0, ddof=1) / groups.std(axis=0, ddof=1)).max() / np.sqrt(runs),
        "player_bias": np.abs(errors.mean(axis=0) / np.sqrt((errors**2).mean(axis=0))).max(),
        "player_z": np.abs(_z(errors)).max(),
        "chance_z": limit,
    }


def _z(errors: np.ndarray) -> np.ndarray:
    """Return the mean errors in units of their standard errors, over runs."""
    return errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))


def tails(game: str) -> tuple[int, float]:
    """Return the size with the heaviest tails among the small ones, and the excess kurtosis of U there."""
    rng, n = np.random.default_rng(0), game_of(game).n_players
    found = []
    for size in range(2, n // 2):
        masks = rng.permuted(np.tile(np.arange(n) < size, (4000, 1)), axis=1)
        found.append((size, float(kurtosis(game_of(game)(masks)))))
    return max(found, key=lambda pair: pair[1])


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("coverage", description=__doc__)
    parser.add_argument("--games", nargs="+", default=["sou64", "ridge", "accuracy"])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--budget", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--learn", choices=["kernel", "players", "sizes"], help="what is learned")
    parser.add_argument("--unbiased", action="store_true", help="with values that are corrected")
    parser.add_argument("--fixed", action="store_true", help="only runs with a fixed budget")
    arguments = parsed(parser, "coverage")
    runs, budget, jobs = arguments.runs, arguments.budget, arguments.jobs
    options = {"learn": arguments.learn, "unbiased": arguments.unbiased}
    rows = []
    for game in arguments.games:
        game_of(game)  # a name that is unknown is found before the first runs
    for game in arguments.games:
        fixed = repeat(game, runs, budget, None, jobs, options)
        rows.append(summarise(game, "budget", fixed))
        if arguments.fixed:
            continue
        # a target that is met after about as many evaluations, sooner or later as the data has it
        target = float(np.median(fixed.stderr.max(axis=1)))
        stopped = repeat(game, runs, 8 * budget, target, jobs, options)
        rows.append(summarise(game, f"stderr={target:.3g}", stopped, fixed))
        size, heaviest = tails(game)
        print(f"{game}: excess kurtosis of U up to {heaviest:.3g} (at size {size})")
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    print("coverage: of nominal 95% intervals, pooled over four groups (coverage_stderr: its standard error)")
    print("group_bias: the largest mean error of a group, over the deviation of errors; chance is 1/sqrt(runs)")
    print("stop_bias: the same less what it has in common with runs of the same seeds and a fixed budget; its_chance")
    print("player_bias: the largest mean error of a player over the root mean square of its errors")
    print("group_z, player_z: the largest |mean error| over its standard error; if unbiased, 99% are below chance_z")
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out / "coverage.csv", index=False)
