"""Checking a saved result: against the ledger of its run, and against the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fgsv import payout
from fgsv.report.result import Result
from fgsv.running.differences import Difference, Differences
from fgsv.running.record_checks import SAMPLE, verify_records
from fgsv.running.verification import verify
from fgsv.tables.corpus import Opened, open_text
from fgsv.tables.opening import open_table
from fgsv.tables.source import Source
from fgsv.valuation import file


def verify_result(path: str | Path, ledger: str | Path) -> tuple[Result, Differences]:
    """Return a saved result, and what differs from its ledger in any of its fields, the payout included."""
    result = Result.load(path)
    found = verify(result.valuation, ledger, document=file.read(path))
    if result.payout is not None:
        found.extend(payout.differences(result.payout, result.valuation))
    return result, found


def verify_data(
    result: Result,
    ledger: str | Path,
    data: Any,
    *,
    test: Any = None,
    sample: int = SAMPLE,
    seed: int | None = None,
    tolerance: float = 0.0,
) -> list[Difference]:
    """Open the data of a result again, as it was opened then, and evaluate a sample of the recorded batches.

    `data` and `test` are what `fgsv.open_table` or `fgsv.open_text` takes. Returns where the data, the model or
    the values differ.
    """
    table = open_again(result.source, data, test, ledger)
    source, again = result.source, table.source
    for name in ("sha256", "test_sha256", "rows", "test_rows", "features", "model", "metric", "game"):
        stated, found = getattr(source, name), getattr(again, name)
        if stated != found:
            return [Difference(name, stated, found)]
    return verify_records(ledger, table.game, sample=sample, seed=seed, tolerance=tolerance)


def open_again(source: Source | None, data: Any, test: Any = None, ledger: str | Path | None = None) -> Opened:
    """Open data as the data of a result was opened; `ledger` has taken over what its run started from."""
    if source is None or source.opened_with is None:
        raise ValueError(
            "this result does not say how its data was opened (it was not made from a table by name, or by 0.1.0): "
            "open it with fgsv.open_table, and use fgsv.running.record_checks.verify_records"
        )
    opened_with = dict(source.opened_with)
    if opened_with.get("start"):
        opened_with["start"] = str(ledger)
    opened_by: Any = open_text if source.task == "text" else open_table
    return opened_by(data, test=test, **opened_with)
