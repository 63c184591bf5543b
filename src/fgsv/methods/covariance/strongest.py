"""Games that depend on the strongest member of a coalition: a covariance between them, and their player values.

Such a game is a sum of terms "nobody of rank k or above is a member", k = 1, 2, ... With independent coefficients of
the same variance, the covariance of two coalitions counts the terms that both have.
"""

from __future__ import annotations

import numpy as np

from fgsv.coalitions import log_choose
from fgsv.types import Floats, Ints, Masks

_EQUAL = 1e-9
"""Utilities that differ by less, in units of their range, are equal: the rest is rounding."""


def orders(masks: Masks, values: Floats) -> list[Ints]:
    """Return ranks (n,) of the players, 1, 2, ... upwards and downwards by what each is worth alone.

    `values` (m, q) are utilities of the coalitions `masks` (m, n); outputs are added in units of their own range,
    with the sign by which they go along with the first. There are none if all are worth the same, or if one player's
    utility alone is not given: so ranks rest on a size that is complete, and on no draw that is left out.
    """
    single = np.flatnonzero(masks.sum(axis=1) == 1)
    player = masks[single].argmax(axis=1)
    if len(np.unique(player)) < masks.shape[1]:
        return []
    alone = values[single[np.argsort(player)]]
    span = np.ptp(alone, axis=0)
    varies = span > _EQUAL * np.maximum(np.abs(values).max(axis=0), 1e-300)
    if not varies.any():
        return []
    alone = (alone[:, varies] - alone[:, varies].mean(axis=0)) / span[varies]
    worth = alone @ np.sign(alone[:, 0] @ alone)
    order = np.argsort(worth, kind="stable")
    higher = np.diff(worth[order]) > _EQUAL
    upwards = np.empty(len(order), dtype=np.int64)
    upwards[order] = 1 + np.concatenate([[0], np.cumsum(higher)])
    return [upwards, upwards.max() + 1 - upwards]


def shared(ranks: Ints, left: Masks, right: Masks) -> Floats:
    """Return (m, M): which part of all terms coalitions have in common."""
    highest = np.maximum.outer((left * ranks).max(axis=1), (right * ranks).max(axis=1))
    return np.asarray(1 - highest / ranks.max())


def shared_with_itself(ranks: Ints, masks: Masks) -> Floats:
    """Return (m,): which part of all terms each coalition has."""
    return np.asarray(1 - (masks * ranks).max(axis=1) / ranks.max())


def player_values(ranks: Ints, masks: Masks, there: Masks, loads: Floats, log_weights: Floats) -> Floats:
    """Return (n, q): the players' values of a sum of covariances with coalitions T, the rows of `masks`.

        f(S) = sum over T of loads[s, T] shared(S, T)   for coalitions S of the s players who are `there`

    `loads` is (n + 1, m, q). Of the coalitions of s players C(N, s) have a term that N players there allow; one of
    these N is a member of C(N - 1, s - 1) of them, all others of none.
    """
    n, n_here, terms = len(ranks), int(there.sum()), np.arange(1, ranks.max() + 1)
    s = np.arange(1, min(n_here, n - 1) + 1)
    have = (masks * ranks).max(axis=1)[:, None] < terms
    sums = np.einsum("smq,mk->skq", loads[s], have.astype(float)) / len(terms)
    allowed = there[:, None] & (ranks[:, None] < terms)
    number = allowed.sum(axis=0)

    def of_size(players: Ints, sizes: Ints, weight_of: Ints) -> Floats:
        possible = (sizes[:, None] <= players) & (players >= 0)
        logarithm = log_choose(np.where(possible, players, 0), np.where(possible, sizes[:, None], 0))
        return np.where(possible, np.exp(logarithm + log_weights[weight_of][:, None]), 0.0)

    without = -of_size(number, s, s)
    member = of_size(number - 1, s - 1, s - 1) - of_size(number - 1, s, s)
    lost, kept = (np.einsum("sk,skq->kq", each, sums) for each in (without, member))
    return np.asarray(allowed @ kept + ~allowed @ lost)
