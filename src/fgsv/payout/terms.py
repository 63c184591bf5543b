"""Terms: how much is split, and how values become money. Only linear terms are proof against splitting."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from fgsv.payout.money import Amount, Money, amounts_for, read_amount, read_money, smallest_unit
from fgsv.types import Floats
from fgsv.valuation import Valuation

if TYPE_CHECKING:
    from fgsv.payout.splitting import Payout


@dataclass(frozen=True, init=False)
class Terms:
    """What to split, and how, as Decimals in whole units: read when made, checked before the first evaluation.

    By default a group is paid value / total, which alone is proof against splitting. `clip` sets negative values to
    zero and renormalises; `floor` and `cap` bound each payment, and what they move is made up in proportion by those
    in between. Each of these makes it matter how a provider is cut into groups.

    >>> terms = Terms("100000", "EUR", cap=40_000)
    >>> terms.cap, terms.describe()
    (Decimal('40000.00'), 'linear, value over total, at most 40000.00 each (not faithful)')
    """

    amount: Decimal | tuple[Decimal, ...] | Mapping[str, Decimal]
    """For one output; or for each, in their order or by name."""
    currency: str
    clip: bool
    floor: Decimal | None
    """Smallest payment to any group."""
    cap: Decimal | None
    """Largest payment to any group."""
    pay_anyway: bool
    """Pay despite any objections."""
    unit: Decimal
    """The smallest unit of the currency; required for a code that no currency has."""

    def __init__(
        self,
        amount: Amount,
        currency: str = "EUR",
        clip: bool = False,
        floor: Money | None = None,
        cap: Money | None = None,
        pay_anyway: bool = False,
        unit: Money | None = None,
    ) -> None:
        smallest = smallest_unit(currency, unit)
        read = {
            "amount": read_amount(amount, smallest),
            "currency": currency,
            "clip": clip,
            "floor": None if floor is None else read_money(floor, smallest, "floor"),
            "cap": None if cap is None else read_money(cap, smallest, "cap"),
            "pay_anyway": pay_anyway,
            "unit": smallest,
        }
        for name, each in read.items():
            object.__setattr__(self, name, each)

    def check(self, n_groups: int, outputs: Sequence[str] | None = None) -> tuple[Decimal, ...]:
        """Return the amount for each output, or raise an error if the terms cannot be met, whatever the values."""
        amounts = amounts_for(outputs, self.amount)
        whole = sum(amounts, Decimal(0))
        floor = self.floor
        cap = self.cap
        if whole <= 0:
            raise ValueError(f"the amount must be positive, got {whole} {self.currency}")
        if floor is not None and floor < 0:
            raise ValueError(f"the floor must not be negative, got {floor}")
        if floor is not None and cap is not None and floor > cap:
            raise ValueError(f"the floor {floor} is above the cap {cap}")
        if floor is not None and (least := floor * n_groups) > whole:
            raise ValueError(
                f"a floor of {floor} for each of {n_groups} groups is {least}, more than {whole}: lower it"
            )
        if cap is not None and cap * n_groups < whole:
            raise ValueError(
                f"with at most {cap} each, {n_groups} groups cannot be paid {whole} in total: raise the cap"
            )
        return amounts

    def split(self, valuation: Valuation, confidence: float = 0.95) -> Payout:
        """Split the amount by a valuation, or raise `PayoutRefused`."""
        from fgsv.payout.splitting import pay

        return pay(self, valuation, confidence)

    @property
    def is_faithful(self) -> bool:
        """Whether no group can gain by splitting, merging or renaming under these terms."""
        return not self.clip and self.floor is None and self.cap is None

    @property
    def policy(self) -> dict[str, Any]:
        """The arguments that say how values become payments."""
        return {"clip": self.clip, "floor": self.floor, "cap": self.cap}

    def within(self, payment: Decimal) -> Decimal:
        """Return a bound of an interval, moved to the nearest payment that the terms allow."""
        if payment.is_nan():
            return payment
        least = self.floor if self.floor is not None else Decimal(0) if self.clip else None
        if least is not None:
            payment = max(payment, least.quantize(payment))
        return payment if self.cap is None else min(payment, self.cap.quantize(payment))

    def describe(self) -> str:
        """Describe in words how values become payments."""
        words = ["negative values count as zero" if self.clip else "linear, value over total"]
        if self.floor is not None:
            words.append(f"at least {self.floor} each")
        if self.cap is not None:
            words.append(f"at most {self.cap} each")
        return ", ".join(words) + ("" if self.is_faithful else " (not faithful)")


def apply(terms: Terms, values: Floats, amounts: Sequence[Decimal], scale: Sequence[Fraction]) -> list[Fraction]:
    """Return the exact payments, before rounding, as fractions.

    Args:
        terms: How values become payments.
        values: (K, q) values of the groups, a column for each output.
        amounts: (q,) the amount for each output.
        scale: (q,) what the values of each output are parts of.

    Returns:
        (K,) payments that add up to the sum of the amounts.

    Raises:
        ValueError: No payments meet the terms, or nothing is left to share after clipping.

    """
    parts = [Fraction(0)] * len(values)
    for output, (amount, total) in enumerate(zip(amounts, scale, strict=True)):
        column = [Fraction(float(value)) for value in values[:, output]]
        if terms.clip:
            column = [max(value, Fraction(0)) for value in column]
            total = sum(column, Fraction(0))
            if total == 0:
                raise ValueError("every value is negative or zero, so nothing is left to share after clipping")
        parts = [part + Fraction(amount) * value / total for part, value in zip(parts, column, strict=True)]
    if terms.floor is None and terms.cap is None:
        return parts
    return _bounded(parts, terms, sum((Fraction(amount) for amount in amounts), Fraction(0)))


def _bounded(parts: list[Fraction], terms: Terms, whole: Fraction) -> list[Fraction]:
    """Return the parts within floor and cap, positive ones scaled by one common factor so that they sum to `whole`.

    The sum is piecewise linear and rises with the factor; its kinks are where a part meets a bound.
    Between the two kinks that enclose the answer, it is solved exactly.
    """
    floor = None if terms.floor is None else Fraction(terms.floor)
    cap = None if terms.cap is None else Fraction(terms.cap)

    def at(factor: Fraction) -> list[Fraction]:
        scaled = [part * factor if part > 0 else part for part in parts]
        if floor is not None:
            scaled = [max(part, floor) for part in scaled]
        return scaled if cap is None else [min(part, cap) for part in scaled]

    bounds = [bound for bound in (floor, cap) if bound is not None]
    kinks = sorted({Fraction(0)} | {bound / part for part in parts if part > 0 for bound in bounds})

    def total(factor: Fraction) -> Fraction:
        return sum(at(factor), Fraction(0))

    above = bisect_left(kinks, whole, key=total)
    if above == 0:
        return at(kinks[0])
    left, low = kinks[above - 1], total(kinks[above - 1])
    right = kinks[above] if above < len(kinks) else left + 1
    high = total(right)
    if high == low:
        raise ValueError(
            f"with at most {terms.cap} each only {float(low):.2f} of {float(whole):.2f} can be paid: raise the cap"
        )
    return at(left + (right - left) * (whole - low) / (high - low))


@dataclass(frozen=True, eq=False)
class Scenarios:
    """Payments for scenarios of the values, in floats, because they only make intervals.

    What depends on all groups, the totals and the common factor, is settled first; then the payments of a few groups
    can be computed alone.
    """

    terms: Terms
    amounts: Floats
    """(q,)"""
    totals: Floats
    """(m, 1, q), or (q,) where they are the same in all scenarios."""
    factors: Floats | None
    """(m,) by which positive parts are scaled to meet floor and cap."""

    @classmethod
    def settle(cls, terms: Terms, values: Floats, amounts: Sequence[Decimal], scale: Sequence[Fraction]) -> Scenarios:
        """Settle what depends on all groups.

        Args:
            terms: How values become payments.
            values: (m, K, q) scenarios of the values.
            amounts: (q,) the amount for each output.
            scale: (q,) what the values of each output are parts of, unless the terms clip.

        Returns:
            The scenarios, from which the payments of single groups follow.

        """
        totals = np.array([float(total) for total in scale])
        if terms.clip:
            totals = np.maximum(np.maximum(values, 0).sum(axis=1), 1e-300)[:, None, :]
        found = cls(terms, np.array([float(amount) for amount in amounts]), totals, None)
        if terms.floor is None and terms.cap is None:
            return found
        parts = found.parts(values)
        whole = float(sum(amounts, Decimal(0)))
        low, high = np.zeros(len(parts)), np.full(len(parts), 1e6)
        for _ in range(80):  # bisection in the common factor
            middle = (low + high) / 2
            reached = found.bounded(parts, middle).sum(axis=1)
            low, high = np.where(reached < whole, middle, low), np.where(reached < whole, high, middle)
        return replace(found, factors=high)

    @classmethod
    def joined(cls, blocks: Sequence[Scenarios]) -> Scenarios:
        """Return scenarios that were settled in blocks as one."""
        first = blocks[0]
        totals = np.concatenate([block.totals for block in blocks]) if first.totals.ndim == 3 else first.totals
        factors = [block.factors for block in blocks if block.factors is not None]
        return replace(first, totals=totals, factors=np.concatenate(factors) if factors else None)

    def parts(self, values: Floats) -> Floats:
        """Return the (m, k) parts of (m, k, q) values, before floor and cap."""
        if self.terms.clip:
            values = np.maximum(values, 0)
        return (values / self.totals) @ self.amounts

    def bounded(self, parts: Floats, factors: Floats) -> Floats:
        """Return (m, k) parts within floor and cap, the positive ones scaled by their scenario's factor."""
        floor = -np.inf if self.terms.floor is None else float(self.terms.floor)
        cap = np.inf if self.terms.cap is None else float(self.terms.cap)
        return np.clip(np.where(parts > 0, parts * factors[:, None], parts), floor, cap)

    def payments(self, values: Floats) -> Floats:
        """Return the (m, k) payments of some groups, from their (m, k, q) values in all scenarios."""
        parts = self.parts(values)
        return parts if self.factors is None else self.bounded(parts, self.factors)
