"""What the default method needs as the number of players grows: `make bench-scale`.

1. Evaluations until every group's standard error is at most a given one, from 10^3 to 10^6 players.
2. The library's own seconds and memory, beside the game's, with 10^6 players and 2,000 evaluations.
3. The library's own microseconds per evaluation on a game of 100 players that costs next to nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.options import parsed
from experiments.repeats import read_method, run_all
from fgsv.coalitions import Coalitions
from fgsv.packages import optional
from fgsv.plots import new_figure


class Slope:
    """A regression through the origin: U(S) = 1 - (1 - t)^2, t = sum of x y / (1 + sum of x^2) over S.

    The true slope is one, so that 1 - U is the squared error of a ridge estimate, 1 for nobody, near 0 for many.
    One more row moves it by O(1/s), as it does a trained model. A coalition costs its shorter list.
    """

    def __init__(self, n_players: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=n_players)
        self.n_players = n_players
        self._columns = (x * (x + rng.normal(size=n_players)), x * x)
        self.seconds = 0.0

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Evaluate (m, n) coalitions."""
        return self.evaluate_lists(Coalitions.from_masks(masks))

    def evaluate_lists(self, coalitions: Coalitions) -> np.ndarray:
        """Evaluate coalitions given as lists."""
        start = time.perf_counter()
        xy, xx = (self._sums(column, coalitions) for column in self._columns)
        values = 1 - (1 - xy / (1 + xx)) ** 2
        self.seconds += time.perf_counter() - start
        return values

    @staticmethod
    def _sums(column: np.ndarray, coalitions: Coalitions) -> np.ndarray:
        listed = np.append(column[coalitions.listed], 0.0)  # the zero is there for a last list that is empty
        sums = np.where(coalitions.n_listed > 0, np.add.reduceat(listed, coalitions.starts[:-1]), 0.0)
        return np.where(coalitions.inverted, column.sum() - sums, sums)


@cache
def slope(n: int) -> Slope:
    """Return the game of n players, made once in a process."""
    return Slope(n)


def reach(task: tuple[int, float, int, int]) -> tuple[int, np.ndarray]:
    """Return the evaluations until every standard error is at most the given one, and the values."""
    n, stderr, seed, budget = task
    result = fgsv.value(slope(n), np.arange(n) % 4, stderr=stderr, budget=budget, seed=seed)
    if float(np.max(result.stderr)) > stderr:
        raise RuntimeError(f"n = {n}: a standard error of {stderr} is not reached in {budget} evaluations")
    return result.n_evaluations, result.values


def growth(sizes: list[int], stderr: float, repeats: int, budget: int, jobs: int) -> pd.DataFrame:
    """Return, for each n, the evaluations that the error takes, and the same over (ln n)^2."""
    tasks = [(n, stderr, seed, budget) for n in sizes for seed in range(repeats)]
    results = run_all(reach, tasks, jobs=jobs, label="evaluations for a given error")
    rows = []
    for n in sizes:
        mine = [result for task, result in zip(tasks, results, strict=True) if task[0] == n]
        evaluations = np.array([count for count, _ in mine])
        spread = np.array([values for _, values in mine]).std(axis=0, ddof=1)
        rows.append(
            {
                "n": n,
                "evaluations": evaluations.mean(),
                "stderr": evaluations.std(ddof=1) / np.sqrt(repeats),
                "per ln(n)^2": evaluations.mean() / np.log(n) ** 2,
                "asked error": stderr,
                "spread of values": np.sqrt(np.mean(spread**2)),
            }
        )
    return pd.DataFrame(rows)


def peak_mib() -> float:
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # where it is, `getrusage` counts what the parent had held, too
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def probe(n: int, n_groups: int, budget: int) -> dict[str, Any]:
    """Run once and return the library's own seconds, and the memory that it took beyond the game."""
    game = Slope(n)
    groups = fgsv.Partition.of(np.arange(n) % n_groups)
    before = peak_mib()
    start = time.perf_counter()
    result = fgsv.value(game, groups, budget=budget)
    seconds = time.perf_counter() - start
    return {
        "players": n,
        "groups": n_groups,
        "evaluations": result.n_evaluations,
        "own seconds": seconds - game.seconds,
        "game seconds": game.seconds,
        "own MiB": peak_mib() - before,
    }


def probe_alone(n: int, n_groups: int, budget: int) -> dict[str, Any]:
    """Probe in a process of its own: a peak of memory is a process's."""
    call = f"import json; from benchmarks.scale import probe; print(json.dumps(probe({n}, {n_groups}, {budget})))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def overhead(method: str, n: int, budget: int) -> dict[str, Any]:
    """Return the library's own microseconds per evaluation on a game that sums one column."""
    name, options = read_method(method)
    in_game = 0.0

    def function(masks: np.ndarray) -> np.ndarray:
        nonlocal in_game
        start = time.perf_counter()
        values = masks[:, 0] + 0.5 * masks[:, -1]
        in_game += time.perf_counter() - start
        return values

    game = fgsv.Game(function, n, batch_size=4096)
    fgsv.value(game, np.arange(n) % 4, method=name, budget=5000, **options)
    in_game = 0.0
    start = time.perf_counter()
    result = fgsv.value(game, np.arange(n) % 4, method=name, budget=budget, **options)
    own = time.perf_counter() - start - in_game
    return {"method": method, "evaluations": result.n_evaluations, "own us": own / result.n_evaluations * 1e6}


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw the evaluations against n, with a curve that grows as (ln n)^2 through the first point."""
    figure = new_figure((5, 4))
    axis = figure.subplots()
    axis.errorbar(table["n"], table["evaluations"], yerr=2 * table["stderr"], fmt="o-", label="default method")
    curve = table["evaluations"].iloc[0] * (np.log(table["n"]) / np.log(table["n"].iloc[0])) ** 2
    axis.plot(table["n"], curve, "--", color="0.5", label="growth as (ln n)$^2$")
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("players")
    axis.set_ylabel(f"evaluations for a standard error of {table['asked error'].iloc[0]:g}")
    axis.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run the three parts and print their tables."""
    parser = argparse.ArgumentParser("scale", description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--stderr", type=float, default=0.02)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--most", type=int, default=50_000, help="evaluations at which a run gives up")
    parser.add_argument("--probe-players", type=int, default=1_000_000)
    parser.add_argument("--probe-budget", type=int, default=2000)
    parser.add_argument("--overhead-budget", type=int, default=200_000)
    parser.add_argument("--methods", nargs="+", default=["gp, learn='sizes'", *fgsv.METHODS])
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parsed(parser, "scale")
    arguments.out.mkdir(parents=True, exist_ok=True)
    optional("matplotlib", "figures", "plots")  # before an hour is spent

    def show(title: str, name: str, table: pd.DataFrame) -> None:
        print(f"\n{title}\n{table.to_string(index=False, float_format=lambda x: f'{x:.4g}')}")
        table.to_csv(arguments.out / f"{name}.csv", index=False)

    rows = [overhead(method, 100, arguments.overhead_budget) for method in arguments.methods]
    show("Own microseconds per evaluation, n = 100", "overhead", pd.DataFrame(rows))
    probes = [probe_alone(arguments.probe_players, k, arguments.probe_budget) for k in (4, 1000)]
    show("Own seconds and memory", "memory", pd.DataFrame(probes))
    table = growth(arguments.sizes, arguments.stderr, arguments.repeats, arguments.most, arguments.jobs)
    show("Evaluations for a given error", "growth", table)
    draw(table, arguments.out / "growth.png")
