"""Intervals: t quantiles, bounds, what narrows them, and the check of a confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fgsv.checks import as_number
from fgsv.types import Floats, Masks
from fgsv.words import roughly

if TYPE_CHECKING:
    from fgsv.valuation.valuation import Valuation

ROUNDING = 1e-9
"""Shares that differ by no more than this may be equal but for rounding, also if they are exact."""


def check_confidence(confidence: float) -> None:
    """Raise an error unless a confidence is a probability: 0.95, not 95."""
    if not 0 < as_number(confidence) < 1:
        raise ValueError(f"confidence must be between 0 and 1, such as 0.95; got {confidence!r:.200}")


def t_quantile(confidence: float, degrees_of_freedom: ArrayLike) -> Floats:
    """Return the half-width of an interval in standard errors.

    >>> float(t_quantile(0.95, np.inf).round(3)), float(t_quantile(0.95, 9).round(3))
    (1.96, 2.262)
    """
    from scipy.special import stdtrit  # here, as in `log_choose`: workers need no quantiles

    check_confidence(confidence)
    return np.asarray(stdtrit(degrees_of_freedom, (1 + confidence) / 2))


def joint_half_width(parts: Sequence[tuple[Floats, float]], confidence: float) -> Floats:
    """Return the half-width due to independent errors, each with its variances and its degrees of freedom.

    The degrees of freedom of their sum are those of Welch and Satterthwaite.
    """
    total = sum((variance for variance, _ in parts), np.zeros(()))
    unit = np.where(total > 0, total, 1.0)
    inverse = sum(((variance / unit) ** 2 / freedom for variance, freedom in parts), np.zeros(()))
    freedom = np.where(inverse > 0, 1 / np.where(inverse > 0, inverse, 1.0), np.inf)
    return np.asarray(np.sqrt(total) * t_quantile(confidence, freedom))


def evaluations_to_narrow(valuation: Valuation, factor: float) -> int:
    """Return about how many evaluations make the intervals of a valuation narrower by a factor: at most all 2^n.

    They are more than were made; if ten times as many or more, the number has one significant digit.

    >>> import fgsv
    >>> valuation = fgsv.value(fgsv.games.SumOfUnanimity(64), budget=100)
    >>> evaluations_to_narrow(valuation, 3.0), evaluations_to_narrow(valuation, 1.01)
    (900, 110)
    """
    n = valuation.partition.n_players
    made = valuation.n_evaluations
    times = max(factor, 1.0) ** 2
    needed = roughly(made * times, made, 1 if times >= 10 else 2)
    return 2**n if math.log2(needed) > n else math.ceil(needed)


def bounds(values: Floats, half_width: Floats) -> Floats:
    """Return (..., 2): the lower and the upper bound of each value."""
    return np.stack([values - half_width, values + half_width], axis=-1)


def is_clear(differences: ArrayLike, half_width: ArrayLike) -> Masks:
    """Say which differences of shares are more than their error and more than rounding."""
    return np.asarray(np.abs(differences) > np.maximum(half_width, ROUNDING))
