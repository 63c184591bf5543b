"""Workers: evaluate batches in this process, in others, or on a cluster, with the same bits everywhere."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import cloudpickle
from joblib import cpu_count, effective_n_jobs
from joblib.externals.loky.backend import resource_tracker
from joblib.parallel import (
    LokyBackend,
    MultiprocessingBackend,
    SequentialBackend,
    ThreadingBackend,
    get_active_backend,
)

from fgsv.checks import positive_number, whole_number
from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import PackedBatch, attempt, attempt_in_worker, exit_with_driver, timed_out, where
from fgsv.evaluation.pools import Answer, DaskPool, Here, JoblibPool, LostScheduler, RayPool
from fgsv.game import Game, GameError, message_of
from fgsv.ledger import LedgerError, Outcome
from fgsv.signals import one_thread
from fgsv.words import option

AHEAD = 2
"""Batches in flight for each of several workers: the one that it evaluates, and the next."""
TRIES = 3
"""Attempts at a batch whose worker dies."""
MOST_WORKERS, MOST_WORKERS_PER_CORE = 256, 16
"""Limit on the workers of one machine, whichever is more: each process takes some 100 MB, and a moment to start."""
_OF_THIS_MACHINE = (LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend)


class Workers:
    """Where batches are evaluated: in this process, in threads, in processes, or on a cluster.

    Scheduling is the pool's; this class gives each worker the game once, and replaces workers that die.
    """

    _warm: ClassVar[int] = 2
    """Processes that earlier runs have started, or two: a run begins with these, and starts more if it needs them.

    All instances share it: joblib keeps one pool for the whole process, and would end some if a run asked for fewer.
    """

    def __init__(self, game: Game, n_jobs: int | None, timeout: float | None) -> None:
        if n_jobs is not None and whole_number(option("n_jobs"), n_jobs) == 0:
            raise ValueError(f"{option('n_jobs')} must be a number of workers, or -1 for one per core; got 0")
        self._game = game
        self._timeout = timeout
        self._folder: Path | None = None
        self._started = False
        self._threads: Any = None
        """How many threads libraries use, while workers are threads."""
        backend, configured = get_active_backend()
        n_jobs = configured if n_jobs is None else n_jobs
        self._pool = Here()
        clusters = {"DaskDistributedBackend": DaskPool, "RayBackend": RayPool}
        if n_jobs != 1 and type(backend).__name__ in clusters:  # by default, all of it
            self._pool = clusters[type(backend).__name__](backend, n_jobs)
        elif n_jobs != 1 and (wanted := effective_n_jobs(n_jobs)) > 1:
            most = max(MOST_WORKERS, MOST_WORKERS_PER_CORE * cpu_count())
            if isinstance(backend, _OF_THIS_MACHINE) and wanted > most:
                raise ValueError(f"{option('n_jobs')} is {wanted}, but this machine can run at most {most} workers")
            start: dict[str, Any] = {}
            if type(backend) is LokyBackend:  # others have their own ways to start workers
                start = {"first": min(wanted, Workers._warm)}
                start |= {"initializer": exit_with_driver, "initargs": (os.getpid(),)}
            self._pool = JoblibPool(wanted, **start)
        if timeout is not None and (not isinstance(self._pool, JoblibPool) or type(backend) is not LokyBackend):
            raise ValueError(
                "timeout needs worker processes on this machine, which can be killed: set n_jobs to 2 or more, "
                "with joblib's default back end"
            )
        if timeout is not None:
            positive_number("timeout", timeout)

    @property
    def count(self) -> int:
        """How many batches are evaluated at a time, with the workers that are there now."""
        return self._pool.count

    @property
    def in_flight(self) -> int:
        """How many batches are to be in flight: with several workers two for each, those that are expected too."""
        return 1 if type(self._pool) is Here else AHEAD * max(1, self._pool.count, self._pool.expected)

    def lack(self) -> str:
        """Say what was asked for and what there is, if no worker can evaluate a batch."""
        return self._pool.lack()

    def start(self) -> None:
        """Start the workers, and write the game to a file that each of them loads once."""
        if not self._pool.shares_memory:
            try:
                self._pickled = cloudpickle.dumps(self._game)
            except Exception as error:
                words = f"{type(error).__name__}: {message_of(error)}"
                raise GameError(
                    f"the game cannot be sent to other processes ({words}); evaluate it "
                    f"in this one ({option('n_jobs', 1)}), or in threads "
                    '(joblib.parallel_config(backend="threading"))'
                ) from error
            self._write_game()
        elif type(self._pool) is not Here:
            self._threads = one_thread()
        self._pool.start()
        self._started = True

    def _write_game(self) -> None:
        # the folder contains the data: register it before creating it, so that it is removed if the driver is killed
        self._folder = Path(tempfile.gettempdir()) / f"fgsv-{secrets.token_hex(8)}"
        resource_tracker.register(str(self._folder), "folder")
        self._folder.mkdir(mode=0o700)
        (self._folder / "game").write_bytes(self._pickled)

    def stop(self) -> None:
        """Stop the workers, and remove the game's file."""
        if self._started:
            self._pool.stop()
        if self._threads is not None:
            self._threads.restore_original_limits()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            resource_tracker.unregister(str(self._folder), "folder")

    def prepare(self, n_batches: int, *, idle: bool) -> bool:
        """Have workers for so many batches; say whether that must wait until the workers are idle."""
        if not isinstance(self._pool, JoblibPool) or self._pool.started >= (wanted := min(self.count, n_batches)):
            return False
        if idle:
            self._pool.grow(wanted)
            Workers._warm = max(Workers._warm, wanted)
        return not idle and wanted >= 2 * self._pool.started

    def send(self, batch: PackedBatch, answered: Callable[[Answer], object], *, with_game: bool = False) -> None:
        """Have a batch evaluated by any worker; `answered` is called, in any thread, once there is an answer.

        The answer is None if a worker cannot read the game's file: send the batch again, with the game.

        Args:
            batch: The batch.
            answered: Is called with a function that returns the outcome, or raises what happened to the worker.
            with_game: Whether to send the game along.

        """
        self._pool.send(self._call(batch, with_game=with_game), answered)

    def end(self) -> None:
        """End what is under way, as far as possible, and be ready for other batches."""
        if self._started:
            self._pool.end()

    def evaluate(self, batch: PackedBatch) -> Outcome:
        """Return the outcome of one batch beside which nothing else is evaluated."""
        try:
            return self._evaluate(batch)
        except (GameError, LedgerError, LostScheduler):
            raise
        except Exception:
            return self.evaluate_again(batch)

    def evaluate_again(self, batch: PackedBatch) -> Outcome:
        """Return the outcome of a batch whose worker may have died once: alone, only it can kill its worker."""
        tries = TRIES if isinstance(self._pool, JoblibPool) else 2  # clusters have tried more often by themselves
        for _ in range(tries - 1):
            self.end()
            self._answer_to(int)  # wait for a worker, so that its start does not count
            start = time.monotonic()
            try:
                return self._evaluate(batch)
            except (GameError, LedgerError, LostScheduler):
                raise
            except Exception as error:
                seconds = time.monotonic() - start
                reason = f"{type(error).__name__}: {error}".split("\n")[0]
            if self._timeout is not None and seconds > self._timeout:
                self.end()
                return timed_out(batch.coalitions, self._timeout, seconds)
        self.end()
        text = f"died: the worker died {tries} times ({reason}){where(batch.coalitions)}"
        return Outcome.of_failure(len(batch), text, seconds)

    def _evaluate(self, batch: PackedBatch) -> Outcome:
        outcome = self._answer_to(self._call(batch))
        return self._answer_to(self._call(batch, with_game=True)) if outcome is None else outcome

    def _answer_to(self, call: Callable[[], Any]) -> Any:
        """Have a worker make a call; return what it answers, or raise what happened to it."""
        found: SimpleQueue[Answer] = SimpleQueue()
        self._pool.send(call, found.put)
        return found.get()()

    def _call(self, batch: PackedBatch, *, with_game: bool = False) -> Callable[[], Outcome | None]:
        if self._pool.shares_memory:
            here = type(self._pool) is Here
            return partial(_attempt_here if here else _attempt_in_thread, self._game, batch.coalitions)
        pickled = self._pickled if with_game else None
        return partial(attempt_in_worker, str(self._folder), batch.packed, self._timeout, pickled)


def _attempt_here(game: Game, coalitions: Coalitions) -> Outcome:
    with one_thread():
        return attempt(game, coalitions)


def _attempt_in_thread(game: Game, coalitions: Coalitions) -> Outcome:
    one_thread()  # not undone before all threads are done: one would undo it for another
    return attempt(game, coalitions)
