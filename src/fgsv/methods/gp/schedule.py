"""The schedule: which evaluations a draw may depend on, in fixed counts, so that many can be evaluated at once."""

from __future__ import annotations

CHOSEN = (32, 512, 64)
"""Evaluations from which and up to which every second one is chosen, with at most so many players."""
EXPLORE = 0.1
"""Part of the draws whose sizes do not depend on utilities."""
AT_ONCE = 16
"""Evaluations in a round, or an eighth of those before it."""
STAGES = ((64, 0), (96, 48), (160, 64), (256, 128))
"""Evaluations up to which draws depend on so many of the first ones only; then on half as many, in two stages for
each doubling."""


def stage(n_evaluations: int) -> tuple[int, int]:
    """Return where the stage of the next draw ends, and of how many first evaluations its draws know the values.

    >>> [stage(n) for n in (2, 64, 100, 1000, 1024)]
    [(64, 0), (96, 48), (160, 64), (1024, 512), (1536, 768)]
    """
    for end, known in STAGES:
        if n_evaluations < end:
            return end, known
    end = 256
    while n_evaluations >= end:
        end = end * 3 // 2 if (end & (end - 1)) == 0 else end * 4 // 3
    return end, end // 2


def round_end(n_evaluations: int) -> int:
    """Return where the round of the next draw ends.

    >>> [round_end(n) for n in (2, 16, 48, 64, 300, 1000)]
    [16, 32, 64, 80, 332, 1024]
    """
    if n_evaluations < 64:
        end = next(each for each in (16, 32, 48, 64) if n_evaluations < each)
    else:
        end = n_evaluations + AT_ONCE * max(1, n_evaluations // 8 // AT_ONCE)
    return min(end, stage(n_evaluations)[0])
