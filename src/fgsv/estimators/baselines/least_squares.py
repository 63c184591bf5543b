"""The constrained least squares problem behind KernelSHAP and LeverageSHAP."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fgsv.estimators.method import Problem
from fgsv.types import Floats, Masks
from fgsv.valuation import Estimate


class Regression:
    """Fit U(S) - U(0) by the sum of the members' values, under the constraint that all values sum to U(N) - U(0).

    Keeps A = sum of w 1_S 1_S^T and b = sum of w (U(S) - U(0)) 1_S over the draws: (n, n) and (n, q). A round
    costs m n^2 operations and an estimate n^3.
    """

    def __init__(self, problem: Problem) -> None:
        n, q = problem.n_players, problem.ends.shape[1]
        self._ends = problem.ends
        self._gram = np.zeros((n, n))
        self._moments = np.zeros((n, q))

    def add(self, masks: Masks, values: Floats, weights: Floats) -> None:
        """Take in (m, n) coalitions, their (m, q) values and (m,) weights."""
        members = masks.astype(float)
        weighted = (members * weights[:, None]).T
        self._gram += weighted @ members
        self._moments += weighted @ (values - self._ends[0])

    def estimate(self) -> Estimate:
        """Return the solution; if it is not unique, the one nearest to equal shares."""
        n, total = len(self._gram), self._ends[1] - self._ends[0]
        equal = np.tile(total / n, (n, 1))
        # With phi = equal + psi and 1^T psi = 0, psi minimises the same objective projected onto sums of zero.
        # The projected matrix is singular along 1 alone, where a multiple of 1 1^T fills it up.
        right = _centred(self._moments - self._gram @ equal)
        left = _centred(_centred(self._gram).T)
        scale = np.trace(left) / n
        if scale == 0:
            return Estimate(equal, efficient=True)
        return Estimate(equal + _centred(_solve(left / scale + 1 / n, right / scale)), efficient=True)


def _centred(columns: Floats) -> Floats:
    return columns - columns.mean(axis=0)


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Solve a symmetric positive semidefinite system, by the pseudo-inverse where it is singular."""
    try:
        factor = cho_factor(matrix, check_finite=False)
        pivots = np.diag(factor[0]) ** 2
        if pivots.min() > 1e-10 * pivots.max():
            return np.asarray(cho_solve(factor, right, check_finite=False))
    except LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-10)[0])
