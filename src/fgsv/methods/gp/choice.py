"""What is chosen: coalitions that lower the posterior variance of the values most; and that variance itself."""

from __future__ import annotations

import numpy as np

from fgsv.methods.gp.kernel import Kernel
from fgsv.methods.gp.sampler import Sampler
from fgsv.methods.gp.smoother import precision
from fgsv.methods.method import OtherLaw
from fgsv.methods.target import Target
from fgsv.types import Floats, Masks

SAME = 1e-6
"""Relative difference of two gains that may be due to rounding."""
CANDIDATES = 512
"""Coalitions that stand for all of them when some are chosen, and for the posterior covariance of many players; for
that of few, whose closed form is quick, twice as many."""
FEW_PLAYERS = 64


def candidates(target: Target, count: int, rng: np.random.Generator) -> tuple[Masks, Floats]:
    """Return coalitions and (., n) weights such that weighted sums over them stand for sums over all S of W(S).

    All coalitions, if there are so few; otherwise random ones and their complements, each weighted by the inverse of
    its probability.
    """
    n = target.n
    if 2**n <= count:
        some = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
        return some, target.coefficients(some)
    law = target.base_law
    half = rng.permuted(np.arange(n) < rng.choice(n + 1, count // 2, p=law)[:, None], axis=1)
    some = np.concatenate([half, ~half])
    sizes = some.sum(axis=1)
    return some, target.per_draw(some) / ((law[sizes] + law[n - sizes]) / 2 * len(some))[:, None]


def choose(
    kernel: Kernel,
    sampler: Sampler,
    masks: Masks,
    count: int,
    rng: np.random.Generator,
    costs: Floats,
    recorded: Masks | None = None,
) -> Masks:
    """Return unknown coalitions that lower the variance of the values most, one after the other; they are known then.

    T lowers it by |sum over S of W(S) D(S, T)|^2 / D(T, T), with D the covariance given that U is known at `masks`,
    own parts included. What it lowers is divided by the (n + 1,) `costs` of an evaluation of each size. A `recorded`
    choice is followed if it is as good but for rounding.
    """
    target = kernel.target
    some, weights = candidates(target, CANDIDATES, rng)
    wide = _widened(some, kernel)
    across = kernel(wide, masks)
    covariance = kernel(wide, wide) - across @ precision(kernel, masks) @ across.T
    own = kernel.own(some.sum(axis=1))
    by_own = (target.coefficients(some) * own[:, None]).T
    free = sampler.is_free(some)
    found: list[int] = []
    while len(found) < count and free.any():
        gains = ((weights.T @ covariance + by_own) ** 2).sum(axis=0) / (np.maximum(np.diag(covariance), 0.0) + own)
        gains = np.where(free, gains / costs[some.sum(axis=1)], -1.0)
        best = int(gains.argmax())
        if recorded is not None:
            best = _as_recorded(some, recorded[len(found) :], gains)
        found.append(best)
        free &= (some != some[best]).any(axis=1)
        covariance -= np.outer(covariance[best], covariance[best]) / (covariance[best, best] + own[best])
    sampler.take(some[found])
    return some[found]


def posterior(
    kernel: Kernel, is_free: Masks, some: Masks, weights: Floats, masks: Masks, influences: Floats, unknown: Floats
) -> Floats:
    """Return (n, n): the covariance of the values given what is known, with the kernel's own scale.

    It is the sum over unknown S of W(S) cov(U(S), values)', and that covariance has a closed form; `some` candidates
    with their `weights` stand for all S. `unknown` (n + 1,) counts the unknown coalitions of each size.
    """
    target = kernel.target
    n, s = target.n, np.arange(target.n + 1)
    wide = _widened(some, kernel)
    inner = kernel.player_values(wide) - kernel(wide, masks) @ influences
    found = (weights * is_free[:, None]).T @ inner
    found = (found + found.T) / 2
    spread = s * (n - s) / max(1, n * (n - 1))  # of membership in a random coalition of this size
    per_size = kernel.own(s) * np.exp(-target.log_counts) * unknown / target.counts
    own = (per_size * target.gain**2 * spread).sum()
    found += own * (np.eye(n) - 1 / n)
    if target.has_drift:
        found += (per_size[1:n] * target.drift[1:n] ** 2).sum()
    else:
        found -= found.mean(axis=0)
        found -= found.mean(axis=1, keepdims=True)
    return found


def _widened(masks: Masks, kernel: Kernel) -> Masks:
    """Return coalitions of the players, as coalitions of all coordinates."""
    return np.pad(masks, ((0, 0), (0, kernel.n - masks.shape[1])))


def _as_recorded(some: Masks, recorded: Masks, gains: Floats) -> int:
    """Return the candidate that was chosen before, if none is better by more than rounding."""
    places = np.flatnonzero((some == recorded[:1]).all(axis=1)) if len(recorded) else np.zeros(0, dtype=int)
    if not len(places) or gains[places[0]] < (1 - SAME) * gains.max():
        raise OtherLaw("the recorded coalitions are not those that the recorded utilities lead to")
    return int(places[0])
