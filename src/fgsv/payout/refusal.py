"""Refusals: reasons not to make a payment, and the error that states them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

import numpy as np

from fgsv.types import Floats
from fgsv.valuation import Reason, Valuation
from fgsv.valuation.intervals import evaluations_to_narrow
from fgsv.words import option, percent, some

WIDEST = 0.1
"""Shares and payments must be known to within this fraction of the whole."""
SHOWN = 3
"""Names in a sentence."""


class Doubt(StrEnum):
    """Why a payment is refused."""

    TOO_WIDE = "too wide"
    """The half-width of a payment's interval is more than a tenth of the amount."""
    MORE_THAN_ALL = "more than all"
    """A payment is larger than the amount, and others would have to pay for it."""
    WITHIN_NOISE = "within noise"
    """U(N) - U(0) is within the error from the choice of test rows."""
    MISSED = "missed"
    """The run ended before the precision that it was asked for."""
    UNFINISHED = "unfinished"
    """The run was interrupted, or a step after it, such as its audit, failed."""


QUESTIONS = {
    Doubt.TOO_WIDE: "to know every payment to within a tenth of the amount",
    Doubt.MORE_THAN_ALL: "to know whether it is more than the whole",
    Doubt.MISSED: "to reach it",
}
"""What more evaluations would answer."""


@dataclass(frozen=True)
class Objection:
    """One reason against a payout."""

    doubt: Doubt
    detail: str
    groups: tuple[str, ...] = ()
    """The groups whose payments it concerns; empty for all."""
    evaluations: int | None = None
    """About how many evaluations in total would settle it; None if no number would."""

    def __str__(self) -> str:
        if self.doubt in (Doubt.WITHIN_NOISE, Doubt.UNFINISHED):  # the detail says what may help
            return self.detail
        if self.evaluations is None:
            return f"{self.detail}; no number of evaluations would settle it"
        return f"{self.detail}; {QUESTIONS[self.doubt]}: about {self.evaluations:,} evaluations"


@dataclass(eq=False)
class PayoutRefused(ValueError):
    """A payout that is not made unless somebody insists; `objections` say why."""

    amount: Decimal
    currency: str
    objections: tuple[Objection, ...]

    def __str__(self) -> str:
        return f"{self.reasons}. To pay anyway, use {option('pay_anyway', True)}"

    @property
    def reasons(self) -> str:
        """What was not split, and why."""
        return f"{self.amount:,} {self.currency} was not split: {'. Also, '.join(map(str, self.objections))}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.amount, self.currency, self.objections)


def objections(
    valuation: Valuation,
    payments: Sequence[Decimal],
    half_widths: Floats,
    currency: str,
    confidence: float = 0.95,
) -> tuple[Objection, ...]:
    """Return the objections to payments; an unknown error is not an objection.

    Args:
        valuation: What the payments are by.
        payments: (K,) the payments, which add up to the amount.
        half_widths: (K,) of their intervals, in money; NaN where unknown.
        currency: The code of the currency, for the words.
        confidence: Confidence level of the half-widths.

    Returns:
        The objections, those to single payments first; empty if there are none.

    """
    whole = sum(payments, Decimal(0))
    paid = np.array([float(payment) for payment in payments])
    found = []
    wide = np.flatnonzero(half_widths > WIDEST * float(whole))
    if len(wide):
        order = wide[np.argsort(-half_widths[wide], kind="stable")]
        widest = float(half_widths[order[0]])
        names = tuple(str(valuation.names[k]) for k in order)
        lasting = valuation.lasting_half_width(confidence).reshape(len(valuation), -1).max(axis=1)
        factor = narrowing(half_widths[order[:1]] / float(whole), lasting[order[:1]])
        found.append(
            Objection(
                Doubt.TOO_WIDE,
                f"the payment to {names[0]} is known only to within {widest:,.2f} {currency}, more than a tenth of "
                f"{whole:,}{_others(names[1:])}",
                names,
                None if factor is None else evaluations_to_narrow(valuation, factor),
            )
        )
    beyond = [k for k, payment in enumerate(payments) if payment > whole]
    if beyond:
        order = np.array(sorted(beyond, key=lambda k: -paid[k]))
        names = tuple(str(valuation.names[k]) for k in order)
        excess = paid[order] - float(whole)
        factors = half_widths[order] / excess
        certain = not (factors >= 1).all()  # also where an error is unknown
        found.append(
            Objection(
                Doubt.MORE_THAN_ALL,
                f"the payment to {names[0]} would be {payments[order[0]]:,} {currency}, more than the whole "
                f"{whole:,}, and others would be charged for it{_others(names[1:])}",
                names,
                None if certain else evaluations_to_narrow(valuation, float(factors.max())),
            )
        )
    if (noisy := within_noise(valuation, confidence)) is not None:
        found.append(Objection(Doubt.WITHIN_NOISE, noise_in_words(valuation, confidence, noisy)))
    if (missed := missed_precision(valuation)) is not None:
        asked, reached = missed
        detail = f"evaluations were to know every share to within {percent(asked)}, and know it to {percent(reached)}"
        found.append(Objection(Doubt.MISSED, detail, (), evaluations_to_narrow(valuation, reached / asked)))
    if (unfinished := why_unfinished(valuation)) is not None:
        found.append(Objection(Doubt.UNFINISHED, unfinished))
    return tuple(found)


def narrowing(half_widths: Floats, lasting: Floats) -> float | None:
    """Return by what factor evaluations have to narrow their part of half-widths; None if none would be enough.

    Squares of parts add up: what is left of each half-width is at most `WIDEST`, with what lasts of it.
    """
    room = WIDEST**2 - lasting**2
    if (room <= 0).any():
        return None
    return float(np.sqrt((np.maximum(half_widths**2 - lasting**2, 0.0) / room).max()))


def missed_precision(valuation: Valuation) -> tuple[float, float] | None:
    """Return the precision that a run was asked for and the one that it reached; None unless it was missed."""
    settings = valuation.settings
    if settings is None or settings.precision is None:
        return None
    only_target = settings.stderr is None and "stop" not in settings.needs
    if valuation.end.reason is Reason.TARGET and only_target:
        return None
    if settings.weights is not None and valuation.outputs is not None:
        valuation = valuation.combined(settings.weights)
    reached = float(np.max(valuation.sampling_half_width(settings.confidence)))
    return (settings.precision, reached) if reached > settings.precision else None


def why_unfinished(valuation: Valuation) -> str | None:
    """Return in words that a run, or a step after it, did not end; None if it did."""
    again = "run the same command again to finish it"
    if valuation.end.reason is Reason.INTERRUPTED:
        return f"the run was interrupted after {valuation.about_evaluations}: {again}"
    return None if valuation.finished else f"a step after the run, such as its audit, did not end: {again}"


def within_noise(valuation: Valuation, confidence: float) -> int | None:
    """Return the output whose U(N) - U(0) is no larger than its error due to the test rows; None if there is none."""
    noise = valuation.total_half_width(confidence)
    if noise is None:
        return None
    beyond = np.atleast_1d(valuation.total - noise)
    return int(np.argmin(beyond)) if beyond.min() <= 0 else None


def noise_in_words(valuation: Valuation, confidence: float, output: int) -> str:
    """Say that U(N) - U(0) of an output is within the noise of the test rows.

    Args:
        valuation: A valuation that knows the error of the test rows.
        confidence: Confidence level of the noise.
        output: The position of the output, 0 if there is one.

    Returns:
        A sentence without its full stop.

    """
    noise = valuation.total_half_width(confidence)
    assert noise is not None
    total, reach = (float(np.atleast_1d(each)[output]) for each in (valuation.total, noise))
    return (
        f"all the data together raises the score{for_output(valuation, output)} by {total:.4g}, which is within the "
        f"error from the choice of test rows, ± {reach:.4g}: other test rows could reverse it. "
        "More test rows may help, more evaluations cannot"
    )


def for_output(valuation: Valuation, output: int) -> str:
    """Name one of several outputs; empty if there is only one."""
    return "" if valuation.outputs is None else f" for {valuation.outputs[output]}"


def _others(names: Sequence[str]) -> str:
    """Return who else an objection is about."""
    return f" (the same holds for {some(names, SHOWN)})" if names else ""
