"""Watching: the first rounds of a run are its pilot, from which plans are made, and its progress is reported."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgsv.checks import check_type, whole_number
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.start import Start
from fgsv.evaluation.views import weighted
from fgsv.game import GameError, as_game
from fgsv.planning.plans import Offer, Plan
from fgsv.planning.start import start_in_words
from fgsv.running.bar import pace
from fgsv.running.first_cost import PILOT, FirstCost
from fgsv.running.preparation import BUDGET_BESIDE_A_RULE, access_to, keywords, read_players
from fgsv.running.run import iterate
from fgsv.valuation import INTERRUPTED, Limits, Valuation, check_confidence, positive_total
from fgsv.words import duration, option

if TYPE_CHECKING:
    from fgsv.data.dataset import Dataset

PILOT_SECONDS = 20.0
PILOT_STARTED = 66
"""Evaluations in the pilot of a run that starts from known ones; more if there is time."""
PILOT_OF_UNITS = 512
"""Evaluations that show how fast larger players reach a precision."""


def offer_of_units(data: Dataset, limits: Limits, *, confidence: float = 0.95, n_jobs: int | None = 1) -> Offer:
    """Return what says how larger players reach a half-width sooner: it makes a small pilot of them first.

    The pilot's evaluations are of another game, and no part of the run or its ledger. It takes at most twenty
    seconds, or a twentieth of the time limit.

    Args:
        data: The table or texts of the run.
        limits: When the run ends.
        confidence: Level of the intervals.
        n_jobs: Workers of the pilot.

    Returns:
        What `Plan.foresee` asks.

    """
    limit = PILOT_SECONDS if limits.max_seconds is None else min(PILOT_SECONDS, limits.max_seconds / 20)

    def offer(target: float, most: float) -> str:
        larger = data.larger_players()
        if larger is None:
            return ""
        size, game, partition = larger
        try:
            with Evaluator(as_game(game), n_jobs=n_jobs) as evaluator:
                access = weighted(evaluator, data.weights)
                found = plan(access, partition, pilot=PILOT_OF_UNITS, confidence=confidence, max_seconds=limit)
            needed = found.evaluations_for(target)
        except (GameError, ValueError):  # nothing to share, or nothing learned
            return ""
        seconds = found.seconds_for(needed)
        if needed > BUDGET_BESIDE_A_RULE or seconds > most / 2:
            return ""
        return f"{option('unit_size', size)} gets there in about {duration(seconds)}"

    return offer


class Watcher:
    """Follows a run: receives its cost and plan once, its progress after every round, and then the audit's.

    This one does nothing with them.
    """

    def measured(self, cost: FirstCost) -> None:
        """Receive what the run will cost, before it begins."""

    def planned(self, plan: Plan | None, limits: Limits) -> None:
        """Receive the plan, None if there are no shares, and when the run ends."""

    def after_round(self, valuation: Valuation, half_width: float, expected: int | None, pace: str) -> None:
        """Receive the state of the run.

        Args:
            valuation: The valuation so far.
            half_width: The half-width of its widest share; NaN if there are no shares.
            expected: Evaluations expected in total, if that can be said.
            pace: Evaluations a second and busy workers, in words.

        """

    def audit_begins(self, n_evaluations: int, seconds: float) -> None:
        """Receive how many evaluations the audit takes at most, and about how many seconds."""

    def audited(self, n_evaluations: int) -> None:
        """Receive how many evaluations the audit has made since the last call."""


def plan(
    game: Any, groups: Any = None, *, pilot: int = PILOT, confidence: float = 0.95, seed: int = 0, **options: Any
) -> Plan:
    """Run a pilot and predict what precision costs: half-widths and minutes for several budgets.

    Costs at most `pilot` evaluations, or about twenty seconds if they are slow.

    Args:
        game: As in `fgsv.value`.
        groups: As in `fgsv.value`.
        pilot: Evaluations of the pilot at the most.
        confidence: Level of the intervals.
        seed: Seed of the pilot, and of a run that begins with the same evaluations.
        options: Other arguments of `fgsv.value`, but no budget.

    Returns:
        The plan: a table of budgets, half-widths and minutes.

    Raises:
        ValueError, TypeError: An argument is wrong, or there are no shares.

    Examples:
        >>> import fgsv
        >>> found = fgsv.plan(fgsv.games.SumOfUnanimity(64), [i % 4 for i in range(64)], pilot=200)
        >>> found.evaluations_for(0.001) > found.evaluations_for(0.002)
        True

    """
    if "budget" in options:
        raise TypeError("a plan takes no budget: pilot= limits its own evaluations, and it shows several budgets")
    check_confidence(confidence)
    pilot = whole_number("pilot", pilot)
    read, partition = read_players(game, groups)
    of_evaluator = {name: options.pop(name) for name in keywords(Evaluator) if name in options}
    access, opened = access_to(game, read, **of_evaluator)
    with opened:
        watch = _Stopwatch(access)
        enough = PILOT_STARTED if access.known else pilot
        for valuation in iterate(access, partition, budget=pilot, confidence=confidence, seed=seed, **options):
            positive_total(valuation.total, valuation.outputs)  # without shares, there is nothing to plan
            watch.look(valuation)
            if (watch.seconds if valuation.n_evaluations >= enough else watch.evaluating) >= PILOT_SECONDS:
                break
    return watch.plan(valuation, confidence)


class _Stopwatch:
    """What a run has taken so far: seconds, those of evaluations, and those of its first round."""

    def __init__(self, access: GameAccess) -> None:
        self._evaluator = access.evaluator
        self._start = time.monotonic()
        self._before = self._evaluator.meter
        self.seconds = self.evaluating = 0.0
        self._first: tuple[int, float] | None = None

    def look(self, valuation: Valuation) -> None:
        """Take the time after a round."""
        self.seconds = time.monotonic() - self._start
        self.evaluating = (self._evaluator.meter - self._before).seconds / self._evaluator.n_workers
        self._first = self._first or (valuation.n_evaluations, self.seconds)

    def plan(self, valuation: Valuation, confidence: float) -> Plan:
        """Return what the run will take, from the valuation so far, or what is displayed of it."""
        return Plan.of(valuation, self.seconds, confidence, self._first or (0, 0.0))


def plan_table(
    table: Dataset,
    *,
    limits: Limits | None = None,
    pilot: int = PILOT,
    confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = 1,
    ledger: str | Path | None = None,
    start: Start = None,
) -> Plan:
    """Run a pilot on a table and predict what precision costs, for the score on all its test rows.

    Args:
        table: What `fgsv.open_table` or `fgsv.open_text` returns.
        limits: Where the pilot ends at the latest: looking back from a longer one, all would seem cheaper.
        pilot: Evaluations in the pilot.
        confidence: Confidence level of all intervals.
        seed: Random seed: same seed, same result.
        n_jobs: Number of workers; -1 for one per core.
        ledger: File that records every evaluation, so that none is repeated.
        start: Ledger of an earlier run, or several, with which the data was opened, too.

    Returns:
        Half-widths and minutes for several budgets, and what is foreseen of a run with these limits.

    Raises:
        ValueError, TypeError: An argument is wrong, or all the data together is worth no more than none.

    Examples:
        >>> import fgsv, pandas as pd
        >>> rows = pd.DataFrame({"x": range(40), "y": [i // 20 for i in range(40)], "provider": ["n", "s"] * 20})
        >>> found = plan_table(fgsv.open_table(rows, group="provider", target="y"), pilot=100)
        >>> found.n_evaluations
        100

    """
    from fgsv.data.dataset import check_dataset  # here: a plan of a game needs no tables

    check_dataset(table)
    limits = limits or Limits()
    check_type(limits, Limits, "limits of a run", "fgsv.planning.Limits(budget=...) makes them")
    pilot = pilot if limits.budget is None else min(pilot, limits.budget)
    with Evaluator(as_game(table.game), n_jobs=n_jobs, ledger=ledger, start=start or None) as evaluator:
        access = weighted(evaluator, table.weights)
        found = plan(access, table.partition, pilot=pilot, confidence=confidence, seed=seed, **limits.early)
        found = found.foresee(limits, offer=offer_of_units(table, limits, confidence=confidence, n_jobs=n_jobs))
        known = evaluator.found
        if known is None:
            return found
        return replace(found, start=start_in_words(known, table.partition, evaluator.game))


@dataclass(frozen=True)
class HistoryPoint:
    """The state of a run after a round."""

    n_evaluations: int
    half_width: float | None
    """Of the widest share; None if there were no shares or their errors were unknown."""


def value_with_plan(
    access: GameAccess,
    groups: Any,
    limits: Limits,
    watcher: Watcher,
    *,
    confidence: float = 0.95,
    shown_as: Callable[[Valuation], Valuation],
    payable: float | None = None,
    offer: Offer | None = None,
    **options: Any,
) -> tuple[Valuation, tuple[HistoryPoint, ...]]:
    """Value a game, and report plan and progress to a watcher; an interrupt returns the valuation so far.

    The pilot is the first part of the run itself, so the plan costs nothing.

    Args:
        access: The game, open.
        groups: As in `fgsv.value`.
        limits: When the run ends.
        watcher: Receives the plan once, and the state of the run after every round.
        confidence: Level of the intervals.
        shown_as: Converts the raw valuation to the one displayed.
        payable: As in `Plan.foresee`.
        offer: As in `Plan.foresee`.
        options: Other arguments of `fgsv.value`.

    Returns:
        The raw valuation, and the history of the displayed one.

    """
    pilot = PILOT if limits.budget is None else min(PILOT, limits.budget // 4)
    if access.known:
        pilot = min(pilot, PILOT_STARTED)
    history: list[HistoryPoint] = []
    watch = _Stopwatch(access)
    announced = False
    valuation: Valuation | None = None
    rounds = iterate(access, groups, confidence=confidence, **vars(limits), **options)
    try:
        for valuation in rounds:
            watch.look(valuation)
            shown = _plan(watch, shown_as(valuation), confidence)
            half_width = math.nan if shown is None else shown.half_width
            history.append(HistoryPoint(valuation.n_evaluations, half_width if math.isfinite(half_width) else None))
            ready = valuation.n_evaluations >= pilot and (shown is None or not math.isnan(half_width))
            if not announced and (ready or watch.evaluating > PILOT_SECONDS):
                announced = True
                watcher.planned(None if shown is None else shown.foresee(limits, payable, offer), limits)
            expected = shown.expected(limits) if announced and shown is not None else limits.budget
            how_fast = pace(access.evaluator, valuation.n_evaluations, watch.seconds)
            watcher.after_round(valuation, half_width, expected, how_fast)
    except KeyboardInterrupt:
        if valuation is None or not valuation.is_estimate:
            raise
        valuation = replace(valuation, end=INTERRUPTED)
    assert valuation is not None
    return valuation, _thinned(history)


def _plan(watch: _Stopwatch, valuation: Valuation, confidence: float) -> Plan | None:
    try:
        return watch.plan(valuation, confidence)
    except ValueError:  # nothing to share
        return None


def _thinned(history: list[HistoryPoint]) -> tuple[HistoryPoint, ...]:
    """Return at most about a hundred points of the history, the last one among them."""
    step = max(1, len(history) // 100)
    return tuple(point for number, point in enumerate(history) if number % step == 0 or number == len(history) - 1)
