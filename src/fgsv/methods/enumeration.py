"""Exact values by evaluating every coalition, and values that a game states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.method import Draws, Problem, Task
from fgsv.methods.target import Target
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, Semivalue
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate

MOST_PLAYERS = 24
"""Largest number of players whose coalitions are all evaluated without a budget that says so."""
_PER_ROUND = 2**11
"""Coalitions in a round: a run can stop between rounds."""


@dataclass(frozen=True)
class Enumeration:
    """Every coalition once: exact, 2^n evaluations."""

    name: ClassVar[str] = "exact"

    def least(self, task: Task) -> int:
        """Return the evaluations needed for the estimate; raise an error for many players without a budget."""
        if (n := task.n_players) > MOST_PLAYERS and task.budget is None:
            raise ValueError(
                f"exact values of {n} players would take 2^{n} evaluations; the limit is {MOST_PLAYERS} players. Use "
                "fgsv.value(game, groups, budget=20_000) to estimate them, with errors; fgsv.exact also takes games "
                "that state their Shapley values as `shapley`"
            )
        return int(2**n)

    def start(self, problem: Problem) -> Enumerator:
        """Return an estimator that draws every coalition once."""
        return Enumerator(problem)


@dataclass(eq=False)
class Enumerator:
    """Stores the values of all coalitions by their numbers, in which bit i stands for player i."""

    problem: Problem

    needs = 0

    def __post_init__(self) -> None:
        n = self.problem.n_players
        ends = self.problem.ends
        self._chunks = everything(n)
        self._values: Floats = np.empty((2**n, ends.shape[1]))
        self._known: Masks = np.zeros(2**n, dtype=bool)
        self._values[[0, -1]] = ends
        self._known[[0, -1]] = True
        self._taken: list[Ints] = []

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the next coalitions by number; None if there are none."""
        for coalitions in self._chunks:
            unknown = np.flatnonzero(~self._known[_numbers(coalitions)])
            if len(unknown):
                return Draws(coalitions.take(unknown))
        return None

    def update(self, draws: Draws, values: Floats) -> None:
        """Keep the values."""
        numbers = _numbers(draws.coalitions)
        self._values[numbers] = values
        self._known[numbers] = True
        self._taken.append(numbers)

    @property
    def is_complete(self) -> bool:
        """Whether every coalition is evaluated."""
        return bool(self._known.all())

    def estimate(self) -> Estimate:
        """Return the exact values or, before the last coalition is evaluated, equal shares with unknown error."""
        n = self.problem.n_players
        ends = self.problem.ends
        if not self.is_complete:
            return Estimate(np.repeat((ends[1:] - ends[:1]) / n, n, axis=0), method=Enumeration.name)
        return enumerated(self._values, self.problem.semivalue)

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each evaluation but the ends moves each group's value; None before the last one."""
        if not self.is_complete:
            return None
        masks = np.concatenate([each.masks() for each in everything(self.problem.n_players)])
        coefficients = Target(self.problem.n_players, self.problem.semivalue).coefficients(masks)
        taken = np.concatenate([np.zeros(0, dtype=np.int64), *self._taken])
        return partition.sums(coefficients[taken].T).T


def _numbers(coalitions: Coalitions) -> Ints:
    """Return (m,): numbers in which bit i stands for player i."""
    return np.asarray(coalitions.masks() @ (1 << np.arange(coalitions.n_players)))


def everything(n_players: int) -> Iterator[Coalitions]:
    """Yield all coalitions of n players in chunks; player i is in those whose number has bit i set."""
    step = min(2**n_players, _PER_ROUND)
    for start in range(0, 2**n_players, step):
        numbers = np.arange(start, start + step)
        yield Coalitions.from_masks((numbers[:, None] >> np.arange(n_players)) & 1 == 1)


def enumerated(values: Floats, semivalue: Semivalue) -> Estimate:
    """Return the exact values from the (2^n, q) values of all coalitions, by their numbers."""
    found = semivalues(values, semivalue)
    return Estimate(found, exact=True, efficient=semivalue == SHAPLEY, method=Enumeration.name)


def numbered(masks: Masks, values: Floats) -> Floats:
    """Return the (2^n, q) values of all coalitions by their numbers, from masks (2^n, n) in any order."""
    found = np.empty_like(values)
    found[masks @ (1 << np.arange(masks.shape[1]))] = values
    return found


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
    """Return the Shapley values that a game states as `shapley`, (n, 1) or (n, q); None if it states none.

    Args:
        game: The game.
        n_players: Its players.
        called: What the game is called in the error.

    Returns:
        (n, q) values; None if the game states none.

    Raises:
        ValueError: They are not a finite number for each player, and output.

    """
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
    """Raise an error unless stated Shapley values (n, q) add up to U(N) - U(0), (q,).

    Args:
        values: (n, q) stated values.
        rise: (q,): U(N) - U(0).
        called: What the game is called in the error.

    Raises:
        ValueError: They differ by more than a millionth of the largest sum.

    """
    total = values.sum(axis=0)
    if (np.abs(total - rise) > 1e-6 * np.maximum(np.abs(values).sum(axis=0), np.abs(rise))).any():
        raise ValueError(
            f"{called}.shapley sums to {total}, but the {called} is worth {rise} more with all players than with "
            "none: these are not its Shapley values"
        )
