"""The verdict on a result: how well its payments are known, what that error is made of, and what would halve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

import numpy as np

from fgsv.payout import Payout
from fgsv.payout.refusal import (
    SHOWN,
    WIDEST,
    for_output,
    missed_precision,
    narrowing,
    noise_in_words,
    why_unfinished,
    within_noise,
)
from fgsv.payout.splitting import deviations_of_shares, paid_shares
from fgsv.types import Floats
from fgsv.valuation import Valuation, check_valuation, t_quantile
from fgsv.valuation.intervals import evaluations_to_narrow
from fgsv.words import counted, level, significant

EQUAL = 0.1
"""Two providers count as equal if their difference is known to within this fraction of an equal part."""
EVALUATIONS, TEST_ROWS = "evaluations", "the choice of test rows"
FLAT_FEE = "a flat fee is the honest answer"
LARGEST_FACTOR = 8.0
"""More than this many times as much of one thing is no advice: a little more of everything then is."""


class Decision(StrEnum):
    """What a verdict decides."""

    SETTLED = "settled"
    CALCULATED = "calculated"
    """As settled, of a payout whose error due to the choice of test rows is unknown."""
    UNDECIDED = "undecided"
    """More evaluations would settle it."""
    UNRESOLVABLE = "unresolvable"
    """No number of evaluations would: a flat fee is the honest answer."""


@dataclass(frozen=True)
class Verdict:
    """How well the payments of a result are known, or its shares if nothing was paid."""

    decision: Decision
    known: str
    """How well they are known and how well they should be, or why there is nothing to know."""
    made_of: str = ""
    """What the error is made of, and what would halve it."""
    ranking: str = ""
    """Whose order is uncertain, which makes no payment less certain."""
    half_width: float | None = None
    """Half-width of the widest share or payment, as a fraction of the whole; None if there is none, or unknown."""
    by_cause: Mapping[str, float] = field(default_factory=dict)
    """Cause -> its part of that half-width; their squares add up to about its square."""
    evaluations: int | None = None
    """About how many evaluations in total would settle it; None if it is settled, or if no number would."""
    between: tuple[tuple[str, str], ...] = ()
    """Neighbours in the ranking whose order is uncertain."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What it says about the error, in one or two sentences."""
        return (f"{self.decision}: {self.known}", *([self.made_of] if self.made_of else []))

    def __str__(self) -> str:
        return ". ".join(each[0].upper() + each[1:] if at else each for at, each in enumerate(self.sentences))


def verdict(valuation: Valuation, *, confidence: float = 0.95, paid: Payout | None = None) -> Verdict:
    """Say how well the payments by a valuation are known; without a payout, its shares.

    Args:
        valuation: What was valued.
        confidence: Confidence level of the half-widths.
        paid: The payout by this valuation, if there is one.

    Returns:
        *Settled*: each is known to within ten percentage points, the run ended, and reached the precision that it was
        asked for. *Calculated*: the same, of payments that other test rows might change by an unknown amount.
        *Unresolvable*: U(N) - U(0) is not positive, or no larger than its error due to the choice of test
        rows; or, if payments are linear, one provider's share is certainly more than everything, which the others
        would have to pay for; or the errors of training seeds and test rows alone are too large. Else *undecided*.

    Example:
        >>> import fgsv
        >>> str(verdict(fgsv.exact(fgsv.games.Airport([1, 2, 3]), ["a", "b", "c"])))
        'settled: shares are exact (Monte Carlo error only)'

    """
    check_valuation(valuation)
    shared = valuation if paid is None else paid_shares(valuation, paid.amounts)
    linear = paid is None or paid.terms.is_faithful
    if (why := _unresolvable(shared, confidence, linear)) is not None:
        return Verdict(Decision.UNRESOLVABLE, why)
    half_widths = shared.share_half_width(confidence).reshape(len(shared), -1).max(axis=1)
    if paid is not None and not linear:
        half_widths = np.array([float(high - low) for low, high in zip(paid.low, paid.high, strict=True)])
        half_widths /= 2 * float(paid.amount)
    widest = int(np.argmax(half_widths))
    if not np.isfinite(half_widths[widest]):
        words = f"method {shared.method!r} does not estimate the errors of its values"
        return Verdict(Decision.UNDECIDED, words)
    half_width = float(half_widths[widest])
    causes = _causes(shared, confidence, widest, half_width)
    lasting = shared.lasting_half_width(confidence).reshape(len(shared), -1).max(axis=1)
    missed = missed_precision(valuation)
    unfinished = why_unfinished(valuation)
    words = _known(half_width, causes, valuation, confidence, paid)
    decision = Decision.SETTLED if paid is None or valuation.knows_test_rows else Decision.CALCULATED
    evaluations = None
    factor = narrowing(half_widths, lasting)
    if factor is None:
        decision = Decision.UNRESOLVABLE
        words += f". More evaluations cannot help: {FLAT_FEE}"
    elif half_width > WIDEST or missed or unfinished:
        decision = Decision.UNDECIDED
        factor = max(factor, missed[1] / missed[0] if missed else 0.0)
        evaluations = evaluations_to_narrow(valuation, factor)
        if factor > 1:
            words += f". About {evaluations:,} evaluations would settle it"
    if unfinished:
        words = f"{unfinished}. So far {words}"
    between = _uncertain_neighbours(shared, confidence)
    ranking = f"the order is uncertain between {_pairs_in_words(between)}" if between else ""
    made_of = _made_of(shared, causes)
    return Verdict(decision, words, made_of, ranking, half_width, causes, evaluations, between)


def _unresolvable(valuation: Valuation, confidence: float, linear: bool) -> str | None:
    """Return why no number of evaluations can settle the shares; None if some number can."""
    if not np.all(valuation.total > 0):
        which = for_output(valuation, int(np.argmin(valuation.total)))
        return f"with all the data the model scores no better than with none{which}: there is nothing to share"
    if (noisy := within_noise(valuation, confidence)) is not None:
        return f"{noise_in_words(valuation, confidence, noisy)}, and {FLAT_FEE}"
    low = valuation.share_interval(confidence)[..., 0].reshape(len(valuation), -1)
    if linear and np.any(low > 1):
        largest, output = map(int, np.unravel_index(low.argmax(), low.shape))
        return (
            f"{valuation.names[largest]} is worth more than all the data together{for_output(valuation, output)}, "
            "because other data lowers the score: others would have to pay for its share of at least "
            f"{low[largest, output]:.0%}, so {FLAT_FEE}"
        )
    return None


def _causes(valuation: Valuation, confidence: float, group: int, half_width: float) -> dict[str, float]:
    """Return a group's half-width by cause, the small ones left out; evaluations reduce what does not last."""
    lasting = {
        "training seeds": valuation.seed_half_width(confidence),
        TEST_ROWS: valuation.test_half_width(confidence, lasting=True),
    }
    parts = {name: float(np.max(each[group])) for name, each in lasting.items()}
    rest = half_width**2 - sum(part**2 for part in parts.values())
    parts = {EVALUATIONS: float(np.sqrt(max(rest, 0.0)))} | parts
    return {name: part for name, part in parts.items() if part > 1e-3 * half_width}


def _known(
    half_width: float, causes: Mapping[str, float], valuation: Valuation, confidence: float, paid: Payout | None
) -> str:
    """Say how well payments or shares are known, and how well they should be."""
    what = "shares" if paid is None else "payments"
    only = "" if valuation.knows_test_rows else " (Monte Carlo error only)"
    if not causes and not half_width:
        return f"{what} are exact{only}"
    money = "" if paid is None else f"{_rounded(half_width * float(paid.amount))} {paid.currency} "
    share = f"± {_percent(half_width)}" if paid is None else f"± {money}({_percent(half_width)})"
    words = f"{what} are known to within {share} at {level(confidence)} confidence{only}"
    asked = None if valuation.settings is None else valuation.settings.precision
    if asked is None:
        return words
    missed = missed_precision(valuation)
    if missed is None:
        part = ", which the evaluations reached" if half_width > asked else ""
        return f"{words}; you asked for {_percent(asked)}{part}"
    return f"{words}; you asked evaluations for {_percent(asked)}, and they reached only {_percent(missed[1])}"


def _made_of(valuation: Valuation, causes: Mapping[str, float]) -> str:
    """Say what an error is made of, and what would halve it."""
    if not causes:
        return ""
    parts = [f"± {_percent(part)} ({name})" for name, part in causes.items()]
    advice = " and ".join(_more(valuation, name, factor) for name, factor in _to_halve(causes).items())
    made_of = f"it combines {' and '.join(parts)}" if len(parts) > 1 else f"all of it is from {next(iter(causes))}"
    return f"{made_of}; {advice} would halve it"


def _to_halve(causes: Mapping[str, float]) -> dict[str, float]:
    """Return what is needed more of, and how many times: of the largest cause if that can do, else of everything."""
    largest = max(causes, key=lambda name: causes[name])
    others = sum(part**2 for name, part in causes.items() if name != largest)
    room = sum(part**2 for part in causes.values()) / 4 - others
    if room * LARGEST_FACTOR >= causes[largest] ** 2:
        return {largest: causes[largest] ** 2 / room}
    return dict.fromkeys(causes, 4.0)


def _more(valuation: Valuation, cause: str, factor: float) -> str:
    """Say what more of one thing is."""
    if cause == EVALUATIONS:
        return f"about {evaluations_to_narrow(valuation, float(np.sqrt(factor))):,} evaluations"
    times = significant(factor, 2)
    return f"{times} times the test rows" if cause == TEST_ROWS else f"the mean of {times} trainings each"


def _uncertain_neighbours(valuation: Valuation, confidence: float) -> tuple[tuple[str, str], ...]:
    """Return neighbours in the ranking that are neither ordered nor about equal, by any output."""
    deviations, freedom = deviations_of_shares(valuation)
    if not np.isfinite(deviations).all():
        return ()
    quantile = float(t_quantile(confidence, freedom))
    shares = valuation.shares().reshape(len(valuation), -1)
    apart: Floats = deviations / np.atleast_1d(valuation.total)
    found: dict[tuple[str, str], None] = {}
    for output, column in enumerate(shares.T):
        for upper, lower in pairwise(np.argsort(-column, kind="stable").tolist()):
            difference = apart[:, upper, output] - apart[:, lower, output]
            reach = quantile * float(np.sqrt((difference**2).sum()))
            if reach > max(column[upper] - column[lower], EQUAL / len(valuation)):
                found[str(valuation.names[upper]), str(valuation.names[lower])] = None
    return tuple(found)


def _pairs_in_words(pairs: tuple[tuple[str, str], ...]) -> str:
    """Name the first pairs, and count the others."""
    more = f", and {counted(len(pairs) - SHOWN, 'more pair')}" if len(pairs) > SHOWN else ""
    return "; ".join(f"{upper} and {lower}" for upper, lower in pairs[:SHOWN]) + more


def _percent(fraction: float) -> str:
    return f"{significant(100 * fraction, 2)}%"


def _rounded(amount: float) -> str:
    """Return an amount of money with three digits."""
    return f"{Decimal(f'{amount:.3g}'):,f}"
