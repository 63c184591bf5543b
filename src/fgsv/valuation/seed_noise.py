"""The error of training seeds: how far values are from the values of the expected utility."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fgsv.partition import Partition
from fgsv.types import Floats

MOST_ROWS = 64
"""Up to this many groups the deviations are exact; with more, random signs bundle them."""


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """The part of the values that is due to training seeds, U(S) = E[U(S)] + noise, independent between coalitions.

    Values are linear in U, so noise of variance v(s) at size s gives the sum of g players among n a variance of

        (g - g^2/n) sum_s v(s) gain(s)^2 s(n - s) / (n (n - 1) C(n, s)) + g^2/n^2 (v(0) + v(n))

    for Shapley values; `gain` is defined in `fgsv.semivalue.SizeWeights`. The noise is assumed to depend only on the
    size of a coalition. As in a valuation, variances are sums over R of squares, so outputs can be combined.
    """

    own: Floats
    """(R, q): deviations of a single player's value, from which those of groups follow."""
    common: Floats
    """(M, q): deviations that all players share, from U(0) and U(N)."""
    total: Floats
    """(M, q): the same for U(N) - U(0)."""
    freedom: tuple[float, float]
    """Degrees of freedom of `own` and of the other two."""
    n_evaluations: int
    """Trainings that it was estimated from, in addition to those of the run."""

    def combined(self, weights: Floats) -> SeedNoise:
        """Return the noise of a weighted sum of the outputs."""
        parts = {name: (getattr(self, name) @ weights)[:, None] for name in ("own", "common", "total")}
        return replace(self, **parts)

    def of_outputs(self, places: slice | list[int]) -> SeedNoise:
        """Return the noise of the outputs at these places."""
        return replace(self, **{name: getattr(self, name)[:, places] for name in ("own", "common", "total")})

    def variances(self, partition: Partition, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Return (K, q) variances of the groups' values: from single players, and from U(0) and U(N).

        With (K, q) `shares`, those of the shares, in units of the utility: U(N) - U(0), which they are parts of, has
        noise too.
        """
        sizes, squares = _sizes(partition)
        alone = np.outer(squares - sizes**2 / partition.n_players, (self.own**2).sum(axis=0))
        together = sizes[:, None] * self.common[:, None]
        if shares is not None:
            together = together - shares * self.total[:, None]
        return np.maximum(alone, 0.0), (together**2).sum(axis=0)

    def deviations(self, partition: Partition, shares: Floats) -> Floats:
        """Return (R, K, q) deviations of the shares, in units of the utility; variances are sums of squares."""
        sizes, squares = _sizes(partition)
        n_groups = partition.n_groups
        roots = np.sqrt(squares)
        if n_groups <= MOST_ROWS:
            signs = np.eye(n_groups)
        else:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (MOST_ROWS, n_groups)) / np.sqrt(MOST_ROWS)
        alone = signs * roots
        alone = alone - np.outer(alone.sum(axis=1), sizes / partition.n_players)
        spread = np.sqrt((self.own**2).sum(axis=0))
        together = sizes[:, None] * self.common[:, None] - shares * self.total[:, None]
        return np.concatenate([alone[:, :, None] * spread, together])


def _sizes(partition: Partition) -> tuple[Floats, Floats]:
    """Return (K,): how many players each group has, and the sum of the squares of its parts of them."""
    sizes = np.asarray(partition.sizes, dtype=float)
    return sizes, sizes if partition.is_disjoint else (partition.owners**2).sum(axis=0)
