"""Periods: two results side by side, whose providers may have joined or left in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from fgsv.payout import Settlement, settle
from fgsv.report.documents import records
from fgsv.report.result import Result, notes_on
from fgsv.valuation.comparison import compare


@dataclass(frozen=True, eq=False)
class Comparison:
    """How a result differs from an earlier one."""

    frame: pd.DataFrame
    """The table of `fgsv.compare`."""
    settlement: Settlement | None
    """The correction of the earlier result's payment; None if it has no payout."""
    settled_as: str
    """What is due, in words."""
    facts: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        return {
            "groups": records(self.frame),
            "settlement": None if self.settlement is None else self.settlement.to_dict(),
            "facts": list(self.facts),
            "notes": list(self.warnings),
        }


def compare_results(first: Result, second: Result, confidence: float = 0.95) -> Comparison:
    """Return what moved between two results, what is noise, who joined or left, and how payments change.

    If the earlier result has a payout, the settlement corrects it: due is the payout of the later result or, if that
    has none, the earlier amount split by the later values under the same terms.
    """
    frame = compare(first.valuation, second.valuation, confidence)
    warnings = notes_on(first, second)
    settlement, settled_as = None, ""
    if first.payout is not None:
        due, settled_as = second.payout, "the payout of the later result"
        try:
            if due is None:
                due = first.payout.split_again(second.valuation, second.confidence, second.test_noise)
                settled_as = f"the same {first.payout.amount:,} {first.payout.currency}, by the later values"
            settlement = settle(first.payout, due)
            warnings += [f"in the settlement, {objection}" for objection in due.objections]
        except ValueError as error:
            warnings.append(f"there is no settlement: {error}")
    return Comparison(frame, settlement, settled_as, tuple(_facts(frame, first, second)), tuple(warnings))


def _facts(frame: pd.DataFrame, first: Result, second: Result) -> list[str]:
    by_status = {status: frame.loc[frame["status"] == status, "group"].tolist() for status in ("joined", "left")}
    moved = frame.loc[frame["clear"].eq(True), "group"].tolist()
    facts = [f"{len(frame) - sum(map(len, by_status.values()))} of {len(frame)} providers are in both"]
    facts += [f"{status}: {_some(names)}" for status, names in by_status.items() if names]
    facts.append(f"more than noise: {_some(moved)}" if moved else "no difference is more than noise")
    totals = [float(each.valuation.total) for each in (first, second)]
    return [*facts, f"U(N) - U(0) was {totals[0]:.4g} and is {totals[1]:.4g}"]


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
