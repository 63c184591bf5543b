"""Interrupts: Ctrl-C ends a run between two steps, never in the middle of an update."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Delay an interrupt until the block is done: in the middle of an update an estimator has no estimate."""
    before = signal.getsignal(signal.SIGINT)
    # only the main thread gets interrupts; a handler not set from Python cannot be restored
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
        signal.raise_signal(signal.SIGINT)  # for the original handler: Python's, the user's own, or none
