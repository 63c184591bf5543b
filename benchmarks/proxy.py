"""How many trainings a proxy saves: `make bench-proxy`.

The game is a network of two layers that tells scanned threes from eights; its proxy is a logistic regression, trained
for thousands of coalitions at once. There are two pairs: one in which the proxy follows the network closely, and one
in which it does not. The default method runs with the proxy and without it; without it also when it learns nothing
but sizes, since the Gaussian process does a part of the proxy's work unasked.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.curves import Curve, grid_of, on_grid, relative, truth_of
from benchmarks.options import parsed
from experiments.repeats import run_all
from fgsv.packages import versions

TRUTH_SEED = 1_000_000
LONGER = 10
"""How much longer the runs without the proxy are."""


@dataclass(frozen=True)
class Pair:
    """How the scans are shared out and prepared, and how far the proxy is regularised."""

    n_players: int
    rows_each: int
    standardised: bool
    """Every pixel to variance one; else all to the unit interval, where the network is smoother."""
    C: float


PAIRS = {
    "close": Pair(n_players=140, rows_each=2, standardised=False, C=10.0),
    "rough": Pair(n_players=60, rows_each=4, standardised=True, C=1.0),
}


@cache
def games(name: str) -> tuple[Any, Any]:
    """Return a network and its proxy: minus the log loss on the scans that nobody contributes."""
    import torch
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    from fgsv.utilities.torch import torch_utility

    pair = PAIRS[name]
    X, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    kinds = [rng.permutation(np.flatnonzero(digits == digit)) for digit in (3, 8)]
    each = pair.n_players * pair.rows_each // 2
    # as many of each kind for every contributor, so that no coalition is of one class
    known = np.stack([rows[:each] for rows in kinds], axis=1).reshape(-1)
    unknown = np.concatenate([rows[each:] for rows in kinds])
    deviation = X[known].std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0) if pair.standardised else 16.0
    X = (X - X[known].mean(axis=0)) / scale
    data = (X[known], digits[known] == 8, X[unknown], digits[unknown] == 8, "neg_log_loss")
    units = np.arange(len(known)) // pair.rows_each

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))

    optimizer = partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01)
    settings: dict[str, Any] = {"optimizer": optimizer, "n_steps": 100, "device": "cpu", "units": units}
    return torch_utility(network, *data, **settings), fgsv.utility(LogisticRegression(C=pair.C), *data, units=units)


def correlations(name: str, count: int = 128) -> pd.DataFrame:
    """Return how network and proxy go together among coalitions of one size."""
    network, proxy = games(name)
    n = network.n_players
    rng = np.random.default_rng(0)
    rows = []
    for size in np.unique(np.geomspace(1, 0.8 * n, 7).astype(int)):
        masks = rng.permuted(np.tile(np.arange(n) < size, (count, 1)), axis=1)
        ours, theirs = network(masks), proxy(masks)
        rows.append({"size": int(size), "correlation": np.corrcoef(ours, theirs)[0, 1], "spread": ours.std()})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Task:
    """One run, with the proxy or without."""

    pair: str
    seed: int
    budget: int
    with_proxy: bool
    options: dict[str, Any]
    """Of the default method."""


def measure(task: Task) -> Curve:
    """Run the default method once, and note the values after each round."""
    network, proxy = games(task.pair)
    proxy = proxy if task.with_proxy else None
    rounds = fgsv.iterate(network, budget=task.budget, seed=task.seed, proxy=proxy, **task.options)
    spent, values = zip(*((result.n_evaluations, result.player_values) for result in rounds), strict=True)
    return Curve(np.array(spent), np.array(values))


def compare(name: str, budget: int, repeats: int, jobs: int) -> dict[str, Any]:
    """Measure one pair and print its tables."""
    alike = correlations(name)
    print(f"The {name} pair: network and logistic regression among coalitions of one size")
    print(alike.to_string(index=False, float_format=lambda x: f"{x:.3f}"))
    truths = [Task(name, TRUTH_SEED + seed, 8 * budget, True, {"unbiased": True}) for seed in range(2)]
    kinds: list[tuple[int, bool, dict[str, Any]]] = [
        (budget, True, {}),
        (LONGER * budget, False, {}),
        (LONGER * budget, False, {"learn": "sizes"}),
    ]
    tasks = [Task(name, seed, *kind) for kind in kinds for seed in range(repeats)]
    curves = run_all(measure, truths + tasks, jobs=jobs, label="runs")
    truth, truth_error = truth_of(curves[:2])
    runs_of = [curves[start : start + repeats] for start in range(2, len(curves), repeats)]
    helped, plain, bare = ((on_grid(runs, truth, grid_of(runs)), grid_of(runs)) for runs in runs_of)
    table = pd.DataFrame(
        {"without it": other} | relative(without, helped, budget * part)
        for other, without in (("as it is", plain), ("sizes only", bare))
        for part in (0.5, 1)
    )
    table = table.rename(columns={"spent": "trainings", "needed": "trainings without", "ratio": "saving"})
    print(f"Trainings for equal errors (200 random partitions into 4 groups), {repeats} runs each")
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print("saving: trainings without the proxy over those with it, with a 95% interval")
    print(f"error of the true values, from two runs of {8 * budget:,} trainings: {truth_error:.2g}\n")
    return {
        "correlation": alike.to_dict("records"),
        "table": table.to_dict("records"),
        "repeats": repeats,
        "truth_error": truth_error,
    }


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser("proxy", description=__doc__)
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS), choices=PAIRS)
    parser.add_argument("--budget", type=int, default=400, help="evaluations of a run with the proxy")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parsed(parser, "proxy")
    budget, repeats, jobs = arguments.budget, arguments.repeats, arguments.jobs
    record = {name: compare(name, budget, repeats, jobs) for name in arguments.pairs}
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record | {"versions": versions()}, indent=2)
    (arguments.out / "proxy.json").write_text(text + "\n", encoding="utf-8")
