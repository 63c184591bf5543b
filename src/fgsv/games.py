"""Games whose Shapley values are known in closed form: oracles for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.checks import whole_number
from fgsv.types import Floats, Ints, Masks

_ROWS = 16  # coalitions handled together: their bitsets stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Airport:
    """A runway as long as the largest member needs: U(S) = max of the members' costs, 0 for the empty set.

    >>> Airport([1.0, 3.0]).shapley.tolist()
    [0.5, 2.5]
    """

    costs: ArrayLike

    def __post_init__(self) -> None:
        try:
            fits = self._costs.ndim == 1 and len(self._costs) > 0 and np.isfinite(self._costs).all()
        except (TypeError, ValueError):
            fits = False
        if not fits or not (self._costs >= 0).all():
            raise ValueError(
                "a runway needs a list with the cost of each player, which must not be negative; got "
                f"{self.costs!r:.200}"
            )

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

    def __post_init__(self) -> None:
        n_players = whole_number("left", self.left, least=0) + whole_number("right", self.right, least=0)
        if n_players == 0:
            raise ValueError("a game of gloves needs at least one player, got left=0 and right=0")

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

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights)
        quota = np.asarray(self.quota)
        whole = weights.ndim == 1 and quota.ndim == 0 and {weights.dtype.kind, quota.dtype.kind} <= set("iu")
        if not whole or not len(weights) or (weights < 0).any() or quota < 1:
            raise ValueError(
                f"a vote needs whole-number weights of at least 0 and a whole-number quota of at least 1, got "
                f"{self.weights!r:.200} and {self.quota!r:.200}"
            )

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
        n = self.n_players
        weights = np.asarray(self.weights, dtype=np.int64)
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


@dataclass(frozen=True)
class SumOfUnanimity:
    """U(S) = sum of alpha_j over the sets A_j that S contains (paper, section 4.1).

    Each of the `n_sets` sets (n^2 by default) has a uniform random size from 1 to n and uniform random members;
    alpha_j is the mean over its members of (i mod 4) / 4, players counted from 0.

    >>> game = SumOfUnanimity(8, seed=0)
    >>> full = game(np.ones((1, 8), dtype=bool))[0]
    >>> bool(abs(full - game.shapley.sum()) < 1e-9)
    True
    """

    n: int
    n_sets: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("n", self.n, least=1)
        whole_number("seed", self.seed, least=0)
        if self.n_sets is not None:
            whole_number("n_sets", self.n_sets, least=1)

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return self.n

    @property
    def fingerprint(self) -> str:
        """Identifies this game among others of its kind."""
        return f"sum-of-unanimity/{self.n}/{len(self.sets)}/{self.seed}"

    @cached_property
    def sets(self) -> Masks:
        """(d, n) members of each set A_j, smallest sets first."""
        rng = np.random.default_rng(self.seed)
        d = self.n**2 if self.n_sets is None else self.n_sets
        sizes = np.sort(rng.integers(1, self.n + 1, size=d))
        first = np.arange(self.n) < sizes[:, None]
        return rng.permuted(first, axis=1)

    @cached_property
    def weights(self) -> Floats:
        """(d,) the coefficients alpha_j."""
        return self.sets @ (np.arange(self.n) % 4 / 4) / self.sets.sum(axis=1)

    @cached_property
    def shapley(self) -> Floats:
        """(n,) true Shapley values: each set divides its coefficient equally among its members."""
        return (self.weights / self.sets.sum(axis=1)) @ self.sets

    def __call__(self, masks: Masks) -> Floats:
        """Evaluate (m, n) coalitions, several tens of microseconds each at n = 256."""
        masks = np.asarray(masks, dtype=bool)
        sizes = masks.sum(axis=1)
        order = np.argsort(sizes, kind="stable")
        absent = np.packbits(~masks[order], axis=1)
        values = np.empty(len(masks))
        for start in range(0, len(masks), _ROWS):
            rows = order[start : start + _ROWS]
            values[rows] = self._evaluate(absent[start : start + _ROWS], int(sizes[rows[-1]]))
        return values

    def _evaluate(self, absent: NDArray[np.uint8], size: int) -> Floats:
        """Evaluate coalitions of at most `size` members from the packed bits of their absent players."""
        # A set is broken when it has an absent member: the union, over the absent players, of the sets that have
        # them. Eight players at a time are looked up in a table; sets larger than the coalition can be skipped.
        n_words = -(-int(np.searchsorted(self._set_sizes, size, side="right")) // 64)
        if n_words == 0:
            return np.zeros(len(absent))
        broken = np.zeros((len(absent), n_words), dtype=np.uint64)
        for table, players in zip(self._broken_by, absent.T, strict=True):
            broken |= table[:, :n_words][players]
        intact = (~broken).view(np.uint8)
        row, byte = np.nonzero(intact)
        contained = self._byte_weights[byte, intact[row, byte]]
        return np.bincount(row, contained, minlength=len(absent)).astype(float, copy=False)

    @cached_property
    def _set_sizes(self) -> Ints:
        return self.sets.sum(axis=1)

    @cached_property
    def _broken_by(self) -> list[NDArray[np.uint64]]:
        """For each eight players a (256, d / 64) table: the sets with a member among each subset of them."""
        d = len(self.sets)
        has = np.zeros((-(-self.n // 8) * 8, -(-d // 64) * 64), dtype=bool)
        has[: self.n, :d] = self.sets.T
        by_player = np.packbits(has, axis=1).view(np.uint64)
        tables = []
        for block in range(0, len(has), 8):
            table = np.zeros((256, by_player.shape[1]), dtype=np.uint64)
            for bit in range(8):  # packbits puts the first player in the highest bit
                player = by_player[block + 7 - bit]
                np.bitwise_or(table[: 1 << bit], player, out=table[1 << bit : 2 << bit])
            tables.append(table)
        return tables

    @cached_property
    def _byte_weights(self) -> Floats:
        """(d / 8, 256): the total coefficient of each subset of eight neighbouring sets."""
        d = len(self.sets)
        padded = np.zeros(-(-d // 64) * 64)
        padded[:d] = self.weights
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
        return padded.reshape(-1, 8) @ bits.T
