"""A trend for games where few players hold most of the worth: together less than each alone, added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from fgsv.types import Floats, Masks

MOST_PLAYERS = 20
PER_PLAYER = 4
"""The trend is tried up to so many evaluations a player, if all players alone are among them."""
EXPLAINED = 0.3
"""It is used if it leaves at most this part of the variance within sizes, apart from that of single players."""


@dataclass(frozen=True, eq=False)
class Saturating:
    """M (1 - prod of (1 - a_i / M) over i in S): a_i for i alone, and M such that it is right for all."""

    alone: Floats
    most: float

    @classmethod
    def of(cls, alone: Floats, whole: float) -> Saturating | None:
        """Return the trend; None where players together are worth as much as alone added up, or more."""
        sign = float(np.sign(whole))
        gains = sign * alone
        if not sign or gains.sum() <= abs(whole) * (1 + 1e-6):
            return None

        def short(x: float) -> float:
            return float((1 - np.prod(1 - gains * x)) / x - abs(whole))

        largest = 1 / gains.max()
        if short(largest) > 0:
            return None
        return cls(alone, sign / brentq(short, 1e-9 * largest, largest))

    def __call__(self, masks: Masks) -> Floats:
        """Return (m,)."""
        return np.asarray(self.most * (1 - np.where(masks, 1 - self.alone / self.most, 1.0).prod(axis=1)))

    def player_values(self) -> Floats:
        """Return (n,): a_i times the integral over t of the product of 1 - t a_j / M over j other than i."""
        points, weights = np.polynomial.legendre.leggauss(len(self.alone) // 2 + 1)
        factors = 1 - (points[:, None] + 1) / 2 * self.alone / self.most
        others = np.stack([np.delete(factors, i, axis=1).prod(axis=1) for i in range(len(self.alone))], axis=1)
        return np.asarray(self.alone * (weights / 2 @ others))


def saturating(masks: Masks, values: Floats, whole: float) -> Saturating | None:
    """Return the trend of utilities less U(0), (m,), if it describes them; `whole` is U(N) - U(0)."""
    n, sizes = masks.shape[1], masks.sum(axis=1)
    single = sizes == 1
    if n > MOST_PLAYERS or len(masks) > PER_PLAYER * n or np.count_nonzero(single) < n:
        return None
    alone = values[single][masks[single].argmax(axis=1).argsort()]
    trend = Saturating.of(alone, whole)
    if trend is None:
        return None
    inner = (sizes > 1) & (sizes < n)
    left = values - trend(masks)
    is_good = _within(sizes[inner], left[inner]) <= EXPLAINED * _within(sizes[inner], values[inner])
    return trend if is_good else None


def _within(sizes: Floats, values: Floats) -> float:
    """Return the sum of squares about the means by size."""
    counts = np.maximum(np.bincount(sizes), 1)
    means = np.bincount(sizes, values) / counts
    return float(((values - means[sizes]) ** 2).sum())
