"""Baseline: KernelSHAP, a weighted regression on membership."""

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
class KernelSHAP:
    """Fit an additive game to random coalitions by least squares (Lundberg and Lee 2017).

        SV = argmin sum_S w(S) ( U(S) - U(0) - sum_{i in S} phi_i )^2   with   sum_i phi_i = U(N) - U(0)

    over all S but the ends, w(S) = 1 / C(n-2, |S|-1). Sizes are drawn with probability proportional to
    1/(s (n - s)), so that every draw counts the same. The values sum to U(N) - U(0); they are biased, by a part
    that falls faster than the error. With fewer than about n draws the fit is not unique: the solution nearest
    to equal shares is taken.
    """

    paired: bool = False
    """Whether each coalition is drawn together with its complement (Covert and Lee 2021)."""
    round_size: int = 200
    """Evaluations per round."""

    name: ClassVar[str] = "kernelshap"

    def __post_init__(self) -> None:
        check_round_size(self.round_size)

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return 2 if n_players == 1 else 2 + rows_per_round(self.round_size, self.paired)

    def start(self, problem: Problem) -> KernelSHAPEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return KernelSHAPEstimator(self, problem)


class KernelSHAPEstimator:
    """The normal equations of the draws so far."""

    def __init__(self, method: KernelSHAP, problem: Problem) -> None:
        self._method, self._n = method, problem.n_players
        self._regression = Regression(problem)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round of coalitions."""
        if self._n == 1:
            return None
        method = self._method
        masks = draw_paired(kernel_weights(self._n), method.round_size, method.paired, rng)
        return Draws(Coalitions.from_masks(masks), masks)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the normal equations."""
        self._regression.add(draws.plan, values, np.ones(len(values)))

    def estimate(self) -> Estimate:
        """Return the solution of the regression so far."""
        return self._regression.estimate()
