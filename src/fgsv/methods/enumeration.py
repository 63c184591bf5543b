"""Exact values by evaluating every coalition: at once, or after a sample that did not reach the target."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import comb
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.method import Draws, Estimator, Problem, Task
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, Semivalue, SizeWeights
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate

MOST_PLAYERS = 24
"""Largest number of players for exact values."""
_PER_ROUND = 2**11
"""Coalitions in a round: a run can stop between rounds."""


@dataclass(frozen=True)
class Enumeration:
    """Every coalition once: exact, 2^n evaluations."""

    name: ClassVar[str] = "exact"

    def least(self, task: Task) -> int:
        """Return the evaluations needed for the estimate."""
        return int(2**task.n_players)

    def for_task(self, task: Task) -> Enumeration:
        """Return itself; raise an error for too many players."""
        if (n := task.n_players) > MOST_PLAYERS:
            raise ValueError(
                f"exact values of {n} players would take 2^{n} evaluations; the limit is {MOST_PLAYERS} players. Use "
                "fgsv.value(game, groups, budget=20_000) to estimate them, with errors; fgsv.exact also takes games "
                "that state their Shapley values as `shapley`"
            )
        return self

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
        """Keep the values."""
        self.know(_numbers(draws.coalitions), values)

    def know(self, numbers: Ints, values: Floats) -> None:
        """Keep the values of coalitions, by their numbers."""
        self._values[numbers], self._known[numbers] = values, True
        self._taken.append(numbers)

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
        coefficients = partition.sums(SizeWeights.of(self.problem.semivalue, n).coefficients(masks).T).T
        coefficients /= np.array([float(comb(n, s)) for s in range(n + 1)])[masks.sum(axis=1)][:, None]
        taken = np.concatenate([np.zeros(0, dtype=np.int64), *self._taken])
        return coefficients[taken]


@dataclass(eq=False)
class SampleThenEnumerate:
    """Samples first, because a target may be met long before the last coalition; then enumerates the rest.

    The sample's estimate stands until every coalition is evaluated. A coalition that is drawn again keeps its value,
    and is not evaluated again.
    """

    sampler: Estimator
    most_sampled: int
    """Draws, including the ends, after which the enumeration begins."""
    problem: Problem
    anew: bool = False
    """Whether coalitions that were drawn before are evaluated again, as in 0.1.0."""
    _values: dict[int, Floats] = field(default_factory=dict)
    """(q,) of each coalition that was sampled, by its number, in the order of their evaluation."""
    _drawn: list[Ints] = field(default_factory=list)
    """The numbers of the coalitions in each round of the sample."""
    _n_evaluations: int = 2
    _stated: Estimate | None = None
    """The estimate after the last evaluation, if draws of known coalitions have followed."""
    _enumerator: Enumerator | None = None
    """None while sampling: it has room for every coalition, and may not be needed."""

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return what is new in the sampler's next draws or, once these would exceed its part, the enumerator's."""
        while self._enumerator is None:
            again = deepcopy(rng)
            draws, left = self.sampler.draw(rng), self.most_sampled - 2 - sum(map(len, self._drawn))
            if draws is None:
                return None
            draws = draws.within(left)
            new = self._new(draws, again)
            if len(draws.coalitions) > left or (not len(new.coalitions) and draws.law is not None):
                self._enumerator = self._enumerate()
            elif len(new.coalitions):
                return new
            else:  # such as all coalitions of a size: no round of the run
                self._stated = self._stated or self.estimate()
                self._take_in(draws)
        return self._enumerator.draw(rng)

    def _new(self, draws: Draws, again: np.random.Generator) -> Draws:
        """Return what to evaluate of the sampler's draws, which become the plan; `again` draws them again."""
        numbers, rows = np.unique(_numbers(draws.coalitions), return_index=True)
        rows = np.sort(rows[[number not in self._values for number in numbers.tolist()]])
        if self.anew:
            rows = np.arange(len(draws.coalitions))
        follow = draws.follow
        return Draws(
            draws.coalitions.take(rows),
            plan=draws,
            law=draws.law,
            follow=None if follow is None else lambda law, _: self._new(follow(law, deepcopy(again)), again),
        )

    def _enumerate(self) -> Enumerator:
        """Return an enumerator that knows what was sampled."""
        enumerator = Enumerator(self.problem)
        if self._values and not self.anew:
            enumerator.know(np.array(list(self._values)), np.array(list(self._values.values())))
        return enumerator

    def update(self, draws: Draws, values: Floats) -> None:
        """Pass the values to the estimator that drew the coalitions."""
        if self._enumerator is not None:
            self._enumerator.update(draws, values)
            return
        self._n_evaluations += len(values)
        self._stated = None
        if not self.anew:
            self._values.update(zip(_numbers(draws.coalitions).tolist(), values, strict=True))
        self._take_in(draws.plan, values if self.anew else None)

    def _take_in(self, draws: Draws, values: Floats | None = None) -> None:
        """Give the sampler its draws, by default with the values that are known."""
        numbers = _numbers(draws.coalitions)
        known = [self._values[number] for number in numbers.tolist()] if values is None else values
        self.sampler.update(draws, np.asarray(known))
        self._drawn.append(numbers)

    def estimate(self) -> Estimate:
        """Return the exact values if complete, else the sample's estimate."""
        if self._enumerator is not None and self._enumerator.is_complete:
            return self._enumerator.estimate()
        if self._stated is not None:
            return self._stated
        return replace(self.sampler.estimate(), n_evaluations=self._n_evaluations)

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each evaluation moves each group's value; None in an unfinished enumeration."""
        if self._enumerator is None:
            found = getattr(self.sampler, "influence", lambda groups: None)(partition)
            return found if found is None or self.anew else self._by_evaluation(found)
        found = self._enumerator.influence(partition)
        unused = np.zeros((self._n_evaluations - 2 if self.anew else 0, partition.n_groups))
        return None if found is None else np.concatenate([unused, found])

    def _by_evaluation(self, influence: Floats) -> Floats:
        """Return (m, K) of evaluations from that of draws: a value counts with every draw of its coalition."""
        place = {number: row for row, number in enumerate(self._values)}
        found = np.zeros((len(place), influence.shape[1]))
        np.add.at(found, [place[number] for number in np.concatenate(self._drawn).tolist()], influence)
        return found


def _numbers(coalitions: Coalitions) -> Ints:
    """Return (m,): numbers in which bit i stands for player i."""
    return np.asarray(coalitions.masks() @ (1 << np.arange(coalitions.n_players)))


def everything(n_players: int) -> Iterator[Coalitions]:
    """Yield all coalitions of n players in chunks; player i is in those whose number has bit i set."""
    step = min(2**n_players, _PER_ROUND)
    for start in range(0, 2**n_players, step):
        numbers = np.arange(start, start + step)
        yield Coalitions.from_masks((numbers[:, None] >> np.arange(n_players)) & 1 == 1)


def enumerated(masks: Masks, values: Floats, semivalue: Semivalue) -> Estimate:
    """Return the exact values from every coalition, (2^n, n) in any order, and its (2^n, q) value."""
    table = np.empty_like(values)
    table[masks @ (1 << np.arange(masks.shape[1]))] = values
    found = semivalues(table, semivalue)
    return Estimate(found, exact=True, efficient=semivalue == SHAPLEY, method=Enumeration.name)


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


def stated_values(game: object, n_players: int, called: str) -> Floats | None:
    """Return the Shapley values that a game states as `shapley`, (n, 1) or (n, q); None if it states none."""
    stated = getattr(game, "shapley", None)
    if stated is None:
        return None
    try:
        values = np.asarray(stated, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(())
    if values.ndim not in (1, 2) or len(values) != n_players or not np.isfinite(values).all():
        raise ValueError(
            f"{called}.shapley must contain a finite number for each of the {n_players} players (and output), "
            f"got {type(stated).__name__} of shape {values.shape}"
        )
    return values.reshape(n_players, -1)


def check_adds_up(values: Floats, rise: Floats, called: str) -> None:
    """Raise an error unless stated Shapley values (n, q) add up to U(N) - U(0), (q,)."""
    total = values.sum(axis=0)
    if (np.abs(total - rise) > 1e-6 * np.maximum(np.abs(values).sum(axis=0), np.abs(rise))).any():
        raise ValueError(
            f"{called}.shapley sums to {total}, but the {called} is worth {rise} more with all players than with "
            "none: these are not its Shapley values"
        )
