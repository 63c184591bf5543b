"""What games of adapters share: checks of their settings, and the evaluation of coalitions in stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgsv.types import Floats, Masks


def check_settings(settings: Any, counts: Sequence[str]) -> None:
    """Raise an error unless the learning rate and its schedule, and the settings that are counts, can be used."""
    for name in counts:
        number = getattr(settings, name)
        if number is not None and not (isinstance(number, int | float | np.number) and number >= 1):
            raise ValueError(f"{name} must be at least 1, got {number!r}")
    if not settings.learning_rate > 0:
        raise ValueError(f"learning_rate must be positive, got {settings.learning_rate}")
    if settings.schedule not in ("constant", "linear"):
        raise ValueError(f"schedule must be constant or linear, got {settings.schedule!r}")


def in_stacks(samples: Masks, evaluate: Callable[[Masks], Floats], at_once: int, n_outputs: int) -> Floats:
    """Evaluate coalitions of samples, as many at once as a stack of adapters has.

    Those of one stack are of about equal size, so that they take about equally many training steps.

    >>> in_stacks(np.eye(3, dtype=bool), lambda stack: stack @ [[1.0], [2.0], [3.0]], at_once=2, n_outputs=1).tolist()
    [[1.0], [2.0], [3.0]]

    Args:
        samples: (m, n) the samples of each coalition.
        evaluate: (B, n) samples of up to `at_once` coalitions -> (B, q) values.
        at_once: Adapters that are trained at once.
        n_outputs: q.

    Returns:
        (m, q) values, in the order of `samples`.

    """
    values = np.empty((len(samples), n_outputs))
    by_size = np.argsort(-samples.sum(axis=1), kind="stable")
    for start in range(0, len(by_size), at_once):
        rows = by_size[start : start + at_once]
        values[rows] = evaluate(samples[rows])
    return values
