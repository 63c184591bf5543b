"""Seconds to a given error when large coalitions cost more: `make bench-cost`.

Kernel ridge regression, one fit per coalition, 100 players of 20 rows each: a fit is quadratic to cubic in the rows.
A short run with a ledger comes first, and `fgsv.fit_cost` reads from it what an evaluation costs by size. Then the
default method runs with that cost and without, in turns; all that differs is `cost=`. Seconds are those of the
processor, in evaluations and in the method, so that what else the machine does counts little.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.curves import Curve, grid_of, on_grid, relative, truth_of
from benchmarks.options import parsed
from experiments.repeats import run_all
from fgsv.ledger.costs import Cost
from fgsv.packages import versions

N_PLAYERS, ROWS_EACH = 100, 20
PILOT = 300
TRUTH_SEED = 1_000_000


@cache
def game() -> Any:
    """Return kernel ridge regression on Friedman's first function, minus the mean squared error on 500 test rows."""
    from sklearn.datasets import make_friedman1
    from sklearn.kernel_ridge import KernelRidge

    n_rows = N_PLAYERS * ROWS_EACH
    X, y = make_friedman1(n_rows + 500, noise=1.0, random_state=0)
    data = (X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], "neg_mean_squared_error")
    model = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.3)
    return fgsv.utility(model, *data, units=np.arange(n_rows) // ROWS_EACH)


def measured_cost() -> Cost:
    """Return the cost by size, from the ledger of a short run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pilot.db"
        fgsv.value(game(), budget=PILOT, seed=TRUTH_SEED - 1, batch_size=4, ledger=path)
        return fgsv.fit_cost(path)


@dataclass(frozen=True)
class Task:
    """One run, with a cost or blind to it."""

    seed: int
    budget: int
    cost: Cost | None


def measure(task: Task) -> Curve:
    """Run the default method once, and note the processor's seconds after each round."""
    game()([[True] * N_PLAYERS])  # imports and first calls cost nobody
    spent, values = [], []
    start = time.process_time()
    for result in fgsv.iterate(game(), budget=task.budget, seed=task.seed, cost=task.cost):
        spent.append(time.process_time() - start)
        values.append(result.player_values)
    return Curve(np.array(spent), np.array(values))


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("cost", description=__doc__)
    parser.add_argument("--budget", type=int, default=1_000, help="evaluations of a run that is blind to the cost")
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parsed(parser, "cost")
    budget, repeats, jobs = arguments.budget, arguments.repeats, arguments.jobs
    cost = measured_cost()
    sizes = np.array([1, N_PLAYERS // 4, N_PLAYERS // 2, N_PLAYERS - 1])
    told = ", ".join(f"{1000 * c:.3g} ms at {s}" for s, c in zip(sizes, cost(sizes), strict=True))
    print(f"cost of an evaluation by size, from a ledger of {PILOT} evaluations: {told}")
    tasks = [Task(seed, factor * budget, own) for seed in range(repeats) for factor, own in ((1, None), (2, cost))]
    truths = [Task(TRUTH_SEED + seed, 6 * budget, cost) for seed in range(2)]
    curves = run_all(measure, truths + tasks, jobs=jobs, label="runs")
    truth, truth_error = truth_of(curves[:2])
    blind, aware = ((on_grid(runs, truth, grid_of(runs)), grid_of(runs)) for runs in (curves[2::2], curves[3::2]))
    end = float(blind[1][-1])
    table = pd.DataFrame([relative(aware, blind, end * part) for part in (0.25, 0.5, 1)])
    table = table.rename(columns={"spent": "seconds, blind", "needed": "seconds, cost known"})
    print(f"Seconds to equal errors (200 random partitions into 4 groups), {repeats} runs each")
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print("ratio: seconds with the cost known over seconds without, with a 95% interval")
    print(f"error of the true values, from two runs of {6 * budget:,} evaluations: {truth_error:.2g}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {"cost": vars(cost), "table": table.to_dict("records"), "repeats": repeats, "versions": versions()}
    (arguments.out / "cost.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
