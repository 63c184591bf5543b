"""Settlements: the correction of a payment that was already made."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pandas as pd

from fgsv.checks import check_type
from fgsv.partition import by_text
from fgsv.payout.splitting import Payout
from fgsv.valuation.display import Section, as_html, as_text


@dataclass(frozen=True)
class Settlement:
    """What each provider was paid, what it is due, and what it still gets or has to pay back (negative)."""

    names: tuple[str, ...]
    paid: tuple[Decimal, ...]
    due: tuple[Decimal, ...]
    currency: str

    @property
    def corrections(self) -> tuple[Decimal, ...]:
        """Due minus paid; they add up to exactly the difference of the two amounts."""
        return tuple(due - paid for due, paid in zip(self.due, self.paid, strict=True))

    @property
    def total(self) -> Decimal:
        """What all corrections add up to."""
        return sum(self.corrections, Decimal(0))

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each provider; money is `Decimal`."""
        columns = {"group": self.names, "paid": self.paid, "due": self.due, "correction": self.corrections}
        return pd.DataFrame({name: pd.Series(list(column), dtype=object) for name, column in columns.items()})

    def sections(self) -> list[Section]:
        """Return who still gets how much, and who has to pay it back."""
        words = (f"Corrections of {self.total:,} {self.currency} in total.",)
        rows = tuple(zip(self.names, self.paid, self.due, self.corrections, strict=True))
        return [Section("Corrections", words, ("group", "paid", "due", "correction"), rows)]

    __repr__ = as_text
    _repr_html_ = as_html

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON; money is text."""
        rows = self.to_frame().astype(str).to_dict("records")
        return {"currency": self.currency, "total": str(self.total), "corrections": rows}


def settle(paid: Payout, due: Payout) -> Settlement:
    """Return the correction of a payment already made, given the payout that should have been made instead.

    A provider that is in only one of the two payouts was paid, or is due, nothing in the other.

    >>> import fgsv
    >>> runs = [fgsv.exact(fgsv.games.Airport([1, 2, last]), ["a", "b", "c"]) for last in (3, 5)]
    >>> found = settle(*(fgsv.payout.split(run, 100) for run in runs))
    >>> [str(correction) for correction in found.corrections], str(found.total)
    (['-4.44', '-11.12', '15.56'], '0.00')
    """
    for payout in (paid, due):
        check_type(payout, Payout, "two payouts", "fgsv.payout.split makes one")
    if paid.currency != due.currency:
        raise ValueError(f"the payment was in {paid.currency}, but {due.currency} is due: settle in one currency")
    before, now = (by_text(each.names, each.payments) for each in (paid, due))
    names = tuple(dict.fromkeys([*before, *now]))
    nothing = Decimal(0) * max(paid.unit, due.unit)
    return Settlement(
        names,
        tuple(before.get(name, nothing) for name in names),
        tuple(now.get(name, nothing) for name in names),
        paid.currency,
    )
