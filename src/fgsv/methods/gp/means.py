"""Mean and spread of the utilities at each size, estimated from the draws so far."""

from __future__ import annotations

import numpy as np

from fgsv.types import Floats, Ints

_PER_KNOT = 6
"""Minimum draws for each knot of the mean, which may be steep."""
_PER_BIN = 24
"""Draws for each bin of the spread."""
_MOST_BINS = 64


def mean_and_spread(n: int, sizes: Ints, values: Floats, ends: Floats | None = None) -> tuple[Floats, Floats]:
    """Return h(s), the mean of the (m, q) values at each size, and r(s), their deviation from it: (n - 1, q) each.

    h is a curve through the means of neighbouring sizes, linear in logit(s / n), and through `ends` (2, q), the
    values of the empty and the full coalition, if given. A size that was seen often has its own mean, shrunk towards
    the curve, the more so the fewer draws it has. r is pooled over wider bins.
    """
    origin = values.mean(axis=0)  # squares about the mean lose fewer digits
    counts = np.bincount(sizes - 1, minlength=n - 1)
    seen = np.flatnonzero(counts)
    count = counts[seen, None].astype(float)
    mean = _sums(sizes - 1, values - origin, n - 1)[seen] / count
    within = np.maximum(_sums(sizes - 1, (values - origin) ** 2, n - 1)[seen] - count * mean**2, 0)
    everywhere = _logit(np.arange(1, n), n)
    position = everywhere[seen]

    first = _bins(count[:, 0], _PER_KNOT)
    n_knots = len(first)
    knots = _averages(first, count, position[:, None])[:, 0]
    heights = _averages(first, count, mean)
    if ends is not None:
        knots = np.concatenate([_logit(np.array([0.5]), n), knots, _logit(np.array([n - 0.5]), n)])
        heights = np.concatenate([ends[:1] - origin, heights, ends[1:] - origin])
    curve = _through(knots, heights, everywhere)

    first = _bins(count[:, 0], _PER_BIN)
    weight = np.add.reduceat(count, first)
    gap = mean - curve[seen]
    freedom = np.add.reduceat(count - 1, first)
    between = np.add.reduceat(count * gap**2, first)
    variance = np.add.reduceat(within, first)
    # if sizes were hardly seen twice, a bin cannot tell the spread within a size from a poor fit of the curve
    few = freedom < 8
    taken = weight * n_knots / weight.sum()  # the curve's own parameters
    overall = (variance + between) / np.maximum(weight - taken, 1)
    variance = np.where(few, overall, variance / np.maximum(freedom, 1))
    n_sizes = np.diff(np.append(first, len(seen)))[:, None]
    miss = np.where(few, 0, np.maximum(between - n_sizes * variance, 0) / weight)

    bin_of = np.repeat(np.arange(len(first)), n_sizes[:, 0])
    own = count * miss[bin_of] / np.maximum(count * miss[bin_of] + variance[bin_of], 1e-300)
    intercept = origin + curve
    intercept[seen] += own * gap
    spread = np.sqrt(variance)
    floor = 1e-6 * np.maximum(spread.max(axis=0), 1e-300)
    centre = _averages(first, count, position[:, None])[:, 0]
    return intercept, np.exp(_through(centre, np.log(np.maximum(spread, floor)), everywhere))


def _logit(sizes: Ints | Floats, n: int) -> Floats:
    return np.log(sizes / (n - sizes))


def _bins(count: Floats, per_bin: int) -> Ints:
    """Return the first seen size of each bin, such that bins have about equally many draws."""
    n_bins = int(np.clip(count.sum() // per_bin, 1, _MOST_BINS))
    number = np.floor((np.cumsum(count) - count / 2) / count.sum() * n_bins)
    return np.flatnonzero(np.diff(number, prepend=-1))


def _averages(first: Ints, count: Floats, values: Floats) -> Floats:
    return np.add.reduceat(count * values, first) / np.add.reduceat(count, first)


def _through(centre: Floats, values: Floats, at: Floats) -> Floats:
    return np.stack([np.interp(at, centre, column) for column in values.T], axis=1)


def _sums(index: Ints, values: Floats, length: int) -> Floats:
    return np.stack([np.bincount(index, column, minlength=length) for column in values.T], axis=1)
