"""What the utilities seen so far say about each size: their mean and their spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PER_BIN = 24
_MOST_BINS = 64


def mean_and_spread(n: int, sizes: Ints, values: Floats) -> tuple[Floats, Floats]:
    """Return h(s), the mean of the (m, q) values at each size, and r(s), their deviation from it: (n - 1, q) each.

    Both are curves through bins of neighbouring sizes, linear in logit(s / n). A size that was seen often has its
    own mean: the curve is only what it is shrunken to, the more the fewer draws it has.
    """
    origin = values.mean(axis=0)  # squares about it lose no digits
    centred = values - origin
    counts = np.bincount(sizes - 1, minlength=n - 1)
    seen = np.flatnonzero(counts)
    count = counts[seen, None].astype(float)
    mean = _sums(sizes - 1, centred, n - 1)[seen] / count
    within = np.maximum(_sums(sizes - 1, centred**2, n - 1)[seen] - count * mean**2, 0)
    everywhere = _logit(np.arange(1, n), n)
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
    variance = np.where(few, (variance + between) / np.maximum(weight - 1, 1), variance / np.maximum(freedom, 1))
    n_sizes = np.diff(np.append(first, len(seen)))[:, None]
    miss = np.where(few, 0, np.maximum(between - n_sizes * variance, 0) / weight)

    bin_of = np.repeat(np.arange(len(first)), n_sizes[:, 0])
    trust = count * miss[bin_of] / np.maximum(count * miss[bin_of] + variance[bin_of], 1e-300)
    intercept = origin + curve
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


def _sums(index: Ints, values: Floats, length: int) -> Floats:
    return np.stack([np.bincount(index, column, minlength=length) for column in values.T], axis=1)
