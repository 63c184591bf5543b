"""Scores without a part of the test rows: further outputs of the same models, for the error of the test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.data import Data, take_rows
from fgsv.utilities.fingerprint import fingerprint
from fgsv.utilities.outputs import Output, worth_of_nothing
from fgsv.utilities.scores import Predictions, class_weights


class FoldsError(ValueError):
    """A score cannot be computed without each fold of the test rows."""


def read_folds(folds: Any, data: Data) -> Ints:
    """Return (t,): the fold of each test row, numbered from 0; of a number of them, random ones.

    The key of these is a hash of all test rows, so the same test rows have the same folds in every run.
    """
    n_test = len(data.y_test)
    if isinstance(folds, int) and 2 <= folds <= n_test:
        key = fingerprint(data.X_test, data.y_test) or "0"
        return np.random.default_rng(int(key, 16)).permutation(n_test) % folds
    numbers = np.asarray(folds)
    if numbers.shape != (n_test,) or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"folds must be how many there are, from 2 to {n_test}, or have a whole number for each of the {n_test} "
            f"test rows; got {folds!r:.100}"
        )
    n_folds = int(numbers.max()) + 1
    if n_folds < 2 or not np.array_equal(np.unique(numbers), np.arange(n_folds)):
        raise ValueError("folds must be numbered from 0 without gaps, and there must be at least two")
    return numbers.astype(np.int64)


@dataclass(frozen=True, eq=False)
class WithoutFolds:
    """The scores of an output on all its test rows but those of each of K folds."""

    output: Output
    kept: tuple[Masks, ...]
    """For each fold, which test rows of the output are in others: (t,) each."""
    within: Floats
    """(t, K): 1 where a test row is in a fold."""
    scale: Floats
    """(K,): what sums over the kept rows are multiplied by; for balanced accuracy (t, K), the weights of the rows."""

    @classmethod
    def of(cls, output: Output, folds: Ints) -> WithoutFolds:
        """Return the scores of an output without each fold, or raise an error if one of them is unknown."""
        if output.each_point:
            raise FoldsError("single test points have no folds")
        fold = folds if output.rows is None else folds[output.rows]
        truth = output.truth
        score = output.score
        kept = tuple(fold != number for number in range(int(folds.max()) + 1))
        needs_classes = output.n_classes > 0 and (score is None or score.name.startswith("roc_auc"))
        for number, some in enumerate(kept):
            if not some.any():
                raise FoldsError(f"{output.name} has no test rows without fold {number}")
            if needs_classes and len(np.unique(truth[some])) < len(np.unique(truth)):
                raise FoldsError(f"without fold {number} of the test rows, {output.name} lacks a class")
            if score is not None and score.name == "r2" and truth[some].var() == 0:
                raise FoldsError(f"without fold {number} of the test rows, all their labels are equal")
        scale = 1 / np.array([some.sum() for some in kept])
        if score is not None and score.name == "r2":
            scale = scale / np.array([truth[some].var() for some in kept])
        if score is not None and score.name == "balanced_accuracy":
            scale = np.stack([some * class_weights(truth, some, output.n_classes) for some in kept], axis=1)
        return cls(output, kept, 1.0 - np.stack(kept, axis=1), scale)

    def worth_of_nothing(self, data: Data) -> Floats:
        """Return (K,): the worth of no data, which is the same number without each fold if the user gave one."""
        if self.output.default_is_given:
            return np.full(len(self.kept), self.output.default[0])
        try:
            return np.array([worth_of_nothing(self.output, data, some)[0] for some in self.kept])
        except ValueError as error:
            raise FoldsError(f"without a fold of the test rows: {error}") from None

    def measure(self, predictions: Predictions) -> Floats:
        """Return (m, K): the scores of m models."""
        output = self.output
        score = output.score
        truth = output.truth
        if score is None:
            return np.stack([self._scored(model) for model in predictions.estimators])
        predicted = getattr(predictions, score.need)
        if output.rows is not None:
            predicted = predicted[:, output.rows]
        if score.points is not None:
            return self._means(score.points(predicted, truth))
        if score.name == "r2":
            return 1 - self._means((predicted - truth) ** 2)
        if score.name == "balanced_accuracy":
            return np.asarray((predicted == truth) @ self.scale)
        if score.name == "roc_auc":
            return _areas(predicted, truth == 1, self.within)
        areas = [_areas(predicted[:, :, code], truth == code, self.within) for code in range(output.n_classes)]
        return np.asarray(np.mean(areas, axis=0))

    def _means(self, points: Floats) -> Floats:
        """Return (m, K) means over the kept rows of (m, t) points, in units of their scale."""
        return (points.sum(axis=1, keepdims=True) - points @ self.within) * self.scale

    def _scored(self, model: Any) -> Floats:
        """Return (K,) of a scorer; one of scikit-learn sees predictions that are made once for all test rows."""
        scorer = self.output.scorer
        X_test = self.output.X_test
        remembers = hasattr(scorer, "_score_func") and hasattr(scorer, "_response_method")
        answers: dict[str, NDArray[Any]] = {}
        scores = []
        for some in self.kept:
            seen = _Remembering(model, X_test, some, answers) if remembers else model
            scores.append(scorer(seen, take_rows(X_test, np.flatnonzero(some)), self.output.truth[some]))
        return np.array(scores, dtype=float)


def _areas(ranks: Floats, positive: Masks, within: Floats) -> Floats:
    """Return (m, K): the areas under the ROC curve without each fold.

    The area counts pairs of a positive and a negative, so those with a row of the fold are taken off: all pairs of
    its positives, all pairs of its negatives, less those that are in both.
    """
    everywhere = rankdata(ranks, axis=1)
    below = np.zeros_like(everywhere)  # of a positive the negatives below it, of a negative the positives above it
    below[:, positive] = everywhere[:, positive] - rankdata(ranks[:, positive], axis=1)
    above = everywhere[:, ~positive] - rankdata(ranks[:, ~positive], axis=1)
    below[:, ~positive] = positive.sum() - above
    right = below @ within
    for fold, members in enumerate(within.T > 0):
        mine = positive[members]
        if mine.any() and not mine.all():
            inside = rankdata(ranks[:, members], axis=1)[:, mine].sum(axis=1)
            right[:, fold] -= inside - mine.sum() * (mine.sum() + 1) / 2
    pairs = (positive.sum() - within[positive].sum(axis=0)) * ((~positive).sum() - within[~positive].sum(axis=0))
    return np.asarray((below[:, positive].sum(axis=1, keepdims=True) - right) / pairs)


class _Remembering:
    """A fitted model that looks up what it predicts for some of the test rows; everything else is its own."""

    def __init__(self, model: Any, X_test: Any, kept: Masks, answers: dict[str, NDArray[Any]]) -> None:
        self._model = model
        self._X_test = X_test
        self._kept = kept
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_model"):
            raise AttributeError(name)
        own = getattr(self._model, name)
        if name not in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
            return own

        def look_up(X: Any) -> NDArray[Any]:
            if name not in self._answers:
                self._answers[name] = np.asarray(own(self._X_test))
            return self._answers[name][self._kept]

        look_up.__name__ = name
        return look_up
