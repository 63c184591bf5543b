"""Calls: send a few batches at a time to the workers, and record each call before the next."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import PackedBatch
from fgsv.evaluation.workers import Workers
from fgsv.game import Game, GameError
from fgsv.ledger import Outcome, by_row, failed, joined
from fgsv.signals import kept_interrupts
from fgsv.words import option

CALL_SECONDS = 1.0
"""Target duration of a call: a killed run loses no more than this, unless one batch takes longer."""
MOST_BATCHES = 64
"""Limit on the batches in a call, for each worker."""
SEARCH_SECONDS = 10.0
"""Seconds spent locating the coalition that made a batch fail."""

Record = Callable[[list[tuple[bytes, Outcome]]], None]


class OutOfTime(TimeoutError):
    """The deadline of an evaluator passed before everything was evaluated."""


class Calls:
    """Evaluates batches with the workers of one evaluator; the bits of a value do not depend on how calls are cut."""

    def __init__(
        self, game: Game, workers: Workers, record: Record | None, *, raises: bool, width: int | None = None
    ) -> None:
        self._game, self._workers, self._record, self._raises = game, workers, record, raises
        self._size = workers.count
        self._advised = False
        self.n_done = 0
        """Coalitions evaluated so far."""
        self.seconds = 0.0
        """Seconds that these took inside the game, all workers together, without starting the workers."""
        self._n_outputs = game.width or width
        """Outputs of an evaluation: as named, as recorded (`width`), or as in the first one."""

    def __call__(self, batches: list[PackedBatch], deadline: float | None = None) -> list[Outcome]:
        """Return the outcomes of batches, in order; raise an error for a failure if that is the policy.

        No call begins after the deadline (on the clock `time.monotonic`).
        """
        outcomes: list[Outcome] = []
        in_one = self._record is None and deadline is None
        while len(outcomes) < len(batches):
            if deadline is not None and time.monotonic() > deadline:
                raise OutOfTime("no time is left for further evaluations")
            call = batches[len(outcomes) : len(outcomes) + (len(batches) if in_one else self._size)]
            start = time.monotonic()
            with kept_interrupts():
                done = self._attempt(call)
                if self._record is not None:
                    self._record([(batch.packed, outcome) for batch, outcome in zip(call, done, strict=True)])
            self._adapt(time.monotonic() - start)
            if self._raises:
                for batch, outcome in zip(call, done, strict=True):
                    if outcome.failures:
                        raise self._error(batch.coalitions, outcome)
            outcomes += done
            self.n_done += sum(map(len, call))
            self.seconds += sum(outcome.seconds for outcome in done)
        self._advise(batches, outcomes)
        return outcomes

    def _advise(self, batches: list[PackedBatch], outcomes: list[Outcome]) -> None:
        """Warn once if the user's own game keeps some workers waiting because its batches are large."""
        count, m = self._workers.count, sum(map(len, batches))
        own_size = self._game.independent_rows or self._game.batch_size is not None
        if self._advised or own_size or len(batches) >= count or m < 2 * count:
            return
        if max(outcome.seconds for outcome in outcomes) > CALL_SECONDS:
            self._advised = True
            warnings.warn(
                f"{count - len(batches)} of {count} workers had nothing to do: {m} coalitions were evaluated "
                f"{len(batches[0])} at a time. Give a smaller batch_size, such as 1; or, if the game evaluates each "
                "coalition by itself, fgsv.Game(..., independent_rows=True)",
                RuntimeWarning,
                stacklevel=2,
            )

    def _adapt(self, seconds: float) -> None:
        """Let calls grow while they are quick, because each one waits for the disk."""
        if seconds < CALL_SECONDS / 2:
            self._size = min(2 * self._size, MOST_BATCHES * self._workers.count)
        elif seconds > CALL_SECONDS:
            self._size = max(self._size // 2, self._workers.count)

    def _attempt(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Evaluate batches; one that fails as a whole is evaluated again row by row, if its rows may fare better."""
        outcomes = list(map(self._check_width, self._workers.attempt(batches)))
        for i, (batch, outcome) in enumerate(zip(batches, outcomes, strict=True)):
            if len(batch) > 1 and self._is_worth_splitting(outcome):
                rows = [PackedBatch(batch.coalitions[row : row + 1]) for row in range(len(batch))]
                singles = map(self._check_width, self._workers.attempt(rows))
                parts = [part for single in singles for part in by_row(single)]
                outcomes[i] = replace(joined(parts), trace=outcome.trace)
        return outcomes

    def _is_worth_splitting(self, outcome: Outcome) -> bool:
        """Say whether to find out which coalitions made a batch fail: always, if rows are independent.

        If not, only when an error was raised and failures count as a number: they should be no more than there are.
        """
        raised = bool(outcome.trace)
        return outcome.values.shape[1] == 0 and (self._game.independent_rows or (raised and not self._raises))

    def _check_width(self, outcome: Outcome) -> Outcome:
        """Return an outcome unchanged, or as a failure if its number of outputs differs from the others'."""
        width = outcome.values.shape[1]
        if width == 0:
            return outcome
        if self._n_outputs is None:
            self._n_outputs = width
        if width == self._n_outputs:
            return outcome
        text = f"wrong shape: {width} outputs, expected {self._n_outputs}"
        return failed(len(outcome.values), text, outcome.seconds)

    def _remedy(self, coalitions: Coalitions, rows: Sequence[int]) -> str:
        """Say what to do about a model that could be fitted to all rows, but not to a coalition."""
        fitted = hasattr(self._game.function, "defaults") and len(rows) == 1
        if not fitted or coalitions.sizes[rows[0]] == self._game.n_players:
            return ""
        counted = f"{option('on_error', 'empty')} counts such coalitions as the empty one"
        return f". If a coalition is too small for the model: {counted}"

    def _error(self, coalitions: Coalitions, outcome: Outcome) -> GameError:
        """Return the error to raise for a failed batch; it names the coalition that caused it, if found in time."""
        start = time.monotonic()
        text, rows = next(iter(outcome.failures.items()))
        if len(rows) == len(coalitions) > 1 and outcome.trace:
            for row in range(len(coalitions)):
                [single] = self._workers.attempt([PackedBatch(coalitions[row : row + 1])])
                if single.failures:
                    coalitions, outcome = coalitions[row : row + 1], single
                    text, rows = next(iter(single.failures.items()))
                    break
                if time.monotonic() - start > SEARCH_SECONDS:
                    break
        error = GameError(f"the game failed ({text}){self._remedy(coalitions, rows)}")
        if outcome.trace:
            error.add_note(outcome.trace)
        if len(rows) == 1:
            error.add_note(f"members of the coalition: {coalitions.members(rows[0]).tolist()}")
        return error
