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
from fgsv.files import as_path
from fgsv.game import Game, GameError, as_game
from fgsv.ledger import Ledger, Outcome, Purpose
from fgsv.methods import Evaluate
from fgsv.methods.units import InUnits
from fgsv.partition import Partition
from fgsv.running.batches import PackedBatch, default_batch_size
from fgsv.running.calls import Calls
from fgsv.running.failures import FailureCounter, Mark
from fgsv.running.ledger_lookup import LedgerLookup
from fgsv.running.recheck import recheck
from fgsv.running.recording import Recorded, Recorder
from fgsv.running.start import KnownBefore, Start
from fgsv.running.workers import Workers
from fgsv.types import Floats
from fgsv.valuation import Failures
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
    ) -> None:
        size = game.batch_size if batch_size is None else batch_size
        if size is not None:
            whole_number("batch_size", size, least=1)
        self.game = game
        self.batch_size = int(size or default_batch_size(game.n_players))
        self.on_error = on_error
        self.timeout = timeout
        self.deadline: float | None = None
        """The time (on the clock `time.monotonic`) after which no call begins."""
        self.watch: Callable[[int], object] | None = None  # called with the evaluations of each request
        self._n_jobs = n_jobs
        self.n_asked = 0
        """Evaluations requested, whether or not the ledger had them; without those known at the beginning."""
        self._checked = False
        self._raises = failure_value(on_error) is None
        self.failures = FailureCounter(game, failure_value(on_error))
        self._failures_of_ends: Failures | None = None
        self.known_before = KnownBefore(game, start, ledger)
        self.known = self.known_before.known
        self._given = ledger if ledger is None or isinstance(ledger, Ledger) else as_path(ledger, "ledger")
        self._ledger: Ledger | None = None
        self._lookup: LedgerLookup | None = None
        self.recorder = Recorder()
        self.estimator: InUnits | None = None  # of the last run: it can say how much each draw counts
        self._workers = Workers(game, n_jobs, timeout)
        self.calls = Calls(game, self._workers, None, raises=self._raises)

    @property
    def evaluator(self) -> Evaluator:
        """Itself, as every `GameAccess` names the evaluator behind it."""
        return self

    @property
    def n_workers(self) -> int:
        """How many batches are evaluated at a time."""
        return self._workers.count

    def beside(self, game: Game, n_jobs: int | None = None) -> Evaluator:
        """Return an evaluator of another game, with the same ledger and its own workers, by default as many."""
        n_jobs = n_jobs or self._n_jobs
        timeout = self.timeout if n_jobs == self._n_jobs else None
        other = Evaluator(game, n_jobs=n_jobs, on_error=self.on_error, timeout=timeout, ledger=self._ledger)
        other.deadline, other.watch = self.deadline, self.watch
        return other

    def __enter__(self) -> Evaluator:
        try:
            if self._given is not None:
                self._ledger = self._given if isinstance(self._given, Ledger) else Ledger(self._given)
                self.known_before.take_over(self._ledger)
                self._lookup = LedgerLookup(self._ledger, self.game, retries=self._raises)
                self.recorder = Recorder(self._ledger, self._lookup.number)
                record = self.recorder.batches if self.recorder.is_open else None
                self.calls = Calls(self.game, self._workers, record, raises=self._raises, width=self._lookup.width)
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

    def recorded(self, settings: Mapping[str, Any], purpose: Purpose) -> AbstractContextManager[Recorded]:
        """Record the block in the ledger as a run with these settings, and how it ended."""
        return self.recorder.run(settings, purpose, lambda: self.n_asked)

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Raise `OutOfTime` in the block rather than begin a call after this many seconds."""
        self.deadline = None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self.deadline = None

    @property
    def seconds_left(self) -> float | None:
        """The time until no more calls begin; None if it is not limited."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of coalitions, in their order."""
        return self.known_before.answer(coalitions, self._unknown)

    def _unknown(self, coalitions: Coalitions) -> Floats:
        size, m = self.batch_size, len(coalitions)
        if self.game.independent_rows:  # the same bits in any batch: all workers get some
            size = max(1, min(size, -(-m // self.n_workers)))
        batches = [PackedBatch(coalitions[i : i + size]) for i in range(0, m, size)]
        known, done_before = self._lookup, self.calls.n_done
        try:
            outcomes = self._evaluate(batches) if known is None else known.outcomes(batches, self._evaluate)
        except BaseException:
            self.n_asked += self.calls.n_done - done_before
            raise
        values = np.concatenate([self.failures.values(outcome) for outcome in outcomes])
        self.n_asked += m
        if self.watch is not None:
            self.watch(m)
        return values

    def _evaluate(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Evaluate what the ledger does not know, after checking that it still gives the values it recorded."""
        if batches and not self._checked:
            self.known_before.check(self._workers)
            if self._ledger is not None and self._lookup is not None:
                recheck(self._ledger, self._lookup.number, self.game, self._workers)
            self._checked = True
        return self.calls(batches, self.deadline)

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N), evaluated once, however often this is called."""
        return self._ends

    @cached_property
    def _ends(self) -> Floats:
        mark = self.failures.mark()
        ends = self(Coalitions.ends(self.game.n_players))
        failed = self._failures_of_ends = self.failures.since(mark)
        if failed is not None and hasattr(self.game.function, "defaults"):  # then U(0) needs no model
            raise GameError(f"the model fails on all the data, whose score is what is shared ({failed.first})")
        with np.errstate(over="ignore"):
            total = ends[1] - ends[0]
        if len(wrong := np.flatnonzero(~np.isfinite(total))):
            nobody, everybody = ends[:, wrong[0]].tolist()
            raise GameError(
                f"U(N) - U(0), which is what is shared, is too large for a number: U(0) = {nobody:g} and "
                f"U(N) = {everybody:g}. Divide the utility by a constant"
            )
        return ends

    def recorded_groups(self, partition: Partition) -> Partition:
        """Return the groups of the players as a ledger records them: unchanged."""
        return partition

    def other_game(self, game: Any) -> Evaluate:
        """Return a function that evaluates another game of the same players, in this process and without a ledger."""
        n = self.game.n_players
        return Evaluator(as_game(game, n), batch_size=default_batch_size(n), n_jobs=1)

    def failures_of_run(self, mark: Mark) -> Failures | None:
        """Return what failed in a run that began at a mark: U(0) and U(N), evaluated before, are part of it."""
        of_ends, since = self._failures_of_ends, self.failures.since(mark)
        return since if of_ends is None else of_ends + since
