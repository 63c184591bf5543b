"""The pivot and delta methods of Dynamic Shapley (Zhang et al., ICDE 2023), written anew, for the same old budget.

Both begin with permutations of the old players, whose prefixes were all evaluated. As here, an evaluation that is
known costs nothing, and players who join or leave together do so one after another, or (pivot) at once. New
evaluations go to whole permutations; where they do not suffice for one, there is no estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np

Utility = Callable[[np.ndarray], np.ndarray]


class Memo:
    """A utility that remembers, and counts what it did not know."""

    def __init__(self, utility: Utility) -> None:
        self._utility = utility
        self._known: dict[bytes, float] = {}
        self.n_evaluations = 0

    def unknown(self, masks: np.ndarray) -> list[int]:
        """Return the rows of coalitions that are not known."""
        return [i for i, row in enumerate(np.packbits(masks, axis=1)) if row.tobytes() not in self._known]

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Return the utilities of coalitions, (m,)."""
        keys, missing = [row.tobytes() for row in np.packbits(masks, axis=1)], self.unknown(masks)
        if missing:
            found = self._utility(masks[missing])
            self._known |= {keys[i]: float(value) for i, value in zip(missing, found, strict=True)}
            self.n_evaluations += len(missing)
        return np.array([self._known[key] for key in keys])


def prefixes(order: np.ndarray, n: int) -> np.ndarray:
    """Return the coalitions of the first 0, 1, ... players in an order, among n."""
    masks = np.zeros((len(order) + 1, n), dtype=bool)
    for size, player in enumerate(order):
        masks[size + 1 :, player] = True
    return masks


def permutations(memo: Memo, n: int, players: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the permutations of players that a budget evaluates, at least one."""
    memo(prefixes(players, n)[[0, -1]])
    orders = [rng.permutation(players) for _ in range(max(1, (budget - 2) // (len(players) - 1)))]
    for order in orders:
        memo(prefixes(order, n))
    return orders


def by_permutations(memo: Memo, n: int, orders: list[np.ndarray]) -> np.ndarray:
    """Return the (n,) mean marginal contributions; nothing for players who are not in the orders."""
    values = np.zeros(n)
    for order in orders:
        values[order] += np.diff(memo(prefixes(order, n))) / len(orders)
    return values


def by_pivot(
    memo: Memo, n: int, orders: list[np.ndarray], newcomers: Sequence[int], budget: int, rng: np.random.Generator
) -> np.ndarray | None:
    """Return the values after newcomers have joined.

    Before the first of them a permutation gives the marginal contributions that it gave: the mean over all old ones.
    The rest is evaluated, in the old permutations with the newcomers at random places, as far as the budget goes.
    """
    k, q, first = len(orders[0]), len(newcomers), memo.n_evaluations
    nobody_yet = np.array([comb(k + q - j, q) / comb(k + q, q) for j in range(1, k + 1)])
    left, right, count = np.zeros(n), np.zeros(n), 0
    for order in orders:
        left[order] += nobody_yet * np.diff(memo(prefixes(order, n))) / len(orders)
    for order in orders:
        longer = _with(order, newcomers, rng)
        begin = int(np.isin(longer, newcomers).argmax())
        masks = prefixes(longer, n)[begin:]
        if memo.n_evaluations - first + len(memo.unknown(masks)) > budget:
            break
        right[longer[begin:]] += np.diff(memo(masks))
        count += 1
    return left + right / count if count else None


def by_delta(
    memo: Memo,
    n: int,
    orders: list[np.ndarray],
    moving: Sequence[int],
    budget: int,
    rng: np.random.Generator,
    *,
    leave: bool,
) -> np.ndarray | None:
    """Return the values after players have joined or left, one after another, each with its part of the budget.

    With D_j the marginal contribution of z to the first j of k others in a permutation, the value of the j-th changes
    by (D_j - D_(j-1)) j / (k + 1) in the mean if z joins, and by the opposite if z leaves.
    """
    values = by_permutations(memo, n, orders)
    for z in moving:
        first, changes, count = memo.n_evaluations, np.zeros(n), 0
        others = [order[order != z] for order in orders]
        for order in others:
            without = prefixes(order, n)
            both = np.concatenate([without, without | (np.arange(n) == z)])
            if memo.n_evaluations - first + len(memo.unknown(both)) > budget // len(moving):
                break
            worth = memo(both).reshape(2, -1)
            gain = worth[1] - worth[0]
            k = len(order)
            changes[order] += np.diff(gain) * np.arange(1, k + 1) / (k + 1)
            changes[z] += gain.mean()
            count += 1
        if not count:
            return None
        values = values - changes / count if leave else values + changes / count
        if leave:
            values[z] = 0.0
        orders = others if leave else [_with(order, [z], rng) for order in others]
    return values


def _with(order: np.ndarray, newcomers: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Return an order with newcomers at random places."""
    for z in newcomers:
        order = np.insert(order, int(rng.integers(len(order) + 1)), z)
    return order
