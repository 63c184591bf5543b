"""A trend for games where few players hold most of the worth: together less than each alone, added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from fgsv.methods.gp.kernel import Kernel
from fgsv.methods.gp.smoother import precision
from fgsv.types import Floats, Masks

MOST_PLAYERS = 64
PER_PLAYER = 1.5
"""Up to so many evaluations a player, besides the ends, it counts in full."""
TRIED = 8
"""Up to so many it counts as far as the process predicts better with it than alone."""
CAUTION = 4.0
"""Log odds are divided by this: parameters were fitted to the utilities that they are to predict."""


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
    """Return the trend of utilities less U(0), (m,), if all players alone are known; `whole` is U(N) - U(0)."""
    n = masks.shape[1]
    single = masks.sum(axis=1) == 1
    if n > MOST_PLAYERS or len(masks) > 2 + TRIED * n or np.count_nonzero(single) < n:
        return None
    alone = values[single][masks[single].argmax(axis=1).argsort()]
    return Saturating.of(alone, whole)


def trust(beside: Kernel, rest: Floats, without: Kernel, values: Floats, masks: Masks) -> float:
    """Return how much a trend counts, from 0 to 1, by the odds of the utilities of coalitions of two players or more.

    They are given the rest: with the trend, which leaves `rest` to the process, and without it: the (m,) `values`.
    """
    n, sizes = masks.shape[1], masks.sum(axis=1)
    if len(masks) <= 2 + PER_PLAYER * n:
        return 1.0
    inner = (sizes > 1) & (sizes < n)
    odds = _log_density(beside, masks, rest, inner) - _log_density(without, masks, values, inner)
    return float(expit(odds / CAUTION))


def _log_density(kernel: Kernel, masks: Masks, values: Floats, inner: Masks) -> float:
    """Return the log density of some values, given the others."""
    if not (spread := values.std()):
        return np.inf
    inverse = precision(kernel, masks)
    block = inverse[np.ix_(inner, inner)]  # of their covariance, given the others, the inverse
    unforeseen = (inverse @ (values - values.mean()) / spread)[inner]
    fit = np.linalg.slogdet(block)[1] - unforeseen @ np.linalg.solve(block, unforeseen)
    return float(0.5 * fit - inner.sum() * np.log(spread))
