"""The first thousand evaluations: errors of player values beside those of version 0.1.0, coverage, and time.

`python -m benchmarks few` runs the default method on games by name; `--old` measures the draws of 0.1.0 instead and
keeps their errors in `few_0.1.0.json`, to which others are compared. The best peer of each cell is read from
`few_peers.json`, which `python -m benchmarks peers` makes; `--markdown` prints the table of what was measured before.
`--plug-in` measures values that are not corrected.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.few_games import GAMES, load
from benchmarks.few_table import (
    OURS,
    PEERS,
    PLUG_IN,
    by_budget,
    held,
    markdown,
    mean_ratio,
    pair,
    read,
    same_cell,
    summary,
    verdict,
    write,
)
from experiments.repeats import run_all

OLD = Path(__file__).with_name("few_0.1.0.json")
BUDGETS = (64, 128, 256, 512, 1024, 20_000)
OPTIONS: dict[str, dict[str, Any]] = {
    "fgsv": {},
    PLUG_IN: {"plug_in": True},
    "0.1.0": {"opening": False, "whole_rounds": True},
}
"""Options of the default method, by the name under which errors are kept."""


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
    surprise: float
    """The mean square of the groups' errors, in standard errors; 1 where those are right."""
    unspent: int
    milliseconds: float


@cache
def warm_up() -> None:
    """Run once in each process, so that imports are in no run's time."""
    fgsv.value(fgsv.games.Airport(np.arange(1.0, 9.0)), budget=40)


def measure(task: Task) -> Outcome:
    """Run the default method once."""
    warm_up()
    game, truth = load(task.game)
    labels = np.arange(len(truth)) % 4
    start = time.process_time()
    found = fgsv.value(game, labels, budget=task.budget, seed=task.seed, **OPTIONS[task.estimator])
    seconds = time.process_time() - start
    error = found.player_values - truth
    alone = found.regroup(np.arange(len(truth)))
    return Outcome(
        float((error**2).mean() / truth.var()),
        float((np.abs(error) <= alone.half_width(0.95)).mean()),
        float((np.abs(np.bincount(labels, error)) <= found.half_width(0.95)).mean()),
        float((np.bincount(labels, error) ** 2).mean() / max((found.stderr**2).mean(), 1e-300)),
        task.budget - found.n_evaluations,
        1000 * seconds / found.n_evaluations,
    )


def cell(game: str, budget: int, runs: int, estimator: str, jobs: int) -> dict[str, object]:
    """Return the row of one game and budget."""
    tasks = [Task(game, budget, seed, estimator) for seed in range(runs)]
    found = run_all(measure, tasks, jobs=jobs, label=f"{game}, {budget}")
    return {
        "game": game,
        "n": len(load(game)[1]),
        "budget": budget,
        "runs": runs,
        **summary([each.square for each in found]),
        "players": float(np.mean([each.players for each in found])),
        "groups": float(np.mean([each.groups for each in found])),
        "surprise": float(np.sqrt(np.mean([each.surprise for each in found]))),
        "unspent": max(each.unspent for each in found),
        "ms": float(np.mean([each.milliseconds for each in found])),
    }


def compare_with_ours(rows: list[dict[str, Any]], uncorrected: list[dict[str, Any]], old: dict[str, Any]) -> None:
    """Print errors over those of 0.1.0, by the number of players, and errors of uncorrected values over these."""
    before = {(game, int(budget)): cell["error"] for game, cells in old.items() for budget, cell in cells.items()}
    for name, least, most in (("to 20", 1, 20), ("24 to 64", 24, 64), ("40 to 64", 40, 64), ("350", 350, 350)):
        print(f"{name} players, over 0.1.0: {mean_ratio([r for r in rows if least <= r['n'] <= most], before)}")
    plain = {(each["game"], each["budget"]): each["error"] for each in rows}
    if uncorrected:
        print(f"uncorrected over corrected: {mean_ratio(uncorrected, plain)}")


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("few", description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS))
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    estimators = parser.add_mutually_exclusive_group()
    estimators.add_argument("--old", action="store_true", help="measure the draws of 0.1.0, and keep their errors")
    estimators.add_argument("--plug-in", action="store_true", help="measure values that are not corrected")
    parser.add_argument("--peers", type=Path, default=PEERS, help="what `python -m benchmarks peers` measured")
    parser.add_argument("--markdown", action="store_true", help="print the table of earlier runs, and run nothing")
    arguments = parser.parse_args()
    old = json.loads(OLD.read_text(encoding="utf-8")) if OLD.exists() else {}
    peers = read(arguments.peers)
    if arguments.markdown:
        kept = sorted(read(OURS), key=lambda each: (GAMES.index(each["game"]), each["budget"]))
        plain, uncorrected = ([each for each in kept if each["estimator"] == name] for name in ("fgsv", PLUG_IN))
        pairs, others = ([pair(each, peers) for each in some] for some in (plain, uncorrected))
        print(markdown(pairs, others, old), end="\n\n")
        short = [each for each in plain if each["budget"] <= 1024]
        print(held(short), end="\n\n")
        print(by_budget(pairs), end="\n\n")
        for name, some in (("own time", short), ("own time of plug-in", uncorrected)):
            print(f"{name}: at most {max((each['ms'] for each in some), default=np.nan):.1f} ms an evaluation")
        print(f"up to 1,024: {verdict([each for each in pairs if each.budget <= 1024])}")
        print(f"beyond: {verdict([each for each in pairs if each.budget > 1024])}")
        print(f"plug-in: {verdict(others)}")
        compare_with_ours(short, uncorrected, old)
        return
    estimator = "0.1.0" if arguments.old else PLUG_IN if arguments.plug_in else "fgsv"
    rows: list[dict[str, Any]] = []
    players = {game: len(load(game)[1]) for game in arguments.games}  # a name that is unknown is found here
    for game, n in players.items():
        for budget in (each for each in arguments.budgets if each < 2**n):
            row = cell(game, budget, arguments.runs, estimator, arguments.jobs)
            if arguments.old:
                old.setdefault(game, {})[str(budget)] = {
                    "error": float(f"{row['error']:.4g}"),
                    "runs": arguments.runs,
                }
                OLD.write_text(json.dumps(old, indent=1) + "\n", encoding="utf-8")
            else:
                row["estimator"] = estimator
                write([*(each for each in read(OURS) if not same_cell(each, row)), row], OURS)
            before = old.get(game, {}).get(str(budget), {}).get("error", np.nan)
            best = pair(row, peers)
            beside = {"0.1.0": before, "ratio": row["error"] / before, "best peer": best.peer, "over it": str(best)}
            rows.append(row | beside)
            print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)
    table = pd.DataFrame(rows)
    small = table[table["budget"] <= 1024]
    compare_with_ours([each for each in rows if each["budget"] <= 1024], [], old)
    print(small.groupby("budget")[["players", "groups"]].mean().to_string())
    print(verdict([pair(each, peers) for each in rows if each["budget"] <= 1024]))
