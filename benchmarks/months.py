"""A market over six months: providers join, leave, mend labels and bring more rows, and are paid every month.

python -m benchmarks months

Made of scikit-learn's breast cancer data: a provider has four units of five rows (the first two have more), and
nobody owns the test rows. Each month is valued twice to the same precision, starting from the ledger of the month
before and starting over.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import fgsv
from fgsv.payout import Terms
from fgsv.pipeline import value_data
from fgsv.results import Result, compare_results

UNIT, PER_PROVIDER, TEST = 5, 4, 219
NAMES = [f"clinic {letter}" for letter in "ABCDEFGHIJKLMNOP"]


def data() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of all providers that ever come, in units, and the test rows."""
    bunch = load_breast_cancer(as_frame=True)
    frame = bunch.frame.sample(frac=1, random_state=0).reset_index(drop=True)
    test, rest = frame[:TEST], frame[TEST:].reset_index(drop=True)
    unit = rest.index // UNIT
    return rest.assign(
        unit=[f"u{each}" for each in unit], provider=[NAMES[k // PER_PROVIDER % 16] for k in unit]
    ), test


def months() -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the name of each month, what happened in it, and its rows."""
    rows, _ = data()
    here = NAMES[:12]
    yield "January", "12 clinics", rows[rows["provider"].isin(here)]
    here = [*here, NAMES[12]]
    yield "February", "M joins", rows[rows["provider"].isin(here)]
    here = [name for name in here if name != NAMES[2]]
    yield "March", "C leaves", rows[rows["provider"].isin(here)]
    mended = rows.copy()
    unit = mended.loc[mended["provider"] == NAMES[4], "unit"].iloc[0]
    wrong = mended["unit"] == unit
    mended.loc[wrong, "mean radius"] *= 1.01
    yield "April", "E mends the rows of a unit", mended[mended["provider"].isin(here)]
    more = mended["provider"].eq(NAMES[13])
    grown = mended.assign(provider=mended["provider"].where(~more, NAMES[0]))
    yield "May", "A brings more units", grown[grown["provider"].isin(here)]
    here = [name for name in here if name != NAMES[7]] + [NAMES[14]]
    yield "June", "H leaves, O joins", grown[grown["provider"].isin(here)]


def main() -> None:
    """Value every month, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", type=float, default=0.02)
    parser.add_argument("--out", type=Path, help="folder for the files, ledgers and reports")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = run(arguments.out or Path(folder), arguments.precision)
    print(rows.to_string(index=False))
    print(f"in all: {rows['evaluations'].sum():,} evaluations, {rows['starting over'].sum():,} starting over")


def run(out: Path, precision: float, most: int | None = None) -> pd.DataFrame:
    """Return a row for each month."""
    out.mkdir(parents=True, exist_ok=True)
    _, test = data()
    test.to_csv(out / "test.csv", index=False)
    before: Result | None = None
    start: list[Path] = []
    rows = []
    for month, what, table in list(months())[:most]:
        table.to_csv(out / f"{month}.csv", index=False)
        columns: dict[str, Any] = {"group": "provider", "unit": "unit", "target": "target", "metric": "neg_log_loss"}
        files: dict[str, Any] = {"path": out / f"{month}.csv", "test": out / "test.csv"}
        opened = fgsv.open_table(**files, **columns, start=start)
        options: dict[str, Any] = {
            "precision": precision,
            "payout": Terms(Decimal(10_000), pay_anyway=True),
            "without": False,
        }
        ledger = out / f"{month}.db"
        result = value_data(opened, start=start, ledger=ledger, before=before, out=out / month, force=True, **options)
        afresh = value_data(fgsv.open_table(**files, **columns), **options)
        moved = None if before is None else compare_results(before, result).frame["clear"].eq(True).sum()
        apart = np.abs(result.valuation.shares() - afresh.valuation.shares()).max()
        rows.append(
            {
                "month": month,
                "what happened": what,
                "players": result.valuation.partition.n_players,
                "known": result.valuation.n_known,
                "evaluations": result.valuation.n_evaluations,
                "starting over": afresh.valuation.n_evaluations,
                "largest difference of a share": round(float(apart), 4),
                "shares that moved": moved,
                "paid": str(sum(result.payout.payments, Decimal(0))) if result.payout else "",
            }
        )
        before, start = result, [ledger]
    return pd.DataFrame(rows)
