"""How far the methods are off at an equal budget: `make bench`.

Root mean squared errors of group values over repeated runs, and the ratios of the paper's Algorithm 1 and of the
best baseline to the default method, as it is where evaluations cost something.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

import fgsv
from benchmarks.options import parsed
from benchmarks.problems import Case, case
from experiments.repeats import read_method, run_all

OURS, PAPERS = "gp, learn='kernel'", "finite_difference"
PLAYERS, PLAIN = "gp, learn='players'", "gp, learn='sizes'"
BASELINES = (
    "permutation",
    "group_testing",
    "complementary",
    "complementary, unseen='zero'",
    "one_for_all",
    "one_for_all, unseen='zero'",
    "kernelshap",
    "kernelshap, paired=True",
    "unbiased_kernelshap",
    "unbiased_kernelshap, paired=True",
    "leverageshap",
)
COMPLETED = ("complementary", "one_for_all")
"""Better than published: their printed formulas take a mean that nothing was drawn for as zero."""
N_PARTITIONS = 200


@dataclass(frozen=True)
class Task:
    """One run; `groups` is named where the method values one partition at a time."""

    case: str
    method: str
    seed: int
    budget: int
    groups: str | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The mean squared errors of one run, by partition, and what it took."""

    squares: dict[str, float]
    n_evaluations: int
    seconds: float


RANDOM = "random"


def measure(task: Task) -> Outcome:
    """Run a method once; where there are player values, judge them by every partition."""
    problem = case(task.case)
    name, options = read_method(task.method)
    groups = None if task.groups is None else problem.groups[task.groups]
    start = time.perf_counter()
    result = fgsv.value(problem.game, groups, method=name, budget=task.budget, seed=task.seed, **options)
    seconds = time.perf_counter() - start
    if result.player_values is None:
        assert groups is not None
        squares = {str(task.groups): float(np.mean((result.values - groups.sums(problem.truth)) ** 2))}
    else:
        error = result.player_values - problem.truth
        squares = {label: float(np.mean(named.sums(error) ** 2)) for label, named in problem.groups.items()}
        squares[RANDOM] = float(np.mean((random_groups(problem.n_players) @ error) ** 2))
    return Outcome(squares, result.n_evaluations, seconds)


def random_groups(n: int) -> np.ndarray:
    """Return (800, n) memberships: 200 random partitions into 4 equal groups."""
    rng = np.random.default_rng(0)
    labels = rng.permuted(np.tile(np.arange(n) % 4, (N_PARTITIONS, 1)), axis=1)
    return (labels[:, None, :] == np.arange(4)[:, None]).reshape(-1, n).astype(float)


def ratio(above: np.ndarray, below: np.ndarray, n_resamples: int = 4000) -> tuple[float, float, float]:
    """Return the ratio of two root mean squared errors, with a 95% interval by resampling the runs."""
    rng = np.random.default_rng(0)

    def resampled(squares: np.ndarray) -> np.ndarray:
        return squares[rng.integers(0, len(squares), size=(n_resamples, len(squares)))].mean(axis=1)

    ratios = np.sqrt(resampled(above) / resampled(below))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(np.sqrt(above.mean() / below.mean())), float(low), float(high)


def tasks_of(name: str, methods: list[str], repeats: int, budget: int) -> list[Task]:
    """Return the runs for one game; Algorithm 1 needs one for each partition."""
    partitions = list(case(name).groups)
    return [
        Task(name, method, seed, budget, groups)
        for seed in range(repeats)
        for method in methods
        for groups in (partitions if method == PAPERS else [None])
    ]


def summarise(tasks: list[Task], outcomes: list[Outcome]) -> pd.DataFrame:
    """Return a row for each game, partition and method; `squares` holds the runs' mean squared errors."""
    rows: dict[tuple[str, str, str], list[tuple[float, Outcome]]] = {}
    for task, outcome in zip(tasks, outcomes, strict=True):
        for groups, square in outcome.squares.items():
            rows.setdefault((task.case, groups, task.method), []).append((square, outcome))
    return pd.DataFrame(
        {
            "game": game,
            "groups": groups,
            "method": method,
            "rmse": np.sqrt(np.mean([square for square, _ in runs])),
            "runs": len(runs),
            "evaluations": round(np.mean([outcome.n_evaluations for _, outcome in runs])),
            "seconds": np.mean([outcome.seconds for _, outcome in runs]),
            "squares": np.array([square for square, _ in runs]),
        }
        for (game, groups, method), runs in rows.items()
    )


def learnings_worth(mine: pd.DataFrame) -> list[str]:
    """Return what an evaluation must cost for learning to take less time than the evaluations it saves."""
    over_partitions = mine[mine.groups == RANDOM].set_index("method")
    if PLAIN not in over_partitions.index:
        return []
    lines, plain = [], over_partitions.loc[PLAIN]
    for method in [each for each in (OURS, PLAYERS) if each in over_partitions.index]:
        ours = over_partitions.loc[method]
        times = float(plain.squares.mean() / ours.squares.mean())
        least = (ours.seconds - plain.seconds) / (plain.evaluations * (times - 1)) * 1e6
        pays = f"it pays where one takes more than {least:.0f} us" if times > 1 else "it never pays"
        lines.append(f"  {method}: without learning the same error takes {times:.1f} times the evaluations: {pays}")
    return lines


def report(table: pd.DataFrame, problems: dict[str, Case]) -> list[str]:
    """Return the lines that say how the methods compare."""
    lines = []
    for name, problem in problems.items():
        mine = table[table.game == name]
        total = float(problem.truth.sum())
        lines.append(f"\n{name}: n = {problem.n_players}, U(N) - U(0) = {total:.4g}")
        lines.append(f"  true values: {problem.source}")
        for groups, partition in problem.groups.items():
            stderr = problem.truth_stderr(partition)
            if stderr:
                lines.append(f"  standard error of the true values by {groups}: {stderr:.2g}")
        wide = mine.pivot_table(index="method", columns="groups", values="rmse", sort=False)
        wide = wide[[*problem.groups, RANDOM]].rename(columns={RANDOM: f"{N_PARTITIONS} random"})
        wide = wide.sort_values(wide.columns[0])
        extra = mine.groupby("method")[["runs", "evaluations", "seconds"]].mean()
        extra = extra.astype({"runs": int, "evaluations": int})
        lines.append(wide.join(extra).to_string(float_format=lambda x: f"{x:.4g}", na_rep="-"))
        lines += learnings_worth(mine)
        for groups in problem.groups:
            squares = mine[mine.groups == groups].set_index("method")["squares"]
            if OURS not in squares:
                continue
            rivals = {"Algorithm 1": PAPERS} if PAPERS in squares else {}
            baselines = [method for method in squares.index if method in BASELINES]
            published = [method for method in baselines if method not in COMPLETED]
            for label, methods in (("best baseline", baselines), ("best baseline as published", published)):
                if methods:
                    best = min(methods, key=lambda method: squares[method].mean())
                    rivals[f"{label} ({best})"] = best
            for label, rival in rivals.items():
                value, low, high = ratio(squares[rival], squares[OURS])
                lines.append(
                    f"  {name} by {groups}: error of {label} / default = {value:.2f}, 95% {low:.2f} to {high:.2f}"
                )
    return lines


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser("accuracy", description=__doc__)
    parser.add_argument("--games", nargs="+", default=["sou64", "sou128", "sou256", "diabetes"])
    parser.add_argument("--methods", nargs="+", default=[OURS, PLAYERS, PLAIN, PAPERS, *BASELINES])
    parser.add_argument("--budget", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parsed(parser, "accuracy")
    problems = {name: case(name) for name in arguments.games}
    options = (arguments.methods, arguments.repeats, arguments.budget)
    tasks = [task for name in problems for task in tasks_of(name, *options)]
    outcomes = run_all(measure, tasks, jobs=arguments.jobs, label="runs")
    table = summarise(tasks, outcomes)
    print(f"Root mean squared errors of group values, {arguments.budget:,} evaluations in total")
    print("\n".join(report(table, problems)))
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.drop(columns="squares").to_csv(arguments.out / "accuracy.csv", index=False)
    print(f"\nThe table is in {arguments.out / 'accuracy.csv'}.")
