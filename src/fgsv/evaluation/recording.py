"""Recording: what an evaluator writes into its ledger, and the recorded laws that a run follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.evaluation.batch import PackedBatch
from fgsv.files import encode
from fgsv.game import message_of
from fgsv.ledger import Ledger, LedgerError, Purpose, RecordedStart
from fgsv.methods import Draws
from fgsv.methods.method import OtherLaw
from fgsv.valuation import INTERRUPTED, End, Reason, RunSettings, Valuation
from fgsv.valuation.file import statement, to_document

_DRAWN_BY = ("method", "options", "semivalue", "cost", "seed", "start", "fingerprint", "on_error")
"""The settings of a run that its draws depend on; the fingerprint tells a game from its views."""


class OutOfTime(TimeoutError):
    """The deadline of an evaluator passed before everything was evaluated."""


class Recorder:
    """Enters batches, runs, laws and statements of one game in a ledger; without one, or read-only, does nothing."""

    def __init__(
        self, ledger: Ledger | None = None, game: int = 0, laws: Mapping[int, Mapping[str, Any]] | None = None
    ) -> None:
        self.ledger = None if ledger is None or ledger.read_only else ledger
        self._source = ledger
        self._game = game
        self._given_laws = laws or {}
        self._run: int | None = None
        self._stated: int | None = None
        """The first run that was a valuation: what a result states is recorded for it."""

    def batches(self, batches: Sequence[PackedBatch]) -> None:
        """Record batches that are evaluated, for the run that is under way."""
        if batches and self.ledger is not None:
            done = [(each.packed, each.outcome) for each in batches if each.outcome is not None]
            self.ledger.record(self._game, done, run=self._run)

    @contextmanager
    def run(
        self,
        settings: RunSettings | Mapping[str, Any],
        purpose: Purpose,
        start: RecordedStart | None,
        n_asked: Callable[[], int],
    ) -> Iterator[Recorded]:
        """Record the block as a run with these settings and this start, and how it ended.

        Args:
            settings: The settings of the run.
            purpose: Why coalitions are evaluated.
            start: What the run starts from; None if it does not say.
            n_asked: Returns the evaluations requested so far.

        Yields:
            The run being recorded; without a ledger, or with one that is only read, nothing is written.

        """
        if self.ledger is None:
            yield Recorded(self)
            return
        before = n_asked()
        outer = self._run
        number = self.ledger.begin_run(self._game, encode(settings), purpose)
        if start is not None:
            self.ledger.add_start(number, start)
        self._run = number
        if self._stated is None and purpose in (Purpose.DRAWS, Purpose.ENUMERATION):
            self._stated = number
        recorded = Recorded(self, number)
        try:
            yield recorded
        except LedgerError:
            raise
        except BaseException as error:
            self.ledger.end_run(number, _end_by(error), n_asked() - before)
            raise
        finally:
            self._run = outer
        self.ledger.end_run(number, recorded.end, n_asked() - before)
        if recorded.document is not None:
            self.ledger.add_statement(number, statement(recorded.document))

    def laws(self, settings: RunSettings) -> list[Mapping[int, Mapping[str, Any]]]:
        """Return the laws, by round, of earlier runs that drew as one with these settings does."""
        if self._source is None:
            return [self._given_laws]
        if self.ledger is not None and "proxy" in settings.needs:  # a law of another proxy may resemble this one's
            return []
        return list(laws_of_draws(self._source, encode(settings), self._game))

    def state(self, document: Callable[[], Mapping[str, Any]]) -> None:
        """Record what the result of the first valuation states, so that a change to its file can be named."""
        if self.ledger is not None and self._stated is not None:
            self.ledger.add_statement(self._stated, statement(document()))


@dataclass
class Recorded:
    """A run being recorded; its caller says how it ended."""

    recorder: Recorder
    number: int | None = None
    """The run's number in the ledger."""
    end: End = INTERRUPTED
    document: Mapping[str, Any] | None = None
    """What the result of the run states, as `Valuation.save` would write it."""

    def followed(self, draws: Draws, settings: RunSettings, round_number: int) -> Draws:
        """Record the law of the draws from a round on; return these, or those of the law that was recorded before.

        Only a run that is recorded may draw by another law than those before.
        """
        if draws.law is None:
            return draws
        ledger = self.recorder.ledger
        before = [each[round_number] for each in self.recorder.laws(settings) if round_number in each]
        law, draws = _followed(before, draws, settings.seed, round_number, may_differ=ledger is not None)
        if ledger is not None and self.number is not None:
            ledger.add_law(self.number, round_number, law)
        return draws

    def ended(self, valuation: Valuation) -> Valuation:
        """Record the end of the run, and what its result states; return the result."""
        self.end = valuation.end
        self.document = to_document(valuation) if self.number is not None else None
        return valuation


def _end_by(error: BaseException) -> End:
    """Return the end of a run that an exception ended."""
    if isinstance(error, OutOfTime):
        return End(Reason.TIME, str(error))
    if isinstance(error, Exception):
        return End(Reason.FAILED, f"{type(error).__name__}: {message_of(error)}")
    return INTERRUPTED


def laws_of_draws(
    ledger: Ledger, settings: Mapping[str, Any], game: int | None = None
) -> list[dict[int, dict[str, Any]]]:
    """Return the laws, by round, of each run that drew as one with these settings does; of the same version first.

    Runs of all games are looked through, or those of one: a ledger may have thousands.
    """
    runs = [run for run in ledger.runs(game) if _law_depends_on(run.settings) == _law_depends_on(settings)]
    runs.sort(key=lambda run: run.settings.get("version") != settings.get("version"))
    return [ledger.laws(run.id) for run in runs]


def _law_depends_on(settings: Mapping[str, Any]) -> list[Any]:
    return ["proxy" in settings.get("needs", ()), *(settings.get(name) for name in _DRAWN_BY)]


def _followed(
    laws: Sequence[Mapping[str, Any]], draws: Draws, seed: int, round_number: int, *, may_differ: bool
) -> tuple[Mapping[str, Any], Draws]:
    """Return the law of a round, and its draws.

    A recorded law is followed if it differs from the round's own only by rounding, as on another processor. If none
    does, the round's own is used if draws `may_differ` from those recorded; otherwise `OtherLaw` is raised.

    Args:
        laws: Those that earlier runs recorded for this round.
        draws: The round as this processor draws it, with a law.
        seed: The seed of the run.
        round_number: The number of the round.
        may_differ: Whether the run may draw by a law that was not recorded.

    Returns:
        The law, and the draws that follow from it.

    Raises:
        OtherLaw: No recorded law follows from the recorded utilities, and the run may not differ.

    """
    own = draws.law
    follow = draws.follow
    assert own is not None
    if not laws or own in laws or follow is None:
        return own, draws
    for law in (*laws, own) if may_differ else laws:
        try:
            return law, follow(law, np.random.default_rng([seed, round_number]))
        except OtherLaw as error:
            other = error
    raise other
