"""Scores: what the models of a table are scored by, on all test rows, on folds and on slices of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fgsv.data.dataset import Dataset
from fgsv.data.folds import Folds, folds_of
from fgsv.data.metrics import default_metric
from fgsv.data.reading import TableError
from fgsv.words import option


@dataclass(frozen=True, eq=False)
class Scores:
    """The outputs of a table's game: one metric or several, or the folds of one, and then further scores."""

    metrics: Sequence[str]
    folds: Folds | None
    """How the test rows are cut into folds, if the error from their choice is asked for."""
    also: Mapping[str, Any]
    """Further outputs, without effect on payments: other metrics, and the first one on slices of the test rows."""
    notes: tuple[str, ...] = ()
    """Why this metric was chosen, if nobody chose it."""

    @classmethod
    def of(
        cls, dataset: Dataset, learner: Any, metrics: Sequence[str], others: Sequence[str], folds_seed: int | None
    ) -> Scores:
        """Choose a metric if there is none, add the others, and cut the test rows into folds if these have a seed."""
        notes: tuple[str, ...] = ()
        if not metrics:
            default, why = default_metric(dataset, learner, test_error=folds_seed is not None)
            metrics, notes = [default], (why,)
        if folds_seed is not None and len(metrics) > 1:
            raise TableError(f"the error from the test rows needs a single metric, got {', '.join(metrics)}")
        if (others or dataset.test_slices) and len(metrics) > 1:
            several = f"{option('also_metric')} and {option('also_slice')}"
            raise TableError(f"{several} need a single {option('metric')}, got {', '.join(metrics)}")
        folds = None if folds_seed is None else folds_of(metrics[0], dataset.test_target, seed=folds_seed)
        also: dict[str, Any] = {name: name for name in others if name != metrics[0]}
        for column, slices in dataset.test_slices.items():
            for each in sorted(pd.unique(pd.Series(slices))):
                also[f"{column}: {each}"] = metrics[0], slices == each
        return cls(metrics, folds, also, notes)

    @property
    def scoring(self) -> Any:
        """All outputs, as `fgsv.utility` takes them."""
        if self.folds is not None:
            return {**self.folds.scoring, **self.also}
        if self.also:
            return {self.metrics[0]: self.metrics[0], **self.also}
        return self.metrics[0] if len(self.metrics) == 1 else list(self.metrics)

    def worth_of_nothing(self, empty: float | Sequence[float] | None) -> Any:
        """Return U(0) of every output, as `fgsv.utility` takes it, from what the user gave for the metrics."""
        worth: Any = self.folds.empty if self.folds is not None and empty is None else empty
        if not self.also:
            return worth
        n_first = 1 if self.folds is None else len(self.folds.scoring)
        given = [None] if worth is None else np.atleast_1d(worth).tolist()
        given = given * n_first if len(given) == 1 else given  # one number for all folds
        if len(given) != n_first:
            defaults = f"the scores of {option('also_metric')} keep their defaults"
            raise TableError(f"{option('empty')} takes one number, for {self.metrics[0]}: {defaults}")
        return [*given, *[None] * len(self.also)]

    def describe(self, game: Any) -> list[str]:
        """Return what a game with these outputs is, in plain words."""
        if self.folds is None and not self.also:
            return str(game.describe()).splitlines()
        weights = np.ones(1) if self.folds is None else self.folds.weights
        on_folds = "" if self.folds is None else f", on {len(weights)} folds of the test rows"
        nothing = float(game.defaults[: len(weights)] @ weights)
        lines = str(game.describe(f"{self.metrics[0]}{on_folds}", [nothing])).splitlines()
        also = f"also scored (payments are by {self.metrics[0]} alone): {', '.join(self.also)}"
        return [*lines, also] if self.also else lines
