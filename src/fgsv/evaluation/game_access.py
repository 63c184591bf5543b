"""Access to a game: the one interface through which runs, audits and diagnoses get values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fgsv.coalitions import Coalitions
from fgsv.evaluation.lookup import Asked
from fgsv.game import Game
from fgsv.methods import Evaluate
from fgsv.methods.known import Known
from fgsv.partition import Partition
from fgsv.types import Floats

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

    def other_game(self, game: Any) -> Evaluate:
        """Return a function that evaluates another game of the same players, in this process and without a ledger."""
