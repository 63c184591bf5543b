"""Calls on a Dask cluster, in the manner of `joblib.Parallel`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class DaskCalls:
    """Joblib's delayed calls on a Dask cluster; `Parallel` waits for ever for a call whose worker has died.

    The scheduler gives such a call to another worker, three times by default, before it raises an error.
    """

    def __init__(self, backend: Any) -> None:
        self._client, self._options = backend.client, backend.submit_kwargs

    def __enter__(self) -> DaskCalls:
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave the cluster as it is: it is the user's."""

    def __call__(self, calls: Iterable[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        """Return what the calls return, in order."""
        futures = [self._client.submit(call, *given, pure=False, **self._options) for call, given, _ in calls]
        return list(self._client.gather(futures))
