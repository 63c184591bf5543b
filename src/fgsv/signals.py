"""What no step of a run may depend on: interrupts, which wait for its end, and how many threads libraries use."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from threadpoolctl import ThreadpoolController

ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals by which a scheduler, a container or a closed terminal ends a process."""

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Delay an interrupt until the block is done: in the middle of an update an estimator has no estimate."""
    waiting: list[int] = []
    with _handled(lambda before, number, frame: waiting.append(number)):
        yield
    if waiting:
        signal.raise_signal(waiting[0])  # for the original handler: Python's or the user's own


@contextmanager
def kept_interrupts() -> Iterator[None]:
    """Raise an interrupt again if the block has swallowed it, as models and numpy's C code do."""
    raised: list[BaseException] = []

    def handle(before: Handler, number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        with _handled(handle):
            yield
    finally:
        if raised:
            raise raised[0]


@contextmanager
def _handled(handle: Callable[[Handler, int, FrameType | None], object]) -> Iterator[None]:
    """Handle interrupts in the block by a function that also takes the original handler."""
    # only the main thread gets interrupts; a handler not set from Python cannot be restored
    main = threading.current_thread() is threading.main_thread()
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS) if main}
    before = {number: handler for number, handler in found.items() if callable(handler)}
    meanwhile = {number: partial(handle, handler) for number, handler in before.items()}
    for number, ours in meanwhile.items():
        signal.signal(number, ours)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is meanwhile[number]:  # the block may have set its own
                signal.signal(number, handler)


class _OneThread:
    """Limits BLAS and OpenMP to one thread: the last bits of a matrix product depend on their number."""

    def __init__(self) -> None:
        self._n_modules = 0

    def __call__(self) -> Any:
        if len(sys.modules) != self._n_modules:  # an import may have loaded another library
            self._controller = ThreadpoolController()
            self._n_modules = len(sys.modules)
        return self._controller.limit(limits=1)


one_thread = _OneThread()
