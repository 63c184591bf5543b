"""The default method: every evaluation serves every player, so every group of every partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fgsv.methods.gp.estimator import GPEstimator
from fgsv.methods.gp.linear import LinearEstimator
from fgsv.methods.gp.proxy import CheapGame, Proxy, check_proxy
from fgsv.methods.method import Problem
from fgsv.partition import Partition

MOST_PLAYERS = 512
"""Players up to which a rate for each can be learned."""
QUICK = 1e-3
"""Seconds of an evaluation below which more of them take less time than a Gaussian process."""
CHEAP = 2e-4
"""Seconds of an evaluation below which more of them take less time than to learn what each player adds."""
LEAST = 8
"""Evaluations before the first estimate, or all coalitions if they are fewer."""
KERNEL, PLAYERS, SIZES = "kernel", "players", "sizes"


@dataclass(frozen=True)
class GP:
    """Predict utilities by a Gaussian process over coalitions, and correct the predictions by what they miss.

    Up to 2,048 evaluations the values are predictions: closer, but biased. `unbiased=True` states corrected values.
    """

    unbiased: bool = False
    """Whether values are corrected from the first evaluation on: for those who add up many runs."""
    proxy: Any = None
    """A cheap game of the same players that resembles this one: what it explains need not be learned."""
    learn: str | None = None
    """What is learned: "kernel", "players" (what each adds: the limit of many players) or "sizes" (means by size). By
    default the first up to 512 players, the second beyond, and less where evaluations are quicker than learning."""

    name: ClassVar[str] = "gp"

    def __post_init__(self) -> None:
        if not isinstance(self.unbiased, bool | np.bool_):
            raise TypeError(f"unbiased must be True or False, got {self.unbiased!r:.200}")
        if self.learn not in (None, KERNEL, PLAYERS, SIZES):
            raise ValueError(f"learn must be 'kernel', 'players' or 'sizes', got {self.learn!r:.200}")

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations needed for the first estimate, including the two ends; check the proxy."""
        if self.proxy is not None:
            check_proxy(self.proxy, n_players)
        least = max(16, n_players + 2) if self.unbiased else LEAST
        return min(least, 2 ** min(n_players, 62))

    def for_seconds(self, seconds: float | None, n_players: int) -> GP:
        """Return the method that learns what is worth its time, in a game whose evaluations take so long."""
        if self.learn is not None:
            return self
        if seconds is not None and seconds < CHEAP:
            return replace(self, learn=SIZES)
        if n_players > MOST_PLAYERS or (seconds is not None and seconds < QUICK):
            return replace(self, learn=PLAYERS)
        return replace(self, learn=KERNEL)

    def start(self, problem: Problem) -> GPEstimator | LinearEstimator:
        """Return an estimator that knows only the ends."""
        learn = self.for_seconds(None, problem.n_players).learn
        if learn != KERNEL and self.proxy is None:
            return LinearEstimator(problem, learn=learn == PLAYERS)
        n, q = problem.n_players, problem.ends.shape[1]
        return GPEstimator(self, problem, Proxy(n, q) if self.proxy is None else CheapGame(self.proxy, problem))
