"""The paper's Algorithm 1: one group at a time, by finite differences."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log
from typing import ClassVar, NamedTuple

import numpy as np

from fgsv.checks import as_number, positive_number, whole_number
from fgsv.coalitions import Coalitions, log_choose
from fgsv.methods.method import Draws, Problem, Task
from fgsv.methods.sampling import check_count, check_shapley
from fgsv.partition import Partition
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate


@dataclass(frozen=True)
class FiniteDifference:
    """Algorithm 1 of the paper: T(s) by its definition below the threshold, by paired differences above it.

        FGSV(S0) = (s0/n) [U(N) - U(0)] + sum_s T(s)                                        (Lemma 1)
        T(s) = E[ n/(n-s) (s1/s - s0/n) mu(s1) ],            s <  threshold                 (its definition)
        T(s) ~ n/(n-1) a (1-a) [mu(s1* + 1) - mu(s1*)],      s >= threshold, a = s0/n       (Theorem 2)

    with s1 ~ Hypergeometric(n, s0, s), mu(s1) the mean of U over sets of size s with s1 members in S0, and
    s1* = floor(a s). A *pass* takes one sample of each mu, and one pair of each difference, for every group;
    passes go on until the budget is used up, or m1 and m2 of them are done. Both sets of a pair have s
    members: the printed algorithm gives them s + 1, which at s = n - 1 do not exist.

    The approximation is biased unless threshold >= n; the standard errors reflect only the sampling. Evaluations
    for one group are of no use to another, and there are no player values.
    """

    threshold: int = 10
    m1: int | None = None
    """Samples of each mu below the threshold."""
    m2: int | None = None
    """Pairs for each size from the threshold on."""
    round_size: int = 200
    """Approximate evaluations per round."""

    name: ClassVar[str] = "finite_difference"

    def __post_init__(self) -> None:
        for name in ("threshold", "m1", "m2", "round_size"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    def least(self, task: Task) -> int:
        """Return the evaluations of m1 and m2 samples for all groups (of one pass, if they are not given)."""
        samples = [_samples(task.n_players, len(members), self.threshold) for members in _groups(task.partition)]
        n_single = sum(int((~sample.paired).sum()) for sample in samples)
        n_pairs = sum(int(sample.paired.sum()) for sample in samples)
        return 2 + (self.m1 or 1) * n_single + 2 * (self.m2 or 1) * n_pairs

    def start(self, problem: Problem) -> FiniteDifferenceEstimator:
        """Return an estimator that knows only the ends."""
        check_shapley(problem, self.name)
        return FiniteDifferenceEstimator(self, problem)


def _groups(partition: Partition) -> list[Ints]:
    if not partition.is_disjoint:
        raise ValueError("method 'finite_difference' needs disjoint groups, but some players are co-owned")
    return [partition.members(group) for group in range(partition.n_groups)]


class _Samples(NamedTuple):
    """One pass for one group: a set, or a pair of sets, in each row."""

    size: Ints
    overlap: Ints
    """Members in S0; in a pair, of the lower set."""
    coefficient: Floats
    """Factor of the sample's utility, or of the pair's difference."""
    paired: Masks


def _samples(n: int, s0: int, threshold: int) -> _Samples:
    sizes, overlaps, coefficients = [], [], []
    n_single = 0
    if 0 < s0 < n:
        for s in range(1, min(threshold, n)):
            s1 = np.arange(max(0, s + s0 - n), min(s, s0) + 1)
            sizes.append(np.full(len(s1), s))
            overlaps.append(s1)
            probability = np.exp(log_choose(s0, s1) + log_choose(n - s0, s - s1) - log_choose(n, s))
            coefficients.append(probability * n / (n - s) * (s1 / s - s0 / n))
            n_single += len(s1)
        large = np.arange(threshold, n)
        sizes.append(large)
        overlaps.append(large * s0 // n)
        coefficients.append(np.full(len(large), s0 * (n - s0) / (n * (n - 1))))
    size = np.concatenate([*sizes, np.empty(0)]).astype(np.int64)
    return _Samples(
        size,
        np.concatenate([*overlaps, np.empty(0)]).astype(np.int64),
        np.concatenate([*coefficients, np.empty(0)]),
        np.arange(len(size)) >= n_single,
    )


class FiniteDifferenceEstimator:
    """Running means of every sample of every group; a round takes the next samples of the pass."""

    needs = 0

    def __init__(self, method: FiniteDifference, problem: Problem) -> None:
        n = problem.n_players
        q = problem.ends.shape[1]
        self._n = n
        self._ends = problem.ends
        self._round_size = method.round_size
        self._members = _groups(problem.task.partition)
        samples = [_samples(n, len(members), method.threshold) for members in self._members]
        self._group = np.repeat(np.arange(len(samples)), [len(sample.size) for sample in samples])
        self._size, self._overlap, self._coefficient, self._paired = map(np.concatenate, zip(*samples, strict=True))
        self._wanted = np.where(self._paired, method.m2 or inf, method.m1 or inf)
        self._drawn = np.zeros(len(self._group))
        self._count = np.zeros(len(self._group))
        self._mean = np.zeros((len(self._group), q))
        self._squares = np.zeros((len(self._group), q))
        self._next = 0

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw the next samples of the pass, about `round_size` evaluations."""
        if len(self._group) == 0:
            return None
        pending = np.flatnonzero(self._drawn < self._wanted)
        ahead = pending[pending >= self._next]
        if len(ahead) == 0:
            ahead = pending
        if len(ahead) == 0:
            return None
        cost = np.cumsum(1 + self._paired[ahead])
        rows = ahead[: max(1, int(np.searchsorted(cost, self._round_size, side="right")))]
        self._next = int(rows[-1]) + 1
        self._drawn[rows] += 1
        masks = [
            self._masks(self._members[group], rows[self._group[rows] == group], rng)
            for group in np.unique(self._group[rows])
        ]
        return Draws(Coalitions.from_masks(np.concatenate(masks)), rows)

    def _masks(self, members: Ints, rows: Ints, rng: np.random.Generator) -> Masks:
        """Return one uniform set for each row, or a pair that differs in one swap if the row is paired."""
        others = np.setdiff1d(np.arange(self._n), members)
        inside = _ranks(len(rows), len(members), rng)
        outside = _ranks(len(rows), len(others), rng)
        both = np.repeat(np.arange(len(rows)), 1 + self._paired[rows])
        upper = np.append(both[1:] == both[:-1], False)  # the first of a pair has one more member of S0
        overlap = self._overlap[rows][both] + upper
        masks = np.empty((len(both), self._n), dtype=bool)
        masks[:, members] = inside[both] < overlap[:, None]
        masks[:, others] = outside[both] < (self._size[rows][both] - overlap)[:, None]
        return masks

    def update(self, draws: Draws, values: Floats) -> None:
        """Fold a round into the running means and squares."""
        rows = draws.plan
        first = np.cumsum(1 + self._paired[rows]) - 1 - self._paired[rows]
        taken = values[first]
        paired = self._paired[rows]
        taken[paired] -= values[first[paired] + 1]
        self._count[rows] += 1
        step = taken - self._mean[rows]
        self._mean[rows] += step / self._count[rows, None]
        self._squares[rows] += step * (taken - self._mean[rows])

    def estimate(self) -> Estimate:
        """Return group values: (s0/n) [U(N) - U(0)] until a group has every sample, then Lemma 1."""
        sizes = np.array([len(members) for members in self._members])
        n_groups = len(sizes)
        q = self._ends.shape[1]
        values = sizes[:, None] / self._n * (self._ends[1] - self._ends[0])
        variance = np.zeros((n_groups, q))
        terms = self._coefficient[:, None] * self._mean
        with np.errstate(divide="ignore", invalid="ignore"):
            of_mean = self._squares / (self._count * (self._count - 1))[:, None]
        spread = self._coefficient[:, None] ** 2 * of_mean
        first = np.searchsorted(self._group, np.arange(n_groups + 1))  # a group's samples are contiguous
        for group in range(n_groups):
            mine = slice(first[group], first[group + 1])
            if self._count[mine].all():
                values[group] += terms[mine].sum(axis=0)
            variance[group] = spread[mine].sum(axis=0) if (self._count[mine] > 1).all() else np.nan
        return Estimate(values, stderr=np.sqrt(variance), of_groups=True)


def _ranks(m: int, k: int, rng: np.random.Generator) -> Ints:
    """Return m independent random permutations of 0..k-1: a set of size j is where the ranks are below j."""
    return rng.permuted(np.broadcast_to(np.arange(k), (m, k)), axis=1)


@dataclass(frozen=True)
class Theorem3:
    """Settings of Algorithm 1 by the paper's Theorem 3, and their cost."""

    threshold: int
    m1: int
    m2: int
    evaluations: int


def theorem3(
    epsilon: float,
    delta: float,
    upsilon: float,
    n: int,
    s0: int,
    *,
    threshold_constant: float = 1.0,
    m1_constant: float = 1.0,
    m2_constant: float = 1.0,
) -> Theorem3:
    """Return the settings for an (epsilon, delta)-approximation of one group of s0 among n players (Theorem 3).

        threshold = c0 eps^(-1/v),   m1 = c1 eps^(-(2 + 2v)/v) log(n/delta),
        m2 = c2 max{1, eps^-2 (a (1-a))^2 log(n/delta)^3},   a = s0/n

    The theorem gives its constants only up to factors; they are arguments here, one by default. The exponent of m1 is
    the appendix's: the one in the theorem's statement is that of the whole cost below the threshold.

    Args:
        epsilon: The error that is allowed.
        delta: The probability of a larger one, between 0 and 1.
        upsilon: The exponent of second-order stability.
        n: Players.
        s0: Players in the group.
        threshold_constant: c0.
        m1_constant: c1.
        m2_constant: c2.

    Returns:
        The settings of Algorithm 1, and the evaluations that they take.

    Raises:
        ValueError: A number is out of its range, or the evaluations are more than a number can count.

    Examples:
        >>> theorem3(0.1, 0.05, 1.0, n=1000, s0=250)
        Theorem3(threshold=10, m1=99035, m2=3415, evaluations=12109592)

    """
    epsilon = positive_number("epsilon", epsilon)
    upsilon = positive_number("upsilon", upsilon)
    c0 = positive_number("threshold_constant", threshold_constant)
    c1 = positive_number("m1_constant", m1_constant)
    c2 = positive_number("m2_constant", m2_constant)
    n = whole_number("n", n, least=1)
    s0 = whole_number("s0", s0, least=1)
    if not 0 < as_number(delta) < 1 or s0 > n:
        raise ValueError(f"theorem3 needs 0 < delta < 1 and s0 <= n, got delta={delta!r:.200}, s0={s0} and n={n}")
    a = s0 / n
    logarithm = log(n / delta)
    try:
        threshold = min(n, max(1, ceil(c0 * epsilon ** (-1 / upsilon))))
        m1 = ceil(c1 * epsilon ** (-(2 + 2 * upsilon) / upsilon) * logarithm)
        m2 = ceil(c2 * max(1.0, (a * (1 - a) / epsilon) ** 2 * logarithm**3))
    except OverflowError:
        raise ValueError(f"epsilon={epsilon:g} would take more evaluations than a number can count") from None
    samples = _samples(n, s0, threshold)
    n_pairs = int(samples.paired.sum())
    return Theorem3(threshold, m1, m2, 2 + m1 * (len(samples.size) - n_pairs) + 2 * m2 * n_pairs)
