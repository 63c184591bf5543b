"""The default method: every evaluation serves every player, so every group of every partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fgsv.methods.enumeration import Enumeration
from fgsv.methods.gp import trend
from fgsv.methods.gp.choice import FEW_PLAYERS
from fgsv.methods.gp.estimator import ENDS_FIRST, GPEstimator
from fgsv.methods.gp.kernel import COMMON
from fgsv.methods.gp.linear import LinearEstimator
from fgsv.methods.gp.proxy import CheapGame, Proxy, check_proxy
from fgsv.methods.method import Method, Problem, Task

MOST_PLAYERS = 512
"""Players up to which a rate for each can be learned."""
QUICK = 1e-3
"""Seconds of an evaluation below which more of them take less time than a Gaussian process."""
CHEAP = 2e-4
"""Seconds of an evaluation below which more of them take less time than to learn what each player adds."""
LEAST = 8
"""Evaluations before the first estimate, known ones among them, or all coalitions if they are fewer."""
LEAST_STARTED = 3
"""Evaluations, U(0) and U(N) among them, of a run that starts from enough known ones."""
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
    singles_first: bool = False
    """Whether coalitions of one player come first, as they do up to 20 players: for games where few players hold most
    of the worth. Corrected values are by draws, and have none first."""
    parameters: Sequence[float] | None = None
    """Of the kernel, those common to all players, less their prior means: fitted to other runs, which costs no bias.
    This run then fits none, and draws as it would at the prior."""

    name: ClassVar[str] = "gp"

    def __post_init__(self) -> None:
        if not isinstance(self.unbiased, bool | np.bool_):
            raise TypeError(f"unbiased must be True or False, got {self.unbiased!r:.200}")
        if not isinstance(self.singles_first, bool | np.bool_):
            raise TypeError(f"singles_first must be True or False, got {self.singles_first!r:.200}")
        if self.singles_first and self.unbiased:
            raise ValueError("singles_first and unbiased exclude each other: corrected values need draws")
        if self.learn not in (None, KERNEL, PLAYERS, SIZES):
            raise ValueError(f"learn must be 'kernel', 'players' or 'sizes', got {self.learn!r:.200}")
        if self.learn in (PLAYERS, SIZES) and (self.singles_first or self.parameters is not None):
            raise ValueError(f"parameters and singles_first need learn='kernel', or none; got {self.learn!r}")
        if self.parameters is not None:
            given = np.asarray(self.parameters, dtype=float)
            if given.shape != (COMMON,) or not np.isfinite(given).all():
                raise ValueError(f"parameters must be {COMMON} finite numbers, got {self.parameters!r:.200}")

    def least(self, task: Task) -> int:
        """Return the evaluations needed for the first estimate, including the two ends; check the proxy."""
        n = task.n_players
        if self.proxy is not None:
            check_proxy(self.proxy, n)
            if self.learn not in (None, KERNEL) or n > MOST_PLAYERS:
                raise ValueError(
                    f"a proxy is used beside the Gaussian process alone: with at most {MOST_PLAYERS} players, and "
                    f"learn='kernel' or none; got {n} players and learn={self.learn!r}"
                )
        least = max(16, n + 2) if self.unbiased else max(LEAST_STARTED, LEAST - task.n_known)
        return int(min(least, 2 ** min(n, 62)))

    def for_task(self, task: Task) -> Method:
        """Return an enumeration, if there is room for it and no rule may end the run; else what is worth its time."""
        if task.has_room_for_all and not task.may_stop_early:
            return Enumeration()
        if self.learn is not None:
            return self
        seconds = np.inf if task.seconds is None else task.seconds
        is_few = task.n_known > 0 and task.n_players <= FEW_PLAYERS  # to learn from what is known is quick
        is_asked = self.proxy is not None or self.parameters is not None or self.singles_first
        if is_asked or is_few or (task.n_players <= MOST_PLAYERS and seconds >= QUICK):
            return replace(self, learn=KERNEL)
        return replace(self, learn=SIZES if seconds < CHEAP else PLAYERS)

    @property
    def uses_known(self) -> bool:
        """Whether evaluations that are known before a run are learned from."""
        return self.learn == KERNEL

    def start(self, problem: Problem) -> GPEstimator | LinearEstimator:
        """Return an estimator that knows only the ends."""
        if self.learn != KERNEL:
            return LinearEstimator(problem, learn=self.learn == PLAYERS)
        proxy = Proxy(problem.n_players) if self.proxy is None else CheapGame(self.proxy, problem)
        return GPEstimator(self, problem, proxy)


def gains_by_singles(n_players: int, budget: int) -> bool:
    """Return whether `singles_first` pays: fewer players are alone first anyway, and more have no trend to learn."""
    return ENDS_FIRST < n_players <= min(trend.MOST_PLAYERS, budget - 2)
