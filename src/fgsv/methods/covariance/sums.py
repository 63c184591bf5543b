"""Sums over coalitions, player by player: for several parts at once, and of sizes that are known as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

from fgsv.coalitions import Coalitions
from fgsv.semivalue import SizeWeights
from fgsv.types import Floats, Ints, Masks

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
    coalitions: Coalitions, gains: Floats, shifts: Floats, parts: Ints, n_folds: int = 0
) -> Iterator[tuple[slice, Floats]]:
    """Yield, a few parts at a time, the (n, q) sum over each part's coalitions of gains * 1{i in S} + shifts.

    The last `n_folds` outputs are summed by products of matrices, which is quickest for many of them.
    """
    n, n_parts = coalitions.n_players, int(parts.max()) + 1
    listed = np.where(coalitions.inverted[:, None], -gains, gains)
    everyone = np.where(coalitions.inverted[:, None], gains, 0.0) + shifts
    if n <= DENSE_PLAYERS:
        places = np.repeat(parts * n, coalitions.n_listed) + coalitions.listed
        sums = np.empty((n_parts, n, gains.shape[1]))
        stated = gains.shape[1] - n_folds
        for output in range(stated):
            weights = np.repeat(listed[:, output], coalitions.n_listed)
            sums[:, :, output] = np.bincount(places, weights, minlength=n_parts * n).reshape(n_parts, n)
            sums[:, :, output] += np.bincount(parts, everyone[:, output], minlength=n_parts)[:, None]
        masks = coalitions.masks() if n_folds else None
        for part in range(n_parts if n_folds else 0):
            assert masks is not None
            rows = np.flatnonzero(parts == part)
            sums[part, :, stated:] = (gains[rows, stated:].T @ masks[rows]).T + shifts[rows, stated:].sum(axis=0)
        yield slice(n_parts), sums
    else:
        ones = np.ones(len(coalitions.listed))
        members = csr_matrix((ones, coalitions.listed, coalitions.starts), shape=(len(coalitions), n))
        for part in range(n_parts):
            rows = np.flatnonzero(parts == part)
            sums = members[rows].T @ listed[rows] + everyone[rows].sum(axis=0)
            yield slice(part, part + 1), sums[None]


class Enumerated:
    """The enumerated sizes of a game of n players and q outputs with a proxy in k bands, and their exact sums."""

    def __init__(self, weights: SizeWeights, n: int, k: int, q: int) -> None:
        self._weights, self._n = weights, n
        self.sizes: Masks = np.zeros(n - 1, dtype=bool)
        """(n - 1,): which of the sizes 1..n-1 they are."""
        self.values: Floats = np.zeros((n, q))
        """(n, q): what they contribute to the players' values."""
        self.proxies: Floats = np.zeros((n, k, q))
        """(n, k, q): what they contribute to those of the proxy."""

    @property
    def sampled(self) -> Masks:
        """(n - 1,): all other sizes."""
        return ~self.sizes

    @property
    def all(self) -> bool:
        """Whether nothing is left to sample."""
        return bool(self.sizes.all())

    def add(self, size: int, coalitions: Coalitions, values: Floats, proxies: Floats) -> None:
        """Take in every coalition of a size, with its (m, q) utilities and (m, k, q) values of the proxy."""
        gain, drift = self._weights.gain[size - 1], self._weights.drift[size - 1]
        for exact, utilities in ((self.values, values), (self.proxies, proxies.reshape(len(values), -1))):
            mean = utilities.mean(axis=0)  # this cancels, and subtracting it first loses fewer digits
            gains = gain / len(values) * (utilities - mean)
            one = np.zeros(len(values), dtype=np.int64)
            [(_, sums)] = sums_by_part(coalitions, gains, -size / self._n * gains, one)
            exact += (sums[0] + drift * mean).reshape(exact.shape)
        self.sizes[size - 1] = True
