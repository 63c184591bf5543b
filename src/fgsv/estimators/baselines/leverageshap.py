"""Baseline: LeverageSHAP, the regression of KernelSHAP with sizes drawn by leverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.baselines.least_squares import Regression
from fgsv.estimators.baselines.sampling import (
    check_round_size,
    check_shapley,
    draw_paired,
    kernel_weights,
    rows_per_round,
)
from fgsv.estimators.method import Draws, Problem
from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation import Estimate


@dataclass(frozen=True)
class LeverageSHAP:
    """Solve the regression of KernelSHAP from coalitions drawn by leverage score (Musco and Witter 2025).

    Every size is equally likely, as the leverage scores of the regression imply, and each coalition is drawn
    together with its complement. A draw counts 1/(s (n - s)), the ratio of the regression's weights to
    those of the draws. (The paper prints sqrt(s (n - s)), which does not converge to the Shapley value.) The
    values sum to U(N) - U(0); biased as KernelSHAP is.
    """

    round_size: int = 200
    """Evaluations per round."""

    name: ClassVar[str] = "leverageshap"

    def __post_init__(self) -> None:
        check_round_size(self.round_size)

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return 2 if n_players == 1 else 2 + rows_per_round(self.round_size, paired=True)

    def start(self, problem: Problem) -> LeverageSHAPEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return LeverageSHAPEstimator(self, problem)


class LeverageSHAPEstimator:
    """The weighted normal equations of the draws so far."""

    def __init__(self, method: LeverageSHAP, problem: Problem) -> None:
        self._n, self._round_size = problem.n_players, method.round_size
        self._weights = kernel_weights(problem.n_players)
        self._regression = Regression(problem)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw coalitions of uniform size and their complements."""
        if self._n == 1:
            return None
        masks = draw_paired(np.ones(self._n - 1), self._round_size, True, rng)
        return Draws(Coalitions.from_masks(masks), masks)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the normal equations."""
        self._regression.add(draws.plan, values, self._weights[draws.plan.sum(axis=1) - 1])

    def estimate(self) -> Estimate:
        """Return the solution of the regression so far."""
        return self._regression.estimate()
