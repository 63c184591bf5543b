"""Pools of workers: joblib's back ends, Dask and Ray, which schedule. A call is answered when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from joblib import Parallel

Answer = Callable[[], Any]
"""Returns what a call returned; raises its error, or what happened to its worker."""
LOOK_EVERY = 1.0
"""Seconds between two looks at how many workers a cluster has."""


class Here:
    """The thread of the caller, which makes a call at once; and what other pools have, too."""

    shares_memory = True
    """Whether workers are threads."""
    count = 1
    """How many calls run at a time, with the workers that are there now."""
    expected = 0
    """How many calls will run at a time, as far as the user has said so."""

    def lack(self) -> str:
        """Say what was asked for and what there is, if no worker can take a call."""
        return ""

    def start(self) -> None:
        """Be ready for calls."""

    def send(self, call: Callable[[], Any], answered: Callable[[Answer], object]) -> None:
        """Have a worker make the call; then call `answered`, in any thread."""
        found = call()
        answered(lambda: found)

    def end(self) -> None:
        """End the calls under way, as far as possible, and be ready for others."""

    def stop(self) -> None:
        """Take no more calls."""


class JoblibPool(Here):
    """A back end of joblib: threads, processes of this machine, or the user's own."""

    def __init__(self, count: int, first: int | None = None, **options: Any) -> None:
        """Take the most workers, and how many to begin with; `options` are the back end's."""
        self.count = count
        self._parallel = Parallel(count if first is None else first, max_nbytes=None, **options)
        self.shares_memory = getattr(self._parallel._backend, "supports_sharedmem", False)

    def start(self) -> None:
        """Start the back end."""
        self._parallel.__enter__()

    @property
    def started(self) -> int:
        """Workers that the back end has started, or starts with the first call."""
        return int(self._parallel.n_jobs)

    def grow(self, count: int) -> None:
        """Have more workers; those that are there stay. No call is under way."""
        self.stop()
        self._parallel.n_jobs = count
        self.start()

    def send(self, call: Callable[[], Any], answered: Callable[[Answer], object]) -> None:
        """Give the call to the back end."""
        backend = self._parallel._backend
        backend.submit(call, callback=lambda out: answered(partial(backend.retrieve_result_callback, out)))

    def end(self) -> None:
        """Kill the workers, if they are processes, and start others."""
        self._parallel._backend.abort_everything(ensure_ready=False)
        self.stop()
        self.start()

    def stop(self) -> None:
        """Leave the back end; processes stay for the next run."""
        self._parallel.__exit__(None, None, None)


class Cluster(Here):
    """Workers that come and go."""

    shares_memory = False

    def __init__(self, expected: int | None, asked: dict[str, float]) -> None:
        """Take how many workers there will be, if that is known, and the resources that each call asks for."""
        self.expected = max(0, expected or 0)
        self._asked = asked
        self._found = 0
        self._looked = -LOOK_EVERY
        self._calls: set[Any] = set()

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many calls run at a time with the workers there now, which is looked up once a second."""
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._found = sum(_fitting(there, self._asked) for there in self._resources())
            self._looked = time.monotonic()
        return self._found

    def lack(self) -> str:
        """Say what was asked for and what there is, if no worker can take a call."""
        there = self._resources()
        if any(_fitting(each, self._asked) for each in there):
            return ""
        every = [{name: number for name, number in each.items() if name in self._asked} for each in there]
        has = ", ".join(map(_in_words, every)) if there else "none"
        return f"each evaluation asks for {_in_words(self._asked)}; the cluster's workers: {has}"

    def _resources(self) -> list[dict[str, float]]:
        """Return what each worker has."""
        raise NotImplementedError


def _fitting(there: dict[str, float], asked: dict[str, float]) -> int:
    """Return how many calls fit into a worker at a time."""
    return int(min(there.get(name, 0) // number for name, number in asked.items()))


def _in_words(resources: dict[str, float]) -> str:
    return " and ".join(f"{number:g} {name}" for name, number in resources.items()) or "nothing of it"


class DaskPool(Cluster):
    """A Dask cluster. Its scheduler gives a call whose worker has died to another one, three times by default."""

    def __init__(self, backend: Any, expected: int | None) -> None:
        self._client = backend.client
        self._options = backend.submit_kwargs
        super().__init__(expected, {"threads": 1} | self._options.get("resources", {}))

    def _resources(self) -> list[dict[str, float]]:
        from distributed.comm.core import CommClosedError

        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except (CommClosedError, OSError):
            return []
        return [{"threads": each["nthreads"], **each["resources"]} for each in workers]

    def send(self, call: Callable[[], Any], answered: Callable[[Answer], object]) -> None:
        """Submit the call."""
        future = self._client.submit(call, pure=False, **self._options)
        self._calls.add(future)

        def done(future: Any) -> None:
            self._calls.discard(future)
            answered(partial(self._result, future))

        future.add_done_callback(done)

    def _result(self, future: Any) -> Any:
        from distributed.utils import CancelledError

        try:
            return future.result()
        except CancelledError as error:
            raise LostScheduler(f"the scheduler at {self._client.scheduler.address} is gone") from error

    def end(self) -> None:
        """Cancel the calls that no worker has begun; a thread of a worker cannot be ended."""
        self._client.cancel(list(self._calls))
        self._calls.clear()


class RayPool(Cluster):
    """A Ray cluster; a call whose worker has died is given to another one, three times by default."""

    def __init__(self, backend: Any, expected: int | None) -> None:
        # by default a task that asks for a GPU ends its process, which loaded the game
        self._options = {"num_cpus": 1, "max_calls": 0} | (backend.ray_remote_args or {})
        asked = {"CPU": self._options["num_cpus"], "GPU": self._options.get("num_gpus", 0)}
        asked |= self._options.get("resources", {})
        super().__init__(expected, {name: number for name, number in asked.items() if number})

    def start(self) -> None:
        """Connect to Ray, if the user has not."""
        import ray

        if not ray.is_initialized():
            ray.init()
        self._remote = ray.remote(**self._options)(_called)

    def _resources(self) -> list[dict[str, float]]:
        import ray

        return [node["Resources"] for node in ray.nodes() if node["Alive"]] if ray.is_initialized() else []

    def send(self, call: Callable[[], Any], answered: Callable[[Answer], object]) -> None:
        """Submit the call as a task."""
        reference = self._remote.remote(call)
        self._calls.add(reference)

        def done(future: Any) -> None:
            self._calls.discard(reference)
            answered(future.result)

        reference.future().add_done_callback(done)

    def end(self) -> None:
        """Cancel the calls; those that are running are killed with their workers."""
        import ray

        for reference in list(self._calls):
            ray.cancel(reference, force=True)
        self._calls.clear()


class LostScheduler(ConnectionError):
    """The scheduler of a cluster does not answer any more."""


def _called(call: Callable[[], Any]) -> Any:
    return call()
