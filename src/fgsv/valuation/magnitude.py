"""Units: powers of two that keep squares and single precision within range, however small or large utilities are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Floats

ORDINARY = 64
"""Numbers between 2^-64 and 2^64 need no unit: their squares and their float32 have all digits."""


def unit_of(numbers: NDArray[np.floating]) -> Floats:
    """Return (q,): a power of two near the largest of (..., q) numbers, or one if that is ordinary or zero.

    >>> unit_of(np.array([[3.0, 3e-200], [-5.0, 1e-201]])).tolist() == [1.0, 2.0**-663]
    True

    Dividing by it is exact, so a run in these units has the same digits as one in ordinary numbers.
    """
    largest = np.abs(numbers).reshape(-1, numbers.shape[-1]).max(axis=0)
    exponent = np.frexp(largest)[1] - 1
    return np.where((np.abs(exponent) <= ORDINARY) | (largest == 0), 1.0, np.ldexp(1.0, exponent))
