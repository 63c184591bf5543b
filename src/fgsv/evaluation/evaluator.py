"""The evaluator: values of coalitions, from the ledger if known, otherwise from the workers.

Runs, audits and diagnoses ask it for values; only its workers call a game (`batches.py`). It counts, records, pins
threads, bounds memory and applies `on_error`; a run passes it on to the audit of its result, so that no coalition is
evaluated twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.checks import whole_number
from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import PackedBatch, default_batch_size
from fgsv.evaluation.calls import Calls
from fgsv.evaluation.failures import FailureCounter
from fgsv.evaluation.lookup import LedgerLookup
from fgsv.evaluation.meter import Meter
from fgsv.evaluation.recheck import recheck
from fgsv.evaluation.recording import Recorded, Recorder
from fgsv.evaluation.start import KnownBefore, Start
from fgsv.evaluation.workers import Workers
from fgsv.files import as_path
from fgsv.game import Game, GameError, as_game
from fgsv.ledger import Ledger, Outcome, Purpose
from fgsv.methods import Evaluate
from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation.settings import failure_value


class Evaluator:
    """Evaluates coalitions of one game; a context manager that opens the ledger and the workers.

    A round is cut into batches of `batch_size` coalitions. A batch (a coalition, if rows are independent) is
    evaluated, recorded and looked up as a whole, so its bits do not depend on workers, calls or the ledger.
    """

    def __init__(
        self,
        game: Game,
        *,
        batch_size: int | None = None,
        n_jobs: int | None = None,
        on_error: str | float = "raise",
        timeout: float | None = None,
        ledger: str | Path | Ledger | None = None,
        start: Start = None,
        laws: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        """Take the settings; `laws` are those that a run draws by, as far as its own differ by rounding alone."""
        size = game.batch_size if batch_size is None else batch_size
        if size is not None:
            whole_number("batch_size", size, least=1)
        self.game = game
        self.batch_size = int(size or default_batch_size(game.n_players))
        self.on_error = on_error
        self.timeout = timeout
        self._deadline: float | None = None
        """The time (on the clock `time.monotonic`) after which no call begins."""
        self._watch: Callable[[int], object] | None = None
        self._n_jobs = n_jobs
        self._n_asked = 0
        self._checked = False
        self._raises = failure_value(on_error) is None
        self._failures = FailureCounter(game, failure_value(on_error))
        self._known_before = KnownBefore(game, start, ledger)
        self.known = self._known_before.known
        self.found = self._known_before.found
        self._given = ledger if ledger is None or isinstance(ledger, Ledger) else as_path(ledger, "ledger")
        self._ledger: Ledger | None = None
        self._lookup: LedgerLookup | None = None
        self._recorder = Recorder(laws=laws)
        self._workers = Workers(game, n_jobs, timeout)
        self._calls = Calls(game, self._workers, None, raises=self._raises)

    @property
    def evaluator(self) -> Evaluator:
        """Itself, as every `GameAccess` names the evaluator behind it."""
        return self

    @property
    def n_workers(self) -> int:
        """How many batches are evaluated at a time."""
        return self._workers.count

    @property
    def meter(self) -> Meter:
        """What was counted so far."""
        known = self._known_before.asked.copy()
        return Meter(self._n_asked, self._calls.n_done, self._calls.seconds, known, self._failures.found)

    def spent_since(self, before: Meter) -> Meter:
        """Return what a run has spent that began then: U(0) and U(N), evaluated earlier and once, are part of it."""
        return self._ends[1] + (self.meter - before)

    def beside(self, game: Game, n_jobs: int | None = None) -> Evaluator:
        """Return an evaluator of another game, with the same ledger and its own workers, by default as many."""
        n_jobs = n_jobs or self._n_jobs
        timeout = self.timeout if n_jobs == self._n_jobs else None
        other = Evaluator(game, n_jobs=n_jobs, on_error=self.on_error, timeout=timeout, ledger=self._ledger)
        other._deadline, other._watch = self._deadline, self._watch
        return other

    def __enter__(self) -> Evaluator:
        try:
            if self._given is not None:
                self._ledger = self._given if isinstance(self._given, Ledger) else Ledger(self._given)
                self._known_before.take_over(self._ledger)
                self._lookup = LedgerLookup(self._ledger, self.game, retries=self._raises)
                self._recorder = Recorder(self._ledger, self._lookup.number)
                record = None if self._recorder.ledger is None else self._recorder.batches
                self._calls = Calls(self.game, self._workers, record, raises=self._raises, width=self._lookup.width)
            self._workers.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._workers.stop()
        finally:
            if self._ledger is not None and self._ledger is not self._given:
                self._ledger.close()

    def recorded(
        self, settings: Mapping[str, Any], purpose: Purpose, groups: Partition | None = None
    ) -> AbstractContextManager[Recorded]:
        """Record the block in the ledger as a run with these settings, and its end; with `groups`, what it knew."""
        start = None if groups is None else self._known_before.recorded(groups)
        return self._recorder.run(settings, purpose, start, lambda: self._n_asked)

    def state(self, document: Callable[[], Mapping[str, Any]]) -> None:
        """Record in the ledger, if there is one, what the result of the first valuation states."""
        self._recorder.state(document)

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Raise `OutOfTime` in the block rather than begin a call after this many seconds."""
        before = self._deadline
        self._deadline = None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = before

    @contextmanager
    def watched(self, watch: Callable[[int], object]) -> Iterator[None]:
        """Call a function in the block with the number of evaluations of each request."""
        before, self._watch = self._watch, watch
        try:
            yield
        finally:
            self._watch = before

    @property
    def seconds_left(self) -> float | None:
        """The time until no more calls begin; None if it is not limited."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of coalitions, in their order."""
        return self._known_before.answer(coalitions, self._unknown)

    def _unknown(self, coalitions: Coalitions) -> Floats:
        size, m = self.batch_size, len(coalitions)
        if self.game.independent_rows:  # the same bits in any batch: all workers get some
            size = max(1, min(size, -(-m // self.n_workers)))
        batches = [PackedBatch(coalitions[i : i + size]) for i in range(0, m, size)]
        known, done_before = self._lookup, self._calls.n_done
        try:
            outcomes = self._evaluate(batches) if known is None else known.outcomes(batches, self._evaluate)
        except BaseException:
            self._n_asked += self._calls.n_done - done_before
            raise
        values = self._failures.values(outcomes)
        self._n_asked += m
        if self._watch is not None:
            self._watch(m)
        return values

    def _evaluate(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Evaluate what the ledger does not know, after checking that it still gives the values it recorded."""
        if batches and not self._checked:
            self._known_before.check(self._workers)
            if self._ledger is not None and self._lookup is not None:
                recheck(self._ledger, self._lookup.number, self.game, self._workers)
            self._checked = True
        return self._calls(batches, self._deadline)

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N), evaluated once, however often this is called."""
        return self._ends[0]

    @cached_property
    def _ends(self) -> tuple[Floats, Meter]:
        before = self.meter
        ends = self(Coalitions.ends(self.game.n_players))
        spent = self.meter - before
        if spent.failures is not None and hasattr(self.game.function, "defaults"):  # then U(0) needs no model
            first = spent.failures.first
            raise GameError(f"the model fails on all the data, whose score is what is shared ({first})")
        with np.errstate(over="ignore"):
            total = ends[1] - ends[0]
        if len(wrong := np.flatnonzero(~np.isfinite(total))):
            nobody, everybody = ends[:, wrong[0]].tolist()
            raise GameError(
                f"U(N) - U(0), which is what is shared, is too large for a number: U(0) = {nobody:g} and "
                f"U(N) = {everybody:g}. Divide the utility by a constant"
            )
        return ends, spent

    def recorded_groups(self, partition: Partition) -> Partition:
        """Return the groups of the players as a ledger records them: unchanged."""
        return partition

    def other_game(self, game: Any) -> Evaluate:
        """Return a function that evaluates another game of the same players, in this process and without a ledger."""
        n = self.game.n_players
        return Evaluator(as_game(game, n), batch_size=default_batch_size(n), n_jobs=1)
