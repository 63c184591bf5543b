"""Recording: what an evaluator writes into its ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fgsv.estimators.units import InUnits
from fgsv.game import message_of
from fgsv.ledger import Ledger, LedgerError, Outcome, Purpose
from fgsv.running.calls import OutOfTime
from fgsv.valuation import INTERRUPTED, End, Reason
from fgsv.valuation.file import statement

_DRAWN_BY = ("method", "options", "semivalue", "cost", "seed", "start", "fingerprint")
"""The settings of a run that its draws depend on; the fingerprint tells a game from its views."""


@dataclass
class Recorded:
    """A run being recorded; its caller sets how it ended."""

    end: End = INTERRUPTED
    document: Callable[[], Mapping[str, Any]] | None = None
    """What the result of the run states, as `Valuation.save` would write it."""


class Recorder:
    """Enters batches, runs, laws and statements of one game in a ledger; without one, or read-only, does nothing."""

    def __init__(
        self, ledger: Ledger | None = None, game: int = 0, laws: Mapping[int, Mapping[str, Any]] | None = None
    ) -> None:
        self._ledger = None if ledger is None or ledger.read_only else ledger
        self._source = ledger
        self._game = game
        self._given_laws = laws or {}
        self._settings: Mapping[str, Any] = {}
        self._run: int | None = None
        self.estimator: InUnits | None = None
        """The estimator of the last run, which can say how much each draw counts."""
        self._stated: int | None = None
        """The last run that was a valuation: a result's statements are recorded for it."""

    @property
    def is_open(self) -> bool:
        """Whether anything is recorded."""
        return self._ledger is not None

    def batches(self, batches: list[tuple[bytes, Outcome]]) -> None:
        """Record batches for the run that is under way."""
        if self._ledger is not None:
            self._ledger.record(self._game, batches, run=self._run)

    @contextmanager
    def run(self, settings: Mapping[str, Any], purpose: Purpose, n_asked: Callable[[], int]) -> Iterator[Recorded]:
        """Record the block as a run with these settings, and how it ended."""
        recorded, before, outer = Recorded(), n_asked(), self._run
        self._settings = settings
        if self._ledger is None:
            yield recorded
            return
        number = self._run = self._ledger.begin_run(self._game, dict(settings), purpose)
        if purpose in (Purpose.DRAWS, Purpose.ENUMERATION):
            self._stated = number
        try:
            yield recorded
        except LedgerError:
            raise
        except BaseException as error:
            self._ledger.end_run(number, _end_by(error), n_asked() - before)
            raise
        finally:
            self._run = outer
        self._ledger.end_run(number, recorded.end, n_asked() - before)
        if recorded.document is not None:
            self.state(recorded.document())

    def beginning(self, content: Mapping[str, Any]) -> None:
        """Record what the run begins with."""
        if self._ledger is not None and self._run is not None:
            self._ledger.add_beginning(self._run, content)

    def law(self, round_number: int, law: Mapping[str, Any]) -> Mapping[str, Any]:
        """Record the law of the draws from a round on; return it, or what was recorded when they were drawn first."""
        law = self._given_laws.get(round_number, law)
        if self._source is not None:
            law = laws_of_draws(self._source, self._settings).get(round_number, law)
        if self._ledger is not None and self._run is not None:
            self._ledger.add_law(self._run, round_number, law)
        return law

    def state(self, document: Mapping[str, Any]) -> None:
        """Record what a result states, so that a change to its file can be named."""
        if self._ledger is not None and self._stated is not None:
            self._ledger.add_statement(self._stated, statement(document))


def laws_of_draws(ledger: Ledger, settings: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the laws of all runs that drew as one with these settings does, by round."""
    found: dict[int, dict[str, Any]] = {}
    for run in ledger.runs():
        if all(run["settings"].get(name) == settings.get(name) for name in _DRAWN_BY):
            found = ledger.laws(run["id"]) | found
    return found


def _end_by(error: BaseException) -> End:
    """Return the end of a run that an exception ended."""
    if isinstance(error, OutOfTime):
        return End(Reason.TIME, str(error))
    if isinstance(error, Exception):
        return End(Reason.FAILED, f"{type(error).__name__}: {message_of(error)}")
    return INTERRUPTED
