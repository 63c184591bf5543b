"""Payouts: from values to shares to money that adds up to the cent."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from fgsv.checks import check_type
from fgsv.files import decode, encode
from fgsv.payout.money import Amount, Money, in_whole_units, round_to
from fgsv.payout.refusal import Objection, PayoutRefused, objections
from fgsv.payout.terms import Scenarios, Terms, apply
from fgsv.types import Floats
from fgsv.valuation import Valuation, check_confidence, check_valuation, t_quantile
from fgsv.valuation.differences import Difference
from fgsv.valuation.display import NEGATIVE, Section, as_html, as_text
from fgsv.valuation.valuation import some_outputs
from fgsv.words import in_percent, level, some

N_SCENARIOS = 2000
"""Random scenarios of the values, for the intervals of a policy that is not linear."""
BLOCK = 2**22
"""Numbers of the scenarios in memory at a time."""


class AlteredPayout(ValueError):
    """A saved payout is not what its valuation and its terms give."""


@dataclass(frozen=True, eq=False)
class Payout:
    """Who is paid what: parts that add up to the amount exactly, each with an interval."""

    names: tuple[Hashable, ...]
    players: Floats
    shares: Floats
    """(K,) parts of the amount, before they are rounded to money."""
    payments: tuple[Decimal, ...]
    low: tuple[Decimal, ...]
    high: tuple[Decimal, ...]
    confidence: float
    terms: Terms
    amounts: tuple[Decimal, ...]
    """The amount for each output; they add up to `amount`."""
    notes: tuple[str, ...]
    objections: tuple[Objection, ...] = ()
    """The objections, if it was paid anyway."""
    outputs: tuple[str, ...] = ()
    """What each of the `amounts` is for, if there are several outputs."""
    grouped: bool = False
    """Whether it is by Group Shapley Values, which splitting a provider changes."""

    @property
    def amount(self) -> Decimal:
        """What is split in all."""
        return sum(self.amounts, Decimal(0))

    @property
    def currency(self) -> str:
        """The code of the currency."""
        return self.terms.currency

    @property
    def unit(self) -> Decimal:
        """The smallest unit of the currency."""
        return self.terms.unit

    @property
    def is_faithful(self) -> bool:
        """Whether splitting, merging and renaming earn nothing beyond rounding, at most one unit a part."""
        return self.terms.is_faithful and not self.grouped

    @property
    def by_output(self) -> dict[str, Decimal]:
        """The amount for each output, if there are several."""
        return dict(zip(self.outputs, self.amounts, strict=True)) if self.outputs else {}

    def describe(self) -> str:
        """Return the amount, how much of it is for each output if there are several, and the policy, in words."""
        parts = some(f"{amount:,} for {output}" for output, amount in self.by_output.items())
        return f"{self.amount:,} {self.currency}{parts and f' ({parts})'}, {self.terms.describe()}"

    def split_again(self, valuation: Valuation, confidence: float) -> Payout:
        """Split the same amounts by a valuation in the same way, despite any objections."""
        return replace(self.terms, amount=self.amounts, pay_anyway=True).split(valuation, confidence)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each group; money is `Decimal`."""
        return pd.DataFrame(
            {
                "group": pd.Series(list(self.names), dtype=object),
                "players": self.players.astype(int) if (self.players % 1 == 0).all() else self.players,
                "share": self.shares,
                "payout": pd.Series(list(self.payments), dtype=object),
                "payout_low": pd.Series(list(self.low), dtype=object),
                "payout_high": pd.Series(list(self.high), dtype=object),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON; money is text, so that no reader turns it into floats."""
        rows = zip(self.names, self.shares.tolist(), self.payments, self.low, self.high, strict=True)
        return {
            "amount": str(self.amount),
            "amounts": [str(amount) for amount in self.amounts],
            "currency": self.currency,
            "unit": str(self.unit),
            "confidence": self.confidence,
            **encode(self.terms.policy),
            "policy": self.terms.describe(),
            "faithful": self.is_faithful,
            "notes": list(self.notes),
            "objections": encode(self.objections),
            "payments": [
                {"group": str(name), "share": share, "payout": str(paid), "low": str(low), "high": str(high)}
                for name, share, paid, low, high in rows
            ],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], valuation: Valuation) -> Payout:
        """Read a document made by `to_dict`, which must be what the valuation and its own terms give.

        The ends of intervals may differ by a unit and by rounding, as they do on another machine.
        """
        how = {name: document[name] for name in ("currency", "clip", "floor", "cap", "unit")}
        terms = Terms(document["amounts"], **how)
        check_confidence(document["confidence"])
        derived = replace(terms, pay_anyway=True).split(valuation, document["confidence"])
        slack = derived.unit + derived.amount / 10**6
        for each in _differences(document, derived.to_dict()):
            rounded = each.where.startswith(("low of", "high of"))
            if not rounded or not abs(Decimal(each.stated) - Decimal(each.derived)) <= slack:
                raise AlteredPayout(
                    f"the {each.where} is stated as {each.stated}, but the values and the terms of the payout give "
                    f"{each.derived}"
                )
        low, high = (tuple(Decimal(row[end]) for row in document["payments"]) for end in ("low", "high"))
        against = decode(tuple[Objection, ...], document["objections"])
        return replace(derived, terms=terms, low=low, high=high, objections=against)

    def section(self, group: str = "provider", negative: str = NEGATIVE) -> Section:
        """Return who is paid what, from the largest payment to the smallest.

        Args:
            group: What a group is called.
            negative: What a negative value means.

        """
        words = [
            f"Amount: {self.describe()}.",
            *(f"It was paid although {each}." for each in self.objections),
        ]
        if any(paid < 0 for paid in self.payments):
            words.append(
                f"{negative} It is charged, and the others are paid from that: otherwise payments would depend on "
                "who splits or merges."
            )
        columns = self.names, self.payments, self.low, self.high, self.shares.tolist()
        rows = sorted(zip(*columns, strict=True), key=lambda row: -row[1])
        return Section(
            f"Payments in {self.currency}, with {level(self.confidence)} intervals",
            tuple(words),
            (group, "payment", "interval", "of the amount"),
            tuple(
                (str(name), f"{paid:,}", "unknown" if low.is_nan() else f"{low:,} to {high:,}", in_percent(share))
                for name, paid, low, high, share in rows
            ),
        )

    def sections(self) -> list[Section]:
        """Return the payments, and what to know about them."""
        return [self.section(), Section("Note", self.notes)]

    __repr__ = as_text
    _repr_html_ = as_html


def split(
    valuation: Valuation,
    amount: Amount,
    currency: str = "EUR",
    *,
    unit: Money | None = None,
    clip: bool = False,
    floor: Money | None = None,
    cap: Money | None = None,
    confidence: float = 0.95,
    pay_anyway: bool = False,
) -> Payout:
    """Split an amount of money in proportion to the values; the parts add up to it exactly.

    >>> import fgsv
    >>> result = fgsv.exact(fgsv.games.Airport([1, 2, 3]), ["a", "b", "c"])
    >>> [str(paid) for paid in split(result, "100.00", "EUR").payments]
    ['11.11', '27.78', '61.11']

    For a valuation of FGSV this is the Faithful Shapley Royalty Share, for GSV (`fgsv.grouped`) the Shapley
    Royalty Share (paper, section 4.2). By default a group is paid value / total, and a negative value is charged.

    Intervals hold the Monte Carlo error, that of the test rows (if the valuation does not know it, a note says so)
    and, if every coalition was trained with its own seed, that of training seeds.

    Args:
        valuation: What was valued.
        amount: Amount to split, such as 100000.00; with several outputs one each, of which 0 leaves one out. In
            Python, sums are int, str or Decimal, in whole units of the currency, and those of outputs in their order
            or by name.
        currency: Three-letter currency code.
        unit: The smallest unit of the currency. Default: that of the code; required for one that no currency has.
        clip: Pay nothing for negative values instead of charging (not faithful).
        floor: Smallest payment to each provider (not faithful).
        cap: Largest payment to each provider (not faithful).
        confidence: Confidence level of all intervals.
        pay_anyway: Pay even if payments are uncertain or absurd (otherwise exit code 3). In Python, otherwise
            `PayoutRefused`.

    Returns:
        The payments, with their intervals.

    Raises:
        PayoutRefused: A payment is not known to within a tenth of the amount or is more than all of it, or
            U(N) - U(0) is no larger than its error due to the choice of test rows.
        ValueError, TypeError: An argument is wrong.

    """
    return Terms(amount, currency, clip, floor, cap, pay_anyway, unit).split(valuation, confidence)


def pay(terms: Terms, valuation: Valuation, confidence: float) -> Payout:
    """Return the payout of a valuation by terms: what `Terms.split` and `split` do.

    Args:
        terms: What to split, and how.
        valuation: The values of the groups.
        confidence: Confidence level of the intervals.

    Returns:
        The payments with their intervals.

    Raises:
        PayoutRefused: There are objections, and the terms do not say `pay_anyway`.
        ValueError: The terms cannot be met, or there is nothing to share.

    """
    check_valuation(valuation)
    amounts = terms.check(valuation.partition.n_groups, valuation.outputs)
    currency = terms.currency
    unit = terms.unit
    whole = sum(amounts, Decimal(0))
    paid_for, parts = paid_outputs(valuation, amounts)
    scale, notes = _scale(paid_for)
    ideal = apply(terms, _columns(paid_for), parts, scale)
    payments = round_to(ideal, whole, unit)
    half = _half_widths(terms, paid_for, parts, scale, confidence)
    low, high = _bounds(terms, [float(part) for part in ideal], payments, half)
    if not terms.is_faithful:
        notes.append("not faithful: under this policy a provider can gain by splitting; the audit says how much")
    elif valuation.grouped:
        notes.append("not faithful: these are Group Shapley Values, which splitting a provider changes")
    against = objections(paid_for, payments, (half[0] + half[1]) / 2, currency, confidence)
    if against and not terms.pay_anyway:
        raise PayoutRefused(whole, currency, against)
    # `differences` compares these notes with those in saved files, so rewording one is a change of format
    if not paid_for.knows_test_rows:
        notes.append(paid_for.about_intervals)
    notes.append(f"payments are rounded to {unit:f} {currency} and add up to exactly {whole:,} {currency}")
    return Payout(
        names=valuation.names,
        players=valuation.partition.sizes,
        shares=np.array([float(x / Fraction(whole)) for x in ideal]),
        payments=payments,
        low=low,
        high=high,
        confidence=confidence,
        terms=terms,
        amounts=amounts,
        notes=tuple(notes),
        objections=against,
        outputs=tuple(valuation.outputs or ()),
        grouped=valuation.grouped,
    )


def payments_of(valuation: Valuation, terms: Terms) -> tuple[Decimal, ...]:
    """Return what is paid by terms, without intervals and objections."""
    amounts = terms.check(valuation.partition.n_groups, valuation.outputs)
    paid_for, parts = paid_outputs(valuation, amounts)
    ideal = apply(terms, _columns(paid_for), parts, _scale(paid_for)[0])
    return round_to(ideal, sum(amounts, Decimal(0)), terms.unit)


def differences(payout: Payout, valuation: Valuation) -> list[Difference]:
    """Split the money again from the values; return where the payout differs."""
    check_type(payout, Payout, "a payout", "fgsv.payout.split makes one")
    check_valuation(valuation)
    return list(_differences(payout.to_dict(), payout.split_again(valuation, payout.confidence).to_dict()))


def _differences(stated: Mapping[str, Any], derived: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where two documents of a payout differ, but for objections, which are opinions on the numbers."""
    for name in sorted(set(derived) - {"payments", "objections"}):
        if stated[name] != derived[name]:
            yield Difference(f"{name} of the payout", stated[name], derived[name])
    if len(stated["payments"]) != len(derived["payments"]):
        yield Difference("payments", len(stated["payments"]), len(derived["payments"]))
        return
    for paid, due in zip(stated["payments"], derived["payments"], strict=True):
        who = f"payment to {due['group']!r}"
        for name in due:
            if paid[name] != due[name]:
                yield Difference(who if name == "payout" else f"{name} of the {who}", paid[name], due[name])


def royalty_shares(valuation: Valuation, *, clip: bool = False) -> Floats:
    """Return (K,) or (K, q) shares that sum to one over the groups: FSRS of FGSV, SRS of GSV (section 4.2).

    `clip` sets negative values to zero first, as the authors' code does; then the shares are not faithful.
    """
    check_valuation(valuation)
    values = np.maximum(valuation.values, 0) if clip else valuation.values
    # U(N) - U(0) is the same for every grouping; a sum over groups may differ in the last digit
    totals = valuation.total if valuation.efficient and not clip else values.sum(axis=0)
    _check_something_to_share(valuation, np.atleast_1d(totals))
    return values / totals


def _bounds(
    terms: Terms, ideal: Sequence[float], paid: Sequence[Decimal], half: tuple[Floats, Floats]
) -> tuple[tuple[Decimal, ...], tuple[Decimal, ...]]:
    """Return the bounds of each payment's interval, rounded outward but never beyond what the terms allow.

    They contain the payment itself, also where it has more digits than a float.
    """

    def bound(x: float, payment: Decimal, width: float, rounding: str) -> Decimal:
        if not np.isfinite(width):
            return Decimal("NaN")
        outermost = min if rounding == ROUND_FLOOR else max
        return outermost(terms.within(in_whole_units(x + width, terms.unit, rounding)), payment)

    low = tuple(bound(x, each, -width, ROUND_FLOOR) for x, each, width in zip(ideal, paid, half[0], strict=True))
    high = tuple(bound(x, each, width, ROUND_CEILING) for x, each, width in zip(ideal, paid, half[1], strict=True))
    return low, high


def _half_widths(
    terms: Terms, valuation: Valuation, amounts: Sequence[Decimal], scale: Sequence[Fraction], confidence: float
) -> tuple[Floats, Floats]:
    """Return the lower and upper half-width of each payment's interval; NaN if an error is unknown.

    Every payment depends on all values, by their sum or by the policy: one unknown error makes all of them unknown.
    """
    n_groups = valuation.partition.n_groups
    values = _columns(valuation)
    factors = np.array([float(Fraction(amount) / total) for amount, total in zip(amounts, scale, strict=True)])
    deviations, freedom = deviations_of_shares(valuation)
    if not np.isfinite(deviations).all():
        return np.full(n_groups, np.nan), np.full(n_groups, np.nan)
    if terms.is_faithful:
        if valuation.efficient and len(factors) == 1:  # with the degrees of freedom of the shares
            reach = (valuation.share_half_width(confidence) * valuation.total).reshape(n_groups, -1) @ factors
        else:
            quantile = float(t_quantile(confidence, freedom))
            reach = quantile * np.sqrt(((deviations @ factors) ** 2).sum(axis=0))
        return reach, reach
    rng = np.random.default_rng(0)
    stretch = np.ones(N_SCENARIOS) if np.isinf(freedom) else np.sqrt(freedom / rng.chisquare(freedom, N_SCENARIOS))
    normal = rng.standard_normal((N_SCENARIOS, len(deviations)))

    def scenarios(rows: slice, groups: slice) -> Floats:
        off = np.einsum("sr,rkq->skq", normal[rows], deviations[:, groups])
        return values[groups] + stretch[rows, None, None] * off

    everyone, always = slice(n_groups), slice(N_SCENARIOS)
    settled = [
        Scenarios.settle(terms, scenarios(rows, everyone), amounts, scale)
        for rows in _blocks(N_SCENARIOS, values.size)
    ]
    whole = Scenarios.joined(settled)
    low, high = np.empty(n_groups), np.empty(n_groups)
    for groups in _blocks(n_groups, N_SCENARIOS * values.shape[1]):
        paid = whole.payments(scenarios(always, groups))
        low[groups], high[groups] = np.quantile(paid, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    centre = Scenarios.settle(terms, values[None], amounts, scale).payments(values[None])[0]
    return np.maximum(centre - low, 0), np.maximum(high - centre, 0)


def deviations_of_shares(valuation: Valuation) -> tuple[Floats, float]:
    """Return (R, K, q) deviations of the shares, in units of the utility, and their degrees of freedom.

    Values that do not sum to U(N) - U(0) are scaled to it, so that a payment has the error of the sum too: what v / V
    deviates by is (dv - v / V dV) / V. A method that values one group at a time has independent errors.
    """
    values = _columns(valuation)
    freedom = valuation.degrees_of_freedom
    deviations = valuation.group_deviations
    noise = valuation.seed_deviations
    if deviations is None:
        alone = valuation.stderr.reshape(values.shape)
        deviations = np.eye(len(values))[:, :, None] * alone if alone.any() else alone[None]
    if noise is not None and valuation.seed_noise is not None:
        deviations = np.concatenate([deviations, noise])
        freedom = min(freedom, *valuation.seed_noise.freedom)
    if (tested := valuation.test_deviations) is not None and valuation.test_rows is not None:
        sampled, lasting = deviations, tested
        deviations = np.concatenate([sampled, lasting])
        freedom = _joint_freedom(sampled, freedom, lasting, valuation.test_rows.freedom)
    if not valuation.efficient:
        deviations = deviations - values / values.sum(axis=0) * deviations.sum(axis=1, keepdims=True)
    return deviations, freedom


def _joint_freedom(first: Floats, freedom: float, second: Floats, its_freedom: float) -> float:
    """Return the fewest degrees of freedom of any group's error, of which two parts have their own (Welch)."""
    one, other = ((each**2).sum(axis=0) for each in (first, second))
    by_part = one**2 / freedom + other**2 / its_freedom
    varies = by_part > 0
    return float(((one + other) ** 2 / np.where(varies, by_part, np.inf))[varies].min(initial=np.inf))


def _blocks(count: int, size: int) -> list[slice]:
    """Return slices of `count` items with `size` numbers each: all in one, or at most some 32 MiB at a time."""
    step = max(1, BLOCK // size)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _columns(valuation: Valuation) -> Floats:
    """Return the (K, q) values of the groups, also where there is one output."""
    return valuation.values.reshape(len(valuation), -1)


def paid_outputs(valuation: Valuation, amounts: Sequence[Decimal]) -> tuple[Valuation, list[Decimal]]:
    """Return the valuation of the outputs that something is paid for, and their amounts."""
    if valuation.outputs is None or all(amounts):
        return valuation, list(amounts)
    places = [place for place, amount in enumerate(amounts) if amount]
    return some_outputs(valuation, places), [amounts[place] for place in places]


def paid_shares(valuation: Valuation, amounts: Sequence[Decimal]) -> Valuation:
    """Return the valuation whose shares are the parts of the whole amount: an output counts by what it is paid.

    A method that values one group at a time has no sums of outputs: its outputs stay apart.
    """
    paid_for, parts = paid_outputs(valuation, amounts)
    if paid_for.outputs is None or paid_for.player_values is None:
        return paid_for
    return paid_for.combined(np.array([float(part) for part in parts]) / paid_for.total)


def _scale(valuation: Valuation) -> tuple[list[Fraction], list[str]]:
    """Return the divisor of each output's values: their own sum, which is U(N) - U(0) or close to it."""
    sums = [sum((Fraction(float(value)) for value in column), Fraction(0)) for column in _columns(valuation).T]
    totals = np.atleast_1d(valuation.total)
    _check_something_to_share(valuation, np.minimum(totals, [float(each) for each in sums]))
    off = max(abs(float(found) / total - 1) for found, total in zip(sums, totals.tolist(), strict=True))
    if off > 1e-9:
        named = "shapley" if valuation.settings is None else valuation.settings.semivalue
        which = f"estimates of method {valuation.method!r}" if named == "shapley" else f"{named} values"
        return sums, [f"the {which} miss U(N) - U(0) by {off:.2%}; they are scaled to it"]
    return sums, []


def _check_something_to_share(valuation: Valuation, totals: Floats) -> None:
    """Raise an error that names the outputs whose values, in all, are worth nothing."""
    empty = np.flatnonzero(~(totals > 0))
    if not len(empty):
        return
    named = "" if valuation.outputs is None else f" for {some((repr(valuation.outputs[k]) for k in empty), 3)}"
    raise ValueError(
        f"the values sum to {totals.min():.6g}{named}, which is not positive: with all the data the model scores "
        "no better than with none, so there is nothing to share. Check the metric, the model and the value of the "
        f"empty set{'' if valuation.outputs is None else ', or leave these outputs out'}"
    )
