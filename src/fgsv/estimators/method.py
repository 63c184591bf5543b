"""What a method is: settings that start an estimator, and an estimator that is driven round by round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.coalitions import Coalitions
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, Semivalue
from fgsv.valuation import Estimate

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Proxy:
    """A cheap game that resembles the one to be valued: its mean at each size, and how it departs from that.

    The departures come in k bands of sizes, each a game of its own, worth nothing at both ends, with known values.
    """

    evaluate: Callable[[Coalitions], Floats]
    """(m,) coalitions -> (m, k, q) departures"""
    mean: Floats
    """(n + 1, q) for the sizes 0..n, about"""
    values: Floats
    """(n, k, q): the players' values of the departures."""
    deviations: NDArray[np.float32] | None = None
    """(R, n, k, q): the error of these, where they are estimates."""

    @classmethod
    def nothing(cls, n_players: int, n_outputs: int) -> Proxy:
        """Return no proxy at all, which is one of no bands."""
        empty = np.zeros((n_players, 0, n_outputs))
        flat = np.zeros((n_players + 1, n_outputs))
        return cls(lambda coalitions: np.zeros((len(coalitions), 0, n_outputs)), flat, empty)


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be estimated."""

    n_players: int
    ends: Floats
    """(2, q): U(0) and U(N), evaluated before the first round."""
    partition: Partition
    """For methods that value one group at a time; the others never look at it."""
    semivalue: Semivalue = SHAPLEY
    cost: Callable[[NDArray[np.int64]], ArrayLike] | None = None
    """(k,) sizes -> (k,) relative costs of one evaluation."""
    proxy: Proxy | None = None


@dataclass(frozen=True, eq=False)
class Draws:
    """The coalitions of a round, and what the estimator must know again when their values are there."""

    coalitions: Coalitions
    plan: Any = None


class Estimator(Protocol):
    """A running estimate. One loop (`fgsv.run`) draws, evaluates and updates, round after round."""

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the next round's coalitions, or None when there is nothing left to draw."""

    def update(self, draws: Draws, values: Floats) -> None:
        """Take in the (m, q) values of a round, in draw order."""

    def estimate(self) -> Estimate:
        """Return the estimate after the rounds so far."""


class Method(Protocol):
    """A method's settings: a frozen dataclass whose fields are the options of `fgsv.value`."""

    name: ClassVar[str]

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations that the first estimate takes, the two ends included."""

    def start(self, problem: Problem) -> Estimator:
        """Return an estimator with nothing evaluated but the ends."""
