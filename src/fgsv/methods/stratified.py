"""Baselines that average by size of coalition: complementary contributions and One-for-All."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods import sampling
from fgsv.methods.method import Draws, Problem, Task
from fgsv.types import Floats, Masks
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
        sampling.check_count("round_size", self.round_size)
        check_unseen(self.unseen)

    def least(self, task: Task) -> int:
        """Return the evaluations of the first round, including the two ends."""
        return 2 if task.n_players == 1 else 2 + 2 * max(1, self.round_size // 2)

    def start(self, problem: Problem) -> ComplementaryEstimator:
        """Return an estimator that knows only the ends."""
        sampling.check_shapley(problem, self.name)
        return ComplementaryEstimator(self, problem)


class ComplementaryEstimator:
    """The mean complementary contribution of each player at each size."""

    needs = 0

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
        masks = sampling.draw_masks(n, rng.integers(1, n, size=self._n_pairs), rng)
        return Draws(Coalitions.from_masks(np.concatenate([masks, ~masks])), masks)

    def update(self, draws: Draws, values: Floats) -> None:
        """Add each pair to its members' means, and with the other sign to the others'."""
        masks = draws.plan
        contributions = values[: len(masks)] - values[len(masks) :]
        self._strata.add(masks, contributions)
        self._strata.add(~masks, -contributions)

    def estimate(self) -> Estimate:
        """Return the mean over the sizes."""
        means = self._strata.means
        seen = self._strata.counts > 0
        if self._skip:
            means[~(seen & seen[::-1])] = 0.0
        return Estimate(sampling.equal_shares(self._problem) + means.sum(axis=0) / self._problem.n_players)


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
        sampling.check_count("round_size", self.round_size)
        check_unseen(self.unseen)

    def least(self, task: Task) -> int:
        """Return the evaluations of the first round, sizes 0, 1, n - 1 and n."""
        return {1: 2, 2: 4}.get(task.n_players, 2 + 2 * task.n_players)

    def start(self, problem: Problem) -> OneForAllEstimator:
        """Return an estimator that knows only the ends."""
        sampling.check_shapley(problem, self.name)
        return OneForAllEstimator(self, problem)


class OneForAllEstimator:
    """The mean utility at each size of the coalitions with, and of those without, each player."""

    needs = 0

    def __init__(self, method: OneForAll, problem: Problem) -> None:
        n = problem.n_players
        q = problem.ends.shape[1]
        self._problem = problem
        self._skip = method.unseen == "skip"
        self._round_size = method.round_size
        self._weights = np.sqrt(sampling.kernel_weights(n))
        self._weights[:1] = self._weights[-1:] = 0.0  # enumerated
        self._enumerated = False
        self._inside = Strata(n, q)
        self._outside = Strata(n, q)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return sizes 1 and n - 1 whole, then random coalitions of the sizes between them."""
        n = self._problem.n_players
        if n == 1 or (self._enumerated and n <= 3):
            return None
        if not self._enumerated:
            self._enumerated = True
            return Draws(Coalitions.concatenate([Coalitions.of_size(n, size) for size in sorted({1, n - 1})]))
        sizes = sampling.draw_sizes(self._weights, self._round_size, rng)
        return Draws(Coalitions.from_masks(sampling.draw_masks(n, sizes, rng)))

    def update(self, draws: Draws, values: Floats) -> None:
        """Add a round to the means."""
        masks = draws.coalitions.masks()
        gains = values - self._problem.ends[0]
        self._inside.add(masks, gains)
        # the coalitions without i of size s are stored under n - s, the number of players they leave out
        self._outside.add(~masks, gains)

    def estimate(self) -> Estimate:
        """Return equal shares plus the mean differences."""
        inside = self._inside
        outside = self._outside
        both = (inside.counts > 0) & (outside.counts[::-1] > 0)
        differences = inside.means - outside.means[::-1]
        if self._skip:
            differences[~both] = 0.0
        return Estimate(sampling.equal_shares(self._problem) + differences.sum(axis=0) / self._problem.n_players)


class Strata:
    """For each size s = 1..n-1 and player i, the mean of what was added for coalitions of size s with i in them.

    Memory grows with n^2: these baselines keep a mean for each pair of player and size.
    """

    def __init__(self, n_players: int, n_outputs: int) -> None:
        self.counts = np.zeros((n_players - 1, n_players))
        self._sums = np.zeros((n_players - 1, n_players, n_outputs))

    def add(self, masks: Masks, values: Floats) -> None:
        """Take in (m, n) coalitions and their (m, q) values."""
        sizes = masks.sum(axis=1)
        order = np.argsort(sizes, kind="stable")
        rows, first = np.unique(sizes[order] - 1, return_index=True)
        members = masks[order].astype(float)
        self.counts[rows] += np.add.reduceat(members, first)
        for output, column in enumerate(values[order].T):
            self._sums[rows, :, output] += np.add.reduceat(members * column[:, None], first)

    @property
    def means(self) -> Floats:
        """(n - 1, n, q); zero where nothing was added."""
        return self._sums / np.maximum(self.counts, 1)[:, :, None]


def check_unseen(unseen: str) -> None:
    """Raise an error for an unknown rule for unseen means."""
    if unseen not in ("skip", "zero"):
        raise ValueError(f"unseen must be 'skip' or 'zero', got {unseen!r}")
