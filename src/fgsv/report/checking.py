"""Checking a saved result: against the ledger of its run, and against the data."""

from __future__ import annotations

from pathlib import Path

from fgsv import payout
from fgsv.report.result import Result
from fgsv.running.verification import Differences, verify
from fgsv.valuation import file


def verify_result(path: str | Path, ledger: str | Path) -> tuple[Result, Differences]:
    """Return a saved result, and what differs from its ledger in any of its fields, the payout included."""
    result = Result.load(path)
    found = verify(result.valuation, ledger, document=file.read(path))
    if result.payout is not None:
        found.extend(payout.differences(result.payout, result.valuation))
    return result, found
