"""Logistic regression for many sets of rows at once, by Newton steps to convergence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from fgsv.game import GameError
from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.data import Data
from fgsv.utilities.row_sets import RowSets
from fgsv.utilities.scores import Need, Predictions

TOLERANCE = 1e-9
"""A fit ends after a step this small, relative to the largest weight; convergence is quadratic."""

MAX_STEPS = 200

MAX_UNKNOWNS = 150
"""Newton steps solve for all weights of all classes together; above this number scikit-learn is faster."""

_SHARED_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class Logistic:
    """Logistic regression with an l2 penalty and a free intercept, for two classes or more.

    With weights w the objective of a set is  sum_i log(1 + exp(-y_i w'x_i)) + sum_j penalty_j w_j^2 / 2, or its
    multinomial form. Features are scaled internally, and the penalty with them, so that the solution is that of the
    original features.
    """

    design: Floats
    """(n + 1, d) scaled rows, the first column 1 if there is an intercept; the last row, of zeros, pads lists."""
    codes: Ints
    """(n + 1,) classes of the rows."""
    X_test: Floats
    """(t, d) scaled test rows."""
    penalty: Floats
    """(d,) the penalty on each weight; 0 for the intercept."""
    n_classes: int
    starts: Floats
    """(k, C, d), or (k, 1, d) for two classes: initial weights of sets of 2^k rows."""
    standardised: bool = False
    """Whether features are divided by their standard deviation in the set, as StandardScaler does before the fit."""

    name: ClassVar[str] = "logistic regression by batched Newton steps"
    lists_members: ClassVar[bool] = True

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes for each set, whatever its length, and for each row of a set."""
        width = int(self.design.shape[1])
        unknowns = width * (self.n_classes if self.n_classes > 2 else 1)
        per_set = 8 * (3 * unknowns**2 + 3 * self.n_classes * len(self.X_test))
        return per_set, 8 * (2 * width + 5 * max(self.n_classes - 1, 1))

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Fit every set that has at least two classes, and predict the test points."""
        weights = self.fit(sets)
        present = sets.counts(self.codes, self.n_classes) > 0
        fitted = present.sum(axis=1) > 1
        if self.n_classes == 2:
            return two_class_predictions(fitted, weights[:, 1] @ self.X_test.T, needs)
        scores = self.X_test @ weights.transpose(0, 2, 1)
        scores[np.broadcast_to(~present[:, None, :], scores.shape)] = -np.inf
        return Predictions(
            fitted,
            labels=scores.argmax(axis=2) if "labels" in needs else None,
            probabilities=softmax(scores, axis=2) if "probabilities" in needs else None,
        )

    def unfitted(self, sets: RowSets) -> Masks:
        """Return (m,) whether a set has fewer than two classes."""
        return np.count_nonzero(sets.counts(self.codes, self.n_classes), axis=1) < 2

    def fit(self, sets: RowSets) -> Floats:
        """Return (m, C, d) weights: 0 for absent classes, for the first of two, and for sets of one class."""
        present = sets.counts(self.codes, self.n_classes) > 0
        n_present = present.sum(axis=1)
        width = self.design.shape[1]
        weights = np.zeros((len(sets), self.n_classes, width))
        two = n_present == 2
        many = n_present > 2
        if two.any():
            high = self.n_classes - 1 - present[two, ::-1].argmax(axis=1)
            rows, counted, codes = self._rows(sets.take(two))
            sign = np.where(codes == high[:, None], 1.0, -1.0)
            start = self._start(sets.take(two))[:, 0] if self.n_classes == 2 else np.zeros((len(high), width))
            weights[two, high] = _fit_two(rows, counted, sign, self._penalties(rows, counted), start)
        if many.any():
            rows, counted, codes = self._rows(sets.take(many))
            target = codes[:, :, None] == np.arange(self.n_classes)
            start = self._start(sets.take(many)) * present[many][:, :, None]
            weights[many] = _fit_many(rows, counted, target, present[many], self._penalties(rows, counted), start)
        return weights

    def _rows(self, sets: RowSets) -> tuple[_Gathered | _Shared, Floats, Ints]:
        """Return rows, (m, L) weights that are 1 for rows in a set and 0 for others, and the rows' classes."""
        n_total, width = self.design.shape
        dense = 2 * sets.sizes.mean() > n_total and 8 * n_total * width**2 < _SHARED_BYTES
        if dense:
            return self._shared, sets.inside(n_total).astype(float), self.codes[None, :]
        members = sets.explicit().table(n_total - 1)
        counted = (members < n_total - 1).astype(float)
        return _Gathered(np.take(self.design, members, axis=0)), counted, self.codes[members]

    def _penalties(self, rows: _Gathered | _Shared, counted: Floats) -> Floats:
        """Return the penalty on each weight: (d,), or (m, d) where it depends on the variances in each set.

        A weight of x / d is d times the weight of x. The shift by the mean is the intercept's.
        """
        if not self.standardised:
            return self.penalty
        counts = counted.sum(axis=1)[:, None]
        squares = replace(rows, rows=rows.rows**2).sums(counted) / counts
        variances = squares - (rows.sums(counted) / counts) ** 2
        # a feature that does not vary has no weight, for any penalty; its variance is rounding error
        return self.penalty * np.where(variances > 1e-12 * squares, variances, 1.0)

    @cached_property
    def _shared(self) -> _Shared:
        return _Shared.of(self.design)

    def _start(self, sets: RowSets) -> Floats:
        """Return (m, C, d) initial weights: those of a typical set of about the same size."""
        return self.starts[np.rint(np.log2(sets.sizes)).astype(np.int64)]


def _fit_two(rows: _Gathered | _Shared, counted: Floats, sign: Floats, penalty: Floats, w: Floats) -> Floats:
    """Return (m, d) weights for sets of two classes, from (m, L) weights of rows, classes +-1, initial weights w."""
    weights: Floats = w.copy()
    diagonal = np.arange(penalty.shape[-1])
    margins: Floats = rows.margins(w)
    active = np.arange(len(w))
    for _ in range(MAX_STEPS):
        odds = 0.5 * margins
        np.tanh(odds, out=odds)  # 2 p - 1, for a probability p
        errors = odds - sign
        curvature = np.subtract(1, np.square(odds, out=odds), out=odds)
        errors *= counted
        curvature *= counted
        gradient = 0.5 * rows.sums(errors) + penalty * w
        hessian = 0.25 * rows.products(curvature)
        hessian[:, diagonal, diagonal] += penalty
        step = np.asarray(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0], dtype=float)
        change = rows.margins(step)
        length = _safe_length((np.abs(change) * (counted > 0)).max(axis=1))[:, None]
        w = w - length * step
        margins -= np.multiply(length, change, out=change)
        weights[active] = w
        going = np.abs(step).max(axis=1) > TOLERANCE * (1 + np.abs(w).max(axis=1))
        if not going.any():
            return weights
        # converged fits are dropped once they are many; further steps do them no harm
        if 4 * going.sum() < 3 * len(going):
            active, w, margins, counted = active[going], w[going], margins[going], counted[going]
            rows, sign = rows.take(going), sign[going]
            penalty = penalty[going] if penalty.ndim == 2 else penalty
    raise GameError(_not_converged(len(going)))


def _fit_many(
    rows: _Gathered | _Shared,
    counted: Floats,
    target: Masks,
    present: Masks,
    penalty: Floats,
    w: Floats,
) -> Floats:
    """Return (m, C, d) weights for sets of three classes or more, from initial weights w; absent classes keep 0."""
    n_classes = present.shape[1]
    width = penalty.shape[-1]
    unknowns = n_classes * width
    absent = np.where(present, 0.0, -np.inf)[:, None, :]
    # Adding a constant to all intercepts changes nothing, and those of absent classes are free: this term, which
    # does not affect the gradient, keeps the equations regular in these directions.
    penalties = np.broadcast_to(penalty, (len(w), width))
    free = np.diag((penalties[0] == 0).astype(float))
    regular = np.where(present[:, :, None] & present[:, None, :], 1.0, np.eye(n_classes))
    fixed = np.einsum("mab,ij->maibj", regular, free)
    fixed += np.einsum("ab,mi,ij->maibj", np.eye(n_classes), penalties, np.eye(width))
    weights = w.copy()
    margins = np.stack([rows.margins(w[:, a]) for a in range(n_classes)], axis=2)
    active = np.arange(len(w))
    for _ in range(MAX_STEPS):
        probability = softmax(margins + absent, axis=2)
        errors = (probability - target) * counted[:, :, None]
        gradient = np.stack([rows.sums(errors[:, :, a]) for a in range(n_classes)], axis=1)
        gradient += penalties[:, None, :] * w
        hessian = fixed.copy()
        for a in range(n_classes):
            for b in range(a + 1):
                curvature = probability[:, :, a] * ((a == b) - probability[:, :, b]) * counted
                block = rows.products(curvature)
                hessian[:, a, :, b, :] += block
                if a != b:
                    hessian[:, b, :, a, :] += block
        flat = hessian.reshape(-1, unknowns, unknowns)
        step = np.linalg.solve(flat, gradient.reshape(-1, unknowns, 1)).reshape(w.shape)
        change = np.stack([rows.margins(step[:, a]) for a in range(n_classes)], axis=2)
        spread = (change.max(axis=2) - change.min(axis=2)) * (counted > 0)
        length = _safe_length(spread.max(axis=1))[:, None, None]
        w = w - length * step
        margins -= length * change
        weights[active] = w
        going = np.abs(step).max(axis=(1, 2)) > TOLERANCE * (1 + np.abs(w).max(axis=(1, 2)))
        if not going.any():
            return weights
        if 4 * going.sum() < 3 * len(going):
            active, w, margins, counted = active[going], w[going], margins[going], counted[going]
            rows, absent, fixed, penalties = rows.take(going), absent[going], fixed[going], penalties[going]
            target = target if len(target) == 1 else target[going]
    raise GameError(_not_converged(len(going)))


@dataclass(frozen=True, eq=False)
class _Gathered:
    """The rows of each set, gathered: (m, L, d). For small sets."""

    rows: Floats

    def margins(self, weights: Floats) -> Floats:
        """(m, d) weights -> (m, L) of x'w."""
        return (self.rows @ weights[:, :, None])[:, :, 0]

    def sums(self, factors: Floats) -> Floats:
        """(m, L) factors -> (m, d) sums of factor times x."""
        return (factors[:, None, :] @ self.rows)[:, 0]

    def products(self, factors: Floats) -> Floats:
        """(m, L) factors -> (m, d, d) sums of factor times x x'."""
        return self.rows.transpose(0, 2, 1) @ (self.rows * factors[:, :, None])

    def take(self, kept: Masks) -> _Gathered:
        return _Gathered(self.rows[kept])


@dataclass(frozen=True, eq=False)
class _Shared:
    """All rows, shared by all sets, so that each step is one matrix product. For large sets."""

    rows: Floats
    squares: Floats
    """(n, d * d) products x x' of each row."""

    @classmethod
    def of(cls, rows: Floats) -> _Shared:
        return cls(rows, (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1))

    def margins(self, weights: Floats) -> Floats:
        """(m, d) weights -> (m, n) of x'w."""
        return weights @ self.rows.T

    def sums(self, factors: Floats) -> Floats:
        """(m, n) factors -> (m, d) sums of factor times x."""
        return factors @ self.rows

    def products(self, factors: Floats) -> Floats:
        """(m, n) factors -> (m, d, d) sums of factor times x x'."""
        width = self.rows.shape[1]
        return (factors @ self.squares).reshape(-1, width, width)

    def take(self, kept: Masks) -> _Shared:
        return self


def _safe_length(change: Floats) -> Floats:
    """Return a step length that is certain to decrease the objective, without a line search.

    Along a Newton step that changes no margin by more than c, the third derivative of the logistic loss is at most c
    times the second. Integrating this bound, the best length is log(1 + c) / c, which tends to one as c does to zero.
    """
    return np.log1p(change) / np.maximum(change, 1e-300) * (change > 1e-12) + (change <= 1e-12)


def two_class_predictions(fitted: Masks, margins: Floats, needs: frozenset[Need]) -> Predictions:
    """Return labels, ranks and, if needed, probabilities of two classes.

    Args:
        fitted: (m,) whether each model could be fitted.
        margins: (m, t) log-odds of the second class over the first.
        needs: Probabilities are computed if they are among these.

    """
    probabilities = None
    if "probabilities" in needs:
        probabilities = np.stack([expit(-margins), expit(margins)], axis=2)
    return Predictions(fitted, labels=(margins > 0).astype(np.int64), probabilities=probabilities, ranks=margins)


def _not_converged(n_left: int) -> str:
    return (
        f"logistic regression: {n_left} coalitions did not converge in {MAX_STEPS} Newton steps: "
        "scale the features, or use a stronger penalty, a smaller C"
    )


def twin(model: Any, data: Data, *, standardised: bool = False) -> Logistic | str:
    """Return the batched twin of a LogisticRegression, or the reason why there is none.

    Args:
        model: With its settings; whether it was fitted does not matter.
        data: The rows; padding, if any, is fitted to but does not decide how features are scaled.
        standardised: Whether a StandardScaler comes before the model, refitted to every set.

    """
    penalty = getattr(model, "penalty", "l2")
    if penalty not in ("l2", "deprecated") or (getattr(model, "l1_ratio", None) or 0) != 0:
        return "the penalty is not l2"
    if model.class_weight is not None:
        return "class_weight is set"
    if model.solver == "liblinear" or model.dual:
        return "liblinear penalises the intercept"
    if getattr(model, "multi_class", "deprecated") not in ("deprecated", "auto", "multinomial"):
        return f"multi_class is {model.multi_class!r}"
    if not 0 < model.C < np.inf:
        return "C is not a positive finite number"
    X, X_test = data.features()
    unknowns = (X.shape[1] + 1) * (data.n_classes if data.n_classes > 2 else 1)
    if unknowns > MAX_UNKNOWNS:
        return f"{unknowns} weights are too many for Newton steps"
    known = X[: data.n_rows]
    shift = known.mean(axis=0) if model.fit_intercept else np.zeros(X.shape[1])
    scale = known.std(axis=0)
    # of a feature that does not vary, what is left is rounding error, by which nothing must be divided
    scale[scale <= len(known) * np.finfo(float).eps * np.abs(known.mean(axis=0))] = 1
    n_free = int(model.fit_intercept)
    design = np.concatenate([np.ones((len(X), n_free)), (X - shift) / scale], axis=1)
    penalty = np.append(np.zeros(n_free), 1 / (model.C * (np.ones_like(scale) if standardised else scale**2)))
    return Logistic(
        np.concatenate([design, np.zeros((1, design.shape[1]))]),
        np.append(data.y, 0),
        np.concatenate([np.ones((len(X_test), n_free)), (X_test - shift) / scale], axis=1),
        penalty,
        data.n_classes,
        _starts(design, data.y, penalty, data.n_classes),
        standardised,
    )


def _starts(design: Floats, codes: Ints, penalty: Floats, n_classes: int) -> Floats:
    """Return the weights of typical sets of 1, 2, 4, ... rows, fitted to a sample of the data.

    The objective of a set of s rows is about s times the mean over rows. Starting there, fits take a half or a third
    of the steps that they take from zero.
    """
    sample = np.linspace(0, len(design) - 1, min(len(design), 1000)).astype(np.int64)
    n_sizes = int(np.ceil(np.log2(len(design)))) + 1
    counted = np.broadcast_to(2.0 ** np.arange(n_sizes)[:, None] / len(sample), (n_sizes, len(sample)))
    rows = _Shared.of(design[sample])
    codes = codes[sample]
    present = np.isin(np.arange(n_classes), codes)
    zero = np.zeros((n_sizes, n_classes, len(penalty)))
    if n_classes == 2:
        sign = np.broadcast_to(np.where(codes == 1, 1.0, -1.0), counted.shape)
        return _fit_two(rows, counted, sign, penalty, zero[:, 0])[:, None] if present.all() else zero[:, :1]
    target = (codes[:, None] == np.arange(n_classes))[None]
    everywhere = np.broadcast_to(present, (n_sizes, n_classes))
    return _fit_many(rows, counted, target, everywhere, penalty, zero) if present.sum() > 2 else zero
