"""Test rows beside a ledger: what the next month is tested on, also if their providers have left."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fgsv.files import write_whole
from fgsv.game import provider_digest

if TYPE_CHECKING:
    import pandas as pd

PROVIDER = "provider (digest)"
"""The column with a digest of the name of each row's provider."""


def path_of_test_rows(ledger: str | Path) -> Path:
    """Return the path of the test rows of a ledger."""
    return Path(f"{ledger}.test-rows.csv")


def keep_rows(rows: pd.DataFrame, ledger: str | Path) -> None:
    """Write test rows, whose column `PROVIDER` has a digest of each one's provider, beside a ledger."""
    write_whole(path_of_test_rows(ledger), rows.to_csv(index=False))


def forget_rows(ledger: str | Path, providers: Collection[str]) -> int:
    """Erase the test rows of providers beside a ledger; return how many."""
    import pandas as pd

    if not providers or not path_of_test_rows(ledger).exists():
        return 0
    frame = pd.read_csv(path_of_test_rows(ledger), dtype=str, keep_default_na=False)
    gone = frame[PROVIDER].isin([provider_digest(name) for name in providers])
    if gone.any():
        write_whole(path_of_test_rows(ledger), frame[~gone].to_csv(index=False))
    return int(gone.sum())
