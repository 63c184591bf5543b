"""Failures: the number that replaces a failed evaluation, and the count of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fgsv.game import Game, GameError
from fgsv.ledger import Outcome
from fgsv.types import Floats
from fgsv.valuation import Failures


class FailureCounter:
    """Replaces failed evaluations by the user's number, and counts them by kind."""

    def __init__(self, game: Game, counted_as: float | None) -> None:
        self._counted_as = counted_as
        self._n_outputs = game.width
        self._assumed = False
        self.found: tuple[Failures, ...] = ()
        """What failed in each request in which anything did: one text each, however many failures there are."""

    def values(self, outcomes: Sequence[Outcome]) -> Floats:
        """Return the (m, q) values of a request, with the user's number for the coalitions that failed."""
        values = np.concatenate([self._filled(outcome) for outcome in outcomes])
        kinds: Counter[str] = Counter()
        first = ""
        for text, rows in (each for outcome in outcomes for each in outcome.failures.items()):
            kinds[text.partition(":")[0]] += len(rows)
            first = first or text
        if kinds:
            assert self._counted_as is not None
            self.found += (Failures(kinds.total(), self._counted_as, dict(sorted(kinds.items())), first),)
        return values

    def _filled(self, outcome: Outcome) -> Floats:
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
        for rows in outcome.failures.values():
            values[rows] = self._counted_as
        return values
