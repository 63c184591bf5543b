"""Baseline: complementary contributions, stratified by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.baselines.sampling import check_round_size, check_shapley, draw_masks, equal_shares
from fgsv.estimators.baselines.strata import Strata, check_unseen
from fgsv.estimators.method import Draws, Problem
from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation import Estimate


@dataclass(frozen=True)
class Complementary:
    """Average the differences in worth between coalitions and their complements (Zhang et al. 2023).

        SV(i) = (1/n) sum_{s=1}^{n} E[ U(S) - U(N without S) ],   S uniform of size s with i in it

    A draw is a coalition of uniform size 1..n-1 and its complement: two evaluations, used for every player, at
    size s for the members and n - s for the others. Size n is known from the ends and is never drawn. A player's
    sizes s and n - s count once both have been seen: their means are large, of opposite sign, and one without
    the other is useless. Memory grows with n^2. Bias: only through sizes not seen yet.
    """

    round_size: int = 200
    """Evaluations per round."""

    unseen: Literal["skip", "zero"] = "skip"
    """A mean without any draw is left out with its partner, or is zero, as in the printed formula."""

    name: ClassVar[str] = "complementary"

    def __post_init__(self) -> None:
        check_round_size(self.round_size)
        check_unseen(self.unseen)

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return 2 if n_players == 1 else 2 + 2 * max(1, self.round_size // 2)

    def start(self, problem: Problem) -> ComplementaryEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return ComplementaryEstimator(self, problem)


class ComplementaryEstimator:
    """The mean complementary contribution of each player at each size."""

    def __init__(self, method: Complementary, problem: Problem) -> None:
        self._problem = problem
        self._skip = method.unseen == "skip"
        self._n_pairs = max(1, method.round_size // 2)
        self._strata = Strata(problem.n_players, problem.ends.shape[1])

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw coalitions, then their complements."""
        n = self._problem.n_players
        if n == 1:
            return None
        masks = draw_masks(n, rng.integers(1, n, size=self._n_pairs), rng)
        return Draws(Coalitions.from_masks(np.concatenate([masks, ~masks])), masks)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add each pair to its members' means, and with the other sign to the others'."""
        masks = draws.plan
        contributions = values[: len(masks)] - values[len(masks) :]
        self._strata.add(masks, contributions)
        self._strata.add(~masks, -contributions)

    def estimate(self) -> Estimate:
        """Return the mean over the sizes."""
        means, seen = self._strata.means, self._strata.counts > 0
        if self._skip:
            means[~(seen & seen[::-1])] = 0.0
        return Estimate(equal_shares(self._problem) + means.sum(axis=0) / self._problem.n_players)
