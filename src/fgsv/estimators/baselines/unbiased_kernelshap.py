"""Baseline: Unbiased KernelSHAP, the regression with its matrix known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.baselines.sampling import (
    check_round_size,
    check_shapley,
    draw_paired,
    equal_shares,
    kernel_weights,
    rows_per_round,
)
from fgsv.estimators.method import Draws, Problem
from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation import Estimate


@dataclass(frozen=True)
class UnbiasedKernelSHAP:
    """Solve the regression of KernelSHAP with its exact matrix (Covert and Lee 2021).

    Drawn as for KernelSHAP, A = E[1_S 1_S^T] is 1/2 on the diagonal and c = E[s (s - 1)] / (n (n - 1)) off it. For
    a matrix of this form the constrained solution is explicit:

        SV(i) = [U(N) - U(0)]/n + (b_i - mean of b) / (1/2 - c),   b = E[ (U(S) - U(0)) 1_S ]

    Only b is estimated, by its mean. Unbiased; the values sum to U(N) - U(0).
    """

    paired: bool = False
    """Whether each coalition is drawn together with its complement."""
    round_size: int = 200
    """Evaluations per round."""

    name: ClassVar[str] = "unbiased_kernelshap"

    def __post_init__(self) -> None:
        check_round_size(self.round_size)

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return 2 if n_players == 1 else 2 + rows_per_round(self.round_size, self.paired)

    def start(self, problem: Problem) -> UnbiasedKernelSHAPEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return UnbiasedKernelSHAPEstimator(self, problem)


class UnbiasedKernelSHAPEstimator:
    """The running sum of (U(S) - U(0)) 1_S."""

    def __init__(self, method: UnbiasedKernelSHAP, problem: Problem) -> None:
        self._method, self._problem = method, problem
        self._sums = np.zeros_like(equal_shares(problem))
        self._count = 0

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round of coalitions."""
        if self._problem.n_players == 1:
            return None
        method = self._method
        masks = draw_paired(kernel_weights(self._problem.n_players), method.round_size, method.paired, rng)
        return Draws(Coalitions.from_masks(masks), masks)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the sum."""
        self._sums += draws.plan.T @ (values - self._problem.ends[0])
        self._count += len(values)

    def estimate(self) -> Estimate:
        """Return the closed form, equal shares before the first draw."""
        values = equal_shares(self._problem)
        if self._count:
            mean = self._sums / self._count
            values += (mean - mean.mean(axis=0)) / _gap(self._problem.n_players)
        return Estimate(values, efficient=True)


def _gap(n: int) -> float:
    """Return 1/2 - c = E[ s (n - s) ] / (n (n - 1)) with sizes drawn by the kernel's weights."""
    return float(1 / (n * kernel_weights(n).sum()))
