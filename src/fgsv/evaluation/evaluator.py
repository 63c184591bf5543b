"""The evaluator: values of coalitions, from the ledger if known, otherwise from the workers.

Runs, audits and diagnoses ask it for values, all at once or ahead of time (`submit`); only its workers call a game
(`batch.py`). It counts, records, pins threads, bounds memory and applies `on_error`; a run passes it on to the audit
of its result, so that no coalition is evaluated twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.checks import whole_number
from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import Asked, PackedBatch, default_batch_size
from fgsv.evaluation.game_access import FailureCounter, Meter, Pending
from fgsv.evaluation.lookup import LedgerLookup, recheck
from fgsv.evaluation.queue import Queue
from fgsv.evaluation.recording import Recorded, Recorder
from fgsv.evaluation.start import Start, known_from, recorded_start
from fgsv.evaluation.workers import Workers
from fgsv.files import as_path
from fgsv.game import Game, GameError, as_game
from fgsv.ledger import Ledger, Purpose
from fgsv.methods import Evaluate
from fgsv.partition import Partition
from fgsv.signals import kept_interrupts
from fgsv.types import Floats
from fgsv.valuation import RunSettings
from fgsv.valuation.settings import failure_value

_NOTHING = np.zeros(0, dtype=np.int64)
BATCH_SECONDS = 0.1
"""Seconds for which independent coalitions are evaluated together, so that workers end at about the same time."""


class Evaluator:
    """Evaluates coalitions of one game; a context manager that opens the ledger and the workers.

    A round is cut into batches of `batch_size` coalitions. A batch (a coalition, if rows are independent) is
    evaluated, recorded and looked up as a whole, so its bits do not depend on workers, their order or the ledger.
    """

    def __init__(
        self,
        game: Game,
        *,
        batch_size: int | None = None,
        n_jobs: int | None = None,
        on_error: str | float = "raise",
        timeout: float | None = None,
        max_in_flight: int | None = None,
        ledger: str | Path | Ledger | None = None,
        start: Start = None,
        laws: Mapping[int, Mapping[str, Any]] | None = None,
        watch: Callable[[int], object] | None = None,
        deadline: float | None = None,
    ) -> None:
        """Take the settings: those of `fgsv.value`, with its defaults, and three more.

        `laws` are those that a run draws by, by round, as far as its own differ by rounding alone. `watch` is called
        with the number of evaluations of each request. Rather than begin a batch after `deadline`, a time on the
        clock `time.monotonic`, an evaluator raises `OutOfTime`.
        """
        size = game.batch_size if batch_size is None else batch_size
        if size is not None:
            whole_number("batch_size", size, least=1)
        self.game = game
        self.batch_size = int(size or default_batch_size(game.n_players))
        self.on_error = _worth_of_nobody(game) if on_error == "empty" else on_error
        self.timeout = timeout
        self._watch = watch
        self._deadline = deadline
        self._n_jobs = n_jobs
        self._max_in_flight = None if max_in_flight is None else whole_number("max_in_flight", max_in_flight, least=1)
        self._n_asked = self._n_evaluated = 0
        self._seconds = 0.0
        self._open: dict[Asked, None] = {}
        """What was submitted, and not taken yet."""
        self._pending_ends: Pending | None = None
        self._checked = False
        counted_as = failure_value(self.on_error)
        self._raises = counted_as is None
        self._failures = FailureCounter(game, counted_as)
        self.found, self._before = (None, None) if start is None else known_from(game, start, ledger)
        """What applies of earlier evaluations, used or not, and what the run starts from."""
        self.known = None if self._before is None else self._before.known
        self._given = ledger if ledger is None or isinstance(ledger, Ledger) else as_path(ledger, "ledger")
        self._ledger: Ledger | None = None
        self._lookup: LedgerLookup | None = None
        self._recorder = Recorder(laws=laws)
        self._workers = Workers(game, n_jobs, timeout)
        advises = size is None and not game.independent_rows
        self._new_queue = partial(Queue, game, self._workers, raises=self._raises, advises=advises)
        self._queue = self._new_queue(self._recorder)

    @property
    def evaluator(self) -> Evaluator:
        """Itself, as every `GameAccess` names the evaluator behind it."""
        return self

    @property
    def n_workers(self) -> int:
        """How many batches are evaluated at a time, with the workers that are there now."""
        return max(1, self._workers.count)

    @property
    def n_busy(self) -> int:
        """How many workers evaluate something now."""
        return self._queue.n_busy

    @property
    def meter(self) -> Meter:
        """What was counted so far."""
        known = _NOTHING if self._before is None else self._before.asked.copy()
        return Meter(self._n_asked, self._n_evaluated, self._seconds, known, self._failures.found)

    def spent_since(self, before: Meter) -> Meter:
        """Return what a run has spent that began then: U(0) and U(N), evaluated earlier and once, are part of it."""
        return self._ends[1] + (self.meter - before)

    def beside(self, game: Game) -> Evaluator:
        """Return an evaluator of another game, with the same ledger and as many workers of its own."""
        return Evaluator(
            game,
            n_jobs=self._n_jobs,
            on_error=self.on_error,
            timeout=self.timeout,
            ledger=self._ledger,
            watch=self._watch,
            deadline=self._deadline,
        )

    def __enter__(self) -> Evaluator:
        try:
            if self._given is not None:
                self._ledger = self._given if isinstance(self._given, Ledger) else Ledger(self._given)
                if self._before is not None:
                    self._before.take_over(self._ledger)
                self._lookup = LedgerLookup(self._ledger, self.game, retries=self._raises)
                self._recorder = Recorder(self._ledger, self._lookup.number)
                self._queue = self._new_queue(self._recorder, n_recorded=self._lookup.width)
            self._workers.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.abandon()
            self._workers.stop()
        finally:
            if self._ledger is not None and self._ledger is not self._given:
                self._ledger.close()

    def recorded(
        self, settings: RunSettings | Mapping[str, Any], purpose: Purpose, groups: Partition | None = None
    ) -> AbstractContextManager[Recorded]:
        """Record the block in the ledger as a run with these settings, and its end; with `groups`, what it knew.

        Args:
            settings: The settings of the run.
            purpose: Why coalitions are evaluated.
            groups: The groups of the evaluator's players; None for a run that starts from nothing.

        Returns:
            A context manager that gives the recorded run; its caller says how it ended.

        """
        writes = self._recorder.ledger is not None
        start = recorded_start(groups, self._before) if writes and groups is not None else None
        return self._recorder.run(settings, purpose, start, lambda: self._n_asked)

    def state(self, document: Callable[[], Mapping[str, Any]]) -> None:
        """Record in the ledger, if there is one, what the result of the first valuation states."""
        self._recorder.state(document)

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Raise `OutOfTime` in the block rather than begin a batch after this many seconds."""
        before = self._deadline
        self._deadline = None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = before

    @contextmanager
    def watched(self, watch: Callable[[int], object]) -> Iterator[None]:
        """Call a function in the block with the number of evaluations of each request."""
        before = self._watch
        self._watch = watch
        try:
            yield
        finally:
            self._watch = before

    @property
    def seconds_left(self) -> float | None:
        """The time until no more batches begin; None if it is not limited."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of coalitions, in their order."""
        pending = self.submit(coalitions)
        before = self._n_evaluated
        try:
            return pending.result()
        except BaseException:
            self._forget()
            self._n_asked += self._n_evaluated - before
            raise

    def submit(self, coalitions: Coalitions) -> Pending:
        """Have coalitions evaluated, and return at once: their values are taken later, in the order of submission."""
        rows = None if self._before is None else self._before.find(coalitions)
        unknown = coalitions if rows is None else coalitions.take(np.flatnonzero(rows < 0))
        size = self._size(len(unknown))
        batches = [PackedBatch(unknown[i : i + size]) for i in range(0, len(unknown), size)]
        asked = Asked.all(batches) if self._lookup is None else self._lookup.find(batches)
        if asked.new and not self._checked:
            if self._before is not None:
                self._before.check(self._workers)
            if self._ledger is not None and self._lookup is not None:
                recheck(self._ledger, self._lookup.number, self.game, self._workers)
            self._checked = True
        self._queue.add(asked.new)
        self._open[asked] = None

        def result() -> Floats:
            new = self._values(asked) if len(unknown) else None
            del self._open[asked]
            self._count(asked)
            self._n_asked += len(unknown)
            if self._watch is not None and len(unknown):
                self._watch(len(unknown))
            if self._before is not None and rows is not None:
                return self._before.values(rows, new)
            assert new is not None
            return new

        return Pending(len(unknown), asked, result)

    def _size(self, n_coalitions: int) -> int:
        """Return the coalitions of a batch; independent ones, whose bits are the same in any, are for all workers."""
        if not self.game.independent_rows or self._workers.in_flight == 1:
            return self.batch_size
        size = min(self.batch_size, -(-n_coalitions // self.n_workers))
        if self.game.batch_size is None:
            each = self._seconds / self._n_evaluated if self._n_evaluated else BATCH_SECONDS
            size = min(size, int(BATCH_SECONDS / max(each, 1e-9)))
        return max(1, size)

    def _values(self, asked: Asked) -> Floats:
        """Return the values of what was asked for, once all of it is evaluated."""
        try:
            for batch in asked.batches:
                while batch.outcome is None:
                    self.step()
                if self._raises and batch.outcome.failures:
                    self._queue.finish()  # what others have begun is paid for, and recorded
                    raise self._queue.error(batch)
        except BaseException:
            self._queue.abandon()
            raise
        return self._failures.values(asked.outcomes())

    def _count(self, asked: Asked) -> int:
        """Count what was evaluated for a request; return its coalitions."""
        outcomes = [batch.outcome for batch in asked.new if batch.outcome is not None]
        n = sum(len(outcome.values) for outcome in outcomes)
        self._n_evaluated += n
        self._seconds += sum(outcome.seconds for outcome in outcomes)
        return n

    def has_room(self, n_waiting: int) -> bool:
        """Whether more may be submitted beside so many coalitions whose values have not been taken."""
        most = self._max_in_flight or 3 * self._workers.in_flight // 2  # some to choose the longest from
        return self._queue.n_in_flight < most and n_waiting < most * self.batch_size

    def send(self) -> None:
        """Send what was submitted to workers that have room for it; this process evaluates nothing here."""
        if self._workers.in_flight > 1:
            with kept_interrupts():
                self._queue.send(self._deadline)

    def step(self) -> None:
        """Send what was submitted; wait until some of it is done."""
        self._queue.step(self._deadline)

    def finish(self) -> int:
        """Wait for what workers have begun, and forget what was submitted; return the evaluations not asked for."""
        self._queue.finish()
        return self._forget()

    def abandon(self) -> int:
        """End what workers have begun, and forget what was submitted; return the evaluations not asked for."""
        self._queue.abandon()
        return self._forget()

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Leave nothing in flight after the block."""
        try:
            yield
        finally:
            self.abandon()

    def _forget(self) -> int:
        n = sum(self._count(asked) for asked in self._open)
        self._open.clear()
        if "_ends" not in self.__dict__:
            self._pending_ends = None
        if self._lookup is not None:
            self._lookup.forget()
        return n

    def submit_ends(self) -> Pending:
        """Have U(0) and U(N) evaluated, unless they are; `ends` waits for them."""
        if self._pending_ends is None:
            self._pending_ends = self.submit(Coalitions.ends(self.game.n_players))
        return self._pending_ends

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N), evaluated once, however often this is called."""
        return self._ends[0]

    @cached_property
    def _ends(self) -> tuple[Floats, Meter]:
        before = self.meter
        ends = self.submit_ends().result()
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


def _worth_of_nobody(game: Game) -> float:
    """Return the value of the empty coalition, which those count as that the model cannot be fitted to."""
    defaults = getattr(game.function, "defaults", None)
    if defaults is None:
        raise ValueError('on_error="empty" is for games made by fgsv.utility: give the number a failure counts as')
    if len(defaults) > 1:
        raise ValueError(f'on_error="empty" is for one output, but the game has {len(defaults)}: give a number')
    return float(defaults[0])
