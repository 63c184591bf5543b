"""The test error of shares: how much they depend on the choice of the test rows, at no extra evaluation.

The test rows are cut at random into folds, and the score on each fold is an output of the game. The weighted mean of
these outputs is the score on all test rows, so the game is the same; how much the folds disagree is the test error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import sem
from sklearn.model_selection import KFold

from fgsv.types import Floats, Ints
from fgsv.utilities.outputs import constant_predictions
from fgsv.utilities.scores import SCORES
from fgsv.valuation import Valuation, t_quantile
from fgsv.valuation.valuation import some_outputs

FOLDS = 10
PARTS = 40
"""Parts of the test rows without each of which a model is scored, where all scores come from one prediction: with ten
the error of a total would vary by a quarter with how the rows happen to be cut, and a payout may be refused by it."""
MEANS = tuple(name for name, score in SCORES.items() if score.points is not None)
"""Scores that are means over test rows: the score on all rows is a weighted mean of the scores on the folds."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Test rows cut into F folds, in the form that `fgsv.utility` takes."""

    scoring: dict[str, tuple[str, Ints]]
    """Fold -> its score and its test rows."""
    empty: Floats
    """(F,) the utility of no data: the score on each fold of one constant prediction for all test rows."""
    weights: Floats
    """(F,) the fraction of the test rows in each fold."""


def folds_of(metric: str, y_test: NDArray[Any], *, seed: int = 0) -> Folds:
    """Cut the test rows at random into folds whose sizes differ by one row at most.

    >>> folds = folds_of("accuracy", np.arange(25) % 2)
    >>> len(folds.scoring), folds.weights[[0, -1]].tolist()
    (10, [0.12, 0.08])
    """
    if metric not in MEANS:
        raise ValueError(
            f"the test error needs a score that is a mean over test rows, got {metric!r}: choose one of "
            f"{', '.join(MEANS)}"
        )
    if len(y_test) < 2 * FOLDS:
        raise ValueError(f"the test error needs at least {2 * FOLDS} test rows, got {len(y_test)}")
    rows = [part for _, part in KFold(FOLDS, shuffle=True, random_state=seed % 2**32).split(y_test)]
    scores = _constant_scores(metric, y_test)
    return Folds(
        scoring={f"fold {number}": (metric, part) for number, part in enumerate(rows)},
        empty=np.array([scores[part].mean() for part in rows]),
        weights=np.array([len(part) for part in rows]) / len(y_test),
    )


def _constant_scores(metric: str, y: NDArray[Any]) -> Floats:
    """Return the score at each test row of the constant prediction, as `fgsv.utility` scores it without a model."""
    score, classes = SCORES[metric], None
    if score.kind == "classifier":
        classes, y = np.unique(y, return_inverse=True)
    predictions = constant_predictions(y, 0 if classes is None else len(classes))
    assert score.points is not None
    return score.points(getattr(predictions, score.need), y)[0]


def share_errors(valuation: Valuation, weights: Floats) -> Floats:
    """Return (K,) standard errors of the shares due to the choice of the test rows.

    `valuation` has an output for each fold. A share is a ratio of means over test rows, value / total, so its
    residual in a fold is value - share * total. The folds' Monte Carlo error is included: the result is too large
    rather than too small.
    """
    total = float(valuation.total @ weights)
    shares = valuation.values @ weights / total
    residuals = (valuation.values - shares[:, None] * valuation.total) * weights * len(weights)
    return sem(residuals, axis=1) / total


def lasting_errors(valuation: Valuation, weights: Floats) -> Floats:
    """Return `share_errors` without the part due to the folds' Monte Carlo error, which more evaluations reduce."""
    errors, deviations = share_errors(valuation, weights), valuation.group_deviations
    if deviations is None:
        return errors
    parts = np.moveaxis(deviations * weights, 2, 0) / float(valuation.total @ weights)  # (F, R, K)
    sampled = (_about_their_mean(parts) ** 2).sum(axis=(0, 1))
    return np.sqrt(np.maximum(errors**2 - sampled, 0.0))


def _about_their_mean(parts: Floats) -> Floats:
    """Return what F parts add to a sum, scaled so that the sum of their squares is the variance of the sum."""
    n_folds = len(parts)
    return (parts - parts.mean(axis=0)) * np.sqrt(n_folds / (n_folds - 1))


def without_each_fold(metric: Any, n_test: int, *, seed: int = 0) -> dict[str, tuple[Any, Ints]]:
    """Return a score on all test rows except one fold, for each of at most forty folds: (score, test rows).

    A scorer that makes its own predictions has ten folds, because it is called for each.
    """
    folds = KFold(min(PARTS if metric in SCORES else FOLDS, n_test), shuffle=True, random_state=seed % 2**32)
    kept = [rows for rows, _ in folds.split(np.empty(n_test))]
    return {f"without fold {number}": (metric, rows) for number, rows in enumerate(kept)}


def jackknife_half_width(totals: Floats, confidence: float = 0.95) -> float:
    """Return the half-width of U(N) - U(0) due to the choice of test rows, from its values without each of G folds.

    >>> scores = np.array([3.0, 1.0, 2.0, 6.0])
    >>> means = (scores.sum() - scores) / 3  # of a mean it is the usual standard error
    >>> bool(np.isclose(jackknife_half_width(means), t_quantile(0.95, 3) * sem(scores)))
    True
    """
    n_folds = len(totals)
    stderr = np.sqrt((n_folds - 1) / n_folds * ((totals - totals.mean()) ** 2).sum())
    return float(t_quantile(confidence, n_folds - 1) * stderr)


def half_width_of_total(totals: Floats, weights: Floats, confidence: float = 0.95) -> float:
    """Return the half-width of U(N) - U(0) due to the choice of test rows, from its values in each of F folds.

    Folds may differ in weight, as they do for texts: the score is a ratio, and so the jackknife is that of a ratio.
    """
    parts = totals * weights
    return jackknife_half_width((parts.sum() - parts) / (weights.sum() - weights), confidence)


@dataclass(frozen=True)
class TestError:
    """How far off the shares may be due to the choice of test rows, beside their Monte Carlo error."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    n_folds: int
    weights: tuple[float, ...]
    rows: tuple[Mapping[str, Any], ...]
    """For each group its `share` and half-widths: `monte_carlo`, `test`, and `lasting`, the part of `test` that the
    folds' own Monte Carlo error does not explain; and its value in each of the `folds`."""
    total: float
    """The half-width of U(N) - U(0) due to the choice of the test rows."""
    totals: tuple[float, ...]
    """U(N) - U(0) in each fold; the values in each are `folds` of each row."""

    @property
    def by_fold(self) -> Floats | None:
        """(K + 1, F): what each fold adds to the values of the groups and, last, to U(N) - U(0); None if unknown."""
        if not self.rows:
            return None
        return np.array([*(row["folds"] for row in self.rows), self.totals]) * np.array(self.weights)

    @property
    def deviations(self) -> Floats | None:
        """(F, K) deviations of the shares: the variance of any sum of shares is the sum over F of its squares."""
        if self.by_fold is None:
            return None
        values, totals = self.by_fold[:-1], self.by_fold[-1]
        residuals = (values - np.outer(values.sum(axis=1), totals) / totals.sum()).T / totals.sum()
        return _about_their_mean(residuals)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        rows = [dict(row) for row in self.rows]
        return {
            "n_folds": self.n_folds,
            "weights": list(self.weights),
            "rows": rows,
            "total": self.total,
            "totals": list(self.totals),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> TestError:
        """Read what `to_dict` returned."""
        weights, rows, totals = (tuple(document[name]) for name in ("weights", "rows", "totals"))
        return cls(document["n_folds"], weights, rows, document["total"], totals)


def error_of_test_rows(valuation: Valuation, folds: Folds, confidence: float = 0.95) -> TestError:
    """Return both errors of each share, from a valuation whose first outputs are the folds."""
    weights = folds.weights
    valuation = some_outputs(valuation, slice(len(weights)))
    single = valuation.combined(weights)
    rows: list[dict[str, Any]] = []
    quantile = float(t_quantile(confidence, len(weights) - 1))
    total_error = half_width_of_total(np.asarray(valuation.total), weights, confidence)
    if single.total > 0:  # otherwise there are no shares
        columns = {
            "group": [str(name) for name in single.names],
            "share": single.shares().tolist(),
            "monte_carlo": single.sampling_half_width(confidence).tolist(),
            "test": (quantile * share_errors(valuation, weights)).tolist(),
            "lasting": (quantile * lasting_errors(valuation, weights)).tolist(),
            "folds": valuation.values.tolist(),
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    totals = np.asarray(valuation.total).tolist()
    return TestError(len(weights), tuple(weights.tolist()), tuple(rows), total_error, tuple(totals))
