"""Back ends: evaluate rounds in this process, in others, or on a cluster, with the same bits everywhere."""

from __future__ import annotations

import faulthandler
import os
import pickle
import secrets
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import cloudpickle
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend import resource_tracker
from joblib.parallel import (
    LokyBackend,
    MultiprocessingBackend,
    SequentialBackend,
    ThreadingBackend,
    get_active_backend,
)

from fgsv.coalitions import Coalitions, canonical, pack, unpack
from fgsv.game import Game, GameError, ask, describe, shaped
from fgsv.ledger import LedgerError, Outcome
from fgsv.running.threads import one_thread

TRIES = 3
"""How often a batch is evaluated whose worker dies."""
GRACE = 5.0
"""Seconds past its timeout, or as long as it again, after which a batch that does not listen is ended."""
_OF_THIS_MACHINE = (LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend)


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """A batch as it is evaluated, and as it is sent and recorded."""

    coalitions: Coalitions

    def __len__(self) -> int:
        return len(self.coalitions)

    @cached_property
    def packed(self) -> bytes:
        """The batch as bytes."""
        return pack(self.coalitions)


def failed(m: int, text: str, seconds: float, trace: str = "") -> Outcome:
    """Return the outcome of m coalitions that failed together."""
    return Outcome(np.empty((m, 0)), seconds, {text: list(range(m))}, trace)


def attempt(game: Game, coalitions: Coalitions, timeout: float | None = None) -> Outcome:
    """Evaluate one batch in this process, whatever happens: an exception becomes an outcome that says so."""
    m = len(coalitions)
    start = time.perf_counter()
    try:
        with _deadline(timeout):
            answer = ask(game, canonical(coalitions) if game.evaluate_lists else coalitions)
    except _Late:
        faulthandler.cancel_dump_traceback_later()  # the alarm may have rung while it was being put off
        return failed(m, f"timed out: no answer after {timeout:g} s", time.perf_counter() - start)
    except LedgerError:
        raise  # a game known from a ledger alone does not fail, the ledger does
    except Exception as error:
        words = f"raised: {type(error).__name__}: {str(error)[:500]}"
        where = "for" if m == 1 else f"in a batch of {m}, of which the first is"
        text = f"{words}, {where} {describe(coalitions, 0)}"
        return failed(m, text, time.perf_counter() - start, traceback.format_exc())
    seconds = time.perf_counter() - start
    try:
        values = shaped(answer, m)
    except GameError as error:
        return failed(m, f"wrong shape: {error}", seconds)
    finite = np.asarray(np.isfinite(values).all(axis=1))
    if finite.all():
        return Outcome(values, seconds)
    failures: dict[str, list[int]] = {}
    for row in np.flatnonzero(~finite).tolist():
        wrong = next(value for value in values[row].tolist() if not np.isfinite(value))
        failures[f"not finite: {wrong} for {describe(coalitions, row)}"] = [row]
    return Outcome(np.where(finite[:, None], values, np.nan), seconds, failures)


class _Late(BaseException):
    """The timeout of a batch; no Exception, so that a game's own `except Exception` does not catch it."""


@contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """Interrupt what runs past its time; end the process where it does not listen, as in a long C loop."""
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
            following = {"initializer": _follow, "initargs": (os.getpid(),)} if type(backend) is LokyBackend else {}
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
        task = delayed(_attempt_in_worker)
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


_games: dict[str, Game] = {}
"""The games that this worker has fetched, by where they lie."""
_fetching = threading.Lock()


def _attempt_in_thread(game: Game, coalitions: Coalitions) -> Outcome:
    with one_thread():
        return attempt(game, coalitions)


def _attempt_in_worker(folder: str, packed: bytes, timeout: float | None, pickled: bytes | None) -> Outcome | None:
    """Evaluate a batch in a worker process, or return None where the game cannot be fetched."""
    with _fetching:
        if folder not in _games:
            try:
                content = pickled if pickled is not None else (Path(folder) / "game").read_bytes()
            except OSError:
                return None
            try:
                fetched = pickle.loads(content)
            except Exception as error:
                raise GameError(f"a worker cannot load the game ({type(error).__name__}: {error})") from None
            if len(_games) > 1:
                _games.pop(next(iter(_games)))  # of an earlier run
            _games[folder] = fetched
        game = _games[folder]
    one_thread()  # for good: where a worker has several threads, one must not undo it for another
    return attempt(game, unpack(game.n_players, packed), timeout)


def _follow(driver: int) -> None:
    """Have this process end soon after its driver: a killed one leaves nobody behind.

    An interrupt from the terminal reaches all of them; only the driver answers it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
