"""The meter: what an evaluator has counted so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

from fgsv.types import Ints
from fgsv.valuation import Failures


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
