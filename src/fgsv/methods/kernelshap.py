"""Baselines that solve KernelSHAP's regression: KernelSHAP, Unbiased KernelSHAP and LeverageSHAP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fgsv.coalitions import Coalitions
from fgsv.methods import sampling
from fgsv.methods.method import Draws, Problem, Task
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
        sampling.check_count("round_size", self.round_size)

    def least(self, task: Task) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return _least(task.n_players, self.round_size, self.paired)

    def start(self, problem: Problem) -> RegressionEstimator:
        """Return an estimator that knows only the ends."""
        sampling.check_shapley(problem, self.name)
        kernel = sampling.kernel_weights(problem.n_players)
        return RegressionEstimator(problem, kernel, np.ones_like(kernel), self.round_size, self.paired)


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
        sampling.check_count("round_size", self.round_size)

    def least(self, task: Task) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return _least(task.n_players, self.round_size, paired=True)

    def start(self, problem: Problem) -> RegressionEstimator:
        """Return an estimator that knows only the ends."""
        sampling.check_shapley(problem, self.name)
        kernel = sampling.kernel_weights(problem.n_players)
        return RegressionEstimator(problem, np.ones_like(kernel), kernel, self.round_size, paired=True)


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
        sampling.check_count("round_size", self.round_size)

    def least(self, task: Task) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return _least(task.n_players, self.round_size, self.paired)

    def start(self, problem: Problem) -> UnbiasedKernelSHAPEstimator:
        """Return an estimator that knows only the ends."""
        sampling.check_shapley(problem, self.name)
        return UnbiasedKernelSHAPEstimator(self, problem)


class RegressionEstimator:
    """Fit U(S) - U(0) by the sum of the members' values, under the constraint that all values sum to U(N) - U(0).

    Sizes 1..n-1 are drawn by `drawn` and count as `counted`. Keeps A = sum of w 1_S 1_S^T and
    b = sum of w (U(S) - U(0)) 1_S over the draws: (n, n) and (n, q). A round costs m n^2 operations and an
    estimate n^3.
    """

    needs = 0

    def __init__(self, problem: Problem, drawn: Floats, counted: Floats, round_size: int, paired: bool) -> None:
        self._problem = problem
        self._drawn = drawn
        self._counted = counted
        self._round_size = round_size
        self._paired = paired
        self._gram = np.zeros((problem.n_players,) * 2)
        self._moments = np.zeros_like(sampling.equal_shares(problem))

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round of coalitions."""
        return _draw(self._drawn, self._round_size, self._paired, rng)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the normal equations."""
        members = draws.plan.astype(float)
        weighted = (members * self._counted[draws.plan.sum(axis=1) - 1][:, None]).T
        self._gram += weighted @ members
        self._moments += weighted @ (values - self._problem.ends[0])

    def estimate(self) -> Estimate:
        """Return the solution; if it is not unique, the one nearest to equal shares."""
        n = self._problem.n_players
        equal = sampling.equal_shares(self._problem)
        # With phi = equal + psi and 1^T psi = 0, psi minimises the same objective projected onto sums of zero.
        # The projected matrix is singular along 1 alone, where a multiple of 1 1^T fills it up.
        right = _centred(self._moments - self._gram @ equal)
        left = _centred(_centred(self._gram).T)
        scale = np.trace(left) / n
        if scale == 0:
            return Estimate(equal, efficient=True)
        return Estimate(equal + _centred(_solve(left / scale + 1 / n, right / scale)), efficient=True)


class UnbiasedKernelSHAPEstimator:
    """The running sum of (U(S) - U(0)) 1_S."""

    needs = 0

    def __init__(self, method: UnbiasedKernelSHAP, problem: Problem) -> None:
        self._method = method
        self._problem = problem
        self._weights = sampling.kernel_weights(problem.n_players)
        self._sums = np.zeros_like(sampling.equal_shares(problem))
        self._count = 0

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round of coalitions."""
        return _draw(self._weights, self._method.round_size, self._method.paired, rng)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the sum."""
        self._sums += draws.plan.T @ (values - self._problem.ends[0])
        self._count += len(values)

    def estimate(self) -> Estimate:
        """Return the closed form, equal shares before the first draw."""
        values = sampling.equal_shares(self._problem)
        if self._count:
            # 1/2 - c = E[ s (n - s) ] / (n (n - 1)) with sizes drawn by the kernel's weights
            gap = float(1 / (self._problem.n_players * self._weights.sum()))
            values += _centred(self._sums / self._count) / gap
        return Estimate(values, efficient=True)


def _least(n_players: int, round_size: int, paired: bool) -> int:
    """Return the two ends and what `_draw` returns."""
    if n_players == 1:
        return 2
    return 2 + (2 * max(1, round_size // 2) if paired else round_size)


def _draw(weights: Floats, round_size: int, paired: bool, rng: np.random.Generator) -> Draws | None:
    """Draw about `round_size` coalitions with weights for sizes 1..n-1; if paired, complements follow them."""
    if len(weights) == 0:  # a single player
        return None
    sizes = sampling.draw_sizes(weights, max(1, round_size // 2) if paired else round_size, rng)
    masks = sampling.draw_masks(len(weights) + 1, sizes, rng)
    if paired:
        masks = np.concatenate([masks, ~masks])
    return Draws(Coalitions.from_masks(masks), masks)


def _centred(columns: Floats) -> Floats:
    return columns - columns.mean(axis=0)


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Solve a symmetric positive semidefinite system, by the pseudo-inverse where it is singular."""
    try:
        factor = cho_factor(matrix, check_finite=False)
        pivots = np.diag(factor[0]) ** 2
        if pivots.min() > 1e-10 * pivots.max():
            return np.asarray(cho_solve(factor, right, check_finite=False))
    except LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-10)[0])
