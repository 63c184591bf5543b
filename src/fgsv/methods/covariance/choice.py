"""Coalitions that tell most about the players' values, for a run that states what its process predicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.covariance.design import counts
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.target import Target
from fgsv.methods.method import OtherLaw
from fgsv.types import Floats, Masks

CANDIDATES = 512
"""Random coalitions to choose from, half of them complements of the others; they stand for all coalitions."""
ALL = 10
"""Up to this many players, all coalitions are candidates."""
_AS_GOOD = 0.99
"""A choice that was recorded gains at least this part of what the best one does."""


def choose(
    process: Process,
    target: Target,
    known: Masks,
    count: int,
    cost: Floats,
    rng: np.random.Generator,
    recorded: Sequence[str] | None = None,
) -> Masks:
    """Return up to `count` coalitions, (k, n), that are not known; each is the best after those before it.

    The best one lowers the variance of the values, summed over players, most for its `cost` (n + 1,) by size. Values
    are sums over coalitions of W_i(T) U(T); with S the covariance of utilities given what is known, U(T) lowers the
    variance by the sum over i of (W_i S)_T^2 / var U(T). Here the candidates stand for all coalitions, each with the
    inverse of its probability; with few players they are all. What was `recorded` (by `listed`) is returned if it is
    as good, but for rounding.
    """
    masks, weights = _candidates(target, rng)
    sizes = masks.sum(axis=1)
    root, _ = process.inverse_root(known)
    # each row takes its outer product off the covariance: what is known first, then what is chosen
    explained = root @ process.covariance(known, masks)
    covariance = process.covariance(masks, masks)
    with_values = weights.T @ covariance - (weights.T @ explained.T) @ explained
    variance = np.maximum(np.diag(covariance) - (explained**2).sum(axis=0), 0.0)
    own = process.own_variance(sizes)
    names = np.array(listed(masks))
    left = ~np.isin(names, listed(known))
    found: list[int] = []
    while len(found) < count and left.any():
        gain = np.where(left, (with_values**2).sum(axis=0) / (variance + own) / cost[sizes], -1.0)
        place = int(gain.argmax())
        if recorded is not None:
            same = names == (recorded[len(found)] if len(found) < len(recorded) else "")
            if not (same & (gain >= _AS_GOOD * gain[place])).any():
                raise OtherLaw("coalitions recorded as chosen are not those that the recorded utilities lead to")
            place = int(same.argmax())
        found.append(place)
        left &= names != names[place]
        scale = np.sqrt(variance[place] + own[place])
        by_one = (covariance[place] - explained[:, place] @ explained) / scale
        with_values -= np.outer(with_values[:, place] / scale, by_one)
        variance = np.maximum(variance - by_one**2, 0.0)
        explained = np.concatenate([explained, by_one[None]])
    return masks[found]


def _candidates(target: Target, rng: np.random.Generator) -> tuple[Masks, Floats]:
    """Return coalitions and their weights (m, n) in the values: all, or sizes as in a first epoch at random."""
    n, inner = target.n, np.arange(1, target.n)
    if n <= ALL:
        masks = np.concatenate([Coalitions.of_size(n, int(size)).masks() for size in inner])
        return masks, target.coefficients(masks) / counts(n)[masks.sum(axis=1), None]
    base = target.weights.gain * np.sqrt(inner * (n - inner))
    probability = (base + base[::-1]) / (2 * base.sum())
    sizes = rng.choice(inner, CANDIDATES // 2, p=probability)
    masks = rng.permuted(np.arange(n) < sizes[:, None], axis=1)
    masks = np.concatenate([masks, ~masks])
    return masks, target.coefficients(masks) / (probability[masks.sum(axis=1) - 1] * len(masks))[:, None]


def listed(masks: Masks) -> list[str]:
    """Return coalitions as JSON can hold them."""
    return [row.tobytes().hex() for row in np.packbits(masks, axis=1)]
