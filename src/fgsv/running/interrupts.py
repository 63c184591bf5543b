"""Interrupts: Ctrl-C ends a run between two steps, never in the middle of an update."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals by which a scheduler, a container or a closed terminal ends a process."""


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Delay an interrupt until the block is done: in the middle of an update an estimator has no estimate."""
    # only the main thread gets interrupts; a handler not set from Python cannot be restored
    main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in (signal.SIGINT, *ENDINGS) if main and callable(signal.getsignal(number))]
    waiting: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: waiting.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if waiting:
        signal.raise_signal(waiting[0])  # for the original handler: Python's or the user's own
