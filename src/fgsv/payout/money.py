"""Money: decimals in whole units of a currency, read from users and rounded without loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from numbers import Integral
from string import ascii_uppercase
from typing import Any

from babel.numbers import get_currency_precision, list_currencies
from numpy import ndarray

from fgsv.checks import check_type
from fgsv.words import some

Money = int | str | Decimal
Amount = Money | Sequence[Money] | Mapping[str, Money]
"""For one output; or for each, in their order or by name."""

MOST_DIGITS = 24
"""Beyond 28 digits Decimal rounds."""


def round_to(ideal: Sequence[Fraction], whole: Decimal, unit: Decimal) -> tuple[Decimal, ...]:
    """Round parts to multiples of `unit` that add up to `whole`: down, then up where most was lost.

    Args:
        ideal: The exact parts, as fractions.
        whole: What the rounded parts add up to, a multiple of `unit`.
        unit: The smallest unit of the currency.

    Returns:
        The parts in units. Every part changes by less than a unit; ties go to the first in order.

    Raises:
        ValueError, TypeError: An argument is wrong, or the parts do not add up to about `whole`.

    Examples:
        >>> parts = round_to([Fraction(100, 3)] * 3, Decimal("100.00"), Decimal("0.01"))
        >>> [str(part) for part in parts]
        ['33.34', '33.33', '33.33']

    """
    for given, name in ((whole, "whole"), (unit, "unit")):
        check_type(given, Decimal, f"a Decimal as {name}")
    if not (unit.is_finite() and whole.is_finite() and unit > 0) or whole % unit:
        raise ValueError(f"whole must be a multiple of unit, which is positive; got {whole} and {unit}")
    try:
        parts = [Fraction(part) for part in ideal]
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"ideal must be a list of numbers, such as fractions; got {ideal!r:.200}") from None
    step = Fraction(unit)
    floors = [math.floor(part / step) for part in parts]
    missing = int(Fraction(whole) / step) - sum(floors)
    remainders = [part / step - low for part, low in zip(parts, floors, strict=True)]
    if not 0 <= missing <= len(floors):
        raise ValueError(f"parts that sum to {float(sum(parts)):.6g} cannot be rounded to {whole}")
    for position in sorted(range(len(floors)), key=lambda k: (-remainders[k], k))[:missing]:
        floors[position] += 1
    return tuple((count * unit).quantize(unit) for count in floors)


def read_amount(given: Amount, unit: Decimal) -> Decimal | tuple[Decimal, ...] | dict[str, Decimal]:
    """Return an amount, or several in a sequence or by name, in whole units."""

    def read(each: Any) -> Decimal:
        if (found := read_money(each, unit, "amount")) < 0:
            raise ValueError(f"an amount must not be negative, got {found}")
        return found

    if isinstance(given, Mapping):
        return {name: read(each) for name, each in given.items()}
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | ndarray):
        return read(given)
    return tuple(map(read, given))


def amounts_for(
    names: Sequence[str] | None, amount: Decimal | Sequence[Decimal] | Mapping[str, Decimal]
) -> tuple[Decimal, ...]:
    """Return one amount for each output, in their order."""
    outputs = names or (None,)
    if isinstance(amount, Mapping):
        if names is None:
            raise ValueError("the valuation has one output, without a name: give one amount, not amounts by name")
        lacking = [f"{output!r} has none" for output in names if output not in amount]
        unknown = [f"there is no {name!r}" for name in amount if name not in names]
        if lacking or unknown:
            raise ValueError(f"amount must name each output once: {some([*unknown, *lacking], 3)}")
        return tuple(amount[output] for output in names)
    amounts = (amount,) if isinstance(amount, Decimal) else tuple(amount)
    if len(amounts) == len(outputs):
        return amounts
    if names is None:
        got = f"{len(amounts)}: {', '.join(map(str, amounts))}"
        raise ValueError(
            f"the valuation has one output, so expected one amount, got {got}. An amount has no commas: 100000.00"
        )
    raise ValueError(
        f"the valuation has {len(outputs)} outputs ({some(map(repr, names))}): give an amount for each, "
        f"got {len(amounts)}"
    )


def read_money(amount: Money, unit: Decimal, name: str) -> Decimal:
    """Return an amount as Decimal in whole units.

    Args:
        amount: What the user gave: int, str or Decimal.
        unit: The smallest unit of the currency.
        name: What the amount is called in errors.

    Returns:
        The amount, a multiple of `unit`.

    Raises:
        TypeError: It is a float or no number.
        ValueError: It is not finite, too large for exact arithmetic, or no multiple of the unit.

    """
    if isinstance(amount, bool) or not isinstance(amount, (Integral, str, Decimal)):  # numpy's integers too
        raise TypeError(f"{name} must be int, str or Decimal, not {type(amount).__name__}: money is never a float")
    try:
        money = Decimal(str(amount).replace("_", ""))
    except InvalidOperation:
        raise ValueError(f"{name} must be a number such as 100000.00, got {amount!r}") from None
    if not money.is_finite():
        raise ValueError(f"{name} must be finite, got {amount}")
    if money.adjusted() - unit.adjusted() > MOST_DIGITS:
        raise ValueError(f"{name} {amount} has more than {MOST_DIGITS} digits, the limit of exact decimal arithmetic")
    if money % unit:
        raise ValueError(f"{name} {money} is not a multiple of the smallest unit of the currency, {unit:f}")
    return money.quantize(unit)


def smallest_unit(currency: str, unit: Money | None) -> Decimal:
    """Return the smallest unit of a currency, or the given one, for which the code need not be a known one."""
    if len(str(currency)) != 3 or not set(str(currency)) <= set(ascii_uppercase):
        raise ValueError(f"currency must be a code of three capital letters such as EUR, got {currency!r}")
    if unit is None:
        if currency not in list_currencies():
            raise ValueError(
                f"there is no currency {currency}: expected an ISO 4217 code such as EUR, USD or JPY. In Python, "
                'fgsv.payout.split takes a code of your own if you also give its smallest unit, such as unit="0.01"'
            )
        return Decimal(1).scaleb(-get_currency_precision(currency))
    try:
        smallest = Decimal(str(unit))
    except InvalidOperation:
        smallest = Decimal("NaN")
    if not smallest.is_finite() or smallest <= 0:
        raise ValueError(f"unit must be a positive number such as 0.01, got {unit!r}")
    return smallest


def in_whole_units(x: float | Decimal, unit: Decimal, rounding: str) -> Decimal:
    """Return an amount, or an interval's bound, in whole units.

    Args:
        x: The amount, or the bound.
        unit: The smallest unit of the currency.
        rounding: `decimal.ROUND_FLOOR` for a lower bound, `decimal.ROUND_CEILING` for an upper one.

    Returns:
        The amount, a multiple of `unit`.

    """
    money = (Decimal(x) / unit).to_integral_value(rounding=rounding) * unit
    written = money.quantize(unit, context=Context(prec=3 * MOST_DIGITS))  # 100.00, not 1E+2
    return written or abs(written)  # 0.00, not -0.00
