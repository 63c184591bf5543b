"""How much a valuation owes to the choice of the test rows, without another training.

The test rows are cut at random into folds, and the score on each fold is an output of the game. Their weighted
mean is the score on all rows, so the game is the same; how much the folds disagree is the test set's error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from fgsv.types import Floats, Ints
from fgsv.valuation import Valuation

FOLDS = 10
MEANS = ("accuracy", "neg_log_loss", "neg_mean_squared_error", "neg_mean_absolute_error")
"""Scores that are means over test rows, so that folds add up."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Test rows cut into folds: what `fgsv.utility` needs to score them one by one."""

    scoring: dict[str, tuple[str, Ints]]
    empty: Floats
    """(F,) what the constant prediction for all test rows scores on each fold."""
    weights: Floats
    """(F,) the part of the test rows in each fold."""


def folds_of(metric: str, y_test: NDArray[Any], *, n_folds: int = FOLDS, seed: int = 0) -> Folds:
    """Cut the test rows at random into folds of equal size, as far as their number allows."""
    if metric not in MEANS:
        raise ValueError(f"the error from the test rows needs a score that is a mean over them: {', '.join(MEANS)}")
    if len(y_test) < 2 * n_folds:
        raise ValueError(f"the error from the test rows needs at least {2 * n_folds} of them, got {len(y_test)}")
    order = np.random.default_rng([seed, 2]).permutation(len(y_test))
    rows = [np.sort(part) for part in np.array_split(order, n_folds)]
    scores = _constant_scores(metric, y_test)
    return Folds(
        {f"fold {number}": (metric, part) for number, part in enumerate(rows)},
        np.array([scores[part].mean() for part in rows]),
        np.array([len(part) for part in rows]) / len(y_test),
    )


def _constant_scores(metric: str, y: NDArray[Any]) -> Floats:
    """Return the score at each test row of the constant that `fgsv.utility` takes where no model can be fitted."""
    if metric == "neg_mean_squared_error":
        return np.asarray(-((y - y.mean()) ** 2))
    if metric == "neg_mean_absolute_error":
        return np.asarray(-np.abs(y - y.mean()))
    _, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    if metric == "accuracy":
        return np.asarray(inverse == counts.argmax(), dtype=float)
    return np.asarray(np.log(counts[inverse] / len(y)))


def share_errors(valuation: Valuation, weights: Floats) -> Floats:
    """Return (K,) standard errors of the shares that come from the choice of the test rows.

    A share is a ratio of means over test rows, so its residuals are value - share * total, fold by fold. The
    Monte Carlo error of the folds is in it too: it errs on the wide side.
    """
    total = float(valuation.total @ weights)
    shares = valuation.values @ weights / total
    residuals = (valuation.values - shares[:, None] * valuation.total) * weights * len(weights)
    n_folds = len(weights)
    return np.asarray(residuals.std(axis=1, ddof=1) / np.sqrt(n_folds) / total)


def with_test_error(valuation: Valuation, folds: Folds, confidence: float = 0.95) -> Valuation:
    """Return the valuation of the score on all test rows, with both errors of each share in its `info`."""
    weights = folds.weights
    single = valuation.combined(weights)
    quantile = float(student.ppf((1 + confidence) / 2, len(weights) - 1))
    if not single.total > 0:  # no shares, so no errors of shares
        return replace(single, info=single.info | {"test_error": _found(weights, [])})
    rows = [
        {"group": str(name), "share": share, "monte_carlo": evaluations, "test": test}
        for name, share, evaluations, test in zip(
            single.names,
            single.shares().tolist(),
            (single.half_width(confidence) / single.total).tolist(),
            (quantile * share_errors(valuation, weights)).tolist(),
            strict=True,
        )
    ]
    return replace(single, info=single.info | {"test_error": _found(weights, rows)})


def _found(weights: Floats, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"n_folds": len(weights), "weights": weights.tolist(), "rows": rows}
