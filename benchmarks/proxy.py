"""How many trainings a proxy saves: `make bench-proxy`.

The game is a network of two layers that tells scanned threes from eights, 60 contributors with four scans each; its
proxy is a logistic regression, trained for thousands of coalitions at once. The default method runs with the proxy
and without it, as it is and without its surrogate, which does a part of the proxy's work unasked.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.curves import Curve, grid_of, on_grid, relative, truth_of
from fgsv.experiments.repeats import run_all, versions

N_PLAYERS, ROWS_EACH = 60, 4
TRUTH_SEED = 1_000_000
SIZES = (1, 2, 4, 8, 16, 32, 48)
LONGER = 6
"""How much longer the runs without the proxy are."""


@cache
def games() -> tuple[Any, Any]:
    """Return the network and its proxy: minus the log loss on the scans that nobody contributes."""
    import torch
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from fgsv.utilities.torch import torch_utility

    X, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    kinds = [rng.permutation(np.flatnonzero(digits == digit)) for digit in (3, 8)]
    each = N_PLAYERS * ROWS_EACH // 2
    # two of each kind for every contributor, so that no coalition is of one class
    known = np.stack([rows[:each] for rows in kinds], axis=1).reshape(-1)
    unknown = np.concatenate([rows[each:] for rows in kinds])
    scaler = StandardScaler().fit(X[known])
    table, test = scaler.transform(X[known]), scaler.transform(X[unknown])
    data = (table, digits[known] == 8, test, digits[unknown] == 8, "neg_log_loss")
    units = np.arange(len(known)) // ROWS_EACH

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))

    optimizer = partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01)
    settings = {"optimizer": optimizer, "n_steps": 100, "device": "cpu", "units": units}
    return torch_utility(network, *data, **settings), fgsv.utility(LogisticRegression(), *data, units=units)


def correlations(count: int = 128) -> pd.DataFrame:
    """Return how network and proxy go together among coalitions of one size."""
    network, proxy = games()
    rng = np.random.default_rng(0)
    rows = []
    for size in SIZES:
        masks = rng.permuted(np.tile(np.arange(N_PLAYERS) < size, (count, 1)), axis=1)
        ours, theirs = network(masks), proxy(masks)
        rows.append({"size": size, "correlation": np.corrcoef(ours, theirs)[0, 1], "spread": ours.std()})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Task:
    """One run, with the proxy or without."""

    seed: int
    budget: int
    with_proxy: bool
    surrogate: bool = True


def measure(task: Task) -> Curve:
    """Run the default method once, and note the values after each round."""
    network, proxy = games()
    settings = {"proxy": proxy if task.with_proxy else None, "surrogate": task.surrogate}
    rounds = fgsv.iterate(network, budget=task.budget, seed=task.seed, **settings)
    spent, values = zip(*((result.n_evaluations, result.player_values) for result in rounds), strict=True)
    return Curve(np.array(spent), np.array(values))


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser("proxy", description=__doc__)
    parser.add_argument("--budget", type=int, default=400, help="evaluations of a run with the proxy")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("bench-out/proxy"))
    arguments = parser.parse_args()
    budget, repeats = arguments.budget, arguments.repeats
    alike = correlations()
    print("Network and logistic regression among coalitions of one size")
    print(alike.to_string(index=False, float_format=lambda x: f"{x:.3f}"))
    truths = [Task(TRUTH_SEED + seed, 8 * budget, True) for seed in range(2)]
    tasks = [
        Task(seed, budget if with_proxy else LONGER * budget, with_proxy, surrogate)
        for surrogate in (True, False)
        for with_proxy in (False, True)
        for seed in range(repeats)
    ]
    curves = run_all(measure, truths + tasks, jobs=arguments.jobs, label="runs")
    truth, truth_error = truth_of(curves[:2])
    kinds = [curves[start : start + repeats] for start in range(2, len(curves), repeats)]
    plain, helped, bare, bare_helped = ((on_grid(runs, truth, grid_of(runs)), grid_of(runs)) for runs in kinds)
    table = pd.DataFrame(
        {"with proxy, and": name, "without": other} | relative(without, known, budget * part)
        for name, other, without, known in (
            ("surrogate", "surrogate", plain, helped),
            ("nothing", "nothing", bare, bare_helped),
            ("surrogate", "nothing", bare, helped),
        )
        for part in (0.5, 1)
    )
    table = table.rename(columns={"spent": "trainings", "needed": "trainings without", "ratio": "saving"})
    print(f"Trainings for equal errors (200 random partitions into 4 groups), {repeats} runs each")
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print("saving: trainings without the proxy over those with it, with a 95% interval")
    print(f"error of the true values, from two runs of {8 * budget:,} trainings: {truth_error:.2g}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {
        "correlation": alike.to_dict("records"),
        "table": table.to_dict("records"),
        "repeats": repeats,
        "truth_error": truth_error,
        "versions": versions(),
    }
    (arguments.out / "proxy.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
