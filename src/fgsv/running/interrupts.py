"""Interrupts: Ctrl-C may end a run between two steps, never in the middle of an update."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Have an interrupt wait until the block is done: an estimator in the middle of an update has no estimate."""
    before = signal.getsignal(signal.SIGINT)
    # interrupts go to the main thread; a handler that is not Python's cannot be put back
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        signal.raise_signal(signal.SIGINT)  # for the handler that was there: Python's, the user's own, or none
