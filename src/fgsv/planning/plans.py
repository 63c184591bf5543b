"""Plans: what a run costs and how precise it will be, extrapolated from its first evaluations."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from fgsv.checks import whole_number
from fgsv.methods import Enumeration, Task, as_method, for_task
from fgsv.running.first_cost import LONG
from fgsv.running.preparation import BUDGET_BESIDE_A_RULE, DEFAULT_BUDGET
from fgsv.running.stopping import RULE_OF_THREE
from fgsv.valuation import Limits, Valuation, positive_total, t_quantile
from fgsv.valuation.display import Section, as_html, as_text
from fgsv.valuation.settings import check_precision
from fgsv.words import duration, in_percent, level, percent, roughly

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
        n = self.n_evaluations
        known = self.n_known
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
        n = self.n_evaluations
        known = self.n_known
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
        reached = self.half_width_after(n_evaluations)
        said = []
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
            ends_before = needed > n_evaluations
            about = roughly(needed, more_than=n_evaluations if ends_before else 0)
            takes = f"this run needs about {about:,.0f} evaluations ({duration(seconds)})"
            takes += f" for ± {percent(target)}"
            if ends_before:
                takes += f", but ends after about {n_evaluations:,}, with ± {percent(reached)}"
                if payable is not None and not said:
                    takes += ", so nothing will be paid"
            late = ends_before or seconds > LONG
            sooner = offer(target, seconds) if offer is not None and late else ""
            if sooner or ends_before:
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

    def sections(self) -> list[Section]:
        """Return budgets, each with the half-widths and the time to expect, and what these are from."""
        words = (
            f"pilot: {self.n_evaluations} evaluations in {self.seconds:.1f} s",
            "half-widths of the widest share, by the Monte Carlo error",
            *filter(None, [self.about_test_rows]),
        )
        columns = ("evaluations", "± share", *(f"± share, {name}" for name in self.by_output), "time")
        rows = tuple(
            (f"{budget:,}", *map(in_percent, widths), duration(60 * minutes))
            for budget, *widths, minutes in self.to_frame().itertuples(index=False)
        )
        return [Section(f"The cost of precision, at {level(self.confidence)} confidence", words, columns, rows)]

    __repr__ = as_text
    _repr_html_ = as_html

    @property
    def about_test_rows(self) -> str:
        """What the test rows leave in any case, in words; empty if it is not known."""
        if self.test_rows is None or not math.isfinite(self.test_rows):
            return ""
        return f"the test rows leave about ± {percent(self.test_rows)} in any case: more of them may help"


def _exact_after(valuation: Valuation) -> float:
    """Return how many coalitions there are, if the method of a run like this one evaluates all of them in the end."""
    settings = valuation.settings
    partition = valuation.partition
    if settings is None or "method" in settings.needs:
        return math.inf
    everything = 2**partition.n_players
    task = Task(partition.n_players, partition, budget=everything, n_known=valuation.n_known)
    method = for_task(as_method(settings.method, dict(settings.options)), task)
    return everything if isinstance(method, Enumeration) else math.inf
