"""What people meet first: `python -m benchmarks product`.

1. Seconds of `fgsv --help`.
2. A CSV of 100,000 rows, 20 features and 20 providers, valued to one percentage point of every share.
3. The size of the report of 50,000 players.
4. From a CSV to the first estimate, for each model: seconds to read it, of one evaluation of all rows, and in all.
5. A CSV of 12,000 rows and 1,618 providers, valued by 2,000 evaluations and audited.

The seconds of the last two are those of one core (CPU time), so that a busy machine prints the same.
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
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.options import parsed
from fgsv.partition import Partition
from fgsv.report import render
from fgsv.signals import one_thread
from fgsv.valuation import Estimate, Valuation

FGSV = [sys.executable, "-m", "fgsv"]


def startup(repeats: int = 5) -> float:
    """Return the median seconds of `fgsv --help`."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([*FGSV, "--help"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def write_large_file(path: Path, n_rows: int = 100_000, seed: int = 0) -> None:
    """Write a CSV of 20 features and 20 providers whose noise grows from a half to three."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 20))
    sizes = rng.uniform(0.3, 1.7, 20)
    provider = rng.choice(20, n_rows, p=sizes / sizes.sum())
    y = X @ rng.normal(size=20) + np.linspace(0.5, 3, 20)[provider] * rng.normal(size=n_rows)
    frame = pd.DataFrame(X.round(5), columns=[f"x{i}" for i in range(20)])
    frame.insert(0, "provider", [f"P{k:02d}" for k in provider])
    frame.assign(y=y.round(5)).to_csv(path, index=False)


def large_file(n_rows: int, precision: float, jobs: int) -> dict[str, Any]:
    """Value the large file through the command line; return its seconds, evaluations and widest half-width."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.csv")
        write_large_file(path, n_rows)
        command = ["value", str(path), "--group", "provider", "--target", "y", "--model", "ridge"]
        command += ["--precision", str(precision), "--jobs", str(jobs), "--out", str(Path(folder, "out")), "--json"]
        start = time.perf_counter()
        answer = subprocess.run([*FGSV, *command], check=True, capture_output=True, text=True).stdout
        seconds = time.perf_counter() - start
        document = json.loads(answer)
        rows = document["groupings"]["provider"]
        return {
            "rows": n_rows,
            "seconds": round(seconds, 1),
            "evaluations": document["n_evaluations"],
            "widest half-width": max(row["share_high"] - row["share_low"] for row in rows) / 2,
            "stopped": document["end"]["detail"] or document["end"]["reason"],
            "report MB": round(Path(folder, "out", "report.html").stat().st_size / 1e6, 2),
        }


FIRST = {"ridge": "regression", "logistic": "classification", "sklearn.naive_bayes:GaussianNB": "classification"}
"""Models whose way to a first estimate is timed, with their tasks; the target of a classification is a sign."""
NEIGHBOURS = "knn"
"""Its U(N) alone is timed, with about a thousand test rows: each is compared with every row."""


def first_estimates(n_rows: int) -> pd.DataFrame:
    """Time the way from the large file to the first valuation of a run, for each model, in this process."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.csv")
        write_large_file(path, n_rows)
        frame = pd.read_csv(path)
        frame.assign(y=frame["y"] > 0).to_csv(Path(folder, "signs.csv"), index=False)
        for model, task in (FIRST | {NEIGHBOURS: "classification"}).items():
            source = path if task == "regression" else Path(folder, "signs.csv")
            alone, start = model == NEIGHBOURS, time.process_time()
            fraction = 1000 / n_rows if alone else 0.25
            table = fgsv.open_table(source, group="provider", target="y", model=model, test_fraction=fraction)
            opened = time.process_time()
            with one_thread():  # as in a run
                table.game(np.ones((1, table.game.n_players), dtype=bool))
            evaluated = time.process_time()
            first = None if alone else next(fgsv.iterate(table.game, table.partition))
            rows.append(
                {
                    "rows": n_rows,
                    "model": model,
                    "read": opened - start,
                    "U(N)": evaluated - opened,
                    "evaluations": 1 if first is None else first.n_evaluations,
                    "seconds in all": time.process_time() - start,
                }
            )
    return pd.DataFrame(rows)


def many_providers(n_providers: int = 1618, n_rows: int = 12_000, seed: int = 0) -> dict[str, Any]:
    """Value and audit a file of many providers through the command line; every one of them has a training row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    provider = np.append(np.arange(n_providers), rng.integers(0, n_providers, n_rows - n_providers))
    frame = pd.DataFrame(X.round(4), columns=[f"x{i}" for i in range(6)])
    frame["provider"] = [f"P{k:04d}" for k in provider]
    frame["y"] = np.where(X @ rng.normal(size=6) + rng.normal(size=n_rows) > 0, "yes", "no")
    frame["split"] = np.where((np.arange(n_rows) >= n_providers) & (rng.random(n_rows) < 0.2), "test", "train")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "many.csv")
        frame.sample(frac=1, random_state=seed).to_csv(path, index=False)
        command = ["value", str(path), "--group", "provider", "--target", "y", "--test-by", "split"]
        command += ["--budget", "2000", "--audit", "--out", str(Path(folder, "out")), "--json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer = subprocess.run([*FGSV, *command], check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    document = json.loads(answer)
    return {
        "providers": n_providers,
        "rows": n_rows,
        "seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "evaluations": document["n_evaluations"],
        "of the audit": document["audit"]["n_evaluations"],
    }


def report_size(n_players: int = 50_000) -> float:
    """Return the megabytes of the report of so many players in 20 groups, with the usual 32 replicates."""
    rng = np.random.default_rng(0)
    players = rng.normal(1e-3, 1e-2, n_players)
    partition = Partition.of(rng.integers(0, 20, n_players))
    deviations = rng.normal(size=(32, n_players, 1)).astype(np.float32)
    estimate = Estimate(players[:, None], deviations, degrees_of_freedom=31, method="gp")
    ends = np.array([0.0, players.sum()])
    made = Valuation(estimate, partition, ends, n_evaluations=20_000, end=fgsv.End(fgsv.Reason.BUDGET))
    return len(render(made).encode()) / 1e6


def main() -> None:
    """Print all tables and write them to bench-out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="of the large file")
    parser.add_argument("--precision", type=float, default=0.01, help="half-width of every share")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=["startup", "file", "first", "providers", "report"])
    options = parsed(parser, "product")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.only in (None, "startup"):
        print(f"fgsv --help: {startup():.2f} s (median of 5)")
    if options.only in (None, "report"):
        print(f"report of 50,000 players: {report_size():.2f} MB")
    if options.only in (None, "file"):
        found = large_file(options.rows, options.precision, options.jobs)
        (options.out / "file.json").write_text(json.dumps(found, indent=1))
        print(json.dumps(found, indent=1))
    if options.only in (None, "providers"):
        many = many_providers()
        (options.out / "providers.json").write_text(json.dumps(many, indent=1))
        print(json.dumps(many, indent=1))
    if options.only in (None, "first"):
        table = first_estimates(options.rows)
        table.to_csv(options.out / "first.csv", index=False)
        print(table.to_string(index=False, float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
