"""What a method returns: estimates for all players, or for all groups, with their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Floats
from fgsv.words import counted


@dataclass(frozen=True, eq=False)
class Estimate:
    """A method's estimate after a round.

    `values` are (n, q) values of the players, or (K, q) values of the groups if the method works on groups.
    Errors come in one of two forms: `deviations` (R, n, q), scaled so that the variance of any weighted sum of
    players is the sum over R of its squares, or, for groups, `stderr` of the shape of `values`. Without either,
    the errors are unknown.
    """

    values: Floats
    deviations: NDArray[np.floating] | None = None
    stderr: Floats | None = None
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
