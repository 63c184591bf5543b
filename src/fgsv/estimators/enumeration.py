"""Exact values by evaluating every coalition: at once, or after a sample that did not reach the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.covariance.design import counts
from fgsv.estimators.covariance.target import in_groups
from fgsv.estimators.method import Draws, Estimator, Method, Problem
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, Semivalue, SizeWeights
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate

_PER_ROUND = 2**11
"""Coalitions in a round: a run can stop between rounds."""


@dataclass(frozen=True)
class Enumeration:
    """Every coalition once: exact, 2^n evaluations."""

    name: ClassVar[str] = "exact"

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations needed for the estimate."""
        return int(2**n_players)

    def start(self, problem: Problem) -> Enumerator:
        """Return an estimator that draws every coalition once."""
        return Enumerator(problem)


@dataclass(eq=False)
class Enumerator:
    """Stores the values of all coalitions by their numbers, in which bit i stands for player i."""

    problem: Problem

    def __post_init__(self) -> None:
        n, ends = self.problem.n_players, self.problem.ends
        self._chunks = everything(n)
        self._values: Floats = np.empty((2**n, ends.shape[1]))
        self._known: Masks = np.zeros(2**n, dtype=bool)
        self._values[[0, -1]], self._known[[0, -1]] = ends, True
        self._taken: list[Ints] = []

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the next coalitions by number that are not known; None if there are none."""
        for coalitions in self._chunks:
            unknown = np.flatnonzero(~self._known[_numbers(coalitions)])
            if len(unknown):
                return Draws(coalitions.take(unknown))
        return None

    def update(self, draws: Draws, values: Floats) -> None:
        """Keep the values; of a coalition that was known before, the first one."""
        numbers = _numbers(draws.coalitions)
        first = np.zeros(len(numbers), dtype=bool)
        first[np.unique(numbers, return_index=True)[1]] = True
        new = first & ~self._known[numbers]
        self._values[numbers[new]], self._known[numbers[new]] = values[new], True
        self._taken.append(np.where(new, numbers, 0))

    @property
    def is_complete(self) -> bool:
        """Whether every coalition is evaluated."""
        return bool(self._known.all())

    def estimate(self) -> Estimate:
        """Return the exact values or, before the last coalition is evaluated, equal shares with unknown error."""
        n, ends = self.problem.n_players, self.problem.ends
        if not self.is_complete:
            return Estimate(np.repeat((ends[1:] - ends[:1]) / n, n, axis=0), method=Enumeration.name)
        values, semivalue = semivalues(self._values, self.problem.semivalue), self.problem.semivalue
        return Estimate(values, exact=True, efficient=semivalue == SHAPLEY, method=Enumeration.name)

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each evaluation but the ends moves each group's value; None before the last one."""
        if not self.is_complete:
            return None
        n = self.problem.n_players
        masks = np.concatenate([each.masks() for each in everything(n)])
        coefficients = in_groups(partition, masks, SizeWeights.of(self.problem.semivalue, n))
        coefficients /= counts(n)[masks.sum(axis=1)][:, None]
        taken = np.concatenate([np.zeros(0, dtype=np.int64), *self._taken])
        return np.where(taken[:, None] > 0, coefficients[taken], 0.0)


@dataclass(frozen=True)
class SampleThenEnumerate:
    """Sample first, because a target may be met long before the last coalition; then evaluate all others."""

    sampling: Method
    most_sampled: int
    """Evaluations, including the ends, after which the enumeration begins."""
    most_repeated: int = 0
    """Limit on the evaluations of coalitions that were known."""
    anew: bool = False
    """Whether sampled coalitions are evaluated again, as in 0.1.0."""

    name: ClassVar[str] = "sample then enumerate"

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations needed for the first, sampled estimate."""
        return self.sampling.least(n_players, partition)

    def start(self, problem: Problem) -> _SamplerThenEnumerator:
        """Return an estimator that samples first."""
        return _SamplerThenEnumerator(self, self.sampling.start(problem), problem)


@dataclass(eq=False)
class _SamplerThenEnumerator:
    """Samples, then enumerates the rest; the sample's estimate stands until every coalition is evaluated."""

    method: SampleThenEnumerate
    sampler: Estimator
    problem: Problem
    _sampled: list[tuple[Draws, Floats]] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _n_evaluations: int = 2
    _enumerator: Enumerator | None = None
    """None while sampling: it has room for every coalition, and may not be needed."""

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the sampler's next draws or, once these would exceed its part of the budget, the enumerator's."""
        if self._enumerator is None:
            draws, left = self.sampler.draw(rng), self.method.most_sampled - self._n_evaluations
            draws = None if draws is None else draws.within(left)
            if draws is None:
                return None
            n_new = len(set(_numbers(draws.coalitions).tolist()) - self._seen)
            n_repeated = self._n_evaluations - 2 + len(draws.coalitions) - len(self._seen) - n_new
            if len(draws.coalitions) <= left and n_repeated <= self.method.most_repeated:
                return draws
            self._enumerator = Enumerator(self.problem)
            for sampled in () if self.method.anew else self._sampled:
                self._enumerator.update(*sampled)
        return self._enumerator.draw(rng)

    def update(self, draws: Draws, values: Floats) -> None:
        """Pass the values to the estimator that drew the coalitions."""
        if self._enumerator is not None:
            self._enumerator.update(draws, values)
            return
        self.sampler.update(draws, values)
        self._sampled.append((draws, values))
        self._seen.update(_numbers(draws.coalitions).tolist())
        self._n_evaluations += len(values)

    def estimate(self) -> Estimate:
        """Return the exact values if complete, else the sample's estimate."""
        if self._enumerator is not None and self._enumerator.is_complete:
            return self._enumerator.estimate()
        return replace(self.sampler.estimate(), n_evaluations=self._n_evaluations)

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value; None in an unfinished enumeration."""
        if self._enumerator is None:
            return getattr(self.sampler, "influence", lambda groups: None)(partition)
        found = self._enumerator.influence(partition)
        unused = np.zeros((self._n_evaluations - 2 if self.method.anew else 0, partition.n_groups))
        return None if found is None else np.concatenate([unused, found])


def _numbers(coalitions: Coalitions) -> Ints:
    """Return (m,): numbers in which bit i stands for player i."""
    return np.asarray(coalitions.masks() @ (1 << np.arange(coalitions.n_players)))


def everything(n_players: int, step: int = _PER_ROUND) -> Iterator[Coalitions]:
    """Yield all coalitions of n players in chunks; player i is in those whose number has bit i set."""
    step = min(2**n_players, step)
    for start in range(0, 2**n_players, step):
        numbers = np.arange(start, start + step)
        yield Coalitions.from_masks((numbers[:, None] >> np.arange(n_players)) & 1 == 1)


def semivalues(values: Floats, semivalue: Semivalue) -> Floats:
    """Return the (n, q) values of the players from the (2^n, q) values of all coalitions."""
    n = len(values).bit_length() - 1
    weights = np.exp(semivalue.log_weights(n))
    popcount = np.zeros(1, dtype=np.int64)
    for _ in range(n - 1):
        popcount = np.concatenate([popcount, popcount + 1])
    weight = weights[popcount]
    result = np.empty((n, values.shape[1]))
    for player in range(n):
        halves = values.reshape(2 ** (n - 1 - player), 2, 2**player, -1)
        marginal = (halves[:, 1] - halves[:, 0]).reshape(2 ** (n - 1), -1)
        result[player] = weight @ marginal
    return result
