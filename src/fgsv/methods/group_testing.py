"""Baseline: group testing against a dummy player."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.method import Draws, Problem, Task
from fgsv.methods.sampling import check_count, check_shapley, draw_masks, draw_sizes, equal_shares
from fgsv.types import Floats, Masks
from fgsv.valuation import Estimate


@dataclass(frozen=True)
class GroupTesting:
    """Compare each player with a dummy that adds nothing (Jia et al. 2019; Wang and Jia 2023).

        SV(i) = Z E[ U(S without the dummy) (1{i in S} - 1{dummy in S}) ],   Z = sum_s w(s),
        w(s) = 1/s + 1/(n + 1 - s)

    with S a uniform subset of size s of the n players and the dummy, s = 1..n with probability w(s)/Z. (The paper
    prints Z as the sum of the probabilities, which is one.) U counts from U(0): it changes no expectation, and
    the method needs it to be small. Unbiased; the values do not sum to U(N) - U(0). A draw takes one evaluation,
    or none if it is the empty or the full coalition.
    """

    round_size: int = 200
    """Draws per round; more where all of them are ends."""

    name: ClassVar[str] = "group_testing"

    def __post_init__(self) -> None:
        check_count("round_size", self.round_size)

    def least(self, task: Task) -> int:
        """Return the largest number of evaluations in the first round, including the two ends."""
        return 2 if task.n_players == 1 else 2 + self.round_size

    def start(self, problem: Problem) -> GroupTestingEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return GroupTestingEstimator(self, problem)


class GroupTestingEstimator:
    """A running sum of U (1{i in S} - 1{dummy in S})."""

    needs = 0

    def __init__(self, method: GroupTesting, problem: Problem) -> None:
        self._problem = problem
        self._round_size = method.round_size
        sizes = np.arange(1, problem.n_players + 1)
        self._weights = 1 / sizes + 1 / (problem.n_players + 1 - sizes)
        self._sums = np.zeros_like(equal_shares(problem))
        self._count = 0

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw subsets of the players and the dummy; the ends among them are not evaluated again."""
        n = self._problem.n_players
        if n == 1:
            return None
        masks: Masks = np.empty((0, n + 1), dtype=bool)
        inner: Masks = np.empty(0, dtype=bool)
        while not inner.any():  # a short round may draw ends alone
            drawn = draw_masks(n + 1, draw_sizes(self._weights, self._round_size, rng), rng)
            masks = np.concatenate([masks, drawn])
            inner = np.asarray(masks[:, :n].any(axis=1) & ~masks[:, :n].all(axis=1))
        return Draws(Coalitions.from_masks(masks[inner, :n]), masks)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the sums."""
        players = draws.plan[:, :-1]
        dummy = draws.plan[:, -1:]
        full = players.all(axis=1)
        gains = np.zeros((len(players), values.shape[1]))
        gains[full] = self._problem.ends[1] - self._problem.ends[0]
        gains[players.any(axis=1) & ~full] = values - self._problem.ends[0]
        self._sums += players.T @ gains - (dummy * gains).sum(axis=0)
        self._count += len(players)

    def estimate(self) -> Estimate:
        """Return Z times the mean, equal shares before the first draw."""
        if self._count == 0:
            return Estimate(equal_shares(self._problem))
        return Estimate(self._weights.sum() * self._sums / self._count)
