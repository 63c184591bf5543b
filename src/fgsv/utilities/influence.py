"""Influence: utilities from a first-order expansion around the model fitted to all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge

from fgsv.types import Floats, Ints
from fgsv.utilities.batched import linear, logistic
from fgsv.utilities.data import Data, Given, Kind, NullSampler
from fgsv.utilities.outputs import Output, check_batched
from fgsv.utilities.row_sets import RowSets
from fgsv.utilities.scores import Need, Predictions
from fgsv.utilities.utility import Learner, Utility, build


@dataclass(frozen=True, eq=False)
class Influence:
    """Weights for many sets of rows, to first order around the weights of all n rows, and their predictions.

    Let w be the weights fitted to all rows, g_i the gradient of row i at w, H the sum of the rows' Hessians at w, and
    P the penalty. The weights of a set S of s rows are approximated by

        w_S = w - (s/n H + P)^(-1) (sum_{i in S} g_i + P w).

    This is exact for all rows, and the influence function for large sets.
    """

    gradients: Floats
    """(n + 1, k) gradients in the basis below; the last row, of zeros, pads lists."""
    total: Floats
    """(k,) sum of the gradients over all rows of the data."""
    pull: Floats
    """(k,) gradient of the penalty, in the same basis."""
    basis: Floats
    """(k, k) columns V with V'HV = 1 and V'PV = diag(strength)."""
    strength: Floats
    """(k,) penalties in that basis."""
    weights: Floats
    """(C, d) weights of the model fitted to all rows; C is 1 for a regression or two classes."""
    X_test: Floats
    """(t, d) test rows."""
    codes: Ints
    """(n + 1,) classes of the rows."""
    n_rows: int
    n_classes: int
    offset: float
    """Added to a regression's predictions."""

    name: ClassVar[str] = "first-order expansion around the model trained on everything"
    lists_members: ClassVar[bool] = False

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes for each set, whatever its length, and for each listed row of a set."""
        per_set = 8 * (4 * self.weights.size + 4 * len(self.X_test) * max(self.n_classes, 1))
        return per_set, 8 * (int(self.gradients.shape[1]) + 2)

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Approximate the weights of every set and predict the test points."""
        sums = np.take(self.gradients, sets.table(len(self.gradients) - 1), axis=0).sum(axis=1)
        sums[sets.inverted] = self.total - sums[sets.inverted]
        step = (sums + self.pull) / (sets.sizes[:, None] / self.n_rows + self.strength)
        weights = self.weights - (step @ self.basis.T).reshape(len(sets), *self.weights.shape)
        if not self.n_classes:
            return Predictions(np.ones(len(sets), dtype=bool), values=weights[:, 0] @ self.X_test.T + self.offset)
        fitted = np.count_nonzero(sets.counts(self.codes, self.n_classes), axis=1) > 1
        if self.n_classes == 2:
            return logistic.two_class_predictions(fitted, weights[:, 0] @ self.X_test.T, needs)
        scores = self.X_test @ weights.transpose(0, 2, 1)
        return Predictions(fitted, labels=scores.argmax(axis=2), probabilities=softmax(scores, axis=2))


def influence(
    model: Any,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    scoring: Any = None,
    *,
    units: Any = None,
    empty: Any = None,
    min_size: int | None = None,
    null: str | NullSampler | None = None,
    per_test_point: bool = False,
    seed: int = 0,
) -> Utility:
    """Return a first-order approximation of `fgsv.utility`'s game (paper, section 3.5.2), with the same arguments.

    An evaluation is far cheaper than a fit: it adds one gradient for each listed row. The values are not those of the
    model: use it as a proxy, close for large coalitions and rough for small ones.

    Args:
        model: A Ridge, or a LogisticRegression with an l2 penalty.
        X: (n, p) training rows, a dense table of numbers.
        y: (n,) their labels.
        X_test: (t, p) test rows.
        y_test: (t,) their labels.
        scoring: A batched score by name (`fgsv.utilities.scores.SCORES`), or several. Default: accuracy or r2.
        units: (n,) labels; rows with the same one are one player.
        empty: Worth of a coalition that the model cannot be fitted to. Default: the score of the best constant.
        min_size: Rows to which small coalitions are padded with uninformative ones.
        null: What these are: "shuffle", or a callable (X, y, size, rng) -> (X, y).
        per_test_point: Whether the score at each test point is an output.
        seed: Of the padding.

    Raises:
        TypeError, ValueError: The model, the table or the score has no expansion.

    Examples:
        >>> import fgsv
        >>> import numpy as np
        >>> from sklearn.linear_model import Ridge
        >>> X = np.arange(12.0).reshape(6, 2) % 5
        >>> y = X @ [1, 2]
        >>> everyone = np.ones((1, 6), dtype=bool)
        >>> exact = fgsv.utility(Ridge(), X, y, X, y)(everyone)
        >>> bool(np.isclose(influence(Ridge(), X, y, X, y)(everyone), exact))
        True

    """
    given = Given(X, y, X_test, y_test, scoring, units, empty, min_size, null, per_test_point, seed)
    return build(Kind.of(model), _expansion, model, given)


def _expansion(model: Any, data: Data, scored: Sequence[Output], seed: int) -> tuple[Learner, str, Any]:
    """Return the expansion of a model, or raise an error that says which models and scores have one."""
    if type(model) not in (Ridge, LogisticRegression):
        raise TypeError(f"influence is for Ridge and LogisticRegression, got {type(model).__name__}")
    if not data.is_dense:
        raise TypeError("influence needs X to be a dense table of numbers")
    check_batched(scored)
    fitted = linear.twin(model, data) if type(model) is Ridge else logistic.twin(model, data)
    if isinstance(fitted, str):
        raise ValueError(f"influence has no expansion for this {type(model).__name__}: {fitted}")
    expansion = _of_ridge(fitted, data) if isinstance(fitted, linear.Linear) else _of_logistic(fitted, data)
    return expansion, "", model


def _of_ridge(fitted: linear.Linear, data: Data) -> Influence:
    first = 0 if fitted.intercept else 1
    rows = fitted.design[:, first:-1]
    target = fitted.design[:, -1]
    penalty = np.full(rows.shape[1], fitted.penalty)
    penalty[: 1 - first] = 0
    known = rows[: data.n_rows]
    hessian = known.T @ known
    weights = np.asarray(np.linalg.solve(hessian + np.diag(penalty), known.T @ target[: data.n_rows]), dtype=float)
    gradients = rows * (rows @ weights - target)[:, None]
    codes = np.zeros(len(rows), dtype=np.int64)
    return _assemble(gradients, hessian, penalty, weights[None], fitted.X_test[:, first:], codes, data, fitted.y_mean)


def _of_logistic(fitted: logistic.Logistic, data: Data) -> Influence:
    everyone = RowSets(data.n_rows, np.empty(0, np.int64), np.zeros(2, np.int64), np.ones(1, dtype=bool))
    weights = fitted.fit(everyone)[0]
    rows = fitted.design
    width = len(fitted.penalty)
    known = np.arange(len(rows)) < data.n_rows
    if data.n_classes == 2:
        weights = weights[1:]
        chance = softmax(np.stack([np.zeros(len(rows)), rows @ weights[0]], axis=1), axis=1)[:, 1:]
        target = fitted.codes[:, None] == 1
    else:
        chance = softmax(rows @ weights.T, axis=1)
        target = fitted.codes[:, None] == np.arange(data.n_classes)
    n_free = len(weights)
    gradients = ((chance - target)[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
    curvature = chance[:, :, None] * (np.eye(n_free) - chance[:, None, :])
    hessian = np.einsum("nab,ni,nj->aibj", curvature[known], rows[known], rows[known], optimize=True)
    if n_free > 1:  # adding a constant to all intercepts changes nothing, and no gradient points that way
        hessian += np.einsum("ab,ij->aibj", np.ones((n_free, n_free)), np.diag((fitted.penalty == 0).astype(float)))
    hessian = hessian.reshape(n_free * width, n_free * width)
    penalty = np.tile(fitted.penalty, n_free)
    return _assemble(gradients, hessian, penalty, weights, fitted.X_test, fitted.codes, data, 0.0)


def _assemble(
    gradients: Floats,
    hessian: Floats,
    penalty: Floats,
    weights: Floats,
    X_test: Floats,
    codes: Ints,
    data: Data,
    offset: float,
) -> Influence:
    """Change to the basis in which the Hessian is the identity and the penalty is diagonal."""
    jitter = 1e-12 * np.trace(hessian) / len(hessian)  # for features that are constant or linearly dependent
    strength, basis = scipy.linalg.eigh(np.diag(penalty), hessian + jitter * np.eye(len(hessian)))
    turned = gradients @ basis
    turned[-1] = 0
    return Influence(
        turned,
        turned[: data.n_rows].sum(axis=0),
        (penalty * weights.reshape(-1)) @ basis,
        basis,
        np.maximum(strength, 0),
        weights,
        X_test,
        codes,
        data.n_rows,
        data.n_classes,
        offset,
    )
