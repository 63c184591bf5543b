"""Access to a game: the one interface through which runs, audits and diagnoses get values, and what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import Asked
from fgsv.game import Game, GameError
from fgsv.ledger import Outcome
from fgsv.methods.known import Known
from fgsv.partition import Partition
from fgsv.types import Floats, Ints
from fgsv.valuation import Failures

if TYPE_CHECKING:
    from fgsv.evaluation.evaluator import Evaluator


@dataclass(frozen=True, eq=False)
class Pending:
    """The values of coalitions that were submitted."""

    n_asked: int
    """Coalitions that were not known at the beginning, which count towards a budget."""
    asked: Asked
    result: Callable[[], Floats]
    """Waits for the values, (m, q) in the order of the coalitions, and counts them: to be called once, in order."""

    @property
    def is_done(self) -> bool:
        """Whether all values are there."""
        return all(batch.outcome is not None for batch in self.asked.batches)


class GameAccess(Protocol):
    """Gives the values of a game: an `Evaluator`, or a `View` of one."""

    @property
    def game(self) -> Game:
        """The game whose values these are."""

    @property
    def known(self) -> Known | None:
        """Values of this game that are known before the run."""

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator behind all views."""

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of coalitions, in their order."""

    def submit(self, coalitions: Coalitions) -> Pending:
        """Have coalitions evaluated, and return at once: their values are taken later, in the order of submission."""

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N), evaluated once, however often this is called."""

    def recorded_groups(self, partition: Partition) -> Partition:
        """Return the groups of this game's players as a ledger records them: as groups of the evaluator's players."""


@dataclass(frozen=True, eq=False)
class Meter:
    """What an evaluator has counted; the difference of two meters is what was counted between them."""

    asked: int
    """Evaluations requested, whether or not the ledger had them; without those known at the beginning."""
    evaluated: int
    """Coalitions that were evaluated."""
    seconds: float
    """Seconds that these took inside the game, all workers together, without starting the workers."""
    known: Ints
    """(k,): how often each of the evaluations known at the beginning was requested."""
    failed: tuple[Failures, ...] = ()
    """What failed in each request in which anything did."""

    def __sub__(self, before: Meter) -> Meter:
        return Meter(
            self.asked - before.asked,
            self.evaluated - before.evaluated,
            self.seconds - before.seconds,
            self.known - before.known,
            self.failed[len(before.failed) :],
        )

    def __add__(self, later: Meter) -> Meter:
        return Meter(
            self.asked + later.asked,
            self.evaluated + later.evaluated,
            self.seconds + later.seconds,
            self.known + later.known,
            self.failed + later.failed,
        )

    @property
    def failures(self) -> Failures | None:
        """What failed, as one count; None if nothing did."""
        return reduce(add, self.failed) if self.failed else None

    @property
    def n_drawn(self) -> int:
        """All values requested, known or not."""
        return self.asked + int(self.known.sum())

    @property
    def n_used(self) -> int:
        """The known evaluations that were requested, each counted once."""
        return int((self.known > 0).sum())


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
            self._n_outputs = width or 1
            self._assumed = width == 0
        if not outcome.failures:
            return outcome.values
        assert self._counted_as is not None
        values = outcome.values.copy() if width else np.empty((m, self._n_outputs))
        for rows in outcome.failures.values():
            values[rows] = self._counted_as
        return values
