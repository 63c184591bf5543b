"""Failures: the number that replaces a failed evaluation, and the count of failures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from fgsv.game import Game, GameError
from fgsv.ledger import Outcome
from fgsv.types import Floats
from fgsv.valuation import Failures


@dataclass(frozen=True)
class Mark:
    """The failures before a run, from which its own are counted."""

    counts: Counter[str] = field(default_factory=Counter)
    number: int = 0


class FailureCounter:
    """Replaces failed evaluations by the user's number, and counts them by kind."""

    def __init__(self, game: Game, counted_as: float | None) -> None:
        self._counted_as = counted_as
        self._n_outputs = game.width
        self._assumed = False
        self._counts: Counter[str] = Counter()
        self._n_marks = 0
        self._firsts: dict[int, str] = {}
        """Number of a mark -> what went wrong first after it: one text each, however many failures there are."""

    def values(self, outcome: Outcome) -> Floats:
        """Return (m, q) values with the user's number for the coalitions that failed."""
        m, width = outcome.values.shape
        if self._assumed and width > 1:
            raise GameError(
                f"both U(0) and U(N) failed, so the number of outputs was unknown; it is {width}: name them, as in "
                "fgsv.Game(..., outputs=(...))"
            )
        if self._n_outputs is None:
            self._n_outputs, self._assumed = width or 1, width == 0
        if not outcome.failures:
            return outcome.values
        assert self._counted_as is not None
        values = outcome.values.copy() if width else np.empty((m, self._n_outputs))
        for text, rows in outcome.failures.items():
            values[rows] = self._counted_as
            self._counts[text.partition(":")[0]] += len(rows)
            self._firsts.setdefault(self._n_marks, text)
        return values

    def mark(self) -> Mark:
        """Return where the count stands now."""
        self._n_marks += 1
        return Mark(Counter(self._counts), self._n_marks)

    def since(self, mark: Mark) -> Failures | None:
        """Return the failures since a mark; None if there were none."""
        new = self._counts - mark.counts
        if not new or self._counted_as is None:
            return None
        first = next(text for number, text in self._firsts.items() if number >= mark.number)
        return Failures(new.total(), self._counted_as, dict(sorted(new.items())), first)
