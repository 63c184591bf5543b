"""Folds of the test rows: ten random parts, without each of which every model is scored, too.

How much the values without a part differ is the error of the test rows, for any score (`fgsv.valuation.test_rows`).
The models are the same, so this takes no further training.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Ints

FOLDS = 10
FEWEST = 5
"""Test rows from which their error is estimated; with fewer than ten, each is a fold."""
ENOUGH = 2 * FOLDS
"""Test rows from which their error is known well: two a fold."""
ASKED = "that was asked for"


def folds_of(contents: Sequence[bytes]) -> Ints:
    """Return (t,): the fold of each test row, by a hash of its content; sizes differ by one row at most.

    >>> np.bincount(folds_of([str(row).encode() for row in range(25)])).tolist()
    [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]

    The key of the hash is a hash of all test rows, so nobody knows the folds before all are known, and the same test
    rows have the same folds in every run, in whatever order they come.
    """
    everything = b"".join(sorted(blake2b(each, digest_size=32).digest() for each in contents))
    key = blake2b(everything, digest_size=32).digest()
    digests = [blake2b(each, digest_size=16, key=key).digest() for each in contents]
    order = sorted(range(len(digests)), key=digests.__getitem__)
    folds = np.empty(len(digests), dtype=np.int64)
    folds[order] = np.arange(len(digests)) % FOLDS
    return folds


def too_few(n_test: int, what: str = "test rows") -> str:
    """Return why so few test rows have no folds; empty if they are enough."""
    return "" if n_test >= FEWEST else f"{n_test} {what} are too few to measure it, which takes {FEWEST}"


def only_monte_carlo(why: str) -> str:
    """Return the note of a run whose intervals leave out the error of the test rows, and why."""
    return f"intervals hold the Monte Carlo error only, not that of the test rows: {why}"


def known_roughly(n_test: int, what: str = "test rows") -> list[str]:
    """Return a note if test rows are so few that the error of their choice is known only roughly."""
    return [f"only {n_test} {what}: how much their choice matters is known only roughly"] if n_test < ENOUGH else []


def rare_class(y_test: NDArray[Any]) -> list[str]:
    """Return a note if a class has fewer than two test rows a fold."""
    classes, counts = np.unique(y_test, return_counts=True)
    rarest = int(counts.argmin())
    return known_roughly(int(counts[rarest]), f"test rows of class {classes[rarest]}")
