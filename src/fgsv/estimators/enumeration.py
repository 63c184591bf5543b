"""Exact values by evaluating every coalition: at once, or after a sample that did not reach the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.covariance.correction import in_groups
from fgsv.estimators.covariance.design import counts
from fgsv.estimators.method import Draws, Estimator, Method, Problem
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, Semivalue, SizeWeights
from fgsv.types import Floats
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
    """Stores the values of all coalitions, in the order of their numbers."""

    problem: Problem
    _chunks: Iterator[Coalitions] = field(init=False)
    _values: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self._chunks = everything(self.problem.n_players)
        self._values = [self.problem.ends[:1]]

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the next coalitions by number, without the two ends."""
        coalitions = next(self._chunks, None)
        if coalitions is None:
            return None
        inside = np.flatnonzero(coalitions.sizes % self.problem.n_players)
        return Draws(coalitions[int(inside[0]) : int(inside[-1]) + 1]) if len(inside) else None

    def update(self, draws: Draws, values: Floats) -> None:
        """Keep the values."""
        self._values.append(values)

    @property
    def is_complete(self) -> bool:
        """Whether every coalition is evaluated."""
        return sum(map(len, self._values)) == 2**self.problem.n_players - 1

    def estimate(self) -> Estimate:
        """Return the exact values or, before the last coalition is evaluated, equal shares with unknown error."""
        n, ends = self.problem.n_players, self.problem.ends
        if not self.is_complete:
            return Estimate(np.repeat((ends[1:] - ends[:1]) / n, n, axis=0), method=Enumeration.name)
        values = np.concatenate([*self._values, ends[1:]])
        semivalue = self.problem.semivalue
        return Estimate(
            semivalues(values, semivalue), exact=True, efficient=semivalue == SHAPLEY, method=Enumeration.name
        )

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each coalition but the ends moves each group's value; None before the last one."""
        n = self.problem.n_players
        masks = np.concatenate([each.masks() for each in everything(n)])[1:-1]
        coefficients = in_groups(partition, masks, SizeWeights.of(self.problem.semivalue, n))
        return coefficients / counts(n)[masks.sum(axis=1)][:, None] if self.is_complete else None


@dataclass(frozen=True)
class SampleThenEnumerate:
    """Sample first, because a target may be met long before the last coalition; then evaluate every coalition."""

    sampling: Method
    most_sampled: int
    """Evaluations, including the ends, after which the enumeration begins."""

    name: ClassVar[str] = "sample then enumerate"

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations needed for the first, sampled estimate."""
        return self.sampling.least(n_players, partition)

    def start(self, problem: Problem) -> _SamplerThenEnumerator:
        """Return an estimator that samples first."""
        return _SamplerThenEnumerator(self.sampling.start(problem), Enumerator(problem), self.most_sampled)


@dataclass(eq=False)
class _SamplerThenEnumerator:
    """Samples, then enumerates; the sample's estimate stands until the enumeration is complete."""

    sampler: Estimator
    enumerator: Enumerator
    most_sampled: int
    _n_evaluations: int = 2
    _enumerating: bool = False

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the sampler's next draws or, once these would exceed its part of the budget, the enumerator's."""
        if not self._enumerating:
            draws = self.sampler.draw(rng)
            draws = None if draws is None else draws.within(self.most_sampled - self._n_evaluations)
            if draws is None or self._n_evaluations + len(draws.coalitions) <= self.most_sampled:
                return draws
            self._enumerating = True
        return self.enumerator.draw(rng)

    def update(self, draws: Draws, values: Floats) -> None:
        """Pass the values to the estimator that drew the coalitions."""
        if self._enumerating:
            self.enumerator.update(draws, values)
        else:
            self.sampler.update(draws, values)
            self._n_evaluations += len(values)

    def estimate(self) -> Estimate:
        """Return the exact values if complete, else the sample's estimate."""
        if self.enumerator.is_complete:
            return self.enumerator.estimate()
        return replace(self.sampler.estimate(), n_evaluations=self._n_evaluations)

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value; None in an unfinished enumeration."""
        if not self._enumerating:
            return getattr(self.sampler, "influence", lambda groups: None)(partition)
        found = self.enumerator.influence(partition)
        unused = np.zeros((self._n_evaluations - 2, partition.n_groups))
        return None if found is None else np.concatenate([unused, found])


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
