"""Back ends: evaluate rounds in this process, in others, or on a cluster, with the same bits everywhere."""

from __future__ import annotations

import faulthandler
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

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
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fgsv.coalitions import Coalitions
from fgsv.game import Game, GameError, ask, describe, shaped
from fgsv.ledger import Ledger, LedgerError, Outcome, Row, by_row
from fgsv.packing import canonical, join, pack, split, unpack

Floats = NDArray[np.float64]

BATCH_SIZE = 256
BATCH_BYTES = 2**24
TRIES = 3
"""How often a batch is evaluated whose worker dies."""
GRACE = 5.0
"""Seconds past its timeout, or as long as it again, after which a batch that does not listen is ended."""
CALL_SECONDS = 1.0
"""How long a call should take, about: what a killed run loses at the most, unless one batch takes longer."""
MOST_BATCHES = 64
"""The most batches of a call for each worker."""
_OF_THIS_MACHINE = (LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend)


def default_batch_size(n_players: int) -> int:
    """Return how many coalitions are evaluated together where neither user nor game say: 16 MiB of booleans."""
    return max(1, min(BATCH_SIZE, BATCH_BYTES // n_players))


@dataclass(frozen=True, eq=False)
class _Batch:
    """A batch as it is evaluated, and as it is sent and recorded."""

    coalitions: Coalitions

    def __len__(self) -> int:
        return len(self.coalitions)

    @cached_property
    def packed(self) -> bytes:
        return pack(self.coalitions)


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
        self.n_evaluated = 0
        """Coalitions that the game was asked for; the others were in the ledger."""
        self.failures: Counter[str] = Counter()
        """How many coalitions failed, by kind."""
        self.first_failure = ""
        self.stopped = "abandoned"
        """What to record as the end of the run; the loop says."""
        self._on_error = _policy(on_error)
        self._timeout = timeout
        self._n_outputs = len(game.outputs) if game.outputs else None
        self._n_asked = 0
        self._workers = _Workers(game, n_jobs, timeout)
        self._call_size = self._workers.count
        self._ledger = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
        self._is_own = self._ledger is not ledger
        self._run: int | None = None
        if self._ledger is not None:
            try:
                self._number = self._ledger.game(game)
                if not self._ledger.read_only:
                    self._run = self._ledger.begin_run(self._number, settings or {})
            except BaseException:
                self._close()
                raise

    def __enter__(self) -> Evaluator:
        self._workers.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._workers.stop()
        if isinstance(error, Exception):
            self.stopped = f"failed: {type(error).__name__}: {error}"
        try:
            if self._ledger is not None and self._run is not None and not isinstance(error, LedgerError):
                self._ledger.end_run(self._run, self.stopped, self._n_asked)
        finally:
            self._close()

    def _close(self) -> None:
        if self._ledger is not None and self._is_own:
            self._ledger.close()

    def __call__(self, coalitions: Coalitions) -> Floats:
        """Return the (m, q) values of a round, in its order."""
        size = self.batch_size
        batches = [_Batch(coalitions[i : i + size]) for i in range(0, len(coalitions), size)]
        if self._ledger is None:
            outcomes = self._evaluated(batches)
        elif self.game.independent_rows:
            outcomes = self._remembered_rows(self._ledger, batches)
        else:
            outcomes = self._remembered(self._ledger, batches)
        values = np.concatenate([self._values(outcome) for outcome in outcomes])
        self._n_asked += len(coalitions)
        return values

    def _remembered(self, ledger: Ledger, batches: list[_Batch]) -> list[Outcome]:
        """Return the outcomes from the ledger where it has the whole batch, the others evaluated."""
        known = [ledger.find(self._number, batch.packed) for batch in batches]
        known = [outcome if outcome and not self._again(outcome.failures) else None for outcome in known]
        fresh = iter(self._evaluated([batch for batch, seen in zip(batches, known, strict=True) if not seen]))
        return [seen or next(fresh) for seen in known]

    def _remembered_rows(self, ledger: Ledger, batches: list[_Batch]) -> list[Outcome]:
        """Return the outcomes row by row from the ledger, each missing row evaluated once."""
        rows = [split(batch.packed) for batch in batches]
        known: dict[bytes, Row] = {}
        claimed: set[bytes] = set()
        missing: list[list[bytes]] = []
        for batch in rows:
            found = ledger.find_rows(self._number, batch)
            known |= {row: seen for row, seen in found.items() if not self._again(seen.failure)}
            new = [row for row in dict.fromkeys(batch) if row not in known and row not in claimed]
            claimed.update(new)
            if new:
                missing.append(new)
        fresh = self._evaluated([_Batch(unpack(self.game.n_players, join(new))) for new in missing])
        for new, outcome in zip(missing, fresh, strict=True):
            known |= dict(zip(new, by_row(range(len(new)), outcome), strict=True))
        return [_joined([known[row] for row in batch]) for batch in rows]

    def _again(self, failure: object) -> bool:
        """Say whether a recorded failure is to be tried anew: by whoever will not have a value in its place."""
        return bool(failure) and self._on_error is None

    def _evaluated(self, batches: list[_Batch]) -> list[Outcome]:
        """Evaluate batches call by call, and record each call before the next."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(batches):
            size = len(batches) if self._ledger is None else self._call_size
            call = batches[len(outcomes) : len(outcomes) + size]
            start = time.monotonic()
            done = self._attempted(call)
            if self._ledger is not None:
                records = [(batch.packed, outcome) for batch, outcome in zip(call, done, strict=True)]
                self._ledger.record(self._number, records, by_row=self.game.independent_rows)
                self._adapt(time.monotonic() - start)
            self.n_evaluated += sum(map(len, call))
            if self._on_error is None:
                for outcome in done:
                    _raise_failure(outcome)
            outcomes += done
        return outcomes

    def _adapt(self, seconds: float) -> None:
        """Let calls grow while they are quick: a commit waits for the disk. No bit of a value depends on it."""
        if seconds < CALL_SECONDS / 2:
            self._call_size = min(2 * self._call_size, MOST_BATCHES * self._workers.count)
        elif seconds > CALL_SECONDS:
            self._call_size = max(self._call_size // 2, self._workers.count)

    def _attempted(self, batches: list[_Batch]) -> list[Outcome]:
        """Evaluate batches; one of independent rows that fails is evaluated again row by row."""
        outcomes = list(map(self._of_one_width, self._workers.attempt(batches)))
        if self.game.independent_rows:
            for i, (batch, outcome) in enumerate(zip(batches, outcomes, strict=True)):
                if outcome.values.shape[1] == 0 and len(batch) > 1:
                    rows = [_Batch(batch.coalitions[row : row + 1]) for row in range(len(batch))]
                    singles = map(self._of_one_width, self._workers.attempt(rows))
                    parts = [part for single in singles for part in by_row([0], single)]
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
        return _failed(len(outcome.values), text, outcome.seconds)

    def _values(self, outcome: Outcome) -> Floats:
        """Return (m, q) values with the policy's number where the game failed, and count those."""
        if not outcome.failures:
            return outcome.values
        assert self._on_error is not None
        m, width = outcome.values.shape
        values = outcome.values.copy() if width else np.empty((m, self._n_outputs or 1))
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


def _raise_failure(outcome: Outcome) -> None:
    for text in outcome.failures:
        error = GameError(f"the game failed ({text})")
        if outcome.trace:
            error.add_note(outcome.trace)
        raise error


def _failed(m: int, text: str, seconds: float, trace: str = "") -> Outcome:
    return Outcome(np.empty((m, 0)), seconds, {text: list(range(m))}, trace)


def _joined(rows: Sequence[Row]) -> Outcome:
    """Return the outcome of a batch from those of its rows."""
    width = max(len(row.values) for row in rows)
    values = np.full((len(rows), width), np.nan)
    failures: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if row.failure:
            failures.setdefault(row.failure, []).append(i)
        else:
            values[i] = row.values
    return Outcome(values, sum(row.seconds for row in rows), failures)


def attempt(game: Game, coalitions: Coalitions, timeout: float | None = None) -> Outcome:
    """Evaluate one batch in this process, whatever happens: an exception becomes an outcome that says so."""
    m = len(coalitions)
    start = time.perf_counter()
    try:
        with _deadline(timeout):
            answer = ask(game, canonical(coalitions) if game.evaluate_lists else coalitions)
    except _Late:
        return _failed(m, f"timed out: no answer after {timeout:g} s", time.perf_counter() - start)
    except LedgerError:
        raise  # a game known from a ledger alone does not fail, the ledger does
    except Exception as error:
        text = f"raised: {type(error).__name__}: {error}, in a batch of {m}, for {describe(coalitions, 0)}"
        return _failed(m, text, time.perf_counter() - start, traceback.format_exc())
    seconds = time.perf_counter() - start
    try:
        values = shaped(answer, m)
    except GameError as error:
        return _failed(m, f"wrong shape: {error}", seconds)
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


class _OneThread:
    """Pins the threads of BLAS and OpenMP to one: a matrix product on two of them has other last bits."""

    def __init__(self) -> None:
        self._n_modules = 0

    def __call__(self) -> Any:
        if len(sys.modules) != self._n_modules:  # an import may have loaded another library
            self._controller = ThreadpoolController()
            self._n_modules = len(sys.modules)
        return self._controller.limit(limits=1)


_one_thread = _OneThread()


class _Workers:
    """Where batches are evaluated: here, in threads, in processes, or wherever joblib's back end has them."""

    def __init__(self, game: Game, n_jobs: int | None, timeout: float | None) -> None:
        self._game = game
        self._timeout = timeout
        self._parallel: Parallel | None = None
        self._folder: Path | None = None
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
            self._parallel = Parallel(n_jobs=n_jobs, batch_size=1, pre_dispatch="all", max_nbytes=None)

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
            self._folder = Path(tempfile.mkdtemp(prefix="fgsv-"))
            # a process that outlives a killed driver removes the folder then: it holds the data
            resource_tracker.register(str(self._folder), "folder")
            (self._folder / "game").write_bytes(self._pickled)
        self._parallel.__enter__()

    def stop(self) -> None:
        """Let the workers go, and remove what was laid out for them."""
        if self._parallel is not None:
            self._parallel.__exit__(None, None, None)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            resource_tracker.unregister(str(self._folder), "folder")

    def attempt(self, batches: list[_Batch]) -> list[Outcome]:
        """Return the outcomes of batches, in order."""
        with _one_thread():
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

    def _sent(self, batches: list[_Batch]) -> list[Outcome]:
        """Send batches to the workers; where a worker cannot reach the game, it goes along the second time."""
        assert self._parallel is not None
        task = delayed(_attempt_in_worker)
        place = _Place(str(self._folder), os.getpid())
        outcomes = self._parallel(task(place, batch.packed, self._timeout, None) for batch in batches)
        far = [i for i, outcome in enumerate(outcomes) if outcome is None]
        again = self._parallel(task(place, batches[i].packed, self._timeout, self._pickled) for i in far)
        for i, outcome in zip(far, again, strict=True):
            outcomes[i] = outcome
        return list(outcomes)

    def _alone(self, batch: _Batch) -> Outcome:
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
                return _failed(len(batch), f"timed out: no answer after {self._timeout:g} s", seconds)
        text = f"died: the worker ended {TRIES} times ({reason}), for {describe(batch.coalitions, 0)}"
        return _failed(len(batch), text, seconds)

    def _restart(self) -> None:
        assert self._parallel is not None
        self._parallel.__exit__(None, None, None)
        self._parallel.__enter__()


@dataclass(frozen=True)
class _Place:
    """Where a worker finds the game of a run."""

    folder: str
    driver: int


_games: dict[str, Game] = {}
"""The games that this worker has fetched."""


def _attempt_in_thread(game: Game, coalitions: Coalitions) -> Outcome:
    with _one_thread():
        return attempt(game, coalitions)


def _attempt_in_worker(place: _Place, packed: bytes, timeout: float | None, pickled: bytes | None) -> Outcome | None:
    """Evaluate a batch in a worker process, or return None where the game cannot be fetched."""
    game = _games.get(place.folder)
    if game is None:
        try:
            content = pickled if pickled is not None else (Path(place.folder) / "game").read_bytes()
        except OSError:
            return None
        try:
            game = pickle.loads(content)
        except Exception as error:
            raise GameError(f"a worker cannot load the game ({type(error).__name__}: {error})") from None
        _follow(place.driver)
        if len(_games) > 1:
            _games.pop(next(iter(_games)))  # of an earlier run
        _games[place.folder] = game
    with _one_thread():
        return attempt(game, unpack(game.n_players, packed), timeout)


def _follow(driver: int) -> None:
    """End this process soon after its driver: a killed one leaves nobody behind."""
    if os.getppid() != driver or "fgsv-follow" in {thread.name for thread in threading.enumerate()}:
        return  # a cluster looks after its own workers

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="fgsv-follow", daemon=True).start()
