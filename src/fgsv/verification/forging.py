"""What forged records could do: the odds of finding them, and how far they could move a share."""

from __future__ import annotations

from math import ceil

import numpy as np

from fgsv.data.metrics import range_of
from fgsv.results.result import Result
from fgsv.types import Floats
from fgsv.verification.record_checks import odds_of_missing

FORGED = (0.01, 0.05, 0.2)
"""Forged fractions of all records for which odds and bounds are stated."""
ONE_POINT, MISSED = 0.01, 0.05
"""A move of a share, and the odds of missing the records that made it, for which the number of picks is stated."""


def odds_in_words(n_picked: int) -> str:
    """Say how likely it is, at least, that K picked records include a forged one: 1 - (1 - f)^K, never certain.

    >>> odds_in_words(60)
    'if 1% of the records were forged, 60 evaluated again would show it with 45.3%; 5% with 95.4%; 20% with 99.9%'
    """
    first, *rest = [f"{each:.0%}" for each in FORGED]
    odds, *others = [f"{min(1 - odds_of_missing(n_picked, each), 0.999):.1%}" for each in FORGED]
    words = f"if {first} of the records were forged, {n_picked} evaluated again would show it with {odds}"
    return "; ".join([words, *(f"{each} with {found}" for each, found in zip(rest, others, strict=True))])


def largest_moves(influence: Floats, values: Floats, low: float, high: float) -> Floats:
    """Return (m,): how far one, two, ... forged records can have moved the value of some group from the truth.

    `influence` is (m, K), `values` are the m stated ones; the true ones are between `low` and `high`. So a record can
    have moved a group's value by its influence times the farther of the two. The worst come first.

    Args:
        influence: (m, K): how much each record moves the value of each group.
        values: (m,): what the records state.
        low: The smallest possible value.
        high: The largest possible value.

    Returns:
        (m,) moves, increasing.

    Examples:
        >>> largest_moves(np.array([[0.5], [-1.0], [0.1]]), np.array([0.5, 0.8, 0.0]), 0.0, 1.0).round(2).tolist()
        [0.8, 1.05, 1.15]

    """
    reach = np.abs(influence) * np.maximum(values - low, high - values)[:, None]
    return np.cumsum(np.sort(reach, axis=0)[::-1], axis=0).max(axis=1)


def moves_in_words(result: Result, values: Floats, influence: Floats | None) -> str:
    """Say how far forged fractions could have moved a share, from the (N, q) values of all records.

    What is learned and the law of the draws are held fixed, and U(0) and U(N) are true: they are always checked.

    Args:
        result: The result.
        values: (N, q): the values of its records, U(0) and U(N) first.
        influence: (N - 2, K): how much each of the others moves each group; None if the method does not say.

    Returns:
        One sentence.

    """
    valuation = result.valuation
    source = result.source
    values = values[:, : values.shape[1] - (0 if valuation.settings is None else valuation.settings.n_folds)]
    unbounded = "there is no bound on how far forged records could move a share"
    within = None if source is None else range_of(source.metric)
    if within is None:
        return f"{unbounded}: the score has no range"
    if influence is None or values.shape[1] > 1 or not valuation.total > 0:
        return f"{unbounded}: it is only computed for one output and a game that the Gaussian process learns"
    moves = largest_moves(influence, values[2:, 0], *within) / float(valuation.total)
    words = [f"{forged:.0%} of them by {100 * moves[ceil(forged * len(moves)) - 1]:,.1f}" for forged in FORGED]
    fewest = int(np.searchsorted(moves, ONE_POINT)) + 1
    enough = ceil(np.log(MISSED) / np.log1p(-fewest / len(moves))) if fewest < len(moves) else len(moves)
    return (
        f"with what is learned and the law of the draws held fixed, forged records move a share by at most: "
        f"{', '.join(words)} points; one point takes {fewest:,} or more forged records, and "
        f"{min(enough, len(moves)):,} picked records include one of these with {1 - MISSED:.0%} probability"
    )
