"""Exact values, by evaluating every coalition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.estimators.method import Draws, Problem
from fgsv.game import Game, as_game, evaluate
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, Semivalue, as_semivalue
from fgsv.types import Floats
from fgsv.valuation import Estimate, Valuation

MOST_PLAYERS = 24
_PER_ROUND = 2**11
"""Coalitions of a round: between rounds a run may be stopped."""


def exact(game: Any, groups: Any = None, *, semivalue: str | Semivalue = "shapley") -> Valuation:
    """Return exact faithful group values: the sums of their members' Shapley values (paper, Eq. 1 and Thm. 1).

    >>> import fgsv
    >>> fgsv.exact(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"]).values.round(4).tolist()
    [0.3333, 3.6667]

    Costs 2^n evaluations of the game, for at most 24 players. For the usual Group Shapley Value, where each
    group is one player, call it on `fgsv.grouped(game, groups)`.
    """
    game, partition = read_players(game, groups)
    n = game.n_players
    if n > MOST_PLAYERS:
        raise ValueError(
            f"exact values of {n} players would take 2^{n} = {2.0**n:.3g} evaluations; the limit is "
            f"{MOST_PLAYERS} players. fgsv.value(game, groups, budget=20_000) estimates them, with errors"
        )
    values = np.concatenate([evaluate(game, chunk) for chunk in _everything(n)])
    weights = as_semivalue(semivalue)
    players = semivalues(values, weights)
    return Valuation.of(
        Estimate(players, exact=True, efficient=weights == SHAPLEY),
        partition,
        game=game,
        method="exact",
        ends=values[[0, -1]],
        n_evaluations=2**n,
        stopped="every coalition is evaluated",
    )


def read_players(game: Any, groups: Any) -> tuple[Game, Partition]:
    """Return the game and the partition of its players, each checked against the other."""
    own = getattr(game, "n_players", None)
    grouped_by = getattr(game, "grouped_by", None)
    if groups is None and grouped_by is not None:
        partition = Partition.of({name: [k] for k, name in enumerate(grouped_by.names)})
    else:
        partition = Partition.of(groups, own)
    return as_game(game, partition.n_players), partition


def _everything(n: int, step: int = 2**16) -> Iterator[Coalitions]:
    """Yield all coalitions of n players in chunks; player i is in those whose number has bit i set."""
    step = min(2**n, step)
    for start in range(0, 2**n, step):
        numbers = np.arange(start, start + step)
        yield Coalitions.from_masks((numbers[:, None] >> np.arange(n)) & 1 == 1)


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


@dataclass(frozen=True)
class Enumeration:
    """The method behind the default one when the budget suffices for all coalitions: exact, 2^n evaluations."""

    name: ClassVar[str] = "exact"

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations that the estimate takes."""
        return 2**n_players

    def start(self, problem: Problem) -> _Enumerator:
        """Return an estimator that draws every coalition once."""
        return _Enumerator(problem)


@dataclass(eq=False)
class _Enumerator:
    problem: Problem
    _chunks: Iterator[Coalitions] = field(init=False)
    _values: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self._chunks = _everything(self.problem.n_players, step=_PER_ROUND)
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

    def estimate(self) -> Estimate:
        """Return the exact values; equal shares, whose error is not known, before the last coalition is there."""
        n, ends = self.problem.n_players, self.problem.ends
        if sum(map(len, self._values)) < 2**n - 1:
            return Estimate(np.repeat((ends[1:] - ends[:1]) / n, n, axis=0))
        values = np.concatenate([*self._values, ends[1:]])
        semivalue = self.problem.semivalue
        return Estimate(semivalues(values, semivalue), exact=True, efficient=semivalue == SHAPLEY)
