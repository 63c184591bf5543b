"""How busy workers are: a game that sleeps, longer for larger coalitions, on four kinds of workers.

    python -m benchmarks busy --workers 16 --kinds dask    # one line of the table
    python -m benchmarks busy --joining                    # Dask: three workers join one after 4 s

Busy is the time inside the game over the time of all workers, from when all of them are up to the end of the run.
The ideal is the shortest time possible: the work divided by the workers, but no less than the longest evaluation.
Processor seconds are those of this process, which draws, learns and records.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
from numpy.typing import NDArray

import fgsv

N = 40
SIZES = ((4, 64), (16, 256), (64, 512))
KINDS = ("threads", "processes", "dask", "ray")
BATCHES, BATCH_SECONDS, JOIN_SECONDS = 31, 1.2, 4.0
"""Batches of the run that workers join, what each takes, and when three workers join one."""


@dataclass(frozen=True)
class Sleeping:
    """A curved game whose evaluations sleep, and write down how long."""

    log: str
    seconds: float
    per_member: float
    n_players: int = N
    fingerprint: str = "sleeping"
    independent_rows: bool = True

    def __call__(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return (m,) values, slowly."""
        weights = 1 + np.cos(np.arange(N)) ** 2
        for mask in masks:
            asleep = self.seconds + self.per_member * mask.sum()
            time.sleep(asleep)
            file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{asleep}\n".encode())  # one write: lines of several workers do not mix
            os.close(file)
        return np.sqrt(masks @ weights) + 0.1 * np.sin(masks @ np.arange(N))


@contextmanager
def workers(kind: str, count: int) -> Iterator[None]:
    """Have so many workers of a kind in the block; in threads of one process where there are many on Dask."""
    if kind == "dask":
        import distributed

        n_processes = min(count, 4)
        with (
            distributed.LocalCluster(
                n_workers=n_processes, threads_per_worker=count // n_processes, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster),
            joblib.parallel_config(backend="dask"),
        ):
            yield
        return
    if kind == "ray":
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)
        with joblib.parallel_config(backend="ray"):
            yield
        ray.shutdown()
        return
    with joblib.parallel_config(backend={"threads": "threading", "processes": "loky"}[kind], n_jobs=count):
        yield


def measured(kind: str, count: int, budget: int, seconds: float, per_member: float) -> dict[str, float]:
    """Run once with workers that are up, and return what it took."""
    with tempfile.TemporaryDirectory() as folder, workers(kind, count):
        fgsv.value(Sleeping(f"{folder}/first", 0.2, 0.0), budget=max(32, 2 * count), seed=1)
        game = Sleeping(f"{folder}/log", seconds, per_member)
        started, own = time.monotonic(), time.process_time()
        fgsv.value(game, budget=budget, ledger=Path(folder) / "run.db")
        wall, own = time.monotonic() - started, time.process_time() - own
        asleep = np.loadtxt(f"{folder}/log")
    work = float(asleep.sum())
    ideal = max(work / count, float(asleep.max()))
    return {"busy": work / count / wall, "wall": wall, "ideal": ideal, "own": own, "evaluated": len(asleep)}


def joined(first: int, later: int) -> float:
    """Return the seconds of a run that begins with some Dask workers and has `later` more after four seconds."""
    import distributed

    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(n_workers=first, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        fgsv.value(Sleeping(f"{folder}/first", 0.0, 0.0), budget=32)
        sleeping = Sleeping(f"{folder}/log", BATCH_SECONDS / 2, 0.0, independent_rows=False)
        game = fgsv.Game(sleeping, N, batch_size=2)
        if later:
            threading.Timer(JOIN_SECONDS, cluster.scale, (first + later,)).start()
        started = time.monotonic()
        fgsv.value(game, budget=2 * BATCHES)
        return time.monotonic() - started


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks busy", description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--workers", nargs="+", type=int, default=[count for count, _ in SIZES])
    parser.add_argument("--seconds", type=float, default=0.5, help="of every evaluation")
    parser.add_argument("--per-member", type=float, default=0.05, help="seconds for each member of the coalition")
    parser.add_argument("--joining", action="store_true", help="one worker, four, and three that join one after 4 s")
    asked = parser.parse_args()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a cluster's workers cannot import the benchmarks
    if asked.joining:
        for first, later in ((1, 0), (4, 0), (1, 3)):
            words = f"{first} Dask workers, {later} more after {JOIN_SECONDS:g} s"
            print(f"{words}: {BATCHES} batches in {joined(first, later):.1f} s", flush=True)
        return
    print("| workers | evaluations | busy | wall clock, s | ideal, s | own processor, s | evaluated |")
    print("|---|---|---|---|---|---|---|")
    for count, budget in SIZES:
        for kind in asked.kinds if count in asked.workers else ():
            if count == 64 and kind in ("processes", "ray"):
                continue  # 64 processes need more memory than the machine has
            found = measured(kind, count, budget, asked.seconds, asked.per_member)
            print(
                f"| {count} {kind} | {budget} | {found['busy']:.2f} | {found['wall']:.1f} | {found['ideal']:.1f} | "
                f"{found['own']:.1f} | {found['evaluated']:.0f} |",
                flush=True,
            )
