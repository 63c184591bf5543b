"""What a method returns: estimates for all players, or for all groups, with their errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.words import counted

MOST_DEVIATIONS = 64
"""Rows of deviations that a valuation keeps."""
ORDINARY = 64
"""Numbers between 2^-64 and 2^64 need no unit: their squares and their float32 have all digits."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """A method's estimate after a round, from which the values and errors of any groups follow.

    Errors are deviations of the players, or standard errors of the groups. Without either, they are unknown.
    """

    values: Floats
    """(n, q) values of the players; (K, q) values of the groups if the method works on groups."""
    deviations: NDArray[np.floating] | None = None
    """(R, n, q): a root of the covariance of the players' errors. The variance of any weighted sum of players is the
    sum over R of the squares of that sum; a method with replicates scales them so."""
    stderr: Floats | None = None
    """(K, q) standard errors of the groups, where these do not follow from the deviations."""
    degrees_of_freedom: float = np.inf
    exact: bool = False
    efficient: bool = False
    """Whether the values of all players sum to U(N) - U(0), as they must for Shapley values."""
    of_groups: bool = False
    n_evaluations: int | None = None
    """How many evaluations it uses, including the ends; None for all so far."""
    method: str | None = None
    """The method that made it, if not the one requested."""
    correction: float | None = None
    """Of the default method: 0 if the values are predictions, 1 if what predictions miss is corrected, or between."""
    errors: str | None = None
    """What its errors are of, if not of the choice of coalitions."""

    def values_of(self, partition: Partition, total: Floats) -> Floats:
        """Return (K, q) values of the groups; `total`, (q,), is that of one group of all players, if efficient."""
        if self.of_groups:
            return self.values
        if self.efficient and partition.n_groups == 1:
            return total[None, :]  # without the rounding of a sum
        return partition.sums(self.values)

    def stderr_of(self, partition: Partition) -> Floats:
        """Return (K, q) standard errors of the groups: NaN if unknown, 0 if exact."""
        if self.stderr is not None:
            return self.stderr
        shape = (partition.n_groups, self.values.shape[1])
        if self.exact or (self.efficient and partition.n_groups == 1):
            return np.zeros(shape)
        if self.deviations is None:
            return np.full(shape, np.nan)
        unit = 1.0 if self.deviations.dtype == np.float32 else unit_of(self.deviations)
        variance = np.zeros(shape)
        for deviation in self.deviations:
            variance += partition.sums(deviation.astype(float) / unit) ** 2
        return np.sqrt(variance) * unit

    def kept(self, partition: Partition) -> Estimate:
        """Return the estimate with at most 64 deviations: of more, random signs make sums, right on average.

        The errors of the groups of the run are those of all deviations.
        """
        deviations = self.deviations
        if deviations is None or len(deviations) <= MOST_DEVIATIONS:
            return self
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (MOST_DEVIATIONS, len(deviations)))
        fewer = np.tensordot(signs / np.sqrt(MOST_DEVIATIONS), deviations, 1).astype(deviations.dtype)
        return replace(self, deviations=fewer, stderr=self.stderr_of(partition))

    def of_outputs(self, places: slice | list[int]) -> Estimate:
        """Return the estimate of the outputs at these places."""
        arrays = {name: getattr(self, name) for name in ("values", "deviations", "stderr")}
        return replace(self, **{name: each[..., places] for name, each in arrays.items() if each is not None})

    def combined(self, weights: Floats) -> Estimate:
        """Return the estimate of a weighted sum of the outputs, of players."""
        deviations = self.deviations
        if deviations is not None:
            ordinary = deviations.dtype == np.float32 and unit_of(weights[:, None])[0] == 1
            deviations = (deviations @ weights.astype(np.float32 if ordinary else float))[..., None]
        return replace(self, values=(self.values @ weights)[:, None], deviations=deviations, stderr=None)


@dataclass(frozen=True)
class Failures:
    """Evaluations that failed and count as a number chosen by the user."""

    coalitions: int
    counted_as: float
    kinds: dict[str, int]
    first: str
    """What went wrong first."""

    def __add__(self, later: Failures | None) -> Failures:
        """Return these failures and later ones together."""
        if later is None:
            return self
        kinds = {kind: self.kinds.get(kind, 0) + later.kinds.get(kind, 0) for kind in {*self.kinds, *later.kinds}}
        return Failures(self.coalitions + later.coalitions, self.counted_as, dict(sorted(kinds.items())), self.first)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        verb = "counts" if self.coalitions == 1 else "count"
        return f"{counted(self.coalitions, 'evaluation')} failed and {verb} as {self.counted_as:g}: {kinds}"


def unit_of(numbers: NDArray[np.floating]) -> Floats:
    """Return (q,): a power of two near the largest of (..., q) numbers, or one if that is ordinary or zero.

    >>> unit_of(np.array([[3.0, 3e-200], [-5.0, 1e-201]])).tolist() == [1.0, 2.0**-663]
    True

    Dividing by it is exact, so a run in these units has the same digits as one in ordinary numbers.
    """
    largest = np.abs(numbers).reshape(-1, numbers.shape[-1]).max(axis=0)
    exponent = np.frexp(largest)[1] - 1
    return np.where((np.abs(exponent) <= ORDINARY) | (largest == 0), 1.0, np.ldexp(1.0, exponent))
