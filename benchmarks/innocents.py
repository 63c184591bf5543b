"""Whom the search for copies accuses by chance, and which copies it finds: `python -m benchmarks innocents`.

Tables of 8 to 40 providers with independent rows, of which some look alike by chance. Then the first provider
replaces a tenth of its rows, at least five, by those of the second, with a little noise.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.options import parsed
from experiments.repeats import run_all
from fgsv.audit import Copies, find_copies

KINDS = ("numbers", "classes", "mixed", "skewed")
NOISE = 0.001
"""Of copies, in standard deviations of each feature."""


@dataclass(frozen=True)
class Task:
    """A table."""

    kind: str
    seed: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of providers, and after them test rows."""

    X: np.ndarray
    y: np.ndarray
    owners: np.ndarray
    """(n,): the provider of each row but the test rows."""

    def found(self) -> Copies:
        """Return the possible copies."""
        n = len(self.owners)
        return find_copies(self.X[:n], self.y[:n], self.owners, test=(self.X[n:], self.y[n:]))

    def copied(self, rng: np.random.Generator) -> Rows:
        """Return the table in which provider 0 has copies of rows of provider 1."""
        thief, victim = (np.flatnonzero(self.owners == each) for each in (0, 1))
        count = max(5, len(thief) // 10)
        X, y = self.X.copy(), self.y.copy()
        X[thief[:count]] = X[victim[:count]] + NOISE * X.std(axis=0) * rng.normal(size=(count, X.shape[1]))
        y[thief[:count]] = y[victim[:count]]
        return Rows(X, y, self.owners)


def drawn(kind: str, rng: np.random.Generator) -> Rows:
    """Return independent rows of 8 to 40 providers with 20 to 100 rows each, and of a test file."""
    sizes = rng.integers(20, 100, rng.integers(8, 41))
    n = int(sizes.sum()) + int(rng.integers(50, 500))
    X = rng.normal(size=(n, rng.integers(3, 8)))
    if kind == "classes":
        X = rng.integers(0, 4, X.shape).astype(float)
    elif kind == "mixed":
        X[:, 0] = rng.integers(0, 3, n)
        X[:, 1] = np.round(X[:, 1])
    elif kind == "skewed":
        X = np.exp(X)
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    return Rows(X, y, np.repeat(np.arange(len(sizes)), sizes))


def measure(task: Task) -> dict[str, float]:
    """Return what was found by chance, and whether copies were found."""
    rng = np.random.default_rng([task.seed, KINDS.index(task.kind)])
    rows = drawn(task.kind, rng)
    calm, copied = (each.found().chance for each in (rows, rows.copied(rng)))
    assert calm is not None
    assert copied is not None
    return {
        "kind": task.kind,
        "rows alike": int(np.triu(calm.found, 1).sum()),
        "accused": calm.likely.any(),
        "copier found": copied.likely[0, 1],
        "others accused": copied.likely[2:, 2:].any(),
    }


def main() -> None:
    """Run the benchmark, print its table and write it."""
    parser = argparse.ArgumentParser("innocents", description=__doc__)
    parser.add_argument("--tables", type=int, default=200, help="of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    options = parsed(parser, "innocents")
    tasks = [Task(kind, seed) for kind in KINDS for seed in range(options.tables)]
    table = pd.DataFrame(run_all(measure, tasks, jobs=options.jobs, label="tables"))
    means = table.groupby("kind", sort=False).mean()
    print(f"Means over {options.tables} tables of each kind; the rest are parts of them")
    print(means.round(3).to_string())
    options.out.mkdir(parents=True, exist_ok=True)
    means.to_csv(options.out / "innocents.csv")
