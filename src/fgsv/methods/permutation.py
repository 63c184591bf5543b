"""Baseline: marginal contributions along random permutations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.method import Draws, Problem, Task
from fgsv.methods.sampling import check_count, check_shapley, equal_shares
from fgsv.types import Floats
from fgsv.valuation import Estimate

N_REPLICATES = 32


@dataclass(frozen=True)
class Permutation:
    """Average what each player adds to those before it in a random permutation (Castro et al. 2009).

        SV(i) = E_pi[ U(those before i, and i) - U(those before i) ]

    A permutation takes n - 1 evaluations besides the ends; rounds are whole permutations. Unbiased; the values
    sum to U(N) - U(0); the permutations are independent, so standard errors are known from the second one on. Where a
    player adds most if it comes first, as in concave games, few permutations put it there, and intervals of single
    players are too narrow until there are hundreds; those of groups hardly are.
    """

    round_size: int = 200
    """Approximate evaluations per round; at least one permutation, and no more than the budget has room for."""

    name: ClassVar[str] = "permutation"

    def __post_init__(self) -> None:
        check_count("round_size", self.round_size)

    def per_round(self, n_players: int) -> int:
        """Return the number of permutations in a round."""
        return max(1, self.round_size // max(1, n_players - 1))

    def for_task(self, task: Task) -> Permutation:
        """Return the method with smaller rounds, if the budget has no room for one but for some permutations."""
        steps = max(1, task.n_players - 1)
        room = self.per_round(task.n_players) if task.budget is None else (task.budget - 2) // steps
        return replace(self, round_size=room * steps) if 0 < room < self.per_round(task.n_players) else self

    def least(self, task: Task) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return 2 + self.per_round(task.n_players) * (task.n_players - 1)

    def start(self, problem: Problem) -> PermutationEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return PermutationEstimator(self, problem)


class PermutationEstimator:
    """Sums of marginal contributions, dealt into replicates permutation by permutation."""

    needs = 0

    def __init__(self, method: Permutation, problem: Problem) -> None:
        self._problem = problem
        self._per_round = method.per_round(problem.n_players)
        self._sums = np.zeros((N_REPLICATES, *equal_shares(problem).shape))
        self._counts = np.zeros(N_REPLICATES)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw permutations; the coalitions are their first 1, 2, ..., n - 1 players."""
        n = self._problem.n_players
        if n == 1:
            return None
        order = rng.permuted(np.broadcast_to(np.arange(n), (self._per_round, n)), axis=1)
        position = np.argsort(order, axis=1)
        masks = position[:, None, :] < np.arange(1, n)[:, None]
        return Draws(Coalitions.from_masks(masks.reshape(-1, n)), order)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add each player's marginal contribution."""
        order = draws.plan
        n_orders, n = order.shape
        empty, full = (np.broadcast_to(end, (n_orders, 1, len(end))) for end in self._problem.ends)
        along = np.concatenate([empty, values.reshape(n_orders, n - 1, -1), full], axis=1)
        contributions = np.empty((n_orders, n, along.shape[2]))
        np.put_along_axis(contributions, order[:, :, None], np.diff(along, axis=1), axis=1)
        replicates = (int(self._counts.sum()) + np.arange(n_orders)) % N_REPLICATES
        np.add.at(self._sums, replicates, contributions)
        np.add.at(self._counts, replicates, 1)

    def estimate(self) -> Estimate:
        """Return the means over all permutations, with the replicates' deviations from them."""
        n_orders = self._counts.sum()
        n_replicates = int(np.count_nonzero(self._counts))
        if n_orders == 0:
            return Estimate(equal_shares(self._problem), efficient=True)
        values = self._sums.sum(axis=0) / n_orders
        if n_replicates < 2:
            return Estimate(values, efficient=True)
        deviations = self._sums[:n_replicates] - self._counts[:n_replicates, None, None] * values
        deviations *= np.sqrt(n_replicates / (n_replicates - 1)) / n_orders
        return Estimate(values, deviations.astype(np.float32), degrees_of_freedom=n_replicates - 1, efficient=True)
