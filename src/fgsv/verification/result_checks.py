"""Checking a saved result: against the ledger of its run, and against the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fgsv import payout
from fgsv.data.choice import contents_of
from fgsv.data.dataset import Dataset
from fgsv.data.joining import read_all
from fgsv.data.reading import TableError
from fgsv.data.source import Source
from fgsv.data.table import Table, open_table
from fgsv.data.texts import open_text
from fgsv.game import each_digest
from fgsv.results.result import Result, check_result
from fgsv.valuation import file
from fgsv.valuation.differences import Difference, Differences
from fgsv.verification.record_checks import SAMPLE, verify_records
from fgsv.verification.verify import verify


def verify_result(path: str | Path, ledger: str | Path) -> tuple[Result, Differences]:
    """Return a saved result, and what differs from its ledger in any of its fields, the payout included.

    Args:
        path: A valuation.json or its folder.
        ledger: Ledger of the run.

    Returns:
        The result, and the differences: none if the ledger gives the same result.

    Raises:
        ValueError: One of them cannot be read, or the ledger is of another game.

    """
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
) -> Differences:
    """Open the data of a result again, as its run did, and evaluate a sample of the recorded batches.

    Args:
        result: A result that was made from files.
        ledger: Ledger of the run.
        data: The table that was valued: also evaluate a sample of the ledger again. In Python, what `fgsv.open_table`
            or `fgsv.open_text` takes.
        test: The file of test rows, if there was one.
        sample: Number of batches to evaluate again, drawn at random.
        seed: Random seed, to repeat a sample. Default: the system's entropy, so that nobody can know it in advance.
        tolerance: Largest allowed difference from a recorded value.

    Returns:
        Where the data, the model or the values differ. If only `sha256` does, a file has other bytes, such as other
        ends of lines, but the same rows.

    Raises:
        ValueError, TypeError: An argument is wrong, or the result does not say how its data was opened.

    """
    check_result(result)
    table = open_again(result.source, data, test, ledger)
    source = result.source
    again = table.source
    stated = ("sha256", "test_sha256", "rows", "test_rows", "features", "model", "metric", "game")
    found = [Difference(name, getattr(source, name), getattr(again, name)) for name in stated]
    if different := [each for each in found if each.stated != each.derived]:
        return Differences(different)
    return verify_records(ledger, table.game, sample=sample, seed=seed, tolerance=tolerance)


def withdrawn_players(result: Result, ledger: str | Path, data: Any, rows: Any, *, test: Any = None) -> list[str]:
    """Return the digests of the players of a result that hold withdrawn rows, for `fgsv.ledger.forgetting.forget`.

    Args:
        result: The result of a run.
        ledger: Ledger of the run.
        data: With `rows`: the table of that run, or several files of it.
        rows: A table of withdrawn rows: forget the players that hold any of them. It has the features and the target
            of the run, and stands for all rows of equal content. A unit is withdrawn with any of its rows.
        test: With `rows`: the run's file of test rows, if there was one.

    Returns:
        The digests, in hexadecimal.

    Raises:
        TableError: This is not the table that was valued, or it has no such rows.

    """
    check_result(result)
    table = open_again(result.source, data, test, ledger)
    if not isinstance(table, Table) or result.source is None or result.source.game != table.source.game:
        raise TableError(
            "this is not the table that the result was made from, in which the withdrawn rows must be found"
        )
    target = str(table.source.columns["target"])
    encoding = (result.source.opened_with or {}).get("encoding", "utf-8")
    file = read_all(rows, encoding=encoding)
    here = table.rows.features.assign(**{target: table.rows.target})
    for name in here.columns:
        file.column(str(name), "a column of the table")
    contents = contents_of(here)
    withdrawn = contents_of(file.frame[list(here.columns)])
    there = set(contents)
    gone = set(withdrawn)
    missing = sum(content not in there for content in withdrawn)
    if missing:
        raise TableError(
            f"{missing} of the {len(withdrawn)} withdrawn rows are not among the training rows of the table"
        )
    found = [content in gone for content in contents]
    units = table.units
    players = np.arange(len(here)) if units is None else pd.factorize(units)[0]
    digests = each_digest(table.game.players())
    return [digests[player].hex() for player in np.unique(players[found])]


def open_again(source: Source | None, data: Any, test: Any = None, ledger: str | Path | None = None) -> Dataset:
    """Open data as the data of a result was opened; `ledger` has taken over what its run started from.

    Args:
        source: Where the data of the result came from.
        data: The data, as `fgsv.open_table` or `fgsv.open_text` takes it.
        test: Test rows, if the run had its own file of them.
        ledger: The ledger of the run.

    Returns:
        The opened data.

    Raises:
        ValueError: The result does not say how its data was opened, or the test rows are missing.

    """
    if source is None or source.opened_with is None:
        raise ValueError(
            "this result does not say how its data was opened (it was not made from a table by name): "
            "open it with fgsv.open_table, and use fgsv.verification.record_checks.verify_records"
        )
    if test is None and source.test_file is not None:
        raise ValueError(f"the run was tested on {source.test_file}: give this file of test rows too")
    opened_with = dict(source.opened_with)
    if opened_with.get("start"):
        opened_with["start"] = str(ledger)
    opened_by: Any = open_text if source.task == "text" else open_table
    return opened_by(data, test=test, **opened_with)
