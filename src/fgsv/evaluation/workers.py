"""Workers: evaluate batches in this process, in others, or on a cluster, with the same bits everywhere."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import cloudpickle
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
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
from fgsv.evaluation.batch import PackedBatch, attempt, timed_out, where
from fgsv.evaluation.dask_calls import DaskCalls
from fgsv.evaluation.worker_process import attempt_in_worker, exit_with_driver
from fgsv.game import Game, GameError, message_of
from fgsv.ledger import Outcome, failed
from fgsv.signals import one_thread
from fgsv.words import option

TRIES = 3
"""Attempts at a batch whose worker dies."""
MOST_WORKERS, MOST_WORKERS_PER_CORE = 256, 16
"""Limit on the workers of one machine, whichever is more: each process takes some 100 MB, and a moment to start."""
_OF_THIS_MACHINE = (LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend)


class Workers:
    """Where batches are evaluated: in this process, in threads, in processes, or on joblib's back end."""

    _warm: ClassVar[int] = 2
    """Processes that earlier runs have started, or two: a run begins with these, and starts more if it needs them.

    All instances share it: joblib keeps one pool for the whole process, and would end some if a run asked for fewer.
    """

    def __init__(self, game: Game, n_jobs: int | None, timeout: float | None) -> None:
        if n_jobs is not None and whole_number(option("n_jobs"), n_jobs) == 0:
            raise ValueError(f"{option('n_jobs')} must be a number of workers, or -1 for one per core; got 0")
        self._game = game
        self._timeout = timeout
        self._parallel: Parallel | DaskCalls | None = None
        self._folder: Path | None = None
        self._started = False
        backend, configured = get_active_backend()
        is_cluster = type(backend) not in _OF_THIS_MACHINE
        if is_cluster and n_jobs is None and configured is None:
            n_jobs = -1  # on a cluster, the default is all of it
        here = n_jobs == 1 or (effective_n_jobs(n_jobs) == 1 and not is_cluster)
        self.count = 1 if here else effective_n_jobs(n_jobs)
        most = max(MOST_WORKERS, MOST_WORKERS_PER_CORE * cpu_count())
        if not is_cluster and self.count > most:
            raise ValueError(f"{option('n_jobs')} is {self.count}, but this machine can run at most {most} workers")
        self._shared = getattr(backend, "supports_sharedmem", False)
        if timeout is not None and (here or type(backend) is not LokyBackend):
            raise ValueError(
                "timeout needs worker processes on this machine, which can be killed: set n_jobs to 2 or more, "
                "with joblib's default back end"
            )
        if timeout is not None:
            positive_number("timeout", timeout)
        self._grows = type(backend) is LokyBackend  # others have their own ways to start workers
        if not here and type(backend).__name__ == "DaskDistributedBackend":
            self._parallel = DaskCalls(backend)
        elif not here:
            following = {"initializer": exit_with_driver, "initargs": (os.getpid(),)} if self._grows else {}
            first = min(self.count, Workers._warm) if self._grows else n_jobs
            self._parallel = Parallel(first, batch_size=1, pre_dispatch="all", max_nbytes=None, **following)

    def start(self) -> None:
        """Start the workers, and write the game to a file that each of them loads once."""
        if self._parallel is None:
            return
        if not self._shared:
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
        self._parallel.__enter__()
        self._started = True

    def _write_game(self) -> None:
        # the folder contains the data: register it before creating it, so that it is removed if the driver is killed
        self._folder = Path(tempfile.gettempdir()) / f"fgsv-{secrets.token_hex(8)}"
        resource_tracker.register(str(self._folder), "folder")
        self._folder.mkdir(mode=0o700)
        (self._folder / "game").write_bytes(self._pickled)

    def stop(self) -> None:
        """Stop the workers, and remove the game's file."""
        if self._parallel is not None and self._started:
            self._parallel.__exit__(None, None, None)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            resource_tracker.unregister(str(self._folder), "folder")

    def attempt(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Return the outcomes of batches, in order."""
        with one_thread():
            if self._parallel is None:
                return [attempt(self._game, batch.coalitions) for batch in batches]
            if self._shared:
                task = delayed(_attempt_in_thread)
                return list(self._parallel(task(self._game, batch.coalitions) for batch in batches))
        try:
            return self._send(batches)
        except GameError:
            raise
        except Exception:  # an error in a batch is an outcome, so a worker died; which batch did it is unknown
            self._restart()
            return [self._attempt_alone(batch) for batch in batches]

    def _send(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Send batches to the workers, and again with the game if a worker cannot read the game's file."""
        assert self._parallel is not None
        self._grow(len(batches))
        task = delayed(attempt_in_worker)
        folder = str(self._folder)
        outcomes = self._parallel(task(folder, batch.packed, self._timeout, None) for batch in batches)
        unreached = [i for i, outcome in enumerate(outcomes) if outcome is None]
        again = self._parallel(task(folder, batches[i].packed, self._timeout, self._pickled) for i in unreached)
        for i, outcome in zip(unreached, again, strict=True):
            outcomes[i] = outcome
        return list(outcomes)

    def _grow(self, n_batches: int) -> None:
        """Start as many workers as there are batches, up to `count`; those that are there stay."""
        if self._grows and isinstance(self._parallel, Parallel):
            wanted = min(self.count, n_batches)
            if wanted > self._parallel.n_jobs:
                self._parallel.n_jobs = wanted
                Workers._warm = max(wanted, Workers._warm)
                self._restart()

    def _attempt_alone(self, batch: PackedBatch) -> Outcome:
        """Evaluate a batch on its own, so that only it can kill its worker; one attempt is already spent."""
        assert self._parallel is not None
        tries = 2 if isinstance(self._parallel, DaskCalls) else TRIES  # Dask has tried more often by itself
        for _ in range(tries - 1):
            self._parallel([delayed(int)()])  # wait for a worker, so that its start does not count
            start = time.monotonic()
            try:
                return self._send([batch])[0]
            except GameError:
                raise
            except Exception as error:
                seconds = time.monotonic() - start
                reason = f"{type(error).__name__}: {error}".split("\n")[0]
                self._restart()
            if self._timeout is not None and seconds > self._timeout:
                return timed_out(batch.coalitions, self._timeout, seconds)
        text = f"died: the worker died {tries} times ({reason}){where(batch.coalitions)}"
        return failed(len(batch), text, seconds)

    def _restart(self) -> None:
        assert self._parallel is not None
        self._parallel.__exit__(None, None, None)
        self._parallel.__enter__()


def _attempt_in_thread(game: Game, coalitions: Coalitions) -> Outcome:
    with one_thread():
        return attempt(game, coalitions)
