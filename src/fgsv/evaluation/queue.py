"""The queue: batches on their way to workers and back, recorded the moment they are done."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from threading import Event

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import PackedBatch
from fgsv.evaluation.pools import Answer, LostScheduler
from fgsv.evaluation.recording import OutOfTime, Recorder
from fgsv.evaluation.workers import Workers
from fgsv.game import Game, GameError
from fgsv.ledger import LedgerError, Outcome
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


class Queue:
    """Sends batches to workers, longest first, and takes in outcomes in any order: no bit depends on it."""

    def __init__(
        self,
        game: Game,
        workers: Workers,
        recorder: Recorder,
        *,
        raises: bool,
        advises: bool = False,
        n_recorded: int | None = None,
    ) -> None:
        self._game = game
        self._workers = workers
        self._recorder = recorder
        self._raises = raises
        self._advises = advises
        """Whether to warn if workers have nothing to do because batches are large."""
        self._n_outputs = game.width or n_recorded
        """Outputs of an evaluation: as named, as recorded, or as in the first one."""
        self._ready: list[tuple[float, int, PackedBatch]] = []
        self._away: set[PackedBatch] = set()
        self._suspects: list[PackedBatch] = []
        """Batches one of which has killed a worker."""
        self._unfinished: dict[PackedBatch, None] = {}
        """Batches that are not done, in the order in which they were added."""
        self._held: list[tuple[PackedBatch, Outcome]] = []
        """Outcomes that came before the first one, which tells the number of outputs."""
        self._arrived: deque[tuple[PackedBatch, Answer]] = deque()
        self._has_arrived = Event()
        self._done: list[PackedBatch] = []
        """Batches to be recorded."""
        self._numbers = count()
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

    def step(self, deadline: float | None) -> None:
        """Send what is ready, wait until a worker answers, and take in all answers there are."""
        with kept_interrupts():
            if self._suspects and not self._away:
                batch = self._suspects.pop()
                self._settle(batch, self._workers.evaluate_again(batch))
            self.send(deadline)
            if self._away and not self._done:
                self._wait()
        self._take()

    def send(self, deadline: float | None) -> None:
        """Send what is ready, as far as workers have room, but nothing after a time on the clock `time.monotonic`."""
        if not self._ready or self._suspects:
            return
        began = time.monotonic()
        if not self._away:
            self._heard = self._next_look = began
        if self._workers.prepare(len(self._ready) + len(self._away), idle=not self._away):
            return
        room = self._workers.in_flight
        while self._ready and not self._suspects and (room == 1 or len(self._away) < room):
            now = time.monotonic()
            if deadline is not None and now > deadline:
                if self._away:
                    break
                raise OutOfTime("no time is left for further evaluations")
            if now - began > STEP_SECONDS and self._away:
                break
            self._send(heappop(self._ready)[2])

    def _send(self, batch: PackedBatch, *, with_game: bool = False) -> None:
        def answered(answer: Answer) -> None:
            self._arrived.append((batch, answer))
            self._has_arrived.set()

        self._away.add(batch)
        try:
            self._workers.send(batch, answered, with_game=with_game)
        except (GameError, LedgerError):
            raise
        except Exception:  # a worker has died since the last answer, and its pool takes nothing more
            self._away.remove(batch)
            self._suspects.append(batch)

    def _wait(self) -> None:
        """Wait for an answer; return without one now and then, so that new workers get something to do."""
        now = time.monotonic()
        if self._has_arrived.wait(LOOK_SECONDS) or now < max(self._next_look, self._heard + PATIENCE):
            return
        lack = self._workers.lack()
        self._next_look = now + (REPEATED if lack else PATIENCE)
        if lack:
            warnings.warn(f"no worker for {duration(now - self._heard)}: {lack}", RuntimeWarning, stacklevel=2)

    def _take(self) -> None:
        """Take in all answers there are, and record what is done."""
        with held_interrupts():
            try:
                self._has_arrived.clear()
                while self._arrived:
                    self._take_in(*self._arrived.popleft())
            finally:
                done = self._done
                self._done = []
                self._recorder.batches(done)

    def _take_in(self, batch: PackedBatch, answer: Answer) -> None:
        if batch not in self._away:  # it was ended
            return
        self._away.remove(batch)
        self._heard = time.monotonic()
        try:
            outcome = answer()
        except LostScheduler as error:
            ledger = self._recorder.ledger
            safe = "without a ledger its evaluations are lost"
            if ledger is not None:
                safe = f"what was evaluated is in {ledger.path}: the same command goes on from there"
            raise GameError(f"{error}; {safe}") from error
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
        if self._n_outputs is None and (batch.whole or batch) is not next(iter(self._unfinished)):
            self._held.append((batch, outcome))
            return
        width = outcome.values.shape[1]
        self._n_outputs = self._n_outputs or width or None
        if width and width != self._n_outputs:
            text = f"wrong shape: {width} outputs, expected {self._n_outputs}"
            outcome = Outcome.of_failure(len(batch), text, outcome.seconds)
        if not outcome.values.shape[1] and len(batch) > 1 and self._is_worth_splitting(outcome):
            batch.trace = outcome.trace
            batch.parts = [PackedBatch(batch.coalitions[i : i + 1], whole=batch) for i in range(len(batch))]
            for part in batch.parts:
                self._push(part)
            return
        batch.outcome = outcome
        whole = batch.whole
        if whole is not None:
            rows = [row for part in whole.parts if part.outcome is not None for row in part.outcome.rows()]
            if len(rows) < len(whole):
                return
            batch = whole
            outcome = replace(Outcome.joined(rows), trace=whole.trace)
            batch.outcome = outcome
            batch.parts = ()
        del self._unfinished[batch]
        self._done.append(batch)
        self._advise(batch, outcome)
        held = self._held
        self._held = []
        for each in held:
            self._settle(*each)

    def _is_worth_splitting(self, outcome: Outcome) -> bool:
        """Say whether to find out which coalitions made a whole batch fail: always, if rows are independent.

        If not, only when an error was raised and failures count as a number: they should be no more than there are.
        """
        return self._game.independent_rows or (bool(outcome.trace) and not self._raises)

    def _advise(self, batch: PackedBatch, outcome: Outcome) -> None:
        """Warn once if some workers wait because nobody has chosen the size of batches."""
        count = self._workers.count
        left = self.n_in_flight
        if not self._advises or len(batch) < 2 or left + 1 >= count or outcome.seconds <= LONG_SECONDS:
            return
        self._advises = False
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
                self.step(None)
            if self._suspects:
                self._workers.end()
            parts = [part for batch in self._unfinished for part in batch.parts]  # evaluated, but not all of them
            self._done += [part for part in parts if part.outcome is not None]
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
        for each in (self._ready, self._away, self._suspects, self._unfinished, self._held, self._arrived):
            each.clear()

    def error(self, batch: PackedBatch) -> GameError:
        """Return the error to raise for a failed batch; it names the coalition that caused it, if found in time."""
        coalitions = batch.coalitions
        outcome = batch.outcome
        assert outcome is not None
        start = time.monotonic()
        text, rows = next(iter(outcome.failures.items()))
        if len(rows) == len(coalitions) > 1 and outcome.trace:
            for row in range(len(coalitions)):
                single = self._workers.evaluate(PackedBatch(coalitions[row : row + 1]))
                if single.failures:
                    coalitions = coalitions[row : row + 1]
                    outcome = single
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
