"""Ridge and least squares for many sets of rows at once, from sufficient statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fgsv.types import Floats, Masks
from fgsv.utilities.data import Data
from fgsv.utilities.row_sets import RowSets
from fgsv.utilities.scores import Need, Predictions

WEAK = 1e-10
"""A penalty below this part of the features' squares: fewer than six of its digits are left in a sum with them."""
PIECE = 1024
"""Rows of each set that are gathered at a time, few enough to stay in the cache until they are added up."""


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear regression with an l2 penalty, or the least-squares solution of least norm if the penalty is 0.

    All that a fit needs of a set is the sum of z z' over its rows, z = (1, x, y). It is taken over the shorter of two
    lists, the rows in the set or the rows left out; for a large set it is the total minus the sum over the rest.
    """

    design: Floats
    """(n + 1, 1 + p + 1) rows z = (1, x, y), centred; the last row, of zeros, pads lists."""
    total: Floats
    """(p + 2, p + 2) sum of z z' over all rows of the data."""
    X_test: Floats
    """(t, 1 + p) test rows (1, x), centred in the same way."""
    y_mean: float
    penalty: float
    intercept: bool
    cutoff: float
    """Singular values of rows below this times the largest one count as zero."""
    standardised: bool = False
    """Whether features are divided by their standard deviation in the set, as StandardScaler does before the fit."""

    name: ClassVar[str] = "linear regression from sufficient statistics"
    lists_members: ClassVar[bool] = False

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes for each set, whatever its length, and for each listed row of a set."""
        width = int(self.design.shape[1])
        return 8 * (4 * width**2 + 2 * len(self.X_test)), 8 * (2 * width + 2)

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Fit every set and predict the test points: (m, t)."""
        moments = self._moments(sets)
        moments[sets.inverted] = self.total - moments[sets.inverted]
        coefficients = self._coefficients(moments, sets)
        values = coefficients @ self.X_test.T + self.y_mean
        return Predictions(np.ones(len(sets), dtype=bool), values=values)

    def _coefficients(self, moments: Floats, sets: RowSets) -> Floats:
        """Return (m, 1 + p) constants and slopes, of least norm where nothing else decides between them.

        In a small set the penalty may be all that does: where moments would lose it, the rows are solved for.
        """
        if not self.penalty:
            return self._least_squares(moments, sets)
        squares = np.diagonal(moments[:, 1:-1, 1:-1], axis1=1, axis2=2).max(axis=1, initial=0)
        lost = (self.penalty < WEAK * squares) & self._is_small(moments) & (not self.standardised)
        if not lost.any():
            return self._ridge(moments)
        coefficients = np.empty((len(sets), self.design.shape[1] - 1))
        coefficients[lost] = self._least_squares(moments[lost], sets.take(lost))
        coefficients[~lost] = self._ridge(moments[~lost])
        return coefficients

    def _is_small(self, moments: Floats) -> Masks:
        """Return (m,) whether a set has so few rows that the moments may be singular."""
        return moments[:, 0, 0] <= 2 * (moments.shape[1] - 1)

    def _moments(self, sets: RowSets) -> Floats:
        """Return (m, p + 2, p + 2) sums of z z' over the listed rows."""
        table = sets.table(len(self.design) - 1)
        moments = np.zeros((len(sets), self.design.shape[1], self.design.shape[1]))
        for first in range(0, table.shape[1], PIECE):
            z = np.take(self.design, table[:, first : first + PIECE], axis=0)
            moments += z.transpose(0, 2, 1) @ z
        return moments

    def _ridge(self, moments: Floats) -> Floats:
        left = moments[:, :-1, :-1].copy()
        diagonal = np.arange(1, left.shape[1])
        left[:, diagonal, diagonal] += self._penalties(moments) if self.standardised else self.penalty
        if not self.intercept:
            left[:, 0, :] = left[:, :, 0] = 0
            left[:, 0, 0] = 1
            moments[:, 0, -1] = 0
        return np.asarray(np.linalg.solve(left, moments[:, :-1, -1:])[:, :, 0])

    def _penalties(self, moments: Floats) -> Floats:
        """Return (m, p) penalties on the weights of unscaled features that equal the given ones on scaled features.

        A weight of x / d is d times the weight of x. The shift by the mean is the intercept's.
        """
        counts = moments[:, 0, :1]
        squares = np.diagonal(moments[:, 1:-1, 1:-1], axis1=1, axis2=2) / counts
        variances = squares - (moments[:, 0, 1:-1] / counts) ** 2
        # a feature that does not vary has no weight; its variance is rounding error
        nothing = 1e12 * (1 + squares * counts)
        return self.penalty * np.where(variances > 1e-12 * squares, variances, nothing)

    def _least_squares(self, moments: Floats, sets: RowSets) -> Floats:
        """Return the least-squares coefficients of least norm: from the moments or, for small sets, from the rows.

        The condition number of the moments is the square of that of the rows. It is large only for small sets, and
        where features are linearly dependent; such directions are cut off, as in scikit-learn.
        """
        counts = moments[:, 0, 0]
        means = moments[:, 0, 1:] / counts[:, None] * self.intercept
        centred = moments[:, 1:, 1:] - counts[:, None, None] * means[:, :, None] * means[:, None, :]
        slopes = np.zeros((len(sets), centred.shape[1] - 1))
        small = self._is_small(moments)
        if small.any():
            slopes[small] = self._from_rows(sets.take(small), means[small])
        if not small.all():
            slopes[~small] = self._from_moments(centred[~small])
        constants = means[:, -1] - np.einsum("mp,mp->m", means[:, :-1], slopes)
        return np.concatenate([constants[:, None], slopes], axis=1)

    def _from_moments(self, centred: Floats) -> Floats:
        left = centred[:, :-1, :-1]
        right = centred[:, :-1, -1:]
        spread, axes = np.linalg.eigh(left)
        cut = max(self.cutoff**2, 1e-14) * spread[:, -1:]  # 1e-14: rounding error of a zero
        regular = spread[:, 0] > cut[:, 0]
        # scaled to a unit diagonal, so that features of very different scales lose no digits
        scale = np.sqrt(np.diagonal(left[regular], axis1=1, axis2=2))[:, :, None]
        slopes = np.empty(right.shape)
        slopes[regular] = (
            np.linalg.solve(left[regular] / scale / scale.transpose(0, 2, 1), right[regular] / scale) / scale
        )
        inverse = np.where(spread > cut, 1 / np.where(spread > cut, spread, 1), 0)[~regular]
        slopes[~regular] = axes[~regular] @ (
            inverse[:, :, None] * (axes[~regular].transpose(0, 2, 1) @ right[~regular])
        )
        return slopes[:, :, 0]

    def _from_rows(self, sets: RowSets, means: Floats) -> Floats:
        members = sets.explicit().table(len(self.design) - 1)
        rows = np.take(self.design, members, axis=0)
        present = rows[:, :, :1] if self.intercept else 0.0
        rows = rows[:, :, 1:] - present * means[:, None, :]
        if self.penalty:  # the penalty is a row for each feature, with a target of zero
            penalties = np.sqrt(self.penalty) * np.eye(rows.shape[2])[:-1]
            rows = np.concatenate([rows, np.broadcast_to(penalties, (len(rows), *penalties.shape))], axis=1)
        inverse = np.linalg.pinv(rows[:, :, :-1], rcond=self.cutoff)
        return (inverse @ rows[:, :, -1:])[:, :, 0]


def twin(model: Any, data: Data, *, standardised: bool = False) -> Linear | str:
    """Return the batched twin of a Ridge or LinearRegression, or the reason why there is none.

    Args:
        model: With its settings; whether it was fitted does not matter.
        data: The rows; padding, if any, is fitted to but does not shift the centre.
        standardised: Whether a StandardScaler comes before the model, refitted to every set.

    """
    if model.positive:
        return "positive=True has no closed form"
    penalty = getattr(model, "alpha", 0.0)
    if np.ndim(penalty) or (hasattr(model, "alpha") and not penalty > 0):
        return "alpha is not one positive number"
    X, X_test = data.features()
    # an unpenalised intercept absorbs any shift, and sums of centred numbers lose fewer digits
    shift = X[: data.n_rows].mean(axis=0) if model.fit_intercept else np.zeros(X.shape[1])
    y_mean = float(data.y[: data.n_rows].mean()) if model.fit_intercept else 0.0
    design = np.column_stack([np.ones(len(X)), X - shift, data.y - y_mean])
    design = np.concatenate([design, np.zeros((1, design.shape[1]))])
    known = design[: data.n_rows]
    return Linear(
        design,
        known.T @ known,
        np.column_stack([np.ones(len(X_test)), X_test - shift]),
        y_mean,
        float(penalty),
        bool(model.fit_intercept),
        float(getattr(model, "tol", np.finfo(float).eps)) if not penalty else np.finfo(float).eps,
        standardised,
    )
