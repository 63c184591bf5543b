"""The queue: batches on their way to workers and back, recorded the moment they are done."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import PackedBatch
from fgsv.evaluation.pools import Answer, LostScheduler
from fgsv.evaluation.workers import Workers
from fgsv.game import Game, GameError
from fgsv.ledger import LedgerError, Outcome, by_row, failed, joined
from fgsv.signals import held_interrupts, kept_interrupts
from fgsv.words import duration, option

STEP_SECONDS = 0.1
"""What is evaluated in this process is recorded together for so long."""
LOOK_SECONDS = 1.0
"""Seconds between two looks for new workers while none answers."""
LONG_SECONDS = 1.0
"""Seconds of a batch for which workers that have nothing to do are worth a warning."""
SEARCH_SECONDS = 10.0
"""Seconds spent locating the coalition that made a batch fail."""
PATIENCE, REPEATED = 60.0, 600.0
"""Seconds without any worker before the first warning, and between two."""

Record = Callable[[list[tuple[bytes, Outcome]]], None]


class OutOfTime(TimeoutError):
    """The deadline of an evaluator passed before everything was evaluated."""


class Queue:
    """Sends batches to workers, longest first, and takes in outcomes in any order: no bit depends on it."""

    def __init__(self, game: Game, workers: Workers, *, raises: bool) -> None:
        self._game, self._workers, self._raises = game, workers, raises
        self.record: Record | None = None
        """Where batches are recorded when they are done."""
        self.place = ""
        """The file that has them, in words."""
        self.deadline: float | None = None
        """The time (on the clock `time.monotonic`) after which no batch is sent."""
        self.n_outputs = game.width
        """Outputs of an evaluation: as named, as recorded, or as in the first one."""
        self._ready: list[tuple[float, int, PackedBatch]] = []
        self._away: set[PackedBatch] = set()
        self._suspects: list[PackedBatch] = []
        """Batches one of which has killed a worker."""
        self._unfinished: dict[PackedBatch, None] = {}
        """Batches that are not done, in the order in which they were added."""
        self._held: list[tuple[PackedBatch, Outcome]] = []
        """Outcomes that came before the first one, which tells the number of outputs."""
        self._arrived: SimpleQueue[tuple[PackedBatch, Answer]] = SimpleQueue()
        self._news: list[tuple[PackedBatch, Answer]] = []
        self._new_records: list[tuple[bytes, Outcome]] = []
        self._numbers = count()
        self._advised = False
        self._heard = self._next_look = time.monotonic()

    @property
    def n_in_flight(self) -> int:
        """Batches that are not done."""
        return len(self._unfinished)

    @property
    def n_busy(self) -> int:
        """Workers that evaluate something."""
        return min(len(self._away), self._workers.count)

    def add(self, batches: Iterable[PackedBatch]) -> None:
        """Take batches that are to be evaluated; none is sent yet."""
        for batch in batches:
            self._unfinished[batch] = None
            self._push(batch)

    def _push(self, batch: PackedBatch) -> None:
        longest_first = -self._length(batch) if self._workers.in_flight > 1 else 0.0
        heappush(self._ready, (longest_first, next(self._numbers), batch))

    def _length(self, batch: PackedBatch) -> float:
        """Return the relative cost of a batch: as the game says, or else more for larger coalitions."""
        sizes = batch.coalitions.sizes
        if self._game.cost is None:
            return float(sizes.sum())
        return float(np.sum(self._game.cost(np.clip(sizes, 1, max(1, self._game.n_players - 1)))))

    def step(self) -> None:
        """Send what is ready, wait until a worker answers, and take in all answers there are."""
        with kept_interrupts():
            if self._suspects and not self._away:
                batch = self._suspects.pop()
                self._settle(batch, self._workers.evaluate_again(batch))
            self.send()
            if self._away and not self._new_records:
                self._wait()
        self._take()

    def send(self) -> None:
        """Send what is ready, as far as workers have room."""
        if not self._ready or self._suspects:
            return
        began = time.monotonic()
        if not self._away:
            self._heard = self._next_look = began
        if self._workers.prepare(len(self._ready) + len(self._away), idle=not self._away):
            return
        room = self._workers.in_flight
        while self._ready and (room == 1 or len(self._away) < room):
            now = time.monotonic()
            if self.deadline is not None and now > self.deadline:
                if self._away:
                    break
                raise OutOfTime("no time is left for further evaluations")
            if now - began > STEP_SECONDS and self._away:
                break
            self._send(heappop(self._ready)[2])

    def _send(self, batch: PackedBatch, *, with_game: bool = False) -> None:
        self._away.add(batch)
        self._workers.send(batch, lambda answer: self._arrived.put((batch, answer)), with_game=with_game)

    def _wait(self) -> None:
        """Wait for an answer; return without one now and then, so that new workers get something to do."""
        try:
            self._news.append(self._arrived.get(timeout=LOOK_SECONDS))
        except Empty:
            now = time.monotonic()
            if now > max(self._next_look, self._heard + PATIENCE):
                lack = self._workers.lack()
                self._next_look = now + (REPEATED if lack else PATIENCE)
                if lack:
                    waited = duration(now - self._heard)
                    warnings.warn(f"no worker for {waited}: {lack}", RuntimeWarning, stacklevel=2)

    def _take(self) -> None:
        """Take in all answers there are, and record what is done."""
        with held_interrupts():
            try:
                while not self._arrived.empty():
                    self._news.append(self._arrived.get())
                while self._news:
                    self._take_in(*self._news.pop(0))
            finally:
                records, self._new_records = self._new_records, []
                if records and self.record is not None:
                    self.record(records)

    def _take_in(self, batch: PackedBatch, answer: Answer) -> None:
        if batch not in self._away:  # it was ended
            return
        self._away.remove(batch)
        self._heard = time.monotonic()
        try:
            outcome = answer()
        except LostScheduler as error:
            safe = f"what was evaluated is in {self.place}: the same command goes on from there"
            raise GameError(
                f"{error}; {safe if self.record else 'without a ledger its evaluations are lost'}"
            ) from error
        except (GameError, LedgerError):
            raise
        except Exception:  # an error in a batch is an outcome, so a worker died; which batch did it is unknown
            self._suspects.append(batch)
            return
        if outcome is None:
            self._send(batch, with_game=True)
        else:
            self._settle(batch, outcome)

    def _settle(self, batch: PackedBatch, outcome: Outcome) -> None:
        """Take the outcome of a batch; if it failed and its rows may fare better, have them evaluated one by one."""
        if self.n_outputs is None and (batch.whole or batch) is not next(iter(self._unfinished)):
            self._held.append((batch, outcome))
            return
        width = outcome.values.shape[1]
        self.n_outputs = self.n_outputs or width or None
        if width and width != self.n_outputs:
            text = f"wrong shape: {width} outputs, expected {self.n_outputs}"
            outcome = failed(len(batch), text, outcome.seconds)
        if len(batch) > 1 and self._is_worth_splitting(outcome):
            batch.trace = outcome.trace
            batch.parts = [PackedBatch(batch.coalitions[i : i + 1], whole=batch) for i in range(len(batch))]
            for part in batch.parts:
                self._push(part)
            return
        batch.outcome = outcome
        whole = batch.whole
        if whole is not None:
            rows = [row for part in whole.parts if part.outcome is not None for row in by_row(part.outcome)]
            if len(rows) < len(whole):
                return
            batch, outcome = whole, replace(joined(rows), trace=whole.trace)
            batch.outcome, batch.parts = outcome, ()
        del self._unfinished[batch]
        self._new_records.append((batch.packed, outcome))
        self._advise(batch, outcome)
        held, self._held = self._held, []
        for each in held:
            self._settle(*each)

    def _is_worth_splitting(self, outcome: Outcome) -> bool:
        """Say whether to find out which coalitions made a batch fail: always, if rows are independent.

        If not, only when an error was raised and failures count as a number: they should be no more than there are.
        """
        raised = bool(outcome.trace)
        return outcome.values.shape[1] == 0 and (self._game.independent_rows or (raised and not self._raises))

    def _advise(self, batch: PackedBatch, outcome: Outcome) -> None:
        """Warn once if the user's own game keeps some workers waiting because its batches are large."""
        count, left = self._workers.count, self.n_in_flight
        own_size = self._game.independent_rows or self._game.batch_size is not None
        if self._advised or own_size or len(batch) < 2 or left + 1 >= count or outcome.seconds <= LONG_SECONDS:
            return
        self._advised = True
        warnings.warn(
            f"{count - left - 1} of {count} workers had nothing to do: {len(batch)} coalitions were evaluated at a "
            "time. Give a smaller batch_size, such as 1; or, if the game evaluates each coalition by itself, "
            "fgsv.Game(..., independent_rows=True)",
            RuntimeWarning,
            stacklevel=2,
        )

    def finish(self) -> None:
        """Wait for what workers have begun, and forget the rest."""
        try:
            while self._away:
                self._ready.clear()
                self.step()
            if self._suspects:
                self._workers.end()
            parts = [part for batch in self._unfinished for part in batch.parts]  # evaluated, but not all of them
            self._new_records += [(part.packed, part.outcome) for part in parts if part.outcome is not None]
            self._take()
        finally:
            self._forget()

    def abandon(self) -> None:
        """End what workers have begun, and forget it; what is done is recorded."""
        try:
            with suppress(Exception):
                self._take()
            if self._away or self._suspects:
                self._workers.end()
        finally:
            self._forget()

    def _forget(self) -> None:
        for each in (self._ready, self._away, self._suspects, self._unfinished, self._held, self._news):
            each.clear()

    def error(self, batch: PackedBatch) -> GameError:
        """Return the error to raise for a failed batch; it names the coalition that caused it, if found in time."""
        coalitions, outcome = batch.coalitions, batch.outcome
        assert outcome is not None
        start = time.monotonic()
        text, rows = next(iter(outcome.failures.items()))
        if len(rows) == len(coalitions) > 1 and outcome.trace:
            for row in range(len(coalitions)):
                single = self._workers.evaluate(PackedBatch(coalitions[row : row + 1]))
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

    def _remedy(self, coalitions: Coalitions, rows: Sequence[int]) -> str:
        """Say what to do about a model that could be fitted to all rows, but not to a coalition."""
        fitted = hasattr(self._game.function, "defaults") and len(rows) == 1
        if not fitted or coalitions.sizes[rows[0]] == self._game.n_players:
            return ""
        counted = f"{option('on_error', 'empty')} counts such coalitions as the empty one"
        return f". If a coalition is too small for the model: {counted}"
