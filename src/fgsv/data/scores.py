"""Scores: what the models of a table are scored by, on all test rows, without folds and on slices of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fgsv.data.labelled_rows import LabelledRows
from fgsv.data.metrics import default_metric
from fgsv.data.reading import TableError
from fgsv.words import option


@dataclass(frozen=True, eq=False)
class Scores:
    """The outputs of a table's game: one metric or several, and then further scores."""

    metrics: Sequence[str]
    also: Mapping[str, Any]
    """Further outputs, without effect on payments: other metrics, and the first one on slices of the test rows."""
    notes: tuple[str, ...] = ()
    """Why this metric was chosen, if nobody chose it."""

    @classmethod
    def of(cls, rows: LabelledRows, learner: Any, metrics: Sequence[str], others: Sequence[str]) -> Scores:
        """Choose a metric if there is none, and add the others."""
        notes: tuple[str, ...] = ()
        if not metrics:
            default, why = default_metric(rows, learner)
            metrics, notes = [default], (why,)
        if (others or rows.test_slices) and len(metrics) > 1:
            several = f"{option('also_metric')} and {option('also_slice')}"
            raise TableError(f"{several} need a single {option('metric')}, got {', '.join(metrics)}")
        also: dict[str, Any] = {name: name for name in others if name != metrics[0]}
        for column, slices in rows.test_slices.items():
            for each in sorted(pd.unique(pd.Series(slices))):
                also[f"{column}: {each}"] = metrics[0], slices == each
        return cls(metrics, also, notes)

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

    def worth_of_nothing(self, empty: float | Sequence[float] | None) -> Any:
        """Return U(0) of every output, as `fgsv.utility` takes it, from what the user gave for the metrics."""
        if not self.also:
            return empty
        given = [None] if empty is None else np.atleast_1d(empty).tolist()
        if len(given) != 1:
            defaults = f"the scores of {option('also_metric')} keep their defaults"
            raise TableError(f"{option('empty')} takes one number, for {self.metrics[0]}: {defaults}")
        return [*given, *[None] * len(self.also)]

    def describe(self, game: Any) -> list[str]:
        """Return what a game with these outputs is, in plain words."""
        if not self.also:
            return str(game.describe()).splitlines()
        lines = str(game.describe(self.metrics[0], game.defaults[:1].tolist())).splitlines()
        also = f"also scored (payments are by {self.metrics[0]} alone): {', '.join(self.also)}"
        return [*lines, also]
