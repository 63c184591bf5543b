"""Slow and obviously right: what the package computes, by the definitions."""

from dataclasses import dataclass
from itertools import combinations
from math import comb, factorial

import numpy as np

from fgsv.games import Airport, Glove, SumOfUnanimity, WeightedMajority

GAMES = {
    "airport": Airport([3.0, 1.0, 1.0, 7.5, 2.0, 4.0, 4.0, 0.5, 9.0, 6.0]),
    "glove": Glove(4, 6),
    "one glove": Glove(1, 9),
    "majority": WeightedMajority([4, 3, 3, 2, 2, 1, 1, 1, 1, 5], quota=12),
    "unanimity": SumOfUnanimity(10, seed=5),
}


def value_of(game, members, n):
    masks = np.zeros((1, n), dtype=bool)
    masks[0, list(members)] = True
    return np.asarray(game(masks))[0]


def shapley(game, n):
    """Return the Shapley values by the paper's Eq. (1), term by term."""
    values = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        total = 0.0
        for s in range(n):
            weight = factorial(s) * factorial(n - s - 1) / factorial(n)
            for subset in combinations(others, s):
                total = total + weight * (value_of(game, (*subset, i), n) - value_of(game, subset, n))
        values.append(total)
    return np.array(values)


def mean_utility(game, n, group, size, overlap):
    """mu(s1 / s; s, s0, n) of the paper: the mean of U over sets with `overlap` members in the group."""
    others = [j for j in range(n) if j not in set(group)]
    sets = [
        (*inside, *outside)
        for inside in combinations(group, overlap)
        for outside in combinations(others, size - overlap)
    ]
    return np.mean([value_of(game, members, n) for members in sets], axis=0)


def hypergeometric(k, n, s0, s):
    return comb(s0, k) * comb(n - s0, s - k) / comb(n, s)


def overlaps(n, s0, s):
    return range(max(0, s + s0 - n), min(s, s0) + 1)


@dataclass(frozen=True)
class Binomial:
    """A semivalue of one's own: each other player is in with probability q."""

    q: float

    def log_weights(self, n_players):
        others = np.arange(n_players)
        return others * np.log(self.q) + (n_players - 1 - others) * np.log(1 - self.q)
