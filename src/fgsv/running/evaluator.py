"""Evaluation: the values of a round, from the ledger where it has them, from the workers where not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions, join, split, unpack
from fgsv.game import Game, GameError
from fgsv.ledger import Ledger, LedgerError, Outcome, Row, by_row
from fgsv.running.workers import PackedBatch, Workers, failed
from fgsv.types import Floats

BATCH_SIZE = 256
BATCH_BYTES = 2**24
CALL_SECONDS = 1.0
"""How long a call should take, about: what a killed run loses at the most, unless one batch takes longer."""
MOST_BATCHES = 64
"""The most batches of a call for each worker."""
SEARCH_SECONDS = 10.0
"""How long it is searched, when a batch has failed as a whole, which of its coalitions is the guilty one."""
MOST_RECENT = 2**16
"""Rows that are kept with their values, to be found without the file: some 20 MB."""


def default_batch_size(n_players: int) -> int:
    """Return how many coalitions are evaluated together where neither user nor game say: 16 MiB of booleans."""
    return max(1, min(BATCH_SIZE, BATCH_BYTES // n_players))


class Evaluator:
    """Evaluates the rounds of one run: looks up what the ledger knows, has the rest evaluated, and records it.

    A round is cut into batches by their number of rows alone; a batch is what is evaluated, recorded and found
    again, so its bits do not depend on workers, calls or what the ledger holds. (Where the game's rows are
    independent, each row is.) What is missing is issued in calls, each committed before the next.
    """

    def __init__(
        self,
        game: Game,
        *,
        batch_size: int,
        n_jobs: int | None = None,
        on_error: str | float = "raise",
        timeout: float | None = None,
        ledger: str | Path | Ledger | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.game = game
        self.batch_size = batch_size
        self.failures: Counter[str] = Counter()
        """How many coalitions failed, by kind."""
        self.first_failure = ""
        self.stopped = "abandoned"
        """What to record as the end of the run; the loop says."""
        self._on_error = _policy(on_error)
        self._n_outputs = len(game.outputs) if game.outputs else None
        self._n_asked = 0
        self._recent: dict[bytes, Row] = {}
        self._workers = Workers(game, n_jobs, timeout)
        self._call_size = self._workers.count
        self._given = ledger
        self._settings = settings or {}
        self._ledger: Ledger | None = None
        self._run: int | None = None

    def __enter__(self) -> Evaluator:
        try:
            if self._given is not None:
                self._begin(self._given)
            self._workers.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _begin(self, given: str | Path | Ledger) -> None:
        self._ledger = given if isinstance(given, Ledger) else Ledger(given)
        self._number = self._ledger.game(self.game)
        if not self._ledger.read_only:
            self._run = self._ledger.begin_run(self._number, self._settings)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._workers.stop()
        if isinstance(error, KeyboardInterrupt):
            self.stopped = "interrupted"
        elif isinstance(error, Exception):
            self.stopped = f"failed: {type(error).__name__}: {error}"
        try:
            if self._ledger is not None and self._run is not None and not isinstance(error, LedgerError):
                self._ledger.end_run(self._run, self.stopped, self._n_asked)
        finally:
            if self._ledger is not None and self._ledger is not self._given:
                self._ledger.close()

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of a round, in its order."""
        size = self.batch_size
        batches = [PackedBatch(coalitions[i : i + size]) for i in range(0, len(coalitions), size)]
        if self._ledger is None:
            outcomes = self._evaluated(batches)
        elif self.game.independent_rows:
            outcomes = self._remembered_rows(self._ledger, batches)
        else:
            outcomes = self._remembered(self._ledger, batches)
        values = np.concatenate([self._values(outcome) for outcome in outcomes])
        self._n_asked += len(coalitions)
        return values

    def _remembered(self, ledger: Ledger, batches: list[PackedBatch]) -> list[Outcome]:
        """Return the outcomes from the ledger where it has the whole batch, the others evaluated."""
        known: dict[bytes, Outcome] = {}
        missing: dict[bytes, PackedBatch] = {}
        for batch in batches:
            outcome = ledger.find(self._number, batch.packed)
            if outcome is not None and not self._again(outcome.failures):
                known[batch.packed] = outcome
            else:
                missing[batch.packed] = batch  # once, where a round has the same batch twice
        known |= zip(missing, self._evaluated(list(missing.values())), strict=True)
        return [known[batch.packed] for batch in batches]

    def _remembered_rows(self, ledger: Ledger, batches: list[PackedBatch]) -> list[Outcome]:
        """Return the outcomes row by row from the ledger, each missing row evaluated once."""
        rows = [split(batch.packed) for batch in batches]
        known = self._recent
        if len(known) > MOST_RECENT:
            known.clear()
        claimed: set[bytes] = set()
        missing: list[list[bytes]] = []
        unknown = {row for batch in rows for row in batch if row not in known}
        found = ledger.find_rows(self._number, unknown)
        known |= {row: seen for row, seen in found.items() if not self._again(seen.failure)}
        for batch in rows:
            new = [row for row in dict.fromkeys(batch) if row not in known and row not in claimed]
            claimed.update(new)
            if new:
                missing.append(new)
        fresh = self._evaluated([PackedBatch(unpack(self.game.n_players, join(new))) for new in missing])
        for new, outcome in zip(missing, fresh, strict=True):
            known |= zip(new, by_row(outcome), strict=True)
        return [_joined([known[row] for row in batch]) for batch in rows]

    def _again(self, failure: object) -> bool:
        """Say whether a recorded failure is to be tried anew: by whoever will not have a value in its place."""
        return bool(failure) and self._on_error is None

    def _evaluated(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Evaluate batches call by call, and record each call before the next."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(batches):
            size = len(batches) if self._ledger is None else self._call_size
            call = batches[len(outcomes) : len(outcomes) + size]
            start = time.monotonic()
            done = self._attempted(call)
            if self._ledger is not None:
                records = [(batch.packed, outcome) for batch, outcome in zip(call, done, strict=True)]
                self._ledger.record(self._number, records)
                self._adapt(time.monotonic() - start)
            if self._on_error is None:
                for batch, outcome in zip(call, done, strict=True):
                    if outcome.failures:
                        raise self._error(batch.coalitions, outcome)
            outcomes += done
        return outcomes

    def _error(self, coalitions: Coalitions, outcome: Outcome) -> GameError:
        """Return the error to raise for a batch that failed; it names the first guilty coalition that is found."""
        start = time.monotonic()
        text, rows = next(iter(outcome.failures.items()))
        if len(rows) == len(coalitions) > 1 and text.startswith("raised"):
            for row in range(len(coalitions)):
                [single] = self._workers.attempt([PackedBatch(coalitions[row : row + 1])])
                if single.failures:
                    coalitions, outcome = coalitions[row : row + 1], single
                    text, rows = next(iter(single.failures.items()))
                    break
                if time.monotonic() - start > SEARCH_SECONDS:
                    break
        error = GameError(f"the game failed ({text})")
        if outcome.trace:
            error.add_note(outcome.trace)
        if len(rows) == 1:
            error.add_note(f"members of the coalition: {coalitions.members(rows[0]).tolist()}")
        return error

    def _adapt(self, seconds: float) -> None:
        """Let calls grow while they are quick: a commit waits for the disk. No bit of a value depends on it."""
        if seconds < CALL_SECONDS / 2:
            self._call_size = min(2 * self._call_size, MOST_BATCHES * self._workers.count)
        elif seconds > CALL_SECONDS:
            self._call_size = max(self._call_size // 2, self._workers.count)

    def _attempted(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Evaluate batches; one of independent rows that fails is evaluated again row by row."""
        outcomes = list(map(self._of_one_width, self._workers.attempt(batches)))
        if self.game.independent_rows:
            for i, (batch, outcome) in enumerate(zip(batches, outcomes, strict=True)):
                if outcome.values.shape[1] == 0 and len(batch) > 1:
                    rows = [PackedBatch(batch.coalitions[row : row + 1]) for row in range(len(batch))]
                    singles = map(self._of_one_width, self._workers.attempt(rows))
                    parts = [part for single in singles for part in by_row(single)]
                    outcomes[i] = replace(_joined(parts), trace=outcome.trace)
        return outcomes

    def _of_one_width(self, outcome: Outcome) -> Outcome:
        """Return an outcome as it is, or as a failure where its number of outputs is not that of the others."""
        width = outcome.values.shape[1]
        if width == 0:
            return outcome
        if self._n_outputs is None:
            self._n_outputs = width
        if width == self._n_outputs:
            return outcome
        text = f"wrong shape: {width} outputs, where {self._n_outputs} were expected"
        return failed(len(outcome.values), text, outcome.seconds)

    def _values(self, outcome: Outcome) -> Floats:
        """Return (m, q) values with the policy's number where the game failed, and count those."""
        m, width = outcome.values.shape
        self._n_outputs = self._n_outputs or width or 1  # known from the ends, unless both of them failed
        if not outcome.failures:
            return outcome.values
        assert self._on_error is not None
        values = outcome.values.copy() if width else np.empty((m, self._n_outputs))
        for text, rows in outcome.failures.items():
            values[rows] = self._on_error
            self.failures[text.partition(":")[0]] += len(rows)
            self.first_failure = self.first_failure or text
        return values

    def summary(self) -> dict[str, Any]:
        """Return what failed so far, as part of a valuation's `info`; nothing where nothing did."""
        if not self.failures:
            return {}
        return {
            "failures": {
                "coalitions": self.failures.total(),
                "counted_as": self._on_error,
                "kinds": dict(sorted(self.failures.items())),
                "first": self.first_failure,
            }
        }


def _policy(on_error: str | float) -> float | None:
    """Return the number that stands for a failure, or None to raise."""
    if on_error == "raise":
        return None
    if isinstance(on_error, str) or not np.isfinite(on_error):
        raise ValueError(f'on_error must be "raise" or a finite number that stands for a failure, got {on_error!r}')
    return float(on_error)


def _joined(rows: Sequence[Row]) -> Outcome:
    """Return the outcome of a batch from those of its rows."""
    failures: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if row.failure:
            failures.setdefault(row.failure, []).append(i)
    seconds = sum(row.seconds for row in rows)
    if not failures:
        return Outcome(np.array([row.values for row in rows]), seconds)
    nothing = [np.nan] * max(len(row.values) for row in rows)
    return Outcome(np.array([nothing if row.failure else row.values for row in rows]), seconds, failures)
