"""Baseline: One-for-All, means with and without each player, size by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.baselines.sampling import (
    check_round_size,
    check_shapley,
    draw_masks,
    draw_sizes,
    equal_shares,
    kernel_weights,
)
from fgsv.estimators.baselines.strata import Strata, check_unseen
from fgsv.estimators.method import Draws, Problem
from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation import Estimate


@dataclass(frozen=True)
class OneForAll:
    """Compare, at each size, coalitions with a player and those without (Li and Yu 2024).

        SV(i) = [U(N) - U(0)]/n + (1/n) sum_{s=1}^{n-1} ( E[U(S) | i in S] - E[U(S) | i not in S] ),   |S| = s

    Sizes 1 and n - 1 are enumerated, 2n evaluations; then sizes 2..n-2 are drawn with probability proportional
    to 1/sqrt(s (n - s)). The sum runs over the enumerated sizes too: the printed estimator leaves out
    [U({i}) - U(N without i)]/n, and does not converge. A size counts for a player once there are draws with it
    and draws without it. Memory grows with n^2. Bias: only through sizes not seen yet.
    """

    round_size: int = 200
    """Evaluations per round, after the first."""

    unseen: Literal["skip", "zero"] = "skip"
    """A mean without any draw is left out with its partner, or is zero, as in the printed formula."""

    name: ClassVar[str] = "one_for_all"

    def __post_init__(self) -> None:
        check_round_size(self.round_size)
        check_unseen(self.unseen)

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations of the first round, sizes 0, 1, n - 1 and n."""
        return {1: 2, 2: 4}.get(n_players, 2 + 2 * n_players)

    def start(self, problem: Problem) -> OneForAllEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return OneForAllEstimator(self, problem)


class OneForAllEstimator:
    """The mean utility at each size of the coalitions with, and of those without, each player."""

    def __init__(self, method: OneForAll, problem: Problem) -> None:
        n, q = problem.n_players, problem.ends.shape[1]
        self._problem = problem
        self._skip = method.unseen == "skip"
        self._round_size = method.round_size
        self._weights = np.sqrt(kernel_weights(n))
        self._weights[:1] = self._weights[-1:] = 0.0  # enumerated
        self._enumerated = False
        self._inside, self._outside = Strata(n, q), Strata(n, q)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return sizes 1 and n - 1 whole, then random coalitions of the sizes between them."""
        n = self._problem.n_players
        if n == 1 or (self._enumerated and n <= 3):
            return None
        if not self._enumerated:
            return Draws(Coalitions.concatenate([Coalitions.of_size(n, size) for size in sorted({1, n - 1})]))
        sizes = draw_sizes(self._weights, self._round_size, rng)
        return Draws(Coalitions.from_masks(draw_masks(n, sizes, rng)))

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the means."""
        self._enumerated = True
        masks = draws.coalitions.masks()
        gains = values - self._problem.ends[0]
        self._inside.add(masks, gains)
        # the coalitions without i of size s are stored under n - s, the number of players they leave out
        self._outside.add(~masks, gains)

    def estimate(self) -> Estimate:
        """Return equal shares plus the mean differences."""
        inside, outside = self._inside, self._outside
        both = (inside.counts > 0) & (outside.counts[::-1] > 0)
        differences = inside.means - outside.means[::-1]
        if self._skip:
            differences[~both] = 0.0
        return Estimate(equal_shares(self._problem) + differences.sum(axis=0) / self._problem.n_players)
