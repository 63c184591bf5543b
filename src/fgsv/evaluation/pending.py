"""Values that were asked for, and come later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fgsv.evaluation.batch import PackedBatch
from fgsv.ledger import Outcome
from fgsv.types import Floats


@dataclass(frozen=True, eq=False)
class Asked:
    """Batches that were asked for."""

    batches: Sequence[PackedBatch]
    """Those to wait for; known ones are done."""
    new: Sequence[PackedBatch]
    """Those of them that are to be evaluated, and were not under way."""
    outcomes: Callable[[], list[Outcome]]
    """Returns the outcomes of what was asked for, in order, once all batches are done."""

    @classmethod
    def all(cls, batches: Sequence[PackedBatch], new: Sequence[PackedBatch] | None = None) -> Asked:
        """Return what was asked for, batch by batch; by default all of it is new."""
        new = batches if new is None else new
        return cls(batches, new, lambda: [each.outcome for each in batches if each.outcome is not None])


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
