"""Access to a game: the one interface through which runs, audits and diagnoses get values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fgsv.coalitions import Coalitions
from fgsv.game import Game
from fgsv.methods import Evaluate
from fgsv.methods.known import Known
from fgsv.partition import Partition
from fgsv.types import Floats

if TYPE_CHECKING:
    from fgsv.evaluation.evaluator import Evaluator
    from fgsv.evaluation.pending import Pending


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
