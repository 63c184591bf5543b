"""Workers: evaluate batches in this process, in others, or on a cluster, with the same bits everywhere."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path

import cloudpickle
from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend import resource_tracker
from joblib.parallel import (
    LokyBackend,
    MultiprocessingBackend,
    SequentialBackend,
    ThreadingBackend,
    get_active_backend,
)

from fgsv.coalitions import Coalitions
from fgsv.game import Game, GameError, describe
from fgsv.ledger import Outcome, failed
from fgsv.running.batches import PackedBatch, attempt
from fgsv.running.threads import one_thread
from fgsv.running.worker_process import attempt_in_worker, exit_with_driver

TRIES = 3
"""How often a batch is evaluated whose worker dies."""
_OF_THIS_MACHINE = (LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend)


class Workers:
    """Where batches are evaluated: here, in threads, in processes, or wherever joblib's back end has them."""

    def __init__(self, game: Game, n_jobs: int | None, timeout: float | None) -> None:
        if n_jobs == 0:
            raise ValueError("n_jobs (--jobs) must be a number of workers, or -1 for one on each core; got 0")
        self._game = game
        self._timeout = timeout
        self._parallel: Parallel | None = None
        self._folder: Path | None = None
        self._started = False
        backend, configured = get_active_backend()
        is_cluster = type(backend) not in _OF_THIS_MACHINE
        if is_cluster and n_jobs is None and configured is None:
            n_jobs = -1  # whoever chose a cluster means all of it
        here = n_jobs == 1 or (effective_n_jobs(n_jobs) == 1 and not is_cluster)
        self.count = 1 if here else effective_n_jobs(n_jobs)
        self._shared = getattr(backend, "supports_sharedmem", False)
        if timeout is not None and (here or type(backend) is not LokyBackend):
            raise ValueError(
                "timeout needs process workers of this machine, which can be ended: give n_jobs=2 or more, "
                "with joblib's default back end"
            )
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be positive, got {timeout}")
        if not here:
            # a cluster looks after its own workers
            following = (
                {"initializer": exit_with_driver, "initargs": (os.getpid(),)} if type(backend) is LokyBackend else {}
            )
            self._parallel = Parallel(n_jobs, batch_size=1, pre_dispatch="all", max_nbytes=None, **following)

    def start(self) -> None:
        """Start the workers, and lay the game where each of them can fetch it once."""
        if self._parallel is None:
            return
        if not self._shared:
            try:
                self._pickled = cloudpickle.dumps(self._game)
            except Exception as error:
                raise GameError(
                    f"the game cannot be sent to other processes ({type(error).__name__}: {error}); evaluate it "
                    'in this one (n_jobs=1), or in threads (joblib.parallel_config(backend="threading"))'
                ) from error
            self._lay_out()
        self._parallel.__enter__()
        self._started = True

    def _lay_out(self) -> None:
        # it holds the data: announced, before it is made, to a process that removes it when the driver is killed
        self._folder = Path(tempfile.gettempdir()) / f"fgsv-{secrets.token_hex(8)}"
        resource_tracker.register(str(self._folder), "folder")
        self._folder.mkdir(mode=0o700)
        (self._folder / "game").write_bytes(self._pickled)

    def stop(self) -> None:
        """Let the workers go, and remove what was laid out for them."""
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
            return self._sent(batches)
        except GameError:
            raise
        except Exception:  # what goes wrong in a batch is an outcome: here a worker died, of which batch is unknown
            self._restart()
            return [self._alone(batch) for batch in batches]

    def _sent(self, batches: list[PackedBatch]) -> list[Outcome]:
        """Send batches to the workers; where a worker cannot reach the game, it goes along the second time."""
        assert self._parallel is not None
        task = delayed(attempt_in_worker)
        folder = str(self._folder)
        outcomes = self._parallel(task(folder, batch.packed, self._timeout, None) for batch in batches)
        far = [i for i, outcome in enumerate(outcomes) if outcome is None]
        again = self._parallel(task(folder, batches[i].packed, self._timeout, self._pickled) for i in far)
        for i, outcome in zip(far, again, strict=True):
            outcomes[i] = outcome
        return list(outcomes)

    def _alone(self, batch: PackedBatch) -> Outcome:
        """Evaluate a batch with no other beside it, so that a death is its own doing; the first try is done."""
        assert self._parallel is not None
        for _ in range(TRIES - 1):
            self._parallel([delayed(int)()])  # a worker that is up before the clock runs
            start = time.monotonic()
            try:
                return self._sent([batch])[0]
            except GameError:
                raise
            except Exception as error:
                seconds, reason = time.monotonic() - start, f"{type(error).__name__}: {error}".split("\n")[0]
                self._restart()
            if self._timeout is not None and seconds > self._timeout:
                return failed(len(batch), f"timed out: no answer after {self._timeout:g} s", seconds)
        text = f"died: the worker ended {TRIES} times ({reason}), for {describe(batch.coalitions, 0)}"
        return failed(len(batch), text, seconds)

    def _restart(self) -> None:
        assert self._parallel is not None
        self._parallel.__exit__(None, None, None)
        self._parallel.__enter__()


def _attempt_in_thread(game: Game, coalitions: Coalitions) -> Outcome:
    with one_thread():
        return attempt(game, coalitions)
