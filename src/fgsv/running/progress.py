"""Progress: the state of a run after a round."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

from fgsv.evaluation.game_access import GameAccess, Meter
from fgsv.methods import Draws, Task
from fgsv.methods.steady import Steady
from fgsv.running.stopping import Rule, is_look, unreached
from fgsv.running.training_seeds import Repeats
from fgsv.types import Floats
from fgsv.valuation import End, Reason, RunSettings, Valuation

MOST_FREE = 10
"""Known evaluations that a run may draw for each one of its budget: it must end even if it draws nothing new."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a run does not change: what it values and how, and when it began."""

    access: GameAccess
    task: Task
    settings: RunSettings
    rules: tuple[Rule, ...]
    estimator: Steady
    ends: Floats
    """(2, q): U(0) and U(N)."""
    least: int
    """Evaluations that the first estimate takes, known ones among them."""
    repeats: Repeats
    began: Meter
    """When U(0) and U(N) were evaluated."""
    started: float
    """On the clock `time.monotonic`."""


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a run after a round; the valuation is computed on first use."""

    run: Run
    spent: Meter
    """Since the run began, U(0) and U(N) among it."""
    seconds: float
    round_seconds: float = 0.0
    last_look: int = 0
    n_unfitted: int = 0

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far, which count towards the budget."""
        return self.spent.asked

    @property
    def is_estimate(self) -> bool:
        """Whether there is an estimate yet."""
        return self.spent.n_drawn + self.run.estimator.n_known >= self.run.least

    @property
    def is_spent(self) -> bool:
        """Whether the budget is spent, so that the run ends without another draw."""
        return self.n_evaluations >= self.run.settings.budget and self.is_estimate and not self.valuation.exact

    def after(self, draws: Draws, values: Floats) -> Progress:
        """Return the state after a round; the estimator takes in its (m, q) values."""
        run = self.run
        game = run.access.game
        run.repeats.add(draws.coalitions, values)
        run.estimator.update(draws, game.differences(values))
        seconds = time.monotonic() - run.started
        return replace(
            self,
            spent=run.access.evaluator.spent_since(run.began),
            seconds=seconds,
            round_seconds=seconds - self.seconds,
            last_look=self.n_evaluations if is_look(self) else self.last_look,
            n_unfitted=self.n_unfitted + game.n_unfitted(draws.coalitions, values),
        )

    @cached_property
    def valuation(self) -> Valuation:
        """The valuation so far."""
        run = self.run
        spent = self.spent
        estimate = run.estimator.estimate()
        return Valuation.of(
            estimate,
            run.task.partition,
            game=run.access.game,
            ends=run.ends,
            n_evaluations=(estimate.n_evaluations or spent.n_drawn) - int(spent.known.sum()),
            end=End(Reason.INTERRUPTED, "not ended"),
            settings=run.settings,
            failures=spent.failures,
            is_estimate=self.is_estimate,
            n_known=min(spent.n_used + run.estimator.n_known, len(spent.known)),
            n_unfitted=self.n_unfitted,
        )

    def nothing_left(self, draws: Draws | None) -> End | None:
        """Return the end of a run with nothing left to draw or too little budget, or None to go on."""
        budget = self.run.settings.budget
        left = budget - self.n_evaluations
        if self.is_spent:
            return End(Reason.BUDGET, f"budget of {budget} reached")
        if draws is None:
            exact = self.valuation.exact
            return End(Reason.EXHAUSTED, "every coalition is evaluated" if exact else "nothing is left to draw")
        if self.spent.known.sum() > MOST_FREE * budget:
            return End(Reason.EXHAUSTED, "almost everything that is drawn was known before")
        wanted = len(draws.coalitions)
        if wanted <= left:
            return None
        unspent = f": the next round needs {wanted}, so {left} were left unspent" if left > budget / 8 else ""
        return End(Reason.BUDGET, f"budget of {budget} reached{unspent}")

    def ended(self, end: End) -> Valuation:
        """Return the final valuation; its end says which targets were missed."""
        rules = self.run.rules
        valuation = self.valuation
        if discarded := self.n_evaluations - valuation.n_evaluations:
            end = end.with_note(f"{discarded} evaluations of an unfinished enumeration were discarded")
        for note in unreached(rules, valuation):
            end = end.with_note(note)
        return replace(valuation, end=end)
