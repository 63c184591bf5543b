"""Evaluating one batch, coalitions in, values or failures out: in this process, or in a worker with its own game."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fgsv.coalitions import Coalitions, canonical, describe, pack, unpack
from fgsv.game import CoalitionError, Game, GameError, ask, message_of, shaped
from fgsv.ledger import LedgerError, Outcome
from fgsv.signals import ENDINGS, kept_interrupts, one_thread

BATCH_SIZE = 256
BATCH_BYTES = 2**24
GRACE = 5.0
"""A batch that ignores its timeout is killed after this many more seconds, or after twice the timeout if sooner."""
_games: dict[str, Game] = {}
"""Games that this worker has loaded, by folder."""
_fetching = threading.Lock()


def default_batch_size(n_players: int) -> int:
    """Return how many coalitions form a batch by default: at most 16 MiB of booleans."""
    return max(1, min(BATCH_SIZE, BATCH_BYTES // n_players))


@dataclass(eq=False)
class PackedBatch:
    """A batch as coalitions, to evaluate, and as bytes, to send and record; and what came of it."""

    coalitions: Coalitions
    outcome: Outcome | None = None
    """None until the batch is evaluated."""
    whole: PackedBatch | None = None
    """The batch that failed as a whole, if this is one row of it."""
    parts: Sequence[PackedBatch] = ()
    """The rows, each to be evaluated by itself."""
    trace: str = ""
    """The traceback of the failure of the batch as a whole."""

    def __len__(self) -> int:
        return len(self.coalitions)

    @cached_property
    def packed(self) -> bytes:
        """The batch as bytes."""
        return pack(self.coalitions)


@dataclass(frozen=True, eq=False)
class Asked:
    """Batches that were asked for."""

    batches: Sequence[PackedBatch]
    """Those to wait for; known ones are done."""
    new: Sequence[PackedBatch]
    """Those of them that are to be evaluated, and were not under way."""
    outcomes: Callable[[], list[Outcome]]
    """Returns the outcomes of what was asked for, in order, once all batches are done."""

    @classmethod
    def all(cls, batches: Sequence[PackedBatch], new: Sequence[PackedBatch] | None = None) -> Asked:
        """Return what was asked for, batch by batch; by default all of it is new."""
        new = batches if new is None else new
        return cls(batches, new, lambda: [each.outcome for each in batches if each.outcome is not None])


def attempt(game: Game, coalitions: Coalitions, timeout: float | None = None) -> Outcome:
    """Evaluate one batch in this process; an exception becomes an outcome that describes it.

    Args:
        game: The game.
        coalitions: The m coalitions of the batch.
        timeout: Seconds that the batch may take; None for any number. Needs the main thread of a process.

    Returns:
        The (m, q) values, or what failed, and the seconds that it took.

    """
    m = len(coalitions)
    start = time.perf_counter()
    try:
        with _same_process(), kept_interrupts(), _deadline(timeout):
            answer = ask(game, canonical(coalitions) if game.evaluate_lists else coalitions)
    except _Late:
        faulthandler.cancel_dump_traceback_later()  # the timer may have fired during the clean-up
        return timed_out(coalitions, timeout, time.perf_counter() - start)
    except (LedgerError, KeyboardInterrupt):
        raise  # a game replayed from a ledger cannot fail: the ledger did; an interrupt is the user's
    except BaseException as error:  # SystemExit too: a model that exits has failed, and nothing else has
        words = f"raised: {type(error).__name__}: {message_of(error)}"
        text = words if isinstance(error, CoalitionError) else words + where(coalitions)
        return Outcome.of_failure(m, text, time.perf_counter() - start, traceback.format_exc())
    seconds = time.perf_counter() - start
    try:
        values = shaped(answer, m)
    except GameError as error:
        return Outcome.of_failure(m, f"wrong shape: {error}", seconds)
    finite = np.asarray(np.isfinite(values).all(axis=1))
    if finite.all():
        return Outcome(values, seconds)
    failures: dict[str, list[int]] = {}
    for row in np.flatnonzero(~finite).tolist():
        wrong = next(value for value in values[row].tolist() if not np.isfinite(value))
        failures[f"not finite: {wrong} for {describe(coalitions, row)}"] = [row]
    return Outcome(np.where(finite[:, None], values, np.nan), seconds, failures)


def where(coalitions: Coalitions) -> str:
    """Say which coalition a failure is about, or with which its batch begins."""
    first = describe(coalitions, 0)
    m = len(coalitions)
    return f", for {first}" if m == 1 else f", in a batch of {m} that begins with {first}"


def timed_out(coalitions: Coalitions, timeout: float | None, seconds: float) -> Outcome:
    """Return the outcome of a batch that took longer than its timeout.

    Args:
        coalitions: Those of the batch.
        timeout: Seconds that it might have taken.
        seconds: Seconds that it took.

    Returns:
        An outcome in which every coalition failed.

    """
    return Outcome.of_failure(
        len(coalitions), f"timed out: no answer after {timeout:g} s{where(coalitions)}", seconds
    )


@contextmanager
def _same_process() -> Iterator[None]:
    """End a child process that a game has forked when it leaves the block: only its parent is in a run."""
    process = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() == process:
            raise
        if isinstance(error, SystemExit) and isinstance(error.code, int | None):
            os._exit(error.code or 0)
        traceback.print_exc()
        os._exit(1)
    if os.getpid() != process:
        os._exit(0)


class _Late(BaseException):
    """A batch timed out; not an Exception, so that a game's own `except Exception` does not catch it."""


@contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """Interrupt the block at its timeout; kill the process if that has no effect, as in a long C loop."""
    if seconds is None:
        yield
        return

    def late(number: int, frame: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    faulthandler.dump_traceback_later(seconds + min(seconds, GRACE), exit=True)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def attempt_in_worker(folder: str, packed: bytes, timeout: float | None, pickled: bytes | None) -> Outcome | None:
    """Evaluate a batch in a worker process, or return None if the game's file cannot be read.

    Args:
        folder: Folder with the game's file, which also names the game.
        packed: The coalitions, as `fgsv.coalitions.pack` writes them.
        timeout: Seconds that the batch may take; None for any number.
        pickled: The game, if workers cannot read its file.

    Returns:
        The outcome; None if the game's file cannot be read.

    Raises:
        GameError: The worker lacks a module that the game needs.

    """
    with _fetching:
        if folder not in _games:
            try:
                content = pickled if pickled is not None else (Path(folder) / "game").read_bytes()
            except OSError:
                return None
            try:
                fetched = pickle.loads(content)
            except Exception as error:
                raise GameError(
                    f"a worker cannot load the game ({type(error).__name__}: {message_of(error)})"
                ) from None
            if len(_games) > 1:
                _games.pop(next(iter(_games)))  # the game of an earlier run
            _games[folder] = fetched
        game = _games[folder]
    one_thread()  # never undone: in a worker with several threads, one would undo it for another
    return attempt(game, unpack(game.n_players, packed), timeout)


def exit_with_driver(driver: int) -> None:
    """Exit soon after the driver, so that a killed driver leaves no workers behind.

    An interrupt from the terminal, or a request to end from a scheduler, may reach all processes; only the driver
    handles it.
    """
    for number in (signal.SIGINT, *ENDINGS):
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
