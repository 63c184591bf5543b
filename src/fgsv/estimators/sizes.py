"""What the utilities seen so far say about each size: their mean and their spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PER_BIN = 24
_MOST_BINS = 64


class SizeStatistics:
    """Counts, sums and squares of the utilities at each size s = 1..n-1, of which `fit` makes curves."""

    def __init__(self, n_players: int, n_outputs: int) -> None:
        self._n = n_players
        self._count = np.zeros(n_players - 1)
        self._sum = np.zeros((n_players - 1, n_outputs))
        self._square = np.zeros((n_players - 1, n_outputs))
        self._origin = np.zeros(n_outputs)

    def add(self, sizes: Ints, values: Floats) -> None:
        """Take in (m, q) values of coalitions of the given sizes."""
        if not self._count.any():
            self._origin = values.mean(axis=0)  # squares about it lose no digits
        self._count += np.bincount(sizes - 1, minlength=self._n - 1)
        for output, column in enumerate((values - self._origin).T):
            self._sum[:, output] += np.bincount(sizes - 1, column, minlength=self._n - 1)
            self._square[:, output] += np.bincount(sizes - 1, column**2, minlength=self._n - 1)

    def fit(self) -> tuple[Floats, Floats]:
        """Return h(s), the mean of U at each size, and r(s), its standard deviation about h: (n - 1, q) each.

        Both are curves through bins of neighbouring sizes, linear in logit(s / n). A size that was seen often
        has its own mean: the curve is only what it is shrunken to, the more the fewer draws it has.
        """
        seen = np.flatnonzero(self._count)
        count = self._count[seen, None]
        mean = self._sum[seen] / count
        within = np.maximum(self._square[seen] - count * mean**2, 0)
        everywhere = _logit(np.arange(1, self._n), self._n)
        position = everywhere[seen]
        first = _bins(count[:, 0])
        weight = np.add.reduceat(count, first)
        centre = (np.add.reduceat(count[:, 0] * position, first)) / weight[:, 0]
        curve = _through(centre, np.add.reduceat(count * mean, first) / weight, everywhere)

        gap = mean - curve[seen]
        freedom = np.add.reduceat(count - 1, first)
        between = np.add.reduceat(count * gap**2, first)
        variance = np.add.reduceat(within, first)
        # a bin whose sizes were hardly seen twice cannot tell spread within a size from a curve that misses
        few = freedom < 8
        variance = np.where(
            few, (variance + between) / np.maximum(weight - 1, 1), variance / np.maximum(freedom, 1)
        )
        n_sizes = np.diff(np.append(first, len(seen)))[:, None]
        miss = np.where(few, 0, np.maximum(between - n_sizes * variance, 0) / weight)

        bin_of = np.repeat(np.arange(len(first)), n_sizes[:, 0])
        trust = count * miss[bin_of] / np.maximum(count * miss[bin_of] + variance[bin_of], 1e-300)
        intercept = self._origin + curve
        intercept[seen] += trust * gap
        spread = np.sqrt(np.maximum(variance, 0))
        floor = 1e-6 * np.maximum(spread.max(axis=0), 1e-300)
        return intercept, np.exp(_through(centre, np.log(np.maximum(spread, floor)), everywhere))


def _logit(sizes: Ints, n: int) -> Floats:
    return np.log(sizes / (n - sizes))


def _bins(count: Floats) -> Ints:
    """Return the first of the seen sizes in each bin, so that bins hold about equally many draws."""
    n_bins = int(np.clip(count.sum() // _PER_BIN, 1, _MOST_BINS))
    number = np.floor((np.cumsum(count) - count / 2) / count.sum() * n_bins)
    return np.flatnonzero(np.diff(number, prepend=-1))


def _through(centre: Floats, values: Floats, at: Floats) -> Floats:
    return np.stack([np.interp(at, centre, column) for column in values.T], axis=1)
