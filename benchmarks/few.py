"""Errors of player values with few evaluations beside those before and the best peer's, coverage, and time.

`python -m benchmarks few` runs the default method on games by name. A cell is kept once all its runs are done, and a
later call goes on with those that are missing. Errors of the default method before this one are in
`few_before.json`; the best peer of each cell is read from `few_peers.json`, which `python -m benchmarks peers` makes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.few_games import GAMES, load
from benchmarks.few_table import (
    BEFORE,
    DEFAULT,
    OURS,
    PEERS,
    UNBIASED,
    by_budget,
    markdown,
    over,
    pair,
    read,
    same_cell,
    summaries,
    summary,
    verdict,
    write,
)
from experiments.repeats import each_of, read_method

BUDGETS = (64, 128, 256, 512, 1024, 2048)
OF_FEW_PLAYERS = (16, 32)
"""Further budgets for games of at most eight players."""


@dataclass(frozen=True)
class Task:
    """One run."""

    game: str
    budget: int
    seed: int
    estimator: str


@dataclass(frozen=True)
class Outcome:
    """What one run gave: the mean squared error over the variance of the values, and what intervals held."""

    square: float
    players: float
    groups: float
    width: float
    """Of the players' intervals, half of it and on average, over the standard deviation of the values."""
    unspent: int
    milliseconds: float


@cache
def warm_up() -> None:
    """Run once in each process, so that imports are in no run's time."""
    fgsv.value(fgsv.games.Airport(np.arange(1.0, 9.0)), budget=40)


def measure(task: Task) -> Outcome:
    """Run the method once."""
    warm_up()
    game, truth = load(task.game)
    labels = np.arange(len(truth)) % 4
    name, options = read_method(task.estimator)
    start = time.process_time()
    found = fgsv.value(game, labels, method=name, budget=task.budget, seed=task.seed, **options)
    seconds = time.process_time() - start
    error = found.player_values - truth
    half_widths = found.regroup(np.arange(len(truth))).half_width(0.95)
    return Outcome(
        float((error**2).mean() / truth.var()),
        float((np.abs(error) <= half_widths).mean()),
        float((np.abs(np.bincount(labels, error)) <= found.half_width(0.95)).mean()),
        float(half_widths.mean() / truth.std()),
        task.budget - found.n_evaluations,
        1000 * seconds / found.n_evaluations,
    )


def runs_of(budget: int, runs: int) -> int:
    """Return how many runs a cell has: long ones differ less, and take long."""
    return runs if budget <= BUDGETS[-1] else max(2, runs // 5)


def row(game: str, budget: int, estimator: str, found: list[Outcome]) -> dict[str, Any]:
    """Return the row of one game and budget."""
    return {
        "game": game,
        "n": len(load(game)[1]),
        "budget": budget,
        "runs": len(found),
        **summary([each.square for each in found]),
        "players": float(np.mean([each.players for each in found])),
        "groups": float(np.mean([each.groups for each in found])),
        "width": float(f"{np.mean([each.width for each in found]):.4g}"),
        "unspent": max(each.unspent for each in found),
        "ms": round(float(np.mean([each.milliseconds for each in found])), 3),
        "estimator": estimator,
    }


def show(rows: list[dict[str, Any]], before: list[dict[str, Any]], peers: list[dict[str, Any]]) -> None:
    """Print the summaries of some cells."""
    pairs = [pair(each, peers) for each in rows]
    print(summaries(rows, before), end="\n\n")
    print(by_budget(pairs), end="\n\n")
    print(verdict(pairs))


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("few", description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS), help="5000 and 20000, for example")
    parser.add_argument("--runs", type=int, default=30, help="of a cell; a fifth of them beyond 2,048 evaluations")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--estimator", default=DEFAULT, help=f"with options, such as {UNBIASED!r} (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=OURS, help="where cells are kept (default: %(default)s)")
    parser.add_argument("--peers", type=Path, default=PEERS, help="what `python -m benchmarks peers` measured")
    parser.add_argument("--markdown", action="store_true", help="print the tables of earlier runs, and run nothing")
    asked = parser.parse_args()
    before, peers = read(BEFORE), read(asked.peers)
    if asked.markdown:
        kept = sorted(read(asked.out), key=lambda each: (GAMES.index(each["game"]), each["budget"]))
        by_name = {name: [each for each in kept if each["estimator"] == name] for name in (DEFAULT, UNBIASED)}
        pairs = {name: [pair(each, peers) for each in some] for name, some in by_name.items()}
        print(markdown(pairs[DEFAULT], pairs[UNBIASED], before), end="\n\n")
        for name, some in by_name.items():
            if some:
                print(f"{name}\n")
                show(some, before, peers)
        return
    players = {game: len(load(game)[1]) for game in asked.games}  # a name that is unknown is found here
    cells = [
        {"game": game, "budget": budget, "estimator": asked.estimator, "runs": runs_of(budget, asked.runs)}
        for game, n in players.items()
        for budget in (*OF_FEW_PLAYERS[: 2 * (n <= 8)], *asked.budgets)
        if (n + 2 if asked.estimator == UNBIASED else 0) <= budget < 2**n
    ]
    cells.sort(key=lambda each: -each["budget"])  # the longest runs first
    kept = [each for each in read(asked.out) if any(same_cell(each, other) for other in cells)]
    rows = [each for each in kept if any(same_cell(each, other) and each["runs"] >= other["runs"] for other in cells)]
    missing = [each for each in cells if not any(same_cell(each, other) for other in rows)]
    tasks = [
        Task(each["game"], each["budget"], seed, asked.estimator) for each in missing for seed in range(each["runs"])
    ]
    found = each_of(measure, tasks, jobs=asked.jobs, label=f"few, {asked.estimator}")
    for cell in missing:
        new = row(cell["game"], cell["budget"], asked.estimator, list(islice(found, cell["runs"])))
        write([*(each for each in read(asked.out) if not same_cell(each, new)), new], asked.out)
        best = pair(new, peers)
        line = new | {"over before": over(new, before), "best peer": best.peer, "over it": str(best)}
        print(pd.DataFrame([line]).to_string(index=False, header=cell is missing[0]), flush=True)
        rows.append(new)
    show(rows, before, peers)
