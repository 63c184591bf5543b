"""Three classics of cooperative game theory."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from fgsv.types import Floats, Masks


@dataclass(frozen=True, eq=False)
class Airport:
    """A runway as long as the largest member needs: U(S) = max of the members' costs, 0 for the empty set.

    >>> Airport([1.0, 3.0]).shapley.tolist()
    [0.5, 2.5]
    """

    costs: ArrayLike

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self._costs)

    @property
    def _costs(self) -> Floats:
        return np.asarray(self.costs, dtype=float)

    def __call__(self, masks: Masks) -> Floats:
        """Return the largest cost among the members of each coalition."""
        return np.where(masks, self._costs, 0.0).max(axis=1)

    @property
    def shapley(self) -> Floats:
        """(n,): all who need a stretch of the runway share its cost equally."""
        costs = self._costs
        order = np.argsort(costs)
        stretches = np.diff(costs[order], prepend=0.0)
        values = np.empty(len(costs))
        values[order] = np.cumsum(stretches / np.arange(len(costs), 0, -1))
        return values


@dataclass(frozen=True, eq=False)
class Glove:
    """Pairs of gloves: players 0..left-1 have a left one, the others a right one; U(S) counts pairs.

    >>> Glove(1, 2).shapley.round(4).tolist()
    [0.6667, 0.1667, 0.1667]
    """

    left: int
    right: int

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return self.left + self.right

    def __call__(self, masks: Masks) -> Floats:
        """Return the number of pairs that each coalition can form."""
        return np.minimum(masks[:, : self.left].sum(axis=1), masks[:, self.left :].sum(axis=1)).astype(float)

    @property
    def shapley(self) -> Floats:
        """(n,): a newcomer adds a pair when its own side is the shorter one among those before it."""
        left = _scarcity(self.left, self.right) if self.left else 0.0
        right = _scarcity(self.right, self.left) if self.right else 0.0
        return np.concatenate([np.full(self.left, left), np.full(self.right, right)])


def _scarcity(own: int, other: int) -> float:
    """Return P(fewer of the own side than of the other come before a given player of the own side)."""
    n = own + other
    return sum(
        comb(own - 1, a) * comb(other, b) / comb(n - 1, a + b) / n
        for a in range(own)
        for b in range(a + 1, other + 1)
    )


@dataclass(frozen=True, eq=False)
class WeightedMajority:
    """A vote: U(S) = 1 if the members' integer weights reach the quota, else 0.

    >>> WeightedMajority([2, 1, 1], quota=3).shapley.round(4).tolist()
    [0.6667, 0.1667, 0.1667]
    """

    weights: tuple[int, ...] | list[int]
    quota: int

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self.weights)

    def __call__(self, masks: Masks) -> Floats:
        """Return 1 for each coalition that wins, 0 for the others."""
        return (masks @ np.asarray(self.weights) >= self.quota).astype(float)

    @property
    def shapley(self) -> Floats:
        """(n,): the chance to turn a losing coalition into a winning one, by counting coalitions by weight."""
        n, weights = self.n_players, np.asarray(self.weights, dtype=np.int64)
        values = np.empty(n)
        for player, weight in enumerate(weights):
            # counts[s, w]: coalitions of s others with total weight w, exact as Python integers
            counts = np.zeros((n, self.quota), dtype=object)
            counts[0, 0] = 1
            for other in np.delete(weights, player):
                grown = counts[:-1, : max(self.quota - other, 0)].copy()
                counts[1:, other : other + grown.shape[1]] += grown
            pivotal = counts[:, max(self.quota - weight, 0) :].sum(axis=1)
            values[player] = sum(int(c) / comb(n - 1, s) for s, c in enumerate(pivotal)) / n
        return values
