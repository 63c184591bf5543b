"""The evaluator: the values of coalitions, from the ledger if it has them, from the workers if not.

Nothing else calls a game. It counts, records, pins threads, bounds memory and applies `on_error`; a run hands it on
to the audit of its result, so that no coalition is evaluated twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators import Evaluate
from fgsv.game import Game, as_game
from fgsv.ledger import Ledger, LedgerError, Outcome
from fgsv.running.batches import PackedBatch
from fgsv.running.calls import Calls
from fgsv.running.door import Recorded, end_by
from fgsv.running.memory import Memory
from fgsv.running.workers import Workers
from fgsv.types import Floats
from fgsv.valuation import Failures
from fgsv.valuation.settings import failure_value, whole_number

BATCH_SIZE = 256
BATCH_BYTES = 2**24


def default_batch_size(n_players: int) -> int:
    """Return how many coalitions are evaluated together by default: 16 MiB of booleans."""
    return max(1, min(BATCH_SIZE, BATCH_BYTES // n_players))


class Evaluator:
    """Evaluates coalitions of one game; use it as a context, in which the ledger and the workers are open.

    A round is cut into batches by their number of rows alone; a batch is what is evaluated, recorded and found
    again, so its bits do not depend on workers, calls or what the ledger holds. (Where the game's rows are
    independent, each row is.)
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
    ) -> None:
        if batch_size is not None and whole_number("batch_size", batch_size) < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.game = game
        self.batch_size = int(batch_size or game.batch_size or default_batch_size(game.n_players))
        self.on_error = on_error
        self.timeout = timeout
        self.deadline: float | None = None
        """The time, by `time.monotonic`, after which no call begins."""
        self._n_jobs = n_jobs
        self.n_asked = 0
        """Evaluations that were asked for, whether the ledger had them or not."""
        self._counted_as = failure_value(on_error)
        self._failures: Counter[str] = Counter()
        self._first_failure = ""
        self._n_outputs = len(game.outputs) if game.outputs else None
        self._given = ledger
        self._ledger: Ledger | None = None
        self._memory: Memory | None = None
        self._workers = Workers(game, n_jobs, timeout)
        self._calls = Calls(game, self._workers, None, raises=self._counted_as is None)

    @property
    def evaluator(self) -> Evaluator:
        """Itself: the evaluator behind a door."""
        return self

    def beside(self, game: Game) -> Evaluator:
        """Return an evaluator of another game that records into the same ledger, with workers of its own."""
        other = Evaluator(
            game, n_jobs=self._n_jobs, on_error=self.on_error, timeout=self.timeout, ledger=self._ledger
        )
        other.deadline = self.deadline
        return other

    def __enter__(self) -> Evaluator:
        try:
            if self._given is not None:
                self._ledger = self._given if isinstance(self._given, Ledger) else Ledger(self._given)
                self._memory = Memory(self._ledger, self.game, retries=self._counted_as is None)
                record = None if self._ledger.read_only else self._record
                self._calls = Calls(self.game, self._workers, record, raises=self._counted_as is None)
            self._workers.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._workers.stop()
        if self._ledger is not None and self._ledger is not self._given:
            self._ledger.close()

    def _record(self, batches: list[tuple[bytes, Outcome]]) -> None:
        assert self._ledger is not None
        assert self._memory is not None
        self._ledger.record(self._memory.number, batches)

    @contextmanager
    def recorded(self, settings: Mapping[str, Any]) -> Iterator[Recorded]:
        """Enter what the block does into the ledger as a run with these settings, with its end."""
        run, before = Recorded(), self.n_asked
        if self._ledger is None or self._memory is None or self._ledger.read_only:
            yield run
            return
        number = self._ledger.begin_run(self._memory.number, dict(settings))
        try:
            yield run
        except LedgerError:
            raise
        except BaseException as error:
            self._ledger.end_run(number, end_by(error), self.n_asked - before)
            raise
        self._ledger.end_run(number, run.end, self.n_asked - before)

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Raise `OutOfTime` in the block instead of beginning a call after so many seconds."""
        self.deadline = None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self.deadline = None

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of coalitions, in their order."""
        size = self.batch_size
        batches = [PackedBatch(coalitions[i : i + size]) for i in range(0, len(coalitions), size)]
        known = self._memory
        evaluated = partial(self._calls, deadline=self.deadline)
        outcomes = evaluated(batches) if known is None else known.outcomes(batches, evaluated)
        values = np.concatenate([self._values(outcome) for outcome in outcomes])
        self.n_asked += len(coalitions)
        return values

    def ends(self) -> Floats:
        """Return (2, q): U(0) and U(N), evaluated once however often they are asked for."""
        return self._ends

    @cached_property
    def _ends(self) -> Floats:
        return self(Coalitions.ends(self.game.n_players))

    def other_game(self, game: Any) -> Evaluate:
        """Return how to evaluate another game of the same players, in this process and without a ledger."""
        n = self.game.n_players
        return Evaluator(as_game(game, n), batch_size=default_batch_size(n), n_jobs=1)

    def _values(self, outcome: Outcome) -> Floats:
        """Return (m, q) values with the policy's number where the game failed, and count those."""
        m, width = outcome.values.shape
        self._n_outputs = self._n_outputs or width or 1  # known from the ends, unless both of them failed
        if not outcome.failures:
            return outcome.values
        assert self._counted_as is not None
        values = outcome.values.copy() if width else np.empty((m, self._n_outputs))
        for text, rows in outcome.failures.items():
            values[rows] = self._counted_as
            self._failures[text.partition(":")[0]] += len(rows)
            self._first_failure = self._first_failure or text
        return values

    @property
    def failures(self) -> Failures | None:
        """What failed so far; None where nothing did."""
        if not self._failures or self._counted_as is None:
            return None
        kinds = dict(sorted(self._failures.items()))
        return Failures(self._failures.total(), self._counted_as, kinds, self._first_failure)
