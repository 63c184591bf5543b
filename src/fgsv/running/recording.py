"""Recording: what an evaluator writes into its ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fgsv.game import message_of
from fgsv.ledger import Ledger, LedgerError, Outcome, Purpose, RecordedStart
from fgsv.methods import Draws
from fgsv.running.calls import OutOfTime
from fgsv.running.earlier_laws import drawn_by, laws_of_draws
from fgsv.valuation import INTERRUPTED, End, Reason
from fgsv.valuation.file import statement


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
        self._stated: int | None = None
        """The first run that was a valuation: what a result states is recorded for it."""

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
        recorded, before, outer = Recorded(), n_asked(), (self._run, self._settings)
        self._settings = settings
        if self._ledger is None:
            yield recorded
            return
        number = self._run = self._ledger.begin_run(self._game, dict(settings), purpose)
        if self._stated is None and purpose in (Purpose.DRAWS, Purpose.ENUMERATION):
            self._stated = number
        try:
            yield recorded
        except LedgerError:
            raise
        except BaseException as error:
            self._ledger.end_run(number, _end_by(error), n_asked() - before)
            raise
        finally:
            self._run, self._settings = outer
        self._ledger.end_run(number, recorded.end, n_asked() - before)
        if recorded.document is not None:
            self._ledger.add_statement(number, statement(recorded.document()))

    def starts_from(self, start: RecordedStart) -> None:
        """Record what the run starts from."""
        if self._ledger is not None and self._run is not None:
            self._ledger.add_start(self._run, start)

    def drawn(self, draws: Draws, round_number: int) -> Draws:
        """Record the law of the draws from a round on; return these, or those of the law that was recorded before.

        Only a run that is recorded may draw by another law than those before.
        """
        laws = [self._given_laws] if self._source is None else laws_of_draws(self._source, self._settings)
        if self.is_open and "proxy" in self._settings["needs"]:  # a law of another proxy may resemble this one's
            laws = []
        before = [each[round_number] for each in laws if round_number in each]
        law, draws = drawn_by(before, draws, self._settings["seed"], round_number, may_differ=self.is_open)
        if self._ledger is not None and self._run is not None:
            self._ledger.add_law(self._run, round_number, law)
        return draws

    def state(self, document: Mapping[str, Any]) -> None:
        """Record what the result of the first valuation states, so that a change to its file can be named."""
        if self._ledger is not None and self._stated is not None:
            self._ledger.add_statement(self._stated, statement(document))


def _end_by(error: BaseException) -> End:
    """Return the end of a run that an exception ended."""
    if isinstance(error, OutOfTime):
        return End(Reason.TIME, str(error))
    if isinstance(error, Exception):
        return End(Reason.FAILED, f"{type(error).__name__}: {message_of(error)}")
    return INTERRUPTED
