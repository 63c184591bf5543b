"""Holding out: test rows in a file of their own, before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fgsv.data.joining import read_all
from fgsv.data.players import Rows, without_training_rows
from fgsv.data.reading import listed_names
from fgsv.data.roles import Roles
from fgsv.types import Masks


def hold_out(
    path: Any,
    *,
    fraction: float = 0.25,
    group: str | Sequence[str] = (),
    unit: str | None = None,
    split_seed: int = 0,
    encoding: str = "utf-8",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows to train on and the test rows of a table: by a hash of their content, as `open_table` does.

    Args:
        path: What `open_table` takes.
        fraction: Approximate fraction of rows held out for testing.
        group: Provider column, or several, which do not decide; a provider without any other row is an error.
        unit: Column whose units are held out as a whole, such as a patient.
        split_seed: Key of the hash: a large number that providers did not know when they delivered.
        encoding: Text encoding of the file.

    Returns:
        Two frames with all columns of the table, cells as they are written.

    Raises:
        TableError: No row, or every row of a provider, would be held out.

    Examples:
        >>> rows = pd.DataFrame({"x": range(100), "provider": ["n", "s"] * 50})
        >>> rest, test = hold_out(rows, group="provider")
        >>> len(rest), len(test)
        (74, 26)

    """
    names = listed_names(group)
    columns = [str(name) for name in read_all(path, group=names, encoding=encoding).frame.columns]
    table = read_all(path, group=names, text=columns, encoding=encoding)
    roles = Roles(names, unit=unit, test_fraction=fraction, split_seed=split_seed, group_missing="")
    rows = Rows.of(table, roles)

    def problem(is_test: Masks) -> str | None:
        if not is_test.any() or is_test.all():
            return "no row is held out" if not is_test.any() else "every row is held out"
        return without_training_rows(rows.labels, is_test)

    choice = rows.choose([name for name in columns if name not in names], problem)
    return table.frame[~choice.is_test], table.frame[choice.is_test]
