"""Metrics of a table: the default one, all that its models are scored by, and advice if there is little to share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fgsv.data.labelled_rows import LabelledRows
from fgsv.data.reading import TableError
from fgsv.valuation import Valuation
from fgsv.words import option

SKEWED = 2 / 3
"""Classes are skewed if one has more than this fraction of the rows: always guessing it is then hard to beat."""
LEAST_OF_TEXT = 0.01
"""If all the documents add less than this to the log-likelihood per token, 1%, there is nothing to share."""
LARGEST_SHARE = 2.0
"""Warn if a share is larger than this, or below minus this: the total is too small to be divided by."""


_WITHIN_ONE = ("accuracy", "balanced_accuracy", "average_precision", "top_k_accuracy")
_WITHIN_ONE_OF_ANY_KIND = ("roc_auc_", "f1_", "precision_", "recall_", "jaccard_")
"""With or without a kind, such as macro, behind the underscore."""


def range_of(metric: str) -> tuple[float, float] | None:
    """Return the smallest and largest value of a score; None for scores without such bounds, like r2 and losses.

    >>> range_of("roc_auc_ovr"), range_of("matthews_corrcoef"), range_of("r2")
    ((0.0, 1.0), (-1.0, 1.0), None)
    """
    if metric == "matthews_corrcoef":
        return -1.0, 1.0
    return (0.0, 1.0) if metric in _WITHIN_ONE or f"{metric}_".startswith(_WITHIN_ONE_OF_ANY_KIND) else None


def default_metric(rows: LabelledRows, model: Any) -> tuple[str, str]:
    """Return the score that is used if none was chosen, and the reason.

    Regression: r2. Classification: accuracy, unless one class has more than two thirds of all rows: then the area
    under the ROC curve, because always guessing that class has a high accuracy already. The area needs every class
    among the test rows: where it cannot be used, neg_log_loss is, and accuracy for a model without probabilities.
    """
    other = "the option metric chooses another"
    if rows.task == "regression":
        return "r2", f"scored by r2, the default for a regression; {other}"
    y = np.concatenate([rows.target, rows.test_target])
    classes, counts = np.unique(y, return_counts=True)
    fraction = counts.max() / len(y)
    skewed = f"{fraction:.0%} of the rows have class {classes[counts.argmax()]}"
    if fraction <= SKEWED:
        return "accuracy", f"scored by accuracy, because no class has more than two thirds of the rows; {other}"
    metric = _of_skewed(classes, rows.test_target, model)
    return metric, f"scored by {metric} and not by accuracy, because {skewed}; {other}"


def _of_skewed(classes: NDArray[Any], y_test: NDArray[Any], model: Any) -> str:
    likely = hasattr(model, "predict_proba")
    ranked = likely or (hasattr(model, "decision_function") and len(classes) == 2)
    if ranked and len(np.unique(y_test)) == len(classes):
        return "roc_auc" if len(classes) == 2 else "roc_auc_ovr"
    return "neg_log_loss" if likely else "accuracy"


@dataclass(frozen=True, eq=False)
class Scores:
    """The outputs of a table's game: one metric or several, and then further scores."""

    metrics: Sequence[str]
    also: Mapping[str, Any]
    """Further outputs, without effect on payments: other metrics, and the first one on slices of the test rows."""
    empty: Any
    """U(0) of every output, as `fgsv.utility` takes it; None: the score of the best constant."""
    notes: tuple[str, ...] = ()
    """Why this metric was chosen, if nobody chose it."""

    @classmethod
    def of(
        cls, rows: LabelledRows, learner: Any, metrics: Sequence[str], others: Sequence[str], empty: Any
    ) -> Scores:
        """Choose a metric if there is none, and add the others.

        Args:
            rows: The rows that decide which metric is the default one, and the slices of the test rows.
            learner: The model: it decides whether probabilities or ranks can be scored.
            metrics: Names that the user gave; none: the default.
            others: Names of further scores, without effect on payments.
            empty: U(0) of each metric; None: the score of the best constant.

        Raises:
            TableError: There are several metrics, or several numbers `empty`, and further scores.

        """
        notes: tuple[str, ...] = ()
        if not metrics:
            default, why = default_metric(rows, learner)
            metrics = [default]
            notes = (why,)
        if (others or rows.test_slices) and len(metrics) > 1:
            several = f"{option('also_metric')} and {option('also_slice')}"
            raise TableError(f"{several} need a single {option('metric')}, got {', '.join(metrics)}")
        also: dict[str, Any] = {name: name for name in others if name != metrics[0]}
        for column, slices in rows.test_slices.items():
            for each in sorted(pd.unique(pd.Series(slices))):
                also[f"{column}: {each}"] = metrics[0], slices == each
        if also:
            given = [None] if empty is None else np.atleast_1d(empty).tolist()
            if len(given) != 1:
                defaults = f"the scores of {option('also_metric')} keep their defaults"
                raise TableError(f"{option('empty')} takes one number, for {metrics[0]}: {defaults}")
            empty = [*given, *[None] * len(also)]
        return cls(metrics, also, empty, notes)

    @property
    def scoring(self) -> Any:
        """All outputs, as `fgsv.utility` takes them."""
        if self.also:
            return {self.metrics[0]: self.metrics[0], **self.also}
        return self.metrics[0] if len(self.metrics) == 1 else list(self.metrics)

    @property
    def weights(self) -> tuple[float, ...] | None:
        """Weights of the outputs that payments depend on; None if it is all of them."""
        return (1.0, *(0.0 for _ in self.also)) if self.also else None

    def describe(self, game: Any) -> list[str]:
        """Return what a game with these outputs is, in plain words."""
        if not self.also:
            return str(game.describe()).splitlines()
        lines = str(game.describe(self.metrics[0], game.defaults[:1].tolist())).splitlines()
        also = f"also scored (payments are by {self.metrics[0]} alone): {', '.join(self.also)}"
        return [*lines, also]


def alternatives(metric: str, task: str) -> str:
    """Return scores that may tell more than this one, in words."""
    if task == "text":
        return "a base model that knows less, more training, or test texts like the documents may tell more"
    scores = {
        "roc_auc": "how well rows are ordered",
        "balanced_accuracy": "every class alike",
        "neg_log_loss": "how likely each class is",
    }
    if task == "regression":
        scores = {"neg_mean_absolute_error": "errors without squaring them", "r2": "squared errors"}
    words = [f"{name} ({what})" for name, what in scores.items() if name != metric]
    return f"another metric may tell more: {' or '.join(words)}"


def little_to_share(valuation: Valuation, metric: str, task: str) -> list[str]:
    """Return a warning if shares are so large that their total says little.

    Args:
        valuation: On all test rows; of several outputs only texts are judged.
        metric: What the total is measured in.
        task: "classification", "regression" or "text".

    """
    if task == "text" and (small := [total for total in np.atleast_1d(valuation.total) if total < LEAST_OF_TEXT]):
        return [
            f"there is next to nothing to share: all the documents add {min(small):.2g} to the {metric}, so shares "
            f"would be noise; {alternatives(metric, task)}"
        ]
    if valuation.outputs is not None or not valuation.total > 0:
        return []
    largest = float(np.nanmax(np.abs(valuation.shares())))
    if not largest > LARGEST_SHARE:
        return []
    return [
        f"there is little to share: all the data adds {float(valuation.total):.4g} to the score, but single "
        f"providers are worth up to {largest:.0%} of that; {alternatives(metric, task)}"
    ]
