"""What people meet first: `python -m benchmarks product`.

1. Seconds of `fgsv --help`.
2. Attacks on three data sets: what splitting, merging, renaming and copying earn under GSV, FGSV and the remedy.
3. A CSV of 100,000 rows, 20 features and 20 providers, valued to one percentage point of every share.
4. The size of the report of 50,000 players.
5. From a CSV to the first estimate, for each model: seconds to read it, of one evaluation of all rows, and in all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

import fgsv
from fgsv.audit.copies import find_copies
from fgsv.partition import Partition
from fgsv.report import render
from fgsv.running.threads import one_thread
from fgsv.valuation import Valuation

FGSV = [sys.executable, "-m", "fgsv"]
PROVIDERS = np.array(["A", "B", "C", "D", "E"])


def startup(repeats: int = 5) -> float:
    """Return the median seconds of `fgsv --help`."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([*FGSV, "--help"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


@dataclass(frozen=True, eq=False)
class Market:
    """Rows with owners, a model and test rows; the first provider is the attacker."""

    name: str
    X: np.ndarray
    y: np.ndarray
    owners: np.ndarray
    make: Callable[[np.ndarray, np.ndarray], Any]

    @classmethod
    def of(cls, name: str, source: Any, model: Any, scoring: str, seed: int = 0) -> Market:
        """Return a table spread over five providers of different size; a third of the rows test."""
        rng = np.random.default_rng(seed)
        X = StandardScaler().fit_transform(source.data)
        order = rng.permutation(len(X))
        test, train = order[: len(X) // 3], order[len(X) // 3 :]
        owners = PROVIDERS[np.sort(rng.choice(5, len(train), p=[0.25, 0.3, 0.2, 0.15, 0.1]))]

        def make(rows: np.ndarray, labels: np.ndarray) -> Any:
            return fgsv.utility(model, rows, labels, X[test], source.target[test], scoring)

        return cls(name, X[train], source.target[train], owners, make)


def markets() -> list[Market]:
    """Return the three data sets."""
    return [
        Market.of("breast cancer, logistic", load_breast_cancer(), LogisticRegression(), "accuracy"),
        Market.of("wine, logistic", load_wine(), LogisticRegression(), "accuracy"),
        Market.of("diabetes, ridge", load_diabetes(), Ridge(alpha=10), "neg_mean_squared_error"),
    ]


def attacks(market: Market, budget: int, seed: int = 0) -> pd.DataFrame:
    """Return what each attack earns the attacker, in shares, and by how much it moves anybody else under FGSV."""
    rng = np.random.default_rng(seed)
    own = np.flatnonzero(market.owners == "A")
    victim = rng.permutation(np.flatnonzero(market.owners == "B"))
    copied = victim[: len(victim) // 2]
    noise = 0.005 * rng.normal(size=(len(copied), market.X.shape[1]))
    halves = np.where(np.isin(np.arange(len(market.X)), own[::2]), "A2", market.owners)
    # name of the attack: who attacks, the labels afterwards, and the rows that are added
    plans: dict[str, tuple[set[str], np.ndarray, np.ndarray | None]] = {
        "split": ({"A", "A2"}, halves, None),
        "merge": ({"A", "B"}, np.where(market.owners == "B", "A", market.owners), None),
        "rename": ({"Z"}, np.where(market.owners == "A", "Z", market.owners), None),
        "exact copy": ({"A"}, np.append(market.owners, ["A"] * len(copied)), market.X[copied]),
        "noisy copy": ({"A"}, np.append(market.owners, ["A"] * len(copied)), market.X[copied] + noise),
    }
    game = market.make(market.X, market.y)
    before = fgsv.value(game, market.owners, budget=budget, seed=seed)
    gsv_before = fgsv.exact(fgsv.grouped(game, market.owners))
    rows = []
    for name, (attackers, owners, added) in plans.items():
        whole = {"A", "B"} if name == "merge" else {"A"}
        X, y = market.X, market.y
        if added is not None:
            X, y = np.vstack([X, added]), np.append(y, y[copied])
        attacked = game if added is None else market.make(X, y)
        after = fgsv.value(attacked, owners, budget=budget, seed=seed)
        gsv = fgsv.exact(fgsv.grouped(attacked, owners))
        copies = find_copies(X, y, owners)
        remedied = after
        if copies.n_copies:
            kept = market.make(X[copies.kept], y[copies.kept])
            remedied = fgsv.value(kept, copies.remedy("first"), budget=budget, seed=seed)
        others = [str(owner) for owner in PROVIDERS if owner not in attackers | whole]
        moved = max(abs(value_of(after, {other}) - value_of(before, {other})) for other in others)
        rows.append(
            {
                "data": market.name,
                "attack": name,
                "gain under GSV": share_of(gsv, attackers) - share_of(gsv_before, whole),
                "gain under FGSV": share_of(after, attackers) - share_of(before, whole),
                "± (95%)": 0.0 if added is None else 2 * float(np.hypot(stderr_of(after), stderr_of(before))),
                "gain with remedy": share_of(remedied, attackers) - share_of(before, whole),
                "copies found": copies.n_copies,
                "largest move of another's value": moved,
            }
        )
    return pd.DataFrame(rows)


def value_of(valuation: Valuation, names: set[str]) -> float:
    """Return the sum of the values of some groups."""
    return float(sum(valuation.values[k] for k, name in enumerate(valuation.names) if name in names))


def share_of(valuation: Valuation, names: set[str]) -> float:
    """Return the sum of the shares of some groups."""
    return value_of(valuation, names) / float(valuation.total)


def stderr_of(valuation: Valuation) -> float:
    """Return the standard error of the attacker's share."""
    return float(valuation.stderr[valuation.names.index("A")] / valuation.total)


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
            "stopped": document["stopped"],
            "report MB": round(Path(folder, "out", "report.html").stat().st_size / 1e6, 2),
        }


FIRST = {"ridge": "regression", "logistic": "classification", "sklearn.naive_bayes:GaussianNB": "classification"}
"""Models whose way to a first estimate is timed, with their tasks; the target of a classification is a sign."""


def first_estimates(n_rows: int) -> pd.DataFrame:
    """Time the way from the large file to the first valuation of a run, for each model, in this process."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.csv")
        write_large_file(path, n_rows)
        frame = pd.read_csv(path)
        frame.assign(y=frame["y"] > 0).to_csv(Path(folder, "signs.csv"), index=False)
        for model, task in FIRST.items():
            source = path if task == "regression" else Path(folder, "signs.csv")
            start = time.perf_counter()
            table = fgsv.open_table(source, group="provider", target="y", model=model)
            opened = time.perf_counter()
            with one_thread():  # as in a run
                table.game(np.ones((1, table.game.n_players), dtype=bool))
            evaluated = time.perf_counter()
            first = next(fgsv.iterate(table.game, table.partition))
            rows.append(
                {
                    "rows": n_rows,
                    "model": model,
                    "read": opened - start,
                    "U(N)": evaluated - opened,
                    "evaluations": first.n_evaluations,
                    "seconds in all": time.perf_counter() - start,
                }
            )
    return pd.DataFrame(rows)


def report_size(n_players: int = 50_000) -> float:
    """Return the megabytes of the report of so many players in 20 groups, with the usual 32 replicates."""
    rng = np.random.default_rng(0)
    players = rng.normal(1e-3, 1e-2, n_players)
    partition = Partition.of(rng.integers(0, 20, n_players))
    base = Valuation(
        partition=partition,
        values=np.zeros(20),
        stderr=np.zeros(20),
        total=players.sum(),
        player_values=players,
        deviations=rng.normal(size=(32, n_players, 1)).astype(np.float32),
        degrees_of_freedom=31,
        method="covariance",
        n_evaluations=20_000,
        end=fgsv.End(fgsv.Reason.BUDGET),
    )
    return len(render(base.regroup(partition)).encode()) / 1e6


def main() -> None:
    """Print all tables and write them to bench-out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="of the large file")
    parser.add_argument("--precision", type=float, default=0.01, help="half-width of every share")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=int, default=5_000, help="evaluations of each valuation under attack")
    parser.add_argument("--only", choices=["startup", "attacks", "file", "first", "report"])
    parser.add_argument("--out", type=Path, default=Path("bench-out/product"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.only in (None, "startup"):
        print(f"fgsv --help: {startup():.2f} s (median of 5)")
    if options.only in (None, "report"):
        print(f"report of 50,000 players: {report_size():.2f} MB")
    if options.only in (None, "attacks"):
        table = pd.concat([attacks(market, options.budget) for market in markets()], ignore_index=True)
        table.to_csv(options.out / "attacks.csv", index=False)
        print(table.to_string(index=False, float_format=lambda x: f"{x:.2g}" if abs(x) < 1e-6 else f"{x:.4f}"))
    if options.only in (None, "file"):
        found = large_file(options.rows, options.precision, options.jobs)
        (options.out / "file.json").write_text(json.dumps(found, indent=1))
        print(json.dumps(found, indent=1))
    if options.only in (None, "first"):
        table = first_estimates(options.rows)
        table.to_csv(options.out / "first.csv", index=False)
        print(table.to_string(index=False, float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
