"""The default method: every evaluation serves every player, so every group of every partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fgsv.methods.baselines.sampling import check_count
from fgsv.methods.covariance.beginning import MOST_KNOWN
from fgsv.methods.covariance.epochs import N_STREAMS, PARTS
from fgsv.methods.covariance.estimator import CovarianceEstimator
from fgsv.methods.covariance.opening import FEWEST_PLAYERS, LEAST, MOST_PLAYERS, Opening, hand_over
from fgsv.methods.covariance.process import MANY_PLAYERS
from fgsv.methods.covariance.proxy import Proxy, check_proxy, closed_form_of, value_proxy
from fgsv.methods.method import Problem
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats

ROUND_ENTRIES = 2**28
"""Limit on the listed players in a round, however many players there are."""
CHEAP = 2e-4
"""Seconds of an evaluation below which more of them take less time than to learn from each; on a table of 350 rows,
`make bench` finds 0.26 milliseconds without an opening."""
QUICK = 1e-3
"""Seconds of an evaluation below which more of them take less time than the opening; `python -m benchmarks hand_over`
finds less than a millisecond for most games, and at most four."""
SLOW = 1e-2
"""Seconds of an evaluation from which learning from more than `FEW_KNOWN` known ones is quicker than new ones."""
FEW_KNOWN = 1500


@dataclass(frozen=True)
class Covariance:
    """Estimate every player's value from the covariance of membership and utility (equation 1 of the documentation).

        SV(i) = [U(N) - U(0)]/n + sum_{s=1}^{n-1} n/(s(n-s)) E[(1{i in S} - s/n) U(S)],   S uniform of size s

    Unbiased. A given error takes O(log^2 n) evaluations, whatever the number of groups.
    """

    surrogate: bool = True
    """Whether to learn a model of the utility and sample only its residuals (up to 1024 players)."""
    round_size: int | None = None
    """Evaluations per round, rounded to a multiple of 4; by default 1/32 of the draws so far, at least 32."""
    proxy: Any = None
    """A cheap game of the same players that resembles this one: what it explains is not sampled."""
    opening: bool = True
    """Whether a Gaussian process serves the first evaluations (4 to 512 players)."""
    plug_in: bool = False
    """Whether the opening, which there must be, states uncorrected predictions: biased, and often closer."""
    most_known: int = MOST_KNOWN
    """How many known evaluations (`start`) are learned from; more of them take more time and memory."""
    whole_rounds: bool = False
    """Whether a round that the budget has no room for is left out, as in 0.1.0; if not, a part of it is drawn."""

    name: ClassVar[str] = "covariance"

    def __post_init__(self) -> None:
        if self.round_size is not None:
            check_count("round_size", self.round_size, least=N_STREAMS)
        check_count("most_known", self.most_known, least=N_STREAMS)
        for name in ("surrogate", "opening", "plug_in", "whole_rounds"):
            if not isinstance(chosen := getattr(self, name), bool | np.bool_):
                raise TypeError(f"{name} must be True or False, got {chosen!r:.200}")

    def least(self, n_players: int, partition: Partition) -> int:
        """Return the evaluations needed for the first estimate, including the two ends; check proxy and plug-in."""
        if self.proxy is not None:
            check_proxy(self.proxy, n_players)
        if self.plug_in and n_players >= FEWEST_PLAYERS and not self.opens_with(n_players):
            raise ValueError(
                "plug_in=True states what the opening predicts, but this run has none: it needs opening=True, "
                f"surrogate=True and at most {MOST_PLAYERS} players, got opening={self.opening}, "
                f"surrogate={self.surrogate} and {n_players} players"
            )
        first = 2 if n_players == 1 else 2 + self.draws_per_round(0, n_players)
        if self.opens_with(n_players):
            return LEAST
        return first if self.whole_rounds else min(LEAST, first)

    def opens_with(self, n_players: int) -> int:
        """Return how many evaluations the opening takes in a game of this many players; 0 without one."""
        return hand_over(n_players) if self.opening and self.surrogate else 0

    def for_seconds(self, seconds: float | None, n_players: int, *, started: bool) -> Covariance:
        """Return the settings for a game whose evaluations take so long: no opening if quick, no model if cheap.

        What a run starts from is learned in the opening in any case, but less of it unless evaluations are slow; and
        nothing with many players if they are quick: that would take longer than a run that starts from nothing.
        """
        if seconds is None or (started and seconds >= SLOW):
            return self
        if started and (seconds >= QUICK or n_players <= MANY_PLAYERS):
            return replace(self, most_known=FEW_KNOWN)
        return replace(self, opening=seconds >= QUICK, surrogate=seconds >= CHEAP)

    def draws_per_round(self, n_draws: int, n_players: int) -> int:
        """Return the size of the next round after this many draws."""
        if self.round_size is not None:
            return self.round_size // N_STREAMS * N_STREAMS
        most = max(1, min(256, ROUND_ENTRIES // (n_players * PARTS)))
        return PARTS * min(most, max(1, n_draws // (32 * PARTS)))

    def start(self, problem: Problem) -> CovarianceEstimator:
        """Return an estimator that knows only the ends."""
        proxy = self._valued_proxy(problem)
        if not self.opens_with(problem.n_players):
            return CovarianceEstimator(self, problem, proxy)
        per_round = self.round_size and self.draws_per_round(0, problem.n_players)
        opening = Opening(problem, proxy, per_round, self.plug_in, self.most_known)
        return CovarianceEstimator(self, problem, proxy, opening)

    def _valued_proxy(self, problem: Problem) -> Proxy:
        n, q = problem.n_players, problem.ends.shape[1]
        if self.proxy is None:
            return Proxy.nothing(n, q)

        def start_own(ends: Floats) -> CovarianceEstimator:
            # without a surrogate: evaluations of a proxy are cheaper than learning from them
            return CovarianceEstimator(Covariance(surrogate=False), replace(problem, ends=ends, cost=None), None)

        closed_form = closed_form_of(self.proxy, n) if problem.semivalue == SHAPLEY else None
        return value_proxy(
            problem.other_game(self.proxy), n, q, problem.n_folds, closed_form, start_own, problem.seed
        )
