"""The default method: every evaluation serves every player, so every group of every partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from fgsv.coalitions import Coalitions, draw_blocks
from fgsv.estimators.method import Draws, Problem
from fgsv.estimators.sizes import SizeStatistics
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, SizeWeights
from fgsv.valuation import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_REPLICATES = 32
PILOT = 128
GROWTH = 2.0
"""An epoch ends when the draws of the run have grown by this factor."""
FRESHNESS = 1.5
"""How much more a draw of an epoch counts than one of the epoch before, whose allocation was worse."""
EXPLORE = 0.1
"""The part of the draws whose sizes do not depend on what was seen."""
DENSE_PLAYERS = 4096
ROUND_ENTRIES = 2**28


@dataclass(frozen=True)
class Covariance:
    """Estimate every player's value from the covariance of membership and utility (DESIGN, equation 1)."""

    round_size: int | None = None
    """Evaluations per round; by default a sixteenth of the draws so far, at least 32."""

    name: ClassVar[str] = "covariance"

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations that the first estimate takes, the two ends included."""
        return 2 if n_players == 1 else 2 + (self.round_size or N_REPLICATES)

    def start(self, problem: Problem) -> CovarianceEstimator:
        """Return an estimator with nothing evaluated but the ends."""
        return CovarianceEstimator(problem, self.round_size)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is fixed for one epoch before its first draw."""

    allocation: Floats
    """(n - 1,): the probability q(s) of each size; zero where the size is enumerated."""
    intercept: Floats
    """(n - 1, q): h(s), subtracted from the utilities of size s; its expectation is added back exactly."""
    known: Floats
    """(n, q): what needs no sampling in this epoch."""


class CovarianceEstimator:
    """Epochs of growing length; in each a fixed allocation of sizes and a fixed control variate.

    Both are chosen from what came before the epoch, so that given the past every draw is unbiased; so is their
    average, whose weights are fixed beforehand too. One accumulator holds the weighted sum of all draws.
    """

    def __init__(self, problem: Problem, round_size: int | None) -> None:
        n, q = problem.n_players, problem.ends.shape[1]
        self._n = n
        self._ends = problem.ends
        self._round_size = round_size
        self._efficient = problem.semivalue == SHAPLEY
        self._weights = SizeWeights.of(problem.semivalue, n)
        self._sizes = np.arange(1, n)
        self._cost = np.ones(n - 1) if problem.cost is None else np.asarray(problem.cost(self._sizes), float)
        self._constant = self._weights.full * problem.ends[1] - self._weights.empty * problem.ends[0]
        self._seen = SizeStatistics(n, q)
        self._n_draws = 0
        self._epoch_end = PILOT
        self._freshness = 1.0
        self._mass = 0.0
        self._totals = np.zeros((n, q))
        self._replicates = np.zeros((N_REPLICATES, n, q), dtype=np.float32)
        self._replicate_mass = np.zeros(N_REPLICATES)
        self._n_permutations = 0
        self._plan = self._first_plan()

    def _first_plan(self) -> _Plan:
        q = self._ends.shape[1]
        return _Plan(self._allocate(np.ones((self._n - 1, 1))), np.zeros((self._n - 1, q)), np.zeros((self._n, q)))

    def _allocate(self, spread: Floats) -> Floats:
        """Return q(s) proportional to gain(s) r(s) sqrt(s (n - s)) / sqrt(cost), part of it without r.

        Several outputs count equally, each in units of its own error.
        """
        s, n = self._sizes, self._n
        base = self._weights.gain * np.sqrt(s * (n - s)) / np.sqrt(self._cost)
        best = base[:, None] * spread
        best = np.sqrt(((best / best.sum(axis=0)) ** 2).mean(axis=1))
        return EXPLORE * base / base.sum() + (1 - EXPLORE) * best / best.sum()

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round: sizes systematically from the epoch's allocation, subsets in balanced blocks."""
        if self._n == 1:
            return None
        if self._n_draws >= self._epoch_end:
            self._next_epoch()
        count = self._round_size or _round_size(self._n_draws, self._n)
        quantiles = (np.arange(count) + rng.random()) / count
        cumulative = np.cumsum(self._plan.allocation)
        sizes = 1 + np.searchsorted(cumulative / cumulative[-1], quantiles, side="right")
        coalitions, permutation = draw_blocks(self._n, np.minimum(sizes, self._n - 1), rng)
        replicate = (self._n_permutations + permutation) % N_REPLICATES
        self._n_permutations += int(permutation[-1]) + 1
        return Draws(coalitions, replicate)

    def _next_epoch(self) -> None:
        self._epoch_end = int(self._epoch_end * GROWTH)
        self._freshness *= FRESHNESS
        intercept, spread = self._seen.fit()
        q = self._ends.shape[1]
        known = np.broadcast_to(self._weights.drift @ intercept, (self._n, q))
        self._plan = _Plan(self._allocate(spread), intercept, known)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add the weighted residuals of a round to the accumulators."""
        plan, sizes = self._plan, draws.coalitions.sizes
        self._seen.add(sizes, values)
        residuals = values - plan.intercept[sizes - 1]
        weights = self._freshness / plan.allocation[sizes - 1]
        shifts = weights * (self._weights.drift - self._weights.gain * self._sizes / self._n)[sizes - 1]
        gains = weights * self._weights.gain[sizes - 1]
        parts = sums_by_part(
            draws.coalitions, gains[:, None] * residuals, shifts[:, None] * residuals, draws.plan, N_REPLICATES
        )
        for replicate, part in enumerate(parts):
            self._replicates[replicate] += part
            self._totals += part
        count = len(sizes)
        self._totals += self._freshness * count * plan.known
        self._mass += self._freshness * count
        self._replicate_mass += self._freshness * np.bincount(draws.plan, minlength=N_REPLICATES)
        self._n_draws += count

    def estimate(self) -> Estimate:
        """Return the player values and the deviations of the replicates."""
        mass = max(self._mass, 1.0)
        values = self._constant + self._totals / mass
        shares = self._replicate_mass / mass
        deviations = self._replicates - (shares[:, None, None] * (values - self._constant) * mass)
        deviations *= np.sqrt(N_REPLICATES / (N_REPLICATES - 1)) / mass
        return Estimate(
            values,
            deviations.astype(np.float32),
            degrees_of_freedom=N_REPLICATES - 1,
            efficient=self._efficient,
        )


def _round_size(n_draws: int, n_players: int) -> int:
    most = max(1, ROUND_ENTRIES // (n_players * N_REPLICATES))
    return N_REPLICATES * min(most, max(1, min(n_draws // (16 * N_REPLICATES), 256)))


def sums_by_part(coalitions: Coalitions, gains: Floats, shifts: Floats, part: Ints, n_parts: int) -> Floats:
    """Return, for each part of the coalitions, the (n, q) sums over them of gains * 1{i in S} + shifts."""
    m, n, q = len(coalitions), coalitions.n_players, gains.shape[1]
    one_hot = csr_matrix((np.ones(m), part, np.arange(m + 1)), shape=(m, n_parts)).T
    members = csr_matrix((np.ones(len(coalitions.listed)), coalitions.listed, coalitions.starts), shape=(m, n))
    inverted = coalitions.inverted[:, None]
    listed = np.where(inverted, -gains, gains)
    sums = np.empty((n_parts, n, q))
    sums[:] = (one_hot @ (shifts + np.where(inverted, gains, 0.0)))[:, None, :]
    if n <= DENSE_PLAYERS:
        masks = members.toarray()
        for output in range(q):
            sums[:, :, output] += (one_hot.multiply(listed[:, output])).tocsr() @ masks
    else:
        for number in range(n_parts):
            rows = np.flatnonzero(part == number)
            sums[number] += members[rows].T @ listed[rows]
    return sums
