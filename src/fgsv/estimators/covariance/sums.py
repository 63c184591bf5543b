"""Sums over coalitions, player by player, for several parts of them at once; and whether they are finite."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

from fgsv.coalitions import Coalitions
from fgsv.types import Floats, Ints

DENSE_PLAYERS = 4096
"""Up to this many players the sums of all parts are computed at once; beyond, one by one, to save memory."""


def check_finite(values: Floats) -> None:
    """Raise an error if an estimate is not finite, where every utility was."""
    if not np.isfinite(values).all():
        raise FloatingPointError(
            "the estimate is not finite although every utility is: the utilities are too large to add up "
            "(scale them down), or this is a bug in fgsv"
        )


def sums_by_part(
    coalitions: Coalitions, gains: Floats, shifts: Floats, parts: Ints
) -> Iterator[tuple[slice, Floats]]:
    """Yield, a few parts at a time, the (n, q) sum over each part's coalitions of gains * 1{i in S} + shifts."""
    n, n_parts = coalitions.n_players, int(parts.max()) + 1
    listed = np.where(coalitions.inverted[:, None], -gains, gains)
    everyone = np.where(coalitions.inverted[:, None], gains, 0.0) + shifts
    if n <= DENSE_PLAYERS:
        places = np.repeat(parts * n, coalitions.n_listed) + coalitions.listed
        sums = np.empty((n_parts, n, gains.shape[1]))
        for output in range(gains.shape[1]):
            weights = np.repeat(listed[:, output], coalitions.n_listed)
            sums[:, :, output] = np.bincount(places, weights, minlength=n_parts * n).reshape(n_parts, n)
            sums[:, :, output] += np.bincount(parts, everyone[:, output], minlength=n_parts)[:, None]
        yield slice(n_parts), sums
    else:
        ones = np.ones(len(coalitions.listed))
        members = csr_matrix((ones, coalitions.listed, coalitions.starts), shape=(len(coalitions), n))
        for part in range(n_parts):
            rows = np.flatnonzero(parts == part)
            sums = members[rows].T @ listed[rows] + everyone[rows].sum(axis=0)
            yield slice(part, part + 1), sums[None]
