"""Plans: predict from a small pilot what a precision will cost."""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fgsv.checks import check_type, positive_number, whole_number
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.start import Start, in_words
from fgsv.evaluation.views import weighted
from fgsv.game import GameError, as_game
from fgsv.methods import Enumeration, Task, as_method, for_task
from fgsv.running.bar import pace
from fgsv.running.first_cost import LONG, PILOT, FirstCost
from fgsv.running.preparation import BUDGET_BESIDE_A_RULE, DEFAULT_BUDGET, access_to, keywords, read_players
from fgsv.running.run import iterate
from fgsv.running.stopping import RULE_OF_THREE
from fgsv.valuation import INTERRUPTED, Valuation, check_confidence, positive_total, t_quantile
from fgsv.valuation.notebook import html_of
from fgsv.valuation.settings import check_precision
from fgsv.words import duration, level, option, percent

if TYPE_CHECKING:
    from fgsv.data.dataset import Dataset

PILOT_SECONDS = 20.0
PILOT_STARTED = 66
"""Evaluations in the pilot of a run that starts from known ones; more if there is time."""
TIME_OF_AUDIT = 0.5
"""Fraction of the time limit reserved for the audit."""
PILOT_OF_UNITS = 512
"""Evaluations that show how fast larger players reach a precision."""
MOST = 10**12
"""Evaluations that no run will have."""
Offer = Callable[[float, float], str]
"""From a half-width, and the seconds that a run takes for it, to how it is reached sooner."""
BUDGETS_STARTED = (100, 200, 500)
BUDGETS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)


@dataclass(frozen=True)
class Plan:
    """What a run costs and how precise it will be, extrapolated from its first evaluations.

    The half-width of a share falls with the square root of the evaluations; the default method usually does better,
    because it learns as it goes. Known evaluations count where they still apply, and elsewhere only new ones do; a
    run that starts from some is expected to lie half way between. Seconds are measured on this machine.
    """

    n_players: int
    n_groups: int
    n_evaluations: int
    """Evaluations in the pilot."""
    seconds: float
    half_width: float
    """The largest half-width of a share after the pilot, by the Monte Carlo error, which evaluations narrow."""
    confidence: float
    exact: bool = False
    by_output: Mapping[str, float] = field(default_factory=dict)
    """With several outputs, the largest half-width of a share for each; `half_width` is the largest of these."""
    n_known: int = 0
    """Evaluations that were known before the pilot: they narrow the intervals and cost nothing."""
    start: str = ""
    """What it started from, in words."""
    fixed_seconds: float = 0.0
    """Seconds of the pilot that a longer run takes only once: to start workers, and to learn what was known."""
    exact_after: float = math.inf
    """Evaluations after which the values are exact, because every coalition is evaluated; infinite if never."""
    test_rows: float | None = None
    """What the test rows leave in any case: the largest half-width of a share due to them; None if unknown."""
    foreseen: tuple[str, ...] = ()
    """What the run will not reach, and what would, in words."""

    @classmethod
    def of(
        cls,
        valuation: Valuation,
        seconds: float,
        confidence: float = 0.95,
        first: tuple[int, float] = (0, 0.0),
    ) -> Plan:
        """Return the plan extrapolated from the first part of a run, which took `seconds`.

        `first` are the evaluations and seconds of its first round; comparing later rounds with it shows which costs
        are fixed. The intervals of a pilot are also wide because its errors rest on few draws, which is not so in a
        longer run.

        Args:
            valuation: The valuation after the pilot.
            seconds: Seconds that the pilot took.
            confidence: Level of the intervals.
            first: Evaluations and seconds of the first round.

        Returns:
            The plan.

        Raises:
            ValueError: There are no shares: U(N) - U(0) is not positive.

        """
        normal = float(t_quantile(confidence, np.inf))
        half_widths = (valuation.stderr * normal / positive_total(valuation.total, valuation.outputs)).max(axis=0)
        tested = valuation.test_half_width(confidence, lasting=True) if valuation.knows_test_rows else None
        later = valuation.n_evaluations - first[0]
        each = (seconds - first[1]) / later if later > 0 else seconds
        fixed = max(0.0, seconds - each * valuation.n_evaluations)
        return cls(
            n_players=valuation.partition.n_players,
            n_groups=valuation.partition.n_groups,
            n_evaluations=valuation.n_evaluations,
            seconds=seconds,
            half_width=float(np.max(half_widths)),
            confidence=confidence,
            exact=valuation.exact,
            by_output=dict(zip(valuation.outputs or (), np.atleast_1d(half_widths).tolist(), strict=False)),
            n_known=valuation.n_known,
            fixed_seconds=fixed,
            test_rows=None if tested is None else float(np.max(tested)),
            exact_after=_exact_after(valuation),
        )

    def half_width_after(self, budget: int) -> float:
        """Return the expected largest half-width of a share after this many evaluations.

        It is too small for fewer than those of the pilot, which had learned more by its end.
        """
        return self._narrowed(self.half_width, whole_number("budget", budget, least=1))

    def _narrowed(self, half_width: float, budget: int) -> float:
        n, known = self.n_evaluations, self.n_known
        if budget >= self.exact_after:
            return 0.0
        return half_width * ((n + known) / (budget + known) * n / budget) ** 0.25

    def evaluations_for(self, precision: float) -> int:
        """Return the expected evaluations for a half-width of `precision`.

        However small the errors of a run are, it takes 3 / `precision` evaluations, to see what is rare, or all.
        """
        check_precision(precision)
        if not math.isfinite(self.half_width):
            raise ValueError("the method of this plan does not estimate its errors: use the default method")
        n, known = self.n_evaluations, self.n_known
        ratio = self.half_width / precision
        product = n * (n + known) * ratio * ratio * ratio * ratio  # b (b + known) for the b to find; may be infinite
        fewest = 2 + RULE_OF_THREE / precision - known if self.half_width else 0.0
        wanted = max(n, fewest, (math.sqrt(known**2 + 4 * product) - known) / 2)
        needed = math.ceil(min(wanted, sys.float_info.max))
        return needed if self.exact else int(min(needed, self.exact_after))

    def seconds_for(self, budget: int) -> float:
        """Return the expected seconds of a run with this budget."""
        return self._seconds(min(whole_number("budget", budget, least=1), self.exact_after))

    def _seconds(self, n_evaluations: float) -> float:
        return self.fixed_seconds + (self.seconds - self.fixed_seconds) * n_evaluations / max(self.n_evaluations, 1)

    def _evaluations_within(self, seconds: float) -> int:
        """Return the largest number of evaluations that take at most so long: two at least, U(0) and U(N)."""
        more = range(3, int(min(self.exact_after, MOST)) + 1)
        return 2 + bisect_right(more, seconds * (1 + 1e-12), key=self._seconds)

    def expected(self, limits: Limits) -> int | None:
        """Return the expected evaluations of a run with these limits; None without any, unless all are made."""
        counts = [] if limits.budget is None else [int(min(limits.budget, self.exact_after))]
        if self.exact:
            counts.append(self.n_evaluations)
        if limits.precision is not None and math.isfinite(self.half_width):
            counts.append(self.evaluations_for(limits.precision))
        if limits.max_seconds is not None and self.seconds > self.fixed_seconds:
            counts.append(self._evaluations_within(limits.max_seconds))
        if counts and limits.budget is None:
            counts.append(BUDGET_BESIDE_A_RULE)
        return min(counts, default=None)

    def foresee(self, limits: Limits, payable: float | None = None, offer: Offer | None = None) -> Plan:
        """Return the plan with what a run with these limits will not reach, and what would.

        Args:
            limits: When the run ends.
            payable: The largest half-width with which shares are paid. Default: nothing is paid.
            offer: From a half-width and seconds to how it is reached sooner, in words; it is asked if this run takes
                long, or does not get there. Default: there is no other way.

        Returns:
            The plan, with `foreseen`.

        """
        if self.exact or not math.isfinite(self.half_width):
            return self
        n_evaluations = self.expected(limits) or DEFAULT_BUDGET
        reached, said = self.half_width_after(n_evaluations), []
        left = 0.0 if self.test_rows is None or not math.isfinite(self.test_rows) else self.test_rows
        if payable is not None and math.hypot(reached, left) > payable:
            alone = " alone, however long the run: bring more of them" if left > payable else ""
            known = percent(math.hypot(reached, left))
            said.append(
                f"payments will probably be refused: shares will be known to about ± {known}, and not to a tenth of "
                f"the amount; the test rows leave ± {percent(left)}{alone}"
            )
        target = limits.precision or (payable if payable is not None and reached > payable else None)
        if target is not None:
            needed = self.evaluations_for(target)
            seconds = self.seconds_for(needed)
            takes = f"this run needs about {float(f'{needed:.2g}'):,.0f} evaluations ({duration(seconds)})"
            takes += f" for ± {percent(target)}"
            if needed > n_evaluations:
                takes += f", but ends after about {n_evaluations:,}, with ± {percent(reached)}"
                if payable is not None and not said:
                    takes += ", so nothing will be paid"
            late = needed > n_evaluations or seconds > LONG
            sooner = offer(target, seconds) if offer is not None and late else ""
            if sooner or needed > n_evaluations:
                said.append("; ".join(filter(None, [takes, sooner])))
        return replace(self, foreseen=tuple(said))

    def to_frame(self) -> pd.DataFrame:
        """Return a table of budgets against half-widths and minutes; with several outputs, also of each of them."""
        possible = (*BUDGETS_STARTED, *BUDGETS) if self.n_known else BUDGETS
        budgets = [self.n_evaluations] if self.exact else [b for b in possible if b >= self.n_evaluations]
        if self.exact_after <= possible[-1] and not self.exact:
            budgets = [*(b for b in budgets if b < self.exact_after), int(self.exact_after)]
        widths = {"half_width": self.half_width}
        widths |= {f"half_width_{name}": width for name, width in self.by_output.items()}
        return pd.DataFrame(
            {
                "evaluations": budgets,
                **{name: [self._narrowed(width, budget) for budget in budgets] for name, width in widths.items()},
                "minutes": [self.seconds_for(budget) / 60 for budget in budgets],
            }
        )

    def __repr__(self) -> str:
        return f"{self._shown.to_string(index=False, float_format=lambda x: f'{x:.3g}')}\n{self._footnote}"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        return html_of(self._shown, [self._footnote])

    @property
    def _shown(self) -> pd.DataFrame:
        """The table as it is shown, with durations in words."""
        table = self.to_frame()
        times = [duration(60 * each) for each in table.pop("minutes")]
        return table.assign(time=times)

    @property
    def _footnote(self) -> str:
        pilot = f"pilot: {self.n_evaluations} evaluations in {self.seconds:.1f} s"
        widths = f"half-widths of the widest share at {level(self.confidence)} confidence, by the Monte Carlo error"
        return "; ".join([pilot, widths, *([self.about_test_rows] if self.about_test_rows else [])])

    @property
    def about_test_rows(self) -> str:
        """What the test rows leave in any case, in words; empty if it is not known."""
        if self.test_rows is None or not math.isfinite(self.test_rows):
            return ""
        return f"the test rows leave about ± {percent(self.test_rows)} in any case: more of them may help"


def _exact_after(valuation: Valuation) -> float:
    """Return how many coalitions there are, if the method of a run like this one evaluates all of them in the end."""
    settings, partition = valuation.settings, valuation.partition
    if settings is None or "method" in settings.needs:
        return math.inf
    everything = 2**partition.n_players
    task = Task(partition.n_players, partition, budget=everything, n_known=valuation.n_known)
    method = for_task(as_method(settings.method, dict(settings.options)), task)
    return everything if isinstance(method, Enumeration) else math.inf


@dataclass(frozen=True)
class Limits:
    """When a run ends, whichever comes first."""

    budget: int | None = None
    precision: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.budget is not None:
            whole_number("budget", self.budget)
        if self.max_seconds is not None:
            positive_number("max_seconds", self.max_seconds)
        check_precision(self.precision)

    def beside_audit(self) -> Limits:
        """Return the limits of a run that shares its time with an audit."""
        return self if self.max_seconds is None else replace(self, max_seconds=(1 - TIME_OF_AUDIT) * self.max_seconds)


def first_cost(evaluator: Evaluator, limits: Limits, advice: str = "") -> FirstCost:
    """Evaluate U(0) and U(N), which every run does first and once, and return what the run will cost.

    Args:
        evaluator: The open evaluator of the run.
        limits: When the run ends.
        advice: What would be cheaper, in words.

    Returns:
        What the run will cost.

    """
    before = evaluator.meter
    evaluator.ends()
    seconds = (evaluator.meter - before).seconds
    default = None if limits.precision is not None or limits.max_seconds is not None else DEFAULT_BUDGET
    return FirstCost(seconds, limits.budget or default, evaluator.n_workers, advice)


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

    def planned(self, plan: Plan | None) -> None:
        """Receive the plan; None if there are no shares."""

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


def evaluations_to_narrow(valuation: Valuation, factor: float) -> int:
    """Return about how many evaluations make the intervals of a valuation narrower by a factor: at most all 2^n.

    Where that is ten times as many as were made, or more, the number has one significant digit.

    >>> import fgsv
    >>> evaluations_to_narrow(fgsv.value(fgsv.games.SumOfUnanimity(64), budget=100), 3.0)
    900
    """
    times = max(factor, 1.0) ** 2
    needed = float(f"{valuation.n_evaluations * times:.{1 if times >= 10 else 2}g}")
    n = valuation.partition.n_players
    return 2**n if math.log2(needed) > n else math.ceil(needed)


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
        watch, enough = _Stopwatch(access), PILOT_STARTED if access.known else pilot
        for valuation in iterate(access, partition, budget=pilot, confidence=confidence, seed=seed, **options):
            positive_total(valuation.total, valuation.outputs)  # without shares, there is nothing to plan
            watch.look(valuation)
            if (watch.seconds if valuation.n_evaluations >= enough else watch.evaluating) >= PILOT_SECONDS:
                break
    return watch.plan(valuation, confidence)


class _Stopwatch:
    """What a run has taken so far: seconds, those of evaluations, and those of its first round."""

    def __init__(self, access: GameAccess) -> None:
        self._evaluator, self._start = access.evaluator, time.monotonic()
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
    ends = {"precision": limits.precision, "max_seconds": limits.max_seconds}
    pilot = pilot if limits.budget is None else min(pilot, limits.budget)
    with Evaluator(as_game(table.game), n_jobs=n_jobs, ledger=ledger, start=start or None) as evaluator:
        access = weighted(evaluator, table.weights)
        found = plan(access, table.partition, pilot=pilot, confidence=confidence, seed=seed, **ends)
        found = found.foresee(limits, offer=offer_of_units(table, limits, confidence=confidence, n_jobs=n_jobs))
        known = evaluator.found
        if known is None:
            return found
        return replace(found, start=in_words(known, table.partition, evaluator.game))


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
    watch, announced = _Stopwatch(access), False
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
                watcher.planned(None if shown is None else shown.foresee(limits, payable, offer))
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
