"""Coalitions of many players as bits, and sums over their indicators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from fgsv.coalitions import Coalitions
from fgsv.methods.target import Target
from fgsv.types import Floats, Ints, Masks

LISTED = 40
"""Up to so many players no coalition is drawn twice; of more players, that would be rare."""
FOLDS = 4
"""Of the draws: what corrects those of one is fitted to the others."""
ENTRIES = 10_000_000
"""Numbers of indicators held at once."""


class Rows:
    """Coalitions as bits, and sums over their indicators."""

    def __init__(self, n: int, packed: Sequence[NDArray[np.uint8]] = ()) -> None:
        self.n, self._packed = n, list(packed)
        self.sizes: Ints = np.zeros(0, dtype=np.int64)
        self.permutations: Ints = np.zeros(0, dtype=np.int64)
        """(m,): coalitions of different permutations are independent."""
        self.folds: Ints = np.zeros(0, dtype=np.int64)
        """(m,): coalitions that depend on each other are of one fold; few players have each fold at each size."""

    def add(self, coalitions: Coalitions, permutations: Ints) -> None:
        """Add coalitions, with the numbers of their permutations among these."""
        self._packed += [np.packbits(part.masks(), axis=1) for part in self._parts(coalitions)]
        ranks = _ranks(np.concatenate([self.sizes, coalitions.sizes]))[len(self.sizes) :]
        self.sizes = np.concatenate([self.sizes, coalitions.sizes])
        first = self.permutations[-1] + 1 if len(self.permutations) else 0
        numbers = np.unique(permutations, return_inverse=True)[1] + first
        self.permutations = np.concatenate([self.permutations, numbers])
        self.folds = np.concatenate([self.folds, (ranks + coalitions.sizes if self.n <= LISTED else numbers) % FOLDS])

    def _parts(self, coalitions: Coalitions) -> Iterator[Coalitions]:
        step = max(1, ENTRIES // self.n)
        for start in range(0, len(coalitions), step):
            yield coalitions[start : start + step]

    def first(self, count: int) -> Rows:
        """Return the first so many."""
        packed, left = [], count
        for each in self._packed:
            packed.append(each[:left])
            left -= len(packed[-1])
        found = Rows(self.n, [each for each in packed if len(each)])
        found.sizes = self.sizes[:count]
        found.permutations = self.permutations[:count]
        found.folds = self.folds[:count]
        return found

    def without_folds(self) -> list[Masks]:
        """Return, for each fold, which rows are not in it."""
        return [self.folds != fold for fold in range(FOLDS)]

    def masks(self) -> Masks:
        """Return the coalitions as an (m, n) boolean array."""
        nothing = np.zeros((0, self.n), dtype=bool)
        return np.concatenate(
            [nothing, *(np.unpackbits(each, axis=1, count=self.n) for each in self._packed)]
        ).astype(bool)

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield slices of rows, and (rows, n) of zeros and ones."""
        start, step = 0, max(1, ENTRIES // self.n)
        for packed in self._packed:
            for first in range(0, len(packed), step):
                some = np.unpackbits(packed[first : first + step], axis=1, count=self.n).astype(np.float32)
                yield slice(start + first, start + first + len(some)), some
            start += len(packed)

    def root(self) -> Floats:
        """Return (m,): the norms of the indicators about their means."""
        return np.sqrt(np.maximum(self.sizes * (self.n - self.sizes) / self.n, 1e-9))

    def weighted(self, target: Target, weights: Floats, bundles: Ints) -> Floats:
        """Return (R, n, q): for each of R bundles, the sum over its rows of weights (m, q) times W(T) C(n, t)."""
        q = weights.shape[1]
        count = int(bundles.max(initial=0)) + 1
        scaled = weights * target.gain[self.sizes, None]
        everyone = weights * target.drift[self.sizes, None] - scaled * (self.sizes / self.n)[:, None]
        found = np.zeros((count * q, self.n))
        for rows, some in self.blocks():
            places = (bundles[rows, None] * q + np.arange(q)).reshape(-1)
            columns = np.repeat(np.arange(len(some)), q)
            picks = csr_matrix((scaled[rows].reshape(-1), (places, columns)), shape=(count * q, len(some)))
            found += picks @ some
            found += np.bincount(places, everyone[rows].reshape(-1), minlength=count * q)[:, None]
        return found.reshape(count, q, self.n).transpose(0, 2, 1)

    def onto(self, weights: Floats) -> Floats:
        """Return X' weights, (m, k) -> (n, k), for the standardised indicators X."""
        scaled = weights / self.root()[:, None]
        found = np.zeros((self.n, weights.shape[1]))
        for rows, some in self.blocks():
            found += some.T @ scaled[rows].astype(np.float32)
        return found - (scaled * (self.sizes / self.n)[:, None]).sum(axis=0)

    def times(self, beta: Floats) -> Floats:
        """Return X beta, (n, k) -> (m, k)."""
        found = np.empty((len(self.sizes), beta.shape[1]))
        for rows, some in self.blocks():
            found[rows] = some @ beta.astype(np.float32)
        return (found - np.outer(self.sizes / self.n, beta.sum(axis=0))) / self.root()[:, None]

    def normal(self, beta: Floats, on: Masks) -> Floats:
        """Return X' (on * X beta), in one pass."""
        total, share, squares = beta.sum(axis=0), self.sizes / self.n, self.root() ** 2
        found, everyone = np.zeros_like(beta), np.zeros(beta.shape[1])
        for rows, some in self.blocks():
            inner = (some @ beta.astype(np.float32) - np.outer(share[rows], total)) / squares[rows, None]
            inner = np.where(on[rows], inner, 0.0)
            found += some.T @ inner.astype(np.float32)
            everyone += share[rows] @ inner
        return found - everyone


def out_of_fold(each: Floats, folds: Ints) -> Floats:
    """Return (m, q) of (m, FOLDS, q): row j from the fit without the fold of j."""
    return each[np.arange(len(each)), folds]


def _ranks(sizes: Ints) -> Ints:
    """Return (m,): how many before it have the same size."""
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(sizes)) - np.searchsorted(ordered, ordered)
    return ranks
