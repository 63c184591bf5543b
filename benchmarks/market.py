"""What starting from last month's ledger saves, and what it takes to open one of a million evaluations.

`python -m benchmarks market` prints the errors of group values over those of a fresh run as long as the old one, and
of one with as many evaluations, where players leave or join; `--bias 1000` mean errors and coverage over that many
runs on games of few players; `--open` the seconds and the memory for a large ledger. `--out` keeps the lines as JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import market_bias, market_errors
from fgsv.coalitions import Coalitions, pack
from fgsv.game import Game
from fgsv.ledger import Ledger, Outcome, known
from fgsv.ledger.copying import take_over

N, LEAVE, JOIN, BATCH = 60, 3, 3, 256


def game(players: range) -> Game:
    """Return a game of these players, which says what they are and costs nothing."""
    return Game(lambda masks: np.sqrt(masks.sum(axis=1)), len(players), frame="roots", players=list(players))


def write(path: Path, n_evaluations: int) -> None:
    """Write a ledger of uniform draws by a recorded law."""
    rng = np.random.default_rng(0)
    with Ledger(path) as ledger:
        number = ledger.game(game(range(N)))
        run = ledger.begin_run(number, {"seed": 0, "method": "gp"})
        ledger.add_law(run, 0, {"first": 2})
        for _ in range(0, n_evaluations, 64 * BATCH):
            batches = []
            for _ in range(64):
                masks = rng.random((BATCH, N)) < rng.random((BATCH, 1))
                values = np.sqrt(masks.sum(axis=1, dtype=float))[:, None]
                batches.append((pack(Coalitions.from_masks(masks)), Outcome(values, 0.1)))
            ledger.record(number, batches, run=run)


def one(path: Path, copy: Path | None) -> None:
    """Open a ledger for next month's game and print what that took."""
    start, next_month = time.perf_counter(), game(range(LEAVE, N + JOIN))
    found = known(next_month, [path])
    seconds = time.perf_counter() - start
    if copy is not None:
        with Ledger(copy) as ledger:
            take_over(ledger, next_month, [path])
    print(
        json.dumps(
            {
                "recorded": found.n_recorded,
                "apply": len(found),
                "seconds to open": round(seconds, 1),
                "seconds to open and take over": round(time.perf_counter() - start, 1),
                "MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                "sha256": found.sha256[:16],
            }
        )
    )


def show(found: pd.DataFrame) -> None:
    """Print a table."""
    print(found.to_string(index=False, float_format=lambda x: f"{x:.4g}"), flush=True)


def keep(found: pd.DataFrame, path: Path | None) -> None:
    """Write the results so far."""
    if path is not None:
        found.to_json(path, orient="records", indent=1)


def _listed(names: Iterable[str], biased: Iterable[str]) -> str:
    return f"{', '.join(map(repr, names))}; with --bias {', '.join(map(repr, biased))} (default: all)"


def _chosen(
    parser: argparse.ArgumentParser, option: str, given: list[str] | None, possible: Iterable[str]
) -> list[str]:
    """Return what was chosen, or all of it; games and shifts of --bias are others."""
    unknown = set(given or ()) - set(possible)
    if unknown:
        parser.error(f"{option} {', '.join(map(repr, unknown))}: expected some of {', '.join(map(repr, possible))}")
    return list(given or possible)


def main() -> None:
    """Measure in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open", action="store_true", help="only what it takes to open a large ledger")
    parser.add_argument("--games", nargs="+", metavar="GAME", help=_listed(market_errors.GAMES, market_bias.GAMES))
    parser.add_argument(
        "--shifts", nargs="+", metavar="SHIFT", help=_listed(market_errors.SHIFTS, market_bias.SHIFTS)
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--old", type=int, default=market_errors.OLD_LENGTH, metavar="N", help="evaluations of the old run"
    )
    parser.add_argument("--bias", type=int, metavar="RUNS", help="mean errors and coverage over so many runs, only")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the results as JSON")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--copy", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    module = market_bias if arguments.bias else market_errors
    games = _chosen(parser, "--games", arguments.games, module.GAMES)
    shifts = _chosen(parser, "--shifts", arguments.shifts, module.SHIFTS)
    if arguments.one:
        one(arguments.one, arguments.copy)
    elif not arguments.open:
        found = pd.DataFrame()
        if arguments.bias:
            for row in market_bias.rows(games, shifts, arguments.bias, arguments.jobs):
                show(row)
                found = pd.concat([found, row])
                keep(found, arguments.out)
        else:
            found = market_errors.run(games, shifts, arguments.runs, arguments.jobs, arguments.old)
            keep(found, arguments.out)
            found = market_errors.table(found, arguments.old)
        show(found)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "march.db"
            write(path, arguments.evaluations)
            for more in ([], ["--copy", str(Path(folder) / "april.db")]):
                command = [sys.executable, "-m", "benchmarks", "market", "--one", str(path), *more]
                print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
