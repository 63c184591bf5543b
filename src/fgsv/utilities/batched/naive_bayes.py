"""Gaussian naive Bayes for many sets of rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.batched.scaling import scales
from fgsv.utilities.data import Data
from fgsv.utilities.row_sets import RowSets
from fgsv.utilities.scores import Need, Predictions


@dataclass(frozen=True, eq=False)
class NaiveBayes:
    """Gaussian naive Bayes, one class after the other for all sets of a chunk.

    A set in which no feature varies has no variance to smooth with. If it has two classes it cannot be fitted:
    scikit-learn's probabilities would be NaN.
    """

    X: Floats
    """(n + 1, p) rows; the last one, of zeros, pads lists."""
    codes: Ints
    X_test: Floats
    n_classes: int
    smoothing: float
    scaling: str | None = None
    """What each feature is divided by in the set: it changes only what the variances are smoothed by."""

    name: ClassVar[str] = "Gaussian naive Bayes, batched"
    lists_members: ClassVar[bool] = True

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes for each set, whatever its length, and for each row of a set."""
        width = int(self.X.shape[1])
        return 8 * len(self.X_test) * (3 * self.n_classes + 2 * width), 8 * (3 * width + self.n_classes)

    def unfitted(self, sets: RowSets) -> Masks:
        """Return (m,) whether a set has several classes and no variance to smooth with."""
        sets = sets.explicit()
        first = self.X[sets.listed[sets.starts[:-1]]]
        last = self.X[sets.listed[sets.starts[1:] - 1]]
        alike = np.flatnonzero((first == last).all(axis=1) | (self.smoothing == 0))  # the others vary
        found = np.zeros(len(sets), dtype=bool)
        if len(alike):
            found[alike] = ~self.predict(sets.take(alike), frozenset()).fitted
        return found

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Fit every set and predict the test points from the classes' likelihoods."""
        members = sets.explicit().table(len(self.X) - 1)
        rows = np.take(self.X, members, axis=0)
        counted = members < len(self.X) - 1
        counts = sets.counts(self.codes, self.n_classes)
        _, spread = _moments(rows, counted.astype(float))
        squares = scales(self.scaling, rows, counted) ** 2
        smoothing = self.smoothing * (spread / squares).max(axis=1)
        score = np.full((len(sets), len(self.X_test), self.n_classes), -np.inf)
        one_class = np.count_nonzero(counts, axis=1) == 1
        fitted = one_class | (smoothing > 0)
        for code in range(self.n_classes):
            known = (counts[:, code] > 0) & fitted & ~one_class
            score[one_class & (counts[:, code] > 0), :, code] = 0.0
            mean, variance = _moments(rows[known], (counted & (self.codes[members] == code))[known].astype(float))
            variance += smoothing[known][:, None] * squares[known]
            prior = np.log(counts[known, code] / sets.sizes[known])
            gaps = (self.X_test - mean[:, None, :]) ** 2 / variance[:, None, :]
            width = -0.5 * np.log(2 * np.pi * variance).sum(axis=1)
            score[known, :, code] = prior[:, None] + (width[:, None] - 0.5 * gaps.sum(axis=2))
        score[~fitted] = 0.0
        probabilities = np.exp(score - logsumexp(score, axis=2, keepdims=True))
        return Predictions(
            fitted,
            labels=score.argmax(axis=2),
            probabilities=probabilities,
            ranks=probabilities[:, :, 1] if "ranks" in needs else None,
        )


def _moments(rows: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the variance, (m, p) each, of (m, L, p) rows with (m, L) weights of 1 or 0."""
    counts = weights.sum(axis=1)[:, None]
    mean = (weights[:, None, :] @ rows)[:, 0] / counts
    variance = (weights[:, None, :] @ (rows - mean[:, None, :]) ** 2)[:, 0] / counts
    return mean, variance


def twin(model: Any, data: Data, *, scaling: str | None = None) -> NaiveBayes | str:
    """Return the batched twin of a GaussianNB, or the reason why there is none.

    Args:
        model: With its settings; whether it was fitted does not matter.
        data: The rows, padding included.
        scaling: What a scaler before the model divides by in every set (`scaling.SCALERS`); None: nothing.

    """
    if model.priors is not None:
        return "priors are given"
    X, X_test = data.features()
    filled = np.concatenate([X, np.zeros((1, X.shape[1]))])
    return NaiveBayes(filled, np.append(data.y, 0), X_test, data.n_classes, float(model.var_smoothing), scaling)
