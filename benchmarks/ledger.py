"""What the ledger costs: time and memory of a million cheap evaluations, and of verifying twenty thousand.

python benchmarks/ledger.py
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fgsv
from fgsv.verification.verify import verify

N = 100


def roots(masks: np.ndarray) -> np.ndarray:
    """Return a utility that costs next to nothing."""
    return np.sqrt(masks.sum(axis=1))


def game(independent_rows: bool) -> fgsv.Game:
    """Return the game of the benchmark."""
    return fgsv.Game(roots, N, fingerprint="roots", independent_rows=independent_rows)


def measured(budget: int, ledger: Path | None, independent_rows: bool) -> dict[str, float]:
    """Run once in a fresh process: processor seconds, and the most memory it held in MiB."""
    command = [sys.executable, __file__, "--one", str(budget), "--ledger", str(ledger or "")]
    command += ["--rows"] if independent_rows else []
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one(budget: int, ledger: str, independent_rows: bool) -> None:
    """Run and print what it took; processor time, since the wall clock counts what else the machine does."""
    start, wall = time.process_time(), time.perf_counter()
    # without learning, which would hide what the ledger takes
    result = fgsv.value(game(independent_rows), budget=budget, learn="sizes", ledger=ledger or None)
    print(
        json.dumps(
            {
                "n_evaluations": result.n_evaluations,
                "cpu": time.process_time() - start,
                "wall": time.perf_counter() - wall,
                "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--one", type=int)
    parser.add_argument("--ledger", default="")
    parser.add_argument("--rows", action="store_true")
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one, arguments.ledger, arguments.rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        for rows in (False, True):
            path = Path(folder) / f"{rows}.db"
            without = measured(arguments.evaluations, None, rows)
            written = measured(arguments.evaluations, path, rows)
            found = measured(arguments.evaluations, path, rows)
            m = written["n_evaluations"]
            print(f"{m} evaluations, looked up by {'row' if rows else 'batch'}:")
            for name, run in (("written", written), ("found again", found)):
                cpu, wall = (1e6 * (run[clock] - without[clock]) / m for clock in ("cpu", "wall"))
                print(f"  {name}: {cpu:.1f} us of processor ({wall:.1f} us of wall clock) an evaluation added")
            print(f"  memory: {written['MiB']:.0f} MiB in all, {without['MiB']:.0f} without a ledger")
            print(f"  file: {path.stat().st_size / 2**20:.0f} MiB")
        path = Path(folder) / "verify.db"
        result = fgsv.value(game(False), budget=20_000, ledger=path)
        start = time.perf_counter()
        assert verify(result, path) == []
        print(f"verified {result.n_evaluations} evaluations in {time.perf_counter() - start:.1f} s: same")


if __name__ == "__main__":
    main()
