"""Scores of the predictions of many models at once, under scikit-learn's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata

from fgsv.types import Floats, Ints, Masks

Need = Literal["values", "labels", "probabilities", "ranks", "estimators"]
"""The field of the predictions that a score is computed from."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of m models at t test points; fields that no score needs may be None."""

    fitted: Masks
    """(m,) False where the model cannot be fitted to the set, or cannot predict afterwards."""
    values: Floats | None = None
    """(m, t) predictions of a regression."""
    labels: Ints | None = None
    """(m, t) predicted classes, as positions among all classes."""
    probabilities: Floats | None = None
    """(m, t, C) probabilities of all classes; 0 for classes absent from a set."""
    ranks: Floats | None = None
    """(m, t) numbers that order the test points by how likely the second of two classes is."""
    estimators: tuple[Any, ...] = ()
    """The m fitted scikit-learn models, for scorers that take a model."""


@dataclass(frozen=True)
class Score:
    """A score of predictions against the truth; larger is better."""

    name: str
    kind: Literal["classifier", "regressor"]
    need: Need
    whole: Callable[[Any, Any, int], Floats]
    """(m, t, ...) predictions, (t,) truth, number of classes -> (m,)."""
    points: Callable[[Any, Any], Floats] | None = None
    """(m, t, ...) predictions, (t,) truth -> (m, t); None unless `whole` is the mean of these over test points."""


def _right(labels: Ints, truth: Ints) -> Floats:
    return np.asarray(labels == truth, dtype=float)


def _accuracy(labels: Ints, truth: Ints, n_classes: int) -> Floats:
    return np.count_nonzero(labels == truth, axis=1) / len(truth)


def class_weights(truth: Ints, kept: Masks | slice, n_classes: int) -> Floats:
    """Return (t,): what a right prediction of each test row counts in the balanced accuracy.

    >>> class_weights(np.array([0, 0, 1]), slice(None), 2).tolist()
    [0.25, 0.25, 0.5]

    Args:
        truth: (t,) classes, from 0.
        kept: The test rows on which the accuracy of each class is taken.
        n_classes: C; classes without test rows do not count.

    """
    counts = np.bincount(truth[kept], minlength=n_classes)
    return (1 / (np.maximum(counts, 1) * np.count_nonzero(counts)))[truth]


def _balanced_accuracy(labels: Ints, truth: Ints, n_classes: int) -> Floats:
    return (labels == truth) @ class_weights(truth, slice(None), n_classes)


def _log_likelihood(probabilities: Floats, truth: Ints) -> Floats:
    chosen = np.take_along_axis(probabilities, truth[None, :, None], axis=2)[:, :, 0]
    epsilon = np.finfo(float).eps
    return np.log(np.clip(chosen, epsilon, 1 - epsilon))


def _neg_log_loss(probabilities: Floats, truth: Ints, n_classes: int) -> Floats:
    return _log_likelihood(probabilities, truth).mean(axis=1)


def _area(ranks: Floats, positive: Masks) -> Floats:
    """Return the area under the ROC curve of each row: the probability that a positive outranks a negative."""
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    above = rankdata(ranks, axis=1)[:, positive].sum(axis=1) - n_positive * (n_positive + 1) / 2
    return above / (n_positive * n_negative)


def _roc_auc(ranks: Floats, truth: Ints, n_classes: int) -> Floats:
    return _area(ranks, truth == 1)


def _roc_auc_ovr(probabilities: Floats, truth: Ints, n_classes: int) -> Floats:
    areas = [_area(probabilities[:, :, code], truth == code) for code in range(n_classes)]
    return np.mean(areas, axis=0)


def _negative_squares(values: Floats, truth: Floats) -> Floats:
    return -((values - truth) ** 2)


def _neg_mean_squared_error(values: Floats, truth: Floats, n_classes: int) -> Floats:
    errors = values - truth
    return -np.einsum("mt,mt->m", errors, errors) / len(truth)


def _r2(values: Floats, truth: Floats, n_classes: int) -> Floats:
    return 1 + _neg_mean_squared_error(values, truth, n_classes) / truth.var()


def _negative_distances(values: Floats, truth: Floats) -> Floats:
    return -np.abs(values - truth)


def _neg_mean_absolute_error(values: Floats, truth: Floats, n_classes: int) -> Floats:
    return _negative_distances(values, truth).mean(axis=1)


SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        Score("accuracy", "classifier", "labels", _accuracy, _right),
        Score("balanced_accuracy", "classifier", "labels", _balanced_accuracy),
        Score("neg_log_loss", "classifier", "probabilities", _neg_log_loss, _log_likelihood),
        Score("roc_auc", "classifier", "ranks", _roc_auc),
        Score("roc_auc_ovr", "classifier", "probabilities", _roc_auc_ovr),
        Score("neg_mean_squared_error", "regressor", "values", _neg_mean_squared_error, _negative_squares),
        Score("neg_mean_absolute_error", "regressor", "values", _neg_mean_absolute_error, _negative_distances),
        Score("r2", "regressor", "values", _r2),
    )
}
"""The batched scores: computed for many models at once. Other scorers are called on one fitted model at a time."""
