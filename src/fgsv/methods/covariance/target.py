"""The values to estimate, as sums over coalitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.methods.covariance.design import Cells
from fgsv.methods.method import Problem
from fgsv.partition import Partition
from fgsv.semivalue import Semivalue, SizeWeights
from fgsv.types import Floats, Masks


@dataclass(frozen=True, eq=False)
class Target:
    """The values to estimate: the sum over coalitions T of W_i(T) U(T), besides the two ends."""

    n: int
    weights: SizeWeights
    log_weights: Floats
    """(n,): log p(s) of the semivalue."""

    @classmethod
    def of(cls, semivalue: Semivalue, n: int) -> Target:
        """Return the values of a semivalue among n players."""
        return cls(n, SizeWeights.of(semivalue, n), np.asarray(semivalue.log_weights(n), dtype=float))

    def coefficients(self, masks: Masks) -> Floats:
        """Return (m, n): W_i(T) times the number of coalitions of the size of T; nothing at the ends."""
        return self.weights.coefficients(masks)

    def base(self, costs: Floats) -> Floats:
        """Return (n - 1,): gain(s) sqrt(s (n - s)) / sqrt(cost), the best parts of draws if all sizes vary alike."""
        sizes = np.arange(1, self.n)
        return np.asarray(self.weights.gain * np.sqrt(sizes * (self.n - sizes)) / np.sqrt(costs))

    def exact(self, masks: Masks, values: Floats, cells: Cells, complete: Masks) -> Floats:
        """Return (n, q): what the complete cells contribute, `complete` (c,)."""
        cell = cells.of(masks)
        rows = np.flatnonzero(complete[cell] & (cells.sizes[cell] % self.n > 0))
        return (self.coefficients(masks[rows]) / cells.of_size[cell[rows], None]).T @ values[rows]


def costs(problem: Problem) -> Floats:
    """Return (n - 1,): the relative cost of an evaluation at each of the sizes 1..n-1."""
    sizes = np.arange(1, problem.n_players)
    return np.ones(len(sizes)) if problem.cost is None else np.asarray(problem.cost(sizes), dtype=float)


def in_groups(partition: Partition, masks: Masks, weights: SizeWeights) -> Floats:
    """Return (m, K): the coefficients of coalitions (see `Target.coefficients`), summed over each group."""
    return partition.sums(weights.coefficients(masks).T).T
