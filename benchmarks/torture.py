"""Kill a run with workers again and again, resume it to the end, and compare with the undisturbed run.

    python benchmarks/torture.py --kills 100

Prints one line in the end: kills, runs resumed to the end, results that differ, committed batches lost, batches
evaluated twice (those of the calls in flight), and the processes and folders that a killed driver left behind.
Exit code 1 unless nothing differs, nothing is lost and nothing is left.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import fgsv
from fgsv.evaluation.queue import STEP_SECONDS
from fgsv.evaluation.workers import AHEAD
from fgsv.ledger import Ledger

WORKERS, BATCH, N = 2, 16, 24


class Slow:
    """A game that takes its time and writes down, in one file, which batches it has evaluated."""

    n_players = N
    fingerprint = "torture"

    def __init__(self, log: str, seconds: float, independent_rows: bool) -> None:
        self.log = log
        self.seconds = seconds
        self.independent_rows = independent_rows
        self.matrix = np.random.default_rng(0).standard_normal((N, 7))

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Evaluate, slowly."""
        time.sleep(self.seconds)
        if self.independent_rows:
            values = np.array([np.linalg.norm(mask @ self.matrix) for mask in masks])
        else:
            values = np.sqrt(((masks @ self.matrix) ** 2).sum(axis=1))
        _append(self.log, "evaluated", hashlib.sha256(np.packbits(masks, axis=1).tobytes()).hexdigest())
        return values


def _append(log: str, what: str, key: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{what} {key}\n".encode())  # one write: lines of several processes do not mix
    os.close(file)


def drive(arguments: argparse.Namespace) -> None:
    """Run to the end, unless killed before; write down each commit and the result."""
    record = Ledger.record

    def logged(self: Ledger, game: int, batches: Any, *others: Any, **options: Any) -> None:
        record(self, game, batches, *others, **options)
        for coalitions, _ in batches:
            _append(arguments.log, "committed", hashlib.sha256(coalitions).hexdigest())

    Ledger.record = logged  # type: ignore[method-assign]
    game = Slow(arguments.log, arguments.seconds, arguments.rows)
    result = fgsv.value(
        game,
        budget=arguments.evaluations,
        batch_size=BATCH,
        n_jobs=arguments.workers,
        ledger=arguments.ledger or None,
    )
    assert result.player_values is not None
    digest = hashlib.sha256(result.values.tobytes() + result.stderr.tobytes() + result.player_values.tobytes())
    Path(arguments.result).write_text(digest.hexdigest())


def descendants(root: int) -> set[int]:
    """Return the processes below one, from /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: set[int] = set()
    ahead = [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found.update(below)
        ahead += below
    return found


def alive(processes: set[int]) -> set[int]:
    """Return those that still run."""
    running = set()
    for process in processes:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.add(process)
    return running


class Campaign:
    """Kills until there are enough of them, and what came of it."""

    def __init__(self, folder: Path, seed: int, options: list[str]) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.options = options
        self.counts: Counter[str] = Counter()
        self.environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "tmp")}
        (folder / "tmp").mkdir()

    def start(self, ledger: str, log: Path, result: Path, rows: bool, workers: int) -> subprocess.Popen[bytes]:
        """Start a driver."""
        command = [sys.executable, __file__, "--drive", "--ledger", ledger, "--log", str(log)]
        command += ["--result", str(result), "--workers", str(workers), *self.options]
        command += ["--rows"] if rows else []
        with open(self.folder / "stderr", "wb") as errors:
            return subprocess.Popen(command, env=self.environment, stderr=errors)

    def undisturbed(self, rows: bool) -> tuple[str, float]:
        """Return what a run comes to that nobody disturbs, and how long it takes."""
        start = time.monotonic()
        result = self.folder / "undisturbed"
        assert self.start("", self.folder / "log", result, rows, 1).wait() == 0, (self.folder / "stderr").read_text()
        return result.read_text(), time.monotonic() - start

    def resumed(self, number: int, kills_left: int, rows: bool, expected: str, most: float) -> int:
        """Run once to the end, killed at random moments until then; return how often."""
        ledger, log, result = (self.folder / f"{number}.{kind}" for kind in ("db", "log", "result"))
        kills = 0
        while True:
            driver = self.start(str(ledger), log, result, rows, WORKERS)
            try:
                # half of the kills fall into the evaluations, wherever these are; the others anywhere
                if self.random.random() < 0.5:
                    self.wait_for_growth(driver, log)
                    driver.wait(self.random.uniform(0, 0.5))
                else:
                    driver.wait(self.random.uniform(0, most) if kills < kills_left else None)
            except subprocess.TimeoutExpired:
                if kills >= kills_left:
                    driver.wait()
                    break
                self.kill(driver, ledger, log)
                kills += 1
                continue
            break
        assert driver.returncode == 0, (self.folder / "stderr").read_text()
        self.counts["runs"] += 1
        self.counts["differences"] += result.read_text() != expected
        evaluated = [line for line in log.read_text().splitlines() if line.startswith("evaluated")]
        self.counts["twice"] += len(evaluated) - len(set(evaluated))
        return kills

    def wait_for_growth(self, driver: subprocess.Popen[bytes], log: Path) -> None:
        """Wait until a driver has evaluated something, or has ended."""
        size = log.stat().st_size if log.exists() else 0
        while driver.poll() is None and (log.stat().st_size if log.exists() else 0) == size:
            time.sleep(0.005)

    def kill(self, driver: subprocess.Popen[bytes], ledger: Path, log: Path) -> None:
        """Kill a driver, and see what it leaves."""
        below = descendants(driver.pid)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        deadline = time.monotonic() + 30  # a busy machine is slow, an orphan stays
        while (left := alive(below)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.counts["kills"] += 1
        self.counts["orphans"] += len(left)
        for process in left:
            os.kill(process, signal.SIGKILL)
        lines = log.read_text().splitlines() if log.exists() else []
        committed = {line.split()[1] for line in lines if line.startswith("committed")}
        held = set()
        if ledger.exists() and ledger.stat().st_size:
            with Ledger(ledger, read_only=True) as opened:
                held = {hashlib.sha256(batch.coalitions).hexdigest() for batch in opened.batches()}
        self.counts["lost"] += len(committed - held)


def campaign(kills: int, seed: int, seconds: float, evaluations: int, limit: float) -> int:
    """Run the campaign and print what came of it; return the exit code."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        options = ["--seconds", str(seconds), "--evaluations", str(evaluations)]
        state = Campaign(Path(folder), seed, options)
        expected: dict[bool, tuple[str, float]] = {}
        number = 0
        while state.counts["kills"] < kills and time.monotonic() - start < limit:
            rows = number % 2 == 1
            if rows not in expected:
                expected[rows] = state.undisturbed(rows)
            state.resumed(number, min(10, kills - state.counts["kills"]), rows, *expected[rows])
            number += 1
        deadline = time.monotonic() + 5
        while (left := [path.name for path in (Path(folder) / "tmp").iterdir()]) and time.monotonic() < deadline:
            time.sleep(0.05)
    report = {
        "kills": state.counts["kills"],
        "runs resumed to the end": state.counts["runs"],
        "differences": state.counts["differences"],
        "commits lost": state.counts["lost"],
        "batches evaluated twice": state.counts["twice"],
        "orphans": state.counts["orphans"],
        "folders left": left,
        "seconds": round(time.monotonic() - start, 1),
    }
    print(json.dumps(report))
    bad = state.counts["differences"] + state.counts["lost"] + state.counts["orphans"] + len(left)
    # batches in flight, and those evaluated while others are recorded
    most = state.counts["kills"] * WORKERS * (AHEAD + STEP_SECONDS / seconds)
    return int(bad > 0 or state.counts["twice"] > most or state.counts["kills"] < kills)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=1200, help="seconds after which no further run is started")
    parser.add_argument("--seconds", type=float, default=0.02, help="what a batch takes")
    parser.add_argument("--evaluations", type=int, default=1500, help="of a run")
    parser.add_argument("--drive", action="store_true", help="be the driver that is killed")
    for name in ("ledger", "log", "result"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--rows", action="store_true", help="a game with independent rows")
    parser.add_argument("--workers", type=int, default=WORKERS)
    arguments = parser.parse_args()
    if arguments.drive:
        drive(arguments)
    else:
        a = arguments
        sys.exit(campaign(a.kills, a.seed, a.seconds, a.evaluations, a.limit))


if __name__ == "__main__":
    main()
