"""The door to a game: how a run, an audit or a diagnosis gets values, and how its end is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fgsv.coalitions import Coalitions
from fgsv.estimators import Evaluate
from fgsv.game import Game, Known, message_of
from fgsv.running.calls import OutOfTime
from fgsv.types import Floats
from fgsv.valuation import INTERRUPTED, End, Reason

if TYPE_CHECKING:
    from fgsv.running.evaluator import Evaluator


class Door(Protocol):
    """A way to the values of a game: an `Evaluator`, or a `View` of one."""

    @property
    def game(self) -> Game:
        """The game that is evaluated."""

    @property
    def known(self) -> Known | None:
        """Values of this game that are known before the run."""

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator behind all views."""

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of coalitions, in their order."""

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N), evaluated once, however often this is called."""

    def other_game(self, game: Any) -> Evaluate:
        """Return a function that evaluates another game of the same players, in this process and without a ledger."""


@dataclass
class Recorded:
    """A run being recorded; its caller sets how it ended."""

    end: End = INTERRUPTED
    document: Callable[[], Mapping[str, Any]] | None = None
    """What the result of the run states, as `Valuation.save` would write it."""


def end_by(error: BaseException) -> End:
    """Return the end of a run that an exception ended."""
    if isinstance(error, OutOfTime):
        return End(Reason.TIME, str(error))
    if isinstance(error, Exception):
        return End(Reason.FAILED, f"{type(error).__name__}: {message_of(error)}")
    return INTERRUPTED
