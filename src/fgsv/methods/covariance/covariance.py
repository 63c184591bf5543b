"""The default method: every evaluation serves every player, so every group of every partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fgsv.methods.covariance.beginning import MOST_KNOWN
from fgsv.methods.covariance.epochs import N_STREAMS, PARTS
from fgsv.methods.covariance.estimator import CovarianceEstimator
from fgsv.methods.covariance.opening import FEWEST_PLAYERS, LEAST, MOST_PLAYERS, Opening, hand_over
from fgsv.methods.covariance.process import MANY_PLAYERS
from fgsv.methods.covariance.proxy import Proxy, check_proxy, closed_form_of, value_proxy
from fgsv.methods.enumeration import Enumeration, SampleThenEnumerate
from fgsv.methods.method import Estimator, Method, Problem, Task
from fgsv.methods.sampling import check_count
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
LEAST_STARTED = 3
"""Evaluations, U(0) and U(N) among them, of a run that starts from enough known ones."""
LEARNING = {"surrogate": True, "opening": True, "plug_in": False, "most_known": MOST_KNOWN}
"""Settings that say what is learned, and what they are where evaluations are slow."""


@dataclass(frozen=True)
class Covariance:
    """Estimate every player's value from the covariance of membership and utility (equation 1 of the documentation).

        SV(i) = [U(N) - U(0)]/n + sum_{s=1}^{n-1} n/(s(n-s)) E[(1{i in S} - s/n) U(S)],   S uniform of size s

    Unbiased. A given error takes O(log^2 n) evaluations, whatever the number of groups.
    """

    surrogate: bool | None = None
    """Whether to learn a model of the utility and sample only its residuals (up to 1024 players).

    If nothing is said about `surrogate`, `opening`, `plug_in` and `most_known`, the time of an evaluation decides.
    """
    round_size: int | None = None
    """Evaluations per round, rounded to a multiple of 4; by default 1/32 of the draws so far, at least 32."""
    proxy: Any = None
    """A cheap game of the same players that resembles this one: what it explains is not sampled."""
    opening: bool | None = None
    """Whether a Gaussian process serves the first evaluations (4 to 512 players)."""
    plug_in: bool | None = None
    """Whether the opening, which there must be, states uncorrected predictions: biased, and often closer."""
    most_known: int | None = None
    """How many known evaluations (`start`) are learned from; more of them take more time and memory."""
    whole_rounds: bool = False
    """Whether a round that the budget has no room for is left out, as in 0.1.0; if not, a part of it is drawn."""

    name: ClassVar[str] = "covariance"

    def __post_init__(self) -> None:
        if self.round_size is not None:
            check_count("round_size", self.round_size, least=N_STREAMS)
        if self.most_known is not None:
            check_count("most_known", self.most_known, least=N_STREAMS)
        for name in ("surrogate", "opening", "plug_in", "whole_rounds"):
            chosen = getattr(self, name)
            if not isinstance(chosen, bool | np.bool_) and (chosen is not None or name not in LEARNING):
                raise TypeError(f"{name} must be True or False, got {chosen!r:.200}")

    def for_task(self, task: Task) -> Method:
        """Return the settings for a task; an enumeration, if the budget has room for it and a sample is of no use."""
        settled = self._settled(task)
        least = settled.least(replace(task, n_known=0))
        if not task.has_room_for_all or (task.may_stop_early and settled._most_sampled(task) >= least):
            return settled
        return Enumeration()

    def _settled(self, task: Task) -> Covariance:
        """Return the settings with all that they do not say about learning."""
        given = {name: chosen for name in LEARNING if (chosen := getattr(self, name)) is not None}
        chosen = {} if given else _learned_in(task)
        return replace(self, **LEARNING | chosen | given)

    def _most_sampled(self, task: Task) -> int:
        """Return after how many draws a run with room for every coalition goes on to evaluate all of them."""
        assert task.budget is not None
        half = 2 ** (task.n_players - 1)
        return min(half, task.budget - 2**task.n_players) if self.whole_rounds else half

    def least(self, task: Task) -> int:
        """Return the evaluations needed for the first estimate, including the two ends; check proxy and plug-in.

        An opening learns from what is known: then it needs few new ones.
        """
        n, settled = task.n_players, self._settled(task)
        if self.proxy is not None:
            check_proxy(self.proxy, n)
        opens = settled.opens_with(task) is not None
        if self.plug_in and n >= FEWEST_PLAYERS and not opens:
            raise ValueError(
                "plug_in=True states what the opening predicts, but this run has none: it needs opening=True, "
                f"surrogate=True and at most {MOST_PLAYERS} players, got opening={settled.opening}, "
                f"surrogate={settled.surrogate} and {n} players"
            )
        if opens:
            return max(LEAST_STARTED, LEAST - task.n_known)
        first = 2 if n == 1 else 2 + self.draws_per_round(0, n)
        return min(2**n, first if self.whole_rounds else min(LEAST, first))

    def opens_with(self, task: Task) -> int | None:
        """Return how many evaluations the opening takes, in which learning costs most; None without one.

        With known evaluations it is 0: learning from these costs most.
        """
        settled = self._settled(task)
        end = hand_over(task.n_players) if settled.opening and settled.surrogate else 0
        return (0 if task.n_known else end) if end else None

    def draws_per_round(self, n_draws: int, n_players: int) -> int:
        """Return the size of the next round after this many draws."""
        if self.round_size is not None:
            return self.round_size // N_STREAMS * N_STREAMS
        most = max(1, min(256, ROUND_ENTRIES // (n_players * PARTS)))
        return PARTS * min(most, max(1, n_draws // (32 * PARTS)))

    def start(self, problem: Problem) -> Estimator:
        """Return an estimator that knows only the ends, and what was known before."""
        settled, task = self._settled(problem.task), problem.task
        sampler = settled._sampler(problem)
        if not task.has_room_for_all:
            return sampler
        return SampleThenEnumerate(sampler, settled._most_sampled(task), problem, anew=self.whole_rounds)

    def _sampler(self, problem: Problem) -> CovarianceEstimator:
        """Return an estimator that samples to the end of the budget; the settings are settled."""
        proxy = self._valued_proxy(problem)
        if self.opens_with(problem.task) is None:
            return CovarianceEstimator(self, problem, proxy)
        assert self.most_known is not None
        assert self.plug_in is not None
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
        return value_proxy(problem.other_game(self.proxy), n, q, closed_form, start_own, problem.seed)


def _learned_in(task: Task) -> dict[str, Any]:
    """Return what is not learned because evaluations are quick: no opening, and no model if they are cheap.

    What a run starts from is learned in the opening in any case, but less of it unless evaluations are slow; and
    nothing with many players if they are quick: that would take longer than a run that starts from nothing.
    """
    started = task.n_known > 0
    if task.seconds is None or (started and task.seconds >= SLOW):
        return {}
    if started and (task.seconds >= QUICK or task.n_players <= MANY_PLAYERS):
        return {"most_known": FEW_KNOWN}
    return {"opening": task.seconds >= QUICK, "surrogate": task.seconds >= CHEAP}
