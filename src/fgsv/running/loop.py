"""The loop: draw, evaluate, update, stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from fgsv.game import Game
from fgsv.methods import Draws, Method, Problem
from fgsv.methods.units import InUnits
from fgsv.partition import Partition
from fgsv.running.game_access import GameAccess
from fgsv.running.interrupts import held_interrupts
from fgsv.running.repeats import Repeats
from fgsv.running.seed_noise import with_seed_noise
from fgsv.running.start import Free
from fgsv.running.stopping import Rule, met
from fgsv.running.targets import at_last_look, is_look, unreached
from fgsv.running.threads import one_thread
from fgsv.semivalue import Semivalue
from fgsv.types import Floats, Ints
from fgsv.valuation import INTERRUPTED, End, Failures, Reason, RunSettings, Valuation
from fgsv.valuation.test_rows import as_differences

MOST_FREE = 10
"""Known evaluations that a run may draw for each one of its budget: it must end even if it draws nothing new."""


@dataclass(frozen=True, eq=False)
class Run:
    """What to value, how, and when to stop, all checked in advance."""

    game: Game
    partition: Partition
    method: Method
    semivalue: Semivalue
    cost: Callable[[Ints], ArrayLike] | None
    rules: tuple[Rule, ...]
    settings: RunSettings

    @cached_property
    def least(self) -> int:
        """The evaluations that the first estimate takes."""
        return self.method.least(self.game.n_players, self.partition)

    def problem(self, ends: Floats, access: GameAccess) -> Problem:
        """Return the problem that the method works on."""
        n, seed, known = self.game.n_players, self.settings.seed, access.known
        known = None if known is None else known.with_values(self.as_differences)
        ends, n_folds = self.as_differences(ends), self.game.n_folds
        return Problem(n, ends, self.partition, self.semivalue, self.cost, seed, access.other_game, n_folds, known)

    def as_differences(self, values: Floats) -> Floats:
        """Return values with the folds of the test rows as differences, which is what methods see."""
        return as_differences(values, self.game.n_folds, self.game.weights)


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a run after a round; the valuation is computed on first use."""

    run: Run
    estimator: InUnits
    ends: Floats
    n_drawn: int
    """Values that the estimator has seen, including the ends, known or not."""
    free: Free
    """Values known before the run, which do not count as its evaluations."""
    seconds: float
    round_seconds: float = 0.0
    failures: Failures | None = None
    last_look: int = 0
    n_unfitted: int = 0

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far, which count towards the budget."""
        return self.n_drawn - self.free.n_asked

    @property
    def is_estimate(self) -> bool:
        """Whether there is an estimate yet."""
        return self.n_drawn + self.estimator.n_known >= self.run.least

    @property
    def is_spent(self) -> bool:
        """Whether the budget is spent, so that the run ends without another draw."""
        return self.n_evaluations >= self.run.settings.budget and self.is_estimate and not self.valuation.exact

    @cached_property
    def valuation(self) -> Valuation:
        """The valuation so far."""
        with held_interrupts(), one_thread():
            estimate = self.estimator.estimate()
        settings = self.run.settings
        return Valuation.of(
            estimate,
            self.run.partition,
            game=self.run.game,
            method=estimate.method or settings.method,
            ends=self.ends,
            n_evaluations=(estimate.n_evaluations or self.n_drawn) - self.free.n_asked,
            end=End(Reason.INTERRUPTED, "not ended"),
            seed=settings.seed,
            settings=settings,
            failures=self.failures,
            is_estimate=self.is_estimate,
            n_known=min(self.free.n_used + self.estimator.n_known, self.free.n_known),
            n_unfitted=self.n_unfitted,
        )

    def ended(self, end: End) -> Valuation:
        """Return the final valuation; its end says which targets were missed."""
        if discarded := self.n_evaluations - self.valuation.n_evaluations:
            end = end.with_note(f"{discarded} evaluations of an unfinished enumeration were discarded")
        for note in unreached(self.run.rules, self.valuation):
            end = end.with_note(note)
        target = end.reason is Reason.TARGET
        return replace(at_last_look(self.run.rules, self) if target else self.valuation, end=end)


def rounds(run: Run, access: GameAccess, *, every: bool = True) -> Iterator[Valuation]:
    """Yield the valuation after every round and at the end, or only at the end, with its seed noise."""
    start = time.monotonic()
    settings, evaluator = run.settings, access.evaluator
    evaluator.recorder.starts_from(evaluator.known_before.recorded(access.recorded_groups(run.partition)))
    ends, mark, free = access.ends(), evaluator.failures.mark(), evaluator.known_before.counter()
    for check in (rule.check for rule in run.rules if hasattr(rule, "check")):
        check((ends[1] - ends[0])[: ends.shape[1] - run.game.n_folds])
    with one_thread():
        estimator = evaluator.estimator = InUnits(run.method, run.problem(ends, access))
    failures, repeats = evaluator.failures_of_run, Repeats(run.game, ends, settings.on_error)
    progress = Progress(run, estimator, ends, 2, free(), time.monotonic() - start, failures=failures(mark))
    end: End | None = None
    for number in count():
        try:
            with held_interrupts(), one_thread():
                rng = np.random.default_rng([settings.seed, number])
                draws = None if progress.is_spent else estimator.draw(rng)
            draws = None if draws is None else draws.within(settings.budget - progress.n_evaluations)
            end = _nothing_left(draws, progress)
            if draws is None or end is not None:
                break
            if every and number > 0 and progress.valuation.n_evaluations == progress.n_evaluations:
                yield progress.valuation
            if draws.law is not None:
                draws = evaluator.recorder.drawn(draws, number)
                draws = draws.within(settings.budget - progress.n_evaluations)
            values = access(draws.coalitions)
            with held_interrupts():
                repeats.add(draws.coalitions, values)
                with one_thread():
                    estimator.update(draws, run.as_differences(values))
                now = time.monotonic() - start
                progress = replace(
                    progress,
                    n_drawn=progress.n_drawn + len(values),
                    free=free(),
                    seconds=now,
                    round_seconds=now - progress.seconds,
                    failures=failures(mark),
                    last_look=progress.n_evaluations if is_look(progress) else progress.last_look,
                    n_unfitted=progress.n_unfitted + run.game.n_unfitted(draws.coalitions, values),
                )
            end = met(run.rules, progress) if progress.is_estimate else None
        except KeyboardInterrupt:
            if not progress.is_estimate:
                raise
            end = INTERRUPTED
        if end is not None:
            break
    assert end is not None
    if repeats.note is not None:
        warnings.warn(repeats.note, RuntimeWarning, stacklevel=2)
        end = end.with_note(repeats.note)
    ended = progress.ended(end)
    yield ended if every or end is INTERRUPTED else with_seed_noise(ended, access, run.semivalue)


def _nothing_left(draws: Draws | None, progress: Progress) -> End | None:
    """Return the end of a run with nothing left to draw or too little budget, or None to go on."""
    budget = progress.run.settings.budget
    left = budget - progress.n_evaluations
    if progress.is_spent:
        return End(Reason.BUDGET, f"budget of {budget} reached")
    if draws is None:
        exact = progress.valuation.exact
        return End(Reason.EXHAUSTED, "every coalition is evaluated" if exact else "nothing is left to draw")
    wanted = len(draws.coalitions)
    if progress.free.n_asked > MOST_FREE * budget:
        return End(Reason.EXHAUSTED, "almost everything that is drawn was known before")
    if wanted <= left:
        return None
    unspent = f": the next round needs {wanted}, so {left} were left unspent" if left > budget / 8 else ""
    return End(Reason.BUDGET, f"budget of {budget} reached{unspent}")
