"""Payouts: from values to shares to money that adds up to the cent."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from fgsv.types import Floats
from fgsv.valuation import Valuation

Money = int | str | Decimal

N_SCENARIOS = 2000
"""Draws of the values from their errors where a policy is not linear."""

MOST_DIGITS = 24
"""Decimal computes with 28 digits."""

_WITHOUT_CENTS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_WITH_THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"


@dataclass(frozen=True)
class Policy:
    """How values become shares. The default is linear, and that alone is proof against splitting.

    `clip` sets negative values to zero and renormalises; `floor` and `cap` bound each payment, and what they move
    is made up in proportion by those in between. Each of them makes it matter how a provider is cut into groups.
    """

    clip: bool = False
    floor: Decimal | None = None
    """The least that any group is paid, in money."""
    cap: Decimal | None = None
    """The most that any group is paid, in money."""

    @property
    def is_faithful(self) -> bool:
        """Whether no group can gain by splitting, merging or renaming under this policy."""
        return not self.clip and self.floor is None and self.cap is None

    def describe(self) -> str:
        """Say the policy in words."""
        words = ["negative values count as zero" if self.clip else "linear, value over total"]
        if self.floor is not None:
            words.append(f"at least {self.floor} each")
        if self.cap is not None:
            words.append(f"at most {self.cap} each")
        return ", ".join(words) + ("" if self.is_faithful else " (not faithful)")


@dataclass(frozen=True, eq=False)
class Payout:
    """Who is paid what: parts that add up to the amount exactly, each with an interval."""

    names: tuple[Hashable, ...]
    points: Floats
    shares: Floats
    """(K,) parts of the amount, before they are rounded to money."""
    payments: tuple[Decimal, ...]
    low: tuple[Decimal, ...]
    high: tuple[Decimal, ...]
    amount: Decimal
    currency: str
    confidence: float
    policy: Policy
    amounts: tuple[Decimal, ...]
    """What is paid for each output; they add up to `amount`."""
    unit: Decimal
    notes: tuple[str, ...]

    @property
    def is_faithful(self) -> bool:
        """Whether splitting, merging and renaming earn nothing beyond the rounding of one unit a part."""
        return self.policy.is_faithful

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each group; money is `Decimal`."""
        return pd.DataFrame(
            {
                "group": pd.Series(list(self.names), dtype=object),
                "points": self.points,
                "share": self.shares,
                "payout": pd.Series(list(self.payments), dtype=object),
                "payout_low": pd.Series(list(self.low), dtype=object),
                "payout_high": pd.Series(list(self.high), dtype=object),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold; money as strings, so that no reader makes floats of it."""
        rows = zip(self.names, self.shares.tolist(), self.payments, self.low, self.high, strict=True)
        return {
            "amount": str(self.amount),
            "amounts": [str(amount) for amount in self.amounts],
            "currency": self.currency,
            "unit": str(self.unit),
            "confidence": self.confidence,
            "clip": self.policy.clip,
            "floor": None if self.policy.floor is None else str(self.policy.floor),
            "cap": None if self.policy.cap is None else str(self.policy.cap),
            "policy": self.policy.describe(),
            "faithful": self.is_faithful,
            "notes": list(self.notes),
            "payments": [
                {"group": str(name), "share": share, "payout": str(paid), "low": str(low), "high": str(high)}
                for name, share, paid, low, high in rows
            ],
        }

    def __repr__(self) -> str:
        table = self.to_frame().to_string(index=False, float_format=lambda x: f"{x:.6g}")
        return "\n".join([table, f"{self.amount} {self.currency}, {self.policy.describe()}", *self.notes])


def split(
    valuation: Valuation,
    amount: Money | Sequence[Money] | Mapping[str, Money],
    currency: str = "EUR",
    *,
    unit: Money | None = None,
    clip: bool = False,
    floor: Money | None = None,
    cap: Money | None = None,
    confidence: float = 0.95,
) -> Payout:
    """Split an amount of money in proportion to the values; the parts add up to it exactly.

    >>> import fgsv
    >>> result = fgsv.exact(fgsv.games.Airport([1, 2, 3]), ["a", "b", "c"])
    >>> [str(paid) for paid in split(result, "100.00", "EUR").payments]
    ['11.11', '27.78', '61.11']

    Of a valuation of FGSV this is the Faithful Shapley Royalty Share, of one of GSV (`fgsv.grouped`) the Shapley
    Royalty Share (paper, section 4.2). By default a group is paid value / total, and a negative value is charged.

    `amount` and the other sums are int, str or Decimal, in whole units of the currency (`unit` overrides the
    smallest one). A game with several outputs takes an amount for each: in their order, or by name.
    `clip`, `floor` and `cap` are described at `Policy`; with any of them the result says "not faithful".
    Intervals hold each payment with the given confidence; they come from the Monte Carlo error alone.
    """
    smallest, amounts, policy = terms(
        amount,
        currency,
        n_groups=valuation.partition.n_groups,
        outputs=valuation.outputs,
        unit=unit,
        clip=clip,
        floor=floor,
        cap=cap,
    )
    whole = sum(amounts, Decimal(0))
    values = valuation.values.reshape(valuation.partition.n_groups, -1)
    scale, notes = _scale(valuation, values)
    ideal = _apply(policy, values, amounts, scale)
    payments = round_to(ideal, whole, smallest)
    half = _half_widths(policy, valuation, amounts, scale, confidence)
    low, high = (
        tuple(
            _outward(float(x) + sign * h, smallest, rounding) if np.isfinite(h) else Decimal("NaN")
            for x, h in zip(ideal, column, strict=True)
        )
        for sign, column, rounding in ((-1, half[0], ROUND_FLOOR), (1, half[1], ROUND_CEILING))
    )
    if not policy.is_faithful:
        notes.append("not faithful: under this policy a provider can gain by splitting; the audit says how much")
    elif valuation.grouped:
        notes.append("not faithful: these are Group Shapley Values, which splitting a provider changes")
    notes.append(f"rounding to {smallest} {currency} moves each part by less than that")
    return Payout(
        valuation.names,
        valuation.partition.sizes,
        np.array([float(x / Fraction(whole)) for x in ideal]),
        payments,
        low,
        high,
        whole,
        currency,
        confidence,
        policy,
        tuple(amounts),
        smallest,
        tuple(notes),
    )


def split_again(valuation: Valuation, document: Mapping[str, Any]) -> Payout:
    """Return the payout that `Payout.to_dict` made a document of, split anew from the values."""
    again = ("currency", "unit", "clip", "floor", "cap", "confidence")
    return split(valuation, document["amounts"], **{name: document[name] for name in again})


def royalty_shares(valuation: Valuation, *, clip: bool = False) -> Floats:
    """Return (K,) or (K, q) shares that sum to one over the groups: FSRS of FGSV, SRS of GSV (section 4.2).

    `clip` sets negative values to zero first, as the authors' code does; then the shares are not faithful.
    """
    values = np.maximum(valuation.values, 0) if clip else valuation.values
    # U(N) - U(0) is the same for every grouping; a sum over groups is so but for its last digit
    totals = valuation.total if valuation.efficient and not clip else values.sum(axis=0)
    if not np.all(totals > 0):
        raise ValueError(_nothing_to_share(float(np.min(totals))))
    return np.asarray(values / totals)


def round_to(ideal: Sequence[Fraction], whole: Decimal, unit: Decimal) -> tuple[Decimal, ...]:
    """Round parts to multiples of `unit` that add up to `whole`: down, then up where most was lost.

    >>> parts = round_to([Fraction(100, 3)] * 3, Decimal("100.00"), Decimal("0.01"))
    >>> [str(part) for part in parts]
    ['33.34', '33.33', '33.33']

    Every part moves by less than a unit. Ties go to those who stand first.
    """
    step = Fraction(unit)
    floors = [math.floor(part / step) for part in ideal]
    missing = int(Fraction(whole) / step) - sum(floors)
    remainders = [part / step - low for part, low in zip(ideal, floors, strict=True)]
    if not 0 <= missing <= len(floors):
        raise ValueError(f"parts that sum to {float(sum(ideal)):.6g} cannot be rounded to {whole}")
    for position in sorted(range(len(floors)), key=lambda k: (-remainders[k], k))[:missing]:
        floors[position] += 1
    return tuple((count * unit).quantize(unit) for count in floors)


def terms(
    amount: Money | Sequence[Money] | Mapping[str, Money],
    currency: str,
    *,
    n_groups: int,
    outputs: Sequence[str] | None = None,
    unit: Money | None = None,
    clip: bool = False,
    floor: Money | None = None,
    cap: Money | None = None,
) -> tuple[Decimal, list[Decimal], Policy]:
    """Return the smallest unit, an amount for each output and the policy, or raise an error if they cannot be met.

    No values are needed, so that a payout can be checked before an evaluation is spent.
    """
    smallest = _unit(currency, unit)
    amounts = _amounts(outputs, amount, smallest)
    whole = sum(amounts, Decimal(0))
    if whole <= 0:
        raise ValueError(f"the amount must be positive, got {whole} {currency}")
    policy = Policy(clip, _money(floor, smallest, "floor"), _money(cap, smallest, "cap"))
    _check_bounds(policy, whole, n_groups)
    return smallest, amounts, policy


def _apply(policy: Policy, values: Floats, amounts: Sequence[Decimal], scale: Sequence[Fraction]) -> list[Fraction]:
    """Return the exact payments, before rounding, of (K, q) values: rational, so nothing is lost on the way."""
    parts = [Fraction(0)] * len(values)
    for output, (amount, total) in enumerate(zip(amounts, scale, strict=True)):
        column = [Fraction(float(value)) for value in values[:, output]]
        if policy.clip:
            column = [max(value, Fraction(0)) for value in column]
            total = sum(column, Fraction(0))
            if total == 0:
                raise ValueError("every value is negative or zero: nothing is left to share after clipping")
        parts = [part + Fraction(amount) * value / total for part, value in zip(parts, column, strict=True)]
    if policy.floor is None and policy.cap is None:
        return parts
    return _bounded(parts, policy, sum((Fraction(amount) for amount in amounts), Fraction(0)))


def _bounded(parts: list[Fraction], policy: Policy, whole: Fraction) -> list[Fraction]:
    """Return the parts within floor and cap: positive ones times one common factor, so that they sum to whole.

    The sum is piecewise linear and rises with the factor; its kinks are where a part meets a bound.
    Between the two kinks that enclose the answer it is solved exactly.
    """
    floor = None if policy.floor is None else Fraction(policy.floor)
    cap = None if policy.cap is None else Fraction(policy.cap)

    def at(factor: Fraction) -> list[Fraction]:
        scaled = [part * factor if part > 0 else part for part in parts]
        if floor is not None:
            scaled = [max(part, floor) for part in scaled]
        return scaled if cap is None else [min(part, cap) for part in scaled]

    bounds = [bound for bound in (floor, cap) if bound is not None]
    kinks = sorted({Fraction(0)} | {bound / part for part in parts if part > 0 for bound in bounds})
    sums = [sum(at(kink), Fraction(0)) for kink in kinks]
    above = next((k for k, reached in enumerate(sums) if reached >= whole), len(kinks))
    if above == 0:
        return at(kinks[0])
    if above < len(kinks):
        left, right, low, high = kinks[above - 1], kinks[above], sums[above - 1], sums[above]
        return at(left + (right - left) * (whole - low) / (high - low))
    further = sum(at(kinks[-1] + 1), Fraction(0))
    if further == sums[-1]:
        raise ValueError(
            f"with at most {policy.cap} each only {float(sums[-1]):.2f} of {float(whole):.2f} can be paid: "
            "raise the cap"
        )
    return at(kinks[-1] + (whole - sums[-1]) / (further - sums[-1]))


def _half_widths(
    policy: Policy, valuation: Valuation, amounts: Sequence[Decimal], scale: Sequence[Fraction], confidence: float
) -> tuple[Floats, Floats]:
    """Return how far each payment's interval reaches down and up."""
    n_groups = valuation.partition.n_groups
    factors = np.array([float(Fraction(amount) / total) for amount, total in zip(amounts, scale, strict=True)])
    half = valuation.half_width(confidence).reshape(n_groups, -1)
    deviations = _group_deviations(valuation)
    if policy.is_faithful:
        if deviations is None or len(factors) == 1:
            reach = half @ np.abs(factors)  # several outputs: as if their errors all pointed the same way
        else:
            quantile = float(student.ppf((1 + confidence) / 2, valuation.degrees_of_freedom))
            reach = quantile * np.sqrt(((deviations @ factors) ** 2).sum(axis=0))
        return reach, reach
    if not np.isfinite(half).all():
        return half[:, 0], half[:, 0]
    rng = np.random.default_rng(0)
    freedom = valuation.degrees_of_freedom
    stretch = np.ones(N_SCENARIOS) if np.isinf(freedom) else np.sqrt(freedom / rng.chisquare(freedom, N_SCENARIOS))
    values = valuation.values.reshape(n_groups, -1)
    if deviations is None:
        errors = rng.standard_normal((N_SCENARIOS, *values.shape)) * valuation.stderr.reshape(values.shape)
    else:
        errors = np.einsum("sr,rkq->skq", rng.standard_normal((N_SCENARIOS, len(deviations))), deviations)
    scenarios = _apply_floats(policy, values + stretch[:, None, None] * errors, amounts, scale)
    centre = _apply_floats(policy, values[None], amounts, scale)[0]
    low, high = np.quantile(scenarios, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return np.maximum(centre - low, 0), np.maximum(high - centre, 0)


def _apply_floats(policy: Policy, values: Floats, amounts: Sequence[Decimal], scale: Sequence[Fraction]) -> Floats:
    """Return (m, K) payments of (m, K, q) scenarios of the values; in floats, since they only make intervals."""
    totals = np.array([float(total) for total in scale])
    if policy.clip:
        values = np.maximum(values, 0)
        totals = np.maximum(values.sum(axis=1), 1e-300)[:, None, :]
    parts = (values / totals) @ np.array([float(amount) for amount in amounts])
    if policy.floor is None and policy.cap is None:
        return np.asarray(parts)
    floor = -np.inf if policy.floor is None else float(policy.floor)
    cap = np.inf if policy.cap is None else float(policy.cap)
    whole = float(sum(amounts, Decimal(0)))
    low, high = np.zeros(len(parts)), np.full(len(parts), 1e6)
    for _ in range(80):  # bisection in the common factor
        middle = (low + high) / 2
        reached = np.clip(np.where(parts > 0, parts * middle[:, None], parts), floor, cap).sum(axis=1)
        low, high = np.where(reached < whole, middle, low), np.where(reached < whole, high, middle)
    return np.clip(np.where(parts > 0, parts * high[:, None], parts), floor, cap)


def _group_deviations(valuation: Valuation) -> Floats | None:
    """Return (R, K, q) deviations of the groups, or None."""
    if valuation.deviations is None or valuation.player_values is None:
        return None
    sums = [valuation.partition.sums(deviation.astype(float)) for deviation in valuation.deviations]
    return np.stack(sums).reshape(len(sums), valuation.partition.n_groups, -1)


def _scale(valuation: Valuation, values: Floats) -> tuple[list[Fraction], list[str]]:
    """Return for each output what the values are divided by: their own sum, which is U(N) - U(0) or near it."""
    sums = [sum((Fraction(float(value)) for value in column), Fraction(0)) for column in values.T]
    totals = np.atleast_1d(valuation.total)
    if min(*sums, *map(Fraction, totals.tolist())) <= 0:
        raise ValueError(_nothing_to_share(min(float(min(sums)), float(totals.min()))))
    off = max(abs(float(found) / total - 1) for found, total in zip(sums, totals.tolist(), strict=True))
    if off > 1e-9:
        return sums, [
            f"the estimates of method {valuation.method!r} miss U(N) - U(0) by {off:.2%}; they are scaled to it"
        ]
    return sums, []


def _nothing_to_share(total: float) -> str:
    return (
        f"the values sum to {total:.6g}, which is not positive: with everybody's data the model scores no better "
        "than with none, so there is nothing to share. Check the metric, the model and the value of the empty set"
    )


def _amounts(names: Sequence[str] | None, amount: Any, unit: Decimal) -> list[Decimal]:
    """Return one amount for each output."""
    outputs = names or (None,)
    if isinstance(amount, Mapping):
        if set(amount) != set(outputs):
            raise ValueError(f"amount must name each output once: {', '.join(map(str, outputs))}")
        asked = [amount[output] for output in outputs]
    elif isinstance(amount, Sequence) and not isinstance(amount, str):
        asked = list(amount)
    else:
        asked = [amount]
    if len(asked) != len(outputs):
        if names is None:
            raise ValueError(f"there is one output, which takes one amount, got {len(asked)}")
        raise ValueError(
            f"the valuation has {len(outputs)} outputs ({', '.join(map(str, outputs))}): give an amount for each, "
            f"got {len(asked)}"
        )
    found = [_money(one, unit, "amount") for one in asked]
    if any(one is None or one < 0 for one in found):
        raise ValueError("an amount must not be negative")
    return [one for one in found if one is not None]


def _money(amount: Money | None, unit: Decimal, name: str) -> Decimal | None:
    """Return an amount as Decimal in whole units."""
    if amount is None:
        return None
    if isinstance(amount, bool) or not isinstance(amount, (int, str, Decimal)):
        raise TypeError(f"{name} must be int, str or Decimal, not {type(amount).__name__}: money is never a float")
    try:
        money = Decimal(str(amount).replace("_", ""))
    except InvalidOperation:
        raise ValueError(f"{name} must be a number such as 100000.00, got {amount!r}") from None
    if not money.is_finite():
        raise ValueError(f"{name} must be finite, got {amount}")
    if money.adjusted() - unit.adjusted() > MOST_DIGITS:
        raise ValueError(f"{name} {amount} has more than {MOST_DIGITS} digits: beyond exact decimal arithmetic")
    if money % unit:
        raise ValueError(f"{name} {money} is not a whole number of units of {unit}")
    return money.quantize(unit)


def _unit(currency: str, unit: Money | None) -> Decimal:
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()):
        raise ValueError(f"currency must be a code of three capital letters such as EUR, got {currency!r}")
    if unit is not None:
        smallest = Decimal(str(unit))
        if not smallest > 0:
            raise ValueError(f"unit must be positive, got {unit}")
        return smallest
    decimals = 0 if currency in _WITHOUT_CENTS else 3 if currency in _WITH_THREE_DECIMALS else 2
    return Decimal(1).scaleb(-decimals)


def _check_bounds(policy: Policy, whole: Decimal, n_groups: int) -> None:
    floor, cap = policy.floor, policy.cap
    if floor is not None and (floor < 0 or floor * n_groups > whole):
        raise ValueError(f"a floor of {floor} for each of {n_groups} groups must lie between 0 and {whole} in all")
    if cap is not None and cap * n_groups < whole:
        raise ValueError(f"with at most {cap} each, {n_groups} groups cannot be paid {whole} in all: raise the cap")
    if floor is not None and cap is not None and floor > cap:
        raise ValueError(f"the floor {floor} is above the cap {cap}")


def _outward(x: float, unit: Decimal, rounding: str) -> Decimal:
    return (Decimal(x) / unit).to_integral_value(rounding=rounding) * unit
