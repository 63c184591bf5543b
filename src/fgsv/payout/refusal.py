"""Refusals: reasons not to make a payment, and the error that states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

import numpy as np

from fgsv.files import decode, encode
from fgsv.payout.verdicts import SHOWN, WIDEST, noise_in_words, within_noise
from fgsv.planning import evaluations_to_narrow
from fgsv.types import Floats
from fgsv.valuation import Valuation
from fgsv.words import option, some


class Doubt(StrEnum):
    """Why a payment is refused."""

    TOO_WIDE = "too wide"
    """The half-width of a payment's interval is more than a tenth of the amount."""
    MORE_THAN_ALL = "more than all"
    """A payment is larger than the amount, and others would have to pay for it."""
    WITHIN_NOISE = "within noise"
    """U(N) - U(0) is within the error from the choice of test rows."""


QUESTIONS = {
    Doubt.TOO_WIDE: "to know every payment to within a tenth of the amount",
    Doubt.MORE_THAN_ALL: "to know whether it is more than the whole",
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
        if self.doubt is Doubt.WITHIN_NOISE:  # its detail says what may help
            return self.detail
        if self.evaluations is None:
            return f"{self.detail}; no number of evaluations would settle it"
        return f"{self.detail}; {QUESTIONS[self.doubt]}: about {self.evaluations:,} evaluations"


class PayoutRefused(ValueError):
    """A payout that is not made unless somebody insists; `objections` say why."""

    def __init__(self, amount: Decimal, currency: str, objections: Sequence[Objection]) -> None:
        self.amount, self.currency, self.objections = amount, currency, tuple(objections)
        reasons = ". Also, ".join(map(str, objections))
        super().__init__(
            f"{amount:,} {currency} was not split: {reasons}. To pay anyway, use {option('pay_anyway', True)}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.amount, self.currency, self.objections)

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON; money is text."""
        return {
            "amount": str(self.amount),
            "currency": self.currency,
            "objections": encode(self.objections),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PayoutRefused:
        """Read what `to_dict` returned."""
        objections = decode(tuple[Objection, ...], document["objections"])
        return cls(Decimal(document["amount"]), str(document["currency"]), objections)


def objections(
    valuation: Valuation,
    payments: Sequence[Decimal],
    half_widths: Floats,
    currency: str,
    confidence: float = 0.95,
) -> tuple[Objection, ...]:
    """Return the objections to (K,) payments with these half-widths; an unknown error is not an objection."""
    whole = sum(payments, Decimal(0))
    paid = np.array([float(payment) for payment in payments])
    found = []
    wide = np.flatnonzero(half_widths > WIDEST * float(whole))
    if len(wide):
        order = wide[np.argsort(-half_widths[wide], kind="stable")]
        widest = float(half_widths[order[0]])
        names = tuple(str(valuation.names[k]) for k in order)
        lasting = valuation.lasting_half_width(confidence).reshape(len(valuation), -1).max(axis=1)[order[0]]
        room = WIDEST**2 - lasting**2
        found.append(
            Objection(
                Doubt.TOO_WIDE,
                f"the payment to {names[0]} is known only to within {widest:,.2f} {currency}, more than a tenth of "
                f"{whole:,}{_others(names[1:])}",
                names,
                None
                if room <= 0
                else evaluations_to_narrow(valuation, _factor(widest / float(whole), lasting, room)),
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
    return tuple(found)


def _factor(widest: float, lasting: float, room: float) -> float:
    """Return by what factor evaluations have to narrow their part of a half-width, if `lasting` of it stays."""
    return float(np.sqrt(max(widest**2 - lasting**2, 0.0) / room))


def _others(names: Sequence[str]) -> str:
    """Return who else an objection is about."""
    return f" (the same holds for {some(names, SHOWN)})" if names else ""
