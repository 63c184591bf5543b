"""Data sets: rows become players with their groups, features, a target and test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from fgsv.partition import Partition
from fgsv.tables.reading import TableError, TableFile
from fgsv.types import Masks

Task = Literal["classification", "regression"]

MOST_CLASSES = 10
"""A target of whole numbers with more distinct values than this is a quantity, not a class."""
TEST_MARKS = {"test": True, "true": True, "1": True, "1.0": True, "yes": True} | {
    "train": False, "false": False, "0": False, "0.0": False, "no": False
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training rows, test rows and the groupings of the players: all that a utility and a valuation need."""

    features: pd.DataFrame
    """The features of the training rows, as in the file."""
    target: NDArray[Any]
    test_features: pd.DataFrame
    test_target: NDArray[Any]
    units: NDArray[Any] | None
    """(rows,) the unit of each training row; None where each row is a player."""
    groupings: dict[str, Partition]
    """Column -> partition of the players; the first is the main one."""
    test_groups: dict[str, NDArray[Any]]
    """Column -> the group of each test row, where the test rows have that column."""
    task: Task
    notes: tuple[str, ...]
    """Decisions made on the way, in plain words."""

    @property
    def partition(self) -> Partition:
        """The main grouping."""
        return next(iter(self.groupings.values()))


def prepare(
    table: TableFile,
    *,
    group: Sequence[str],
    target: str,
    regroup: Sequence[str] = (),
    unit: str | None = None,
    test: TableFile | None = None,
    test_by: str | None = None,
    test_fraction: float = 0.25,
    group_missing: str | None = None,
    ignore: Sequence[str] = (),
    task: Task | None = None,
    seed: int = 0,
) -> Dataset:
    """Make a data set of a table.

    The test rows are the rows of `test`, the rows marked in column `test_by` ("test", true, 1), or a random fraction
    of rows or units. The draw ignores the groups: splitting or renaming a provider must not change the test rows.

    `group` names the provider columns, which are not features. `regroup` names further columns to group the players
    by, which remain features; a numeric column with many distinct values is cut into three bands. Rows with the same
    value in column `unit` are one player. `task` defaults to what `recognise` infers from the target.
    """
    if not group:
        raise TableError("no provider column: name the column that says which provider each row comes from")
    if target in group:
        raise TableError(f"column {target!r} is both the provider and the target: choose another for one of them")
    values = _complete(table, target, "the target")
    labels = {name: _labels(table, name, group_missing) for name in group}
    players = None if unit is None else _complete(table, unit, "the unit")
    for name in ignore:
        table.column(name, "to ignore")
    not_features = {*group, target, unit, test_by, *ignore}
    feature_names = [name for name in table.frame.columns if name not in not_features]
    if not feature_names:
        raise TableError("no feature columns are left: all are provider, target, unit, test or ignored columns")
    inferred = task is None
    task = task or recognise(values)
    y = _target(values, task)
    if test is not None:
        rows = _rows_of_file(test, target, task, feature_names, group)
        is_test = np.zeros(len(y), dtype=bool)
    else:
        if test_by is not None:
            is_test, note = _marked(table.column(test_by, "marks the test rows"))
        else:
            is_test, note = _drawn(y, task, players, test_fraction, seed)
        features = table.frame.loc[is_test, feature_names]
        rows = _TestRows(features, y[is_test], {name: labels[name][is_test] for name in group}, note)
    _check_target(y[~is_test], rows.target, task, target)
    units = None if players is None else players.to_numpy()[~is_test]
    labels |= {name: _bands(table.column(name, "to group by")) for name in regroup if name not in labels}
    groupings = {name: _partition(labels[name], is_test, units, name) for name in labels}
    why = f"inferred: {target!r} has {values.nunique()} distinct values" if inferred else "as requested"
    notes = [
        *dict.fromkeys([*table.notes, *(() if test is None else test.notes)]),
        f"{task} ({why})",
        f"tested on {rows.note}",
        *(note for partition in groupings.values() for note in _groups_without_players(partition)),
    ]
    return Dataset(
        features=table.frame.loc[~is_test, feature_names],
        target=y[~is_test],
        test_features=rows.features,
        test_target=rows.target,
        units=units,
        groupings=groupings,
        test_groups=rows.groups,
        task=task,
        notes=tuple(notes),
    )


def recognise(values: pd.Series[Any]) -> Task:
    """Infer the task from the target: classification where it holds classes, regression where it holds quantities.

    Text, booleans and categories are classes; so are whole numbers with at most `MOST_CLASSES` distinct values.

    >>> recognise(pd.Series(["ill", "well"])), recognise(pd.Series([0.5, 1.2]))
    ('classification', 'regression')
    """
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return "classification"
    distinct = np.asarray(values.dropna().unique(), dtype=float)
    whole = np.isfinite(distinct).all() and np.all(np.mod(distinct, 1) == 0)
    return "classification" if whole and len(distinct) <= MOST_CLASSES else "regression"


def _complete(table: TableFile, name: str, role: str) -> pd.Series[Any]:
    """Return a column in which nothing may be missing."""
    column = table.column(name, role)
    missing = int(column.isna().sum())
    if missing:
        raise TableError(
            f"column {name!r} ({role}) of {table.name} has missing values in {missing} of {len(column)} rows: "
            "fill them in or remove these rows"
        )
    return column


def _target(values: pd.Series[Any], task: Task) -> NDArray[Any]:
    """Return the target as an array: classes as they are, quantities as finite floats."""
    if task == "classification":
        return np.asarray(values.astype(str) if values.dtype == object else values.to_numpy())
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TableError(
            f"column {values.name!r} (the target) has {_shown(values.iloc[row])} in row {row + 1}: regression needs "
            "finite numbers. Correct the value or remove the row"
        )
    return np.asarray(numbers)


def _check_target(y: NDArray[Any], test_y: NDArray[Any], task: Task, name: str) -> None:
    """Check that something can be learned from the training rows and tested on the test rows."""
    if len(test_y) == 0:
        raise TableError("there are no test rows: mark some in the --test-by column, or name a --test file")
    if len(y) == 0:
        raise TableError("there are no training rows: the --test-by column marks all rows as test rows")
    classes = np.unique(y)
    if len(classes) < 2:
        raise TableError(
            f"column {name!r} (the target) has only one value in the training rows, {y[0]}: there is nothing to learn"
        )
    if task == "classification":
        unknown = sorted(set(np.unique(test_y).tolist()) - set(classes.tolist()), key=str)
        if unknown:
            raise TableError(
                f"the test rows have classes that no training row has: {unknown[:5]}. Remove these rows or choose "
                "other test rows (--seed, --test-by or --test)"
            )


@dataclass(frozen=True, eq=False)
class _TestRows:
    features: pd.DataFrame
    target: NDArray[Any]
    groups: dict[str, NDArray[Any]]
    """Column -> the group of each test row."""
    note: str
    """Which rows these are, after "tested on"."""


def _rows_of_file(
    test: TableFile, target: str, task: Task, feature_names: Sequence[str], group: Sequence[str]
) -> _TestRows:
    y = _target(_complete(test, target, "the target"), task)
    for name in feature_names:
        test.column(name, "a feature")
    groups = {name: test.frame[name].to_numpy() for name in group if name in test.frame}
    return _TestRows(test.frame[list(feature_names)], y, groups, f"{len(y)} rows of {test.name}")


def _marked(column: pd.Series[Any]) -> tuple[Masks, str]:
    """Return the test rows that a column marks, as a mask and in words."""
    marks = column.astype(str).str.strip().str.lower()
    unknown = sorted(set(marks) - set(TEST_MARKS))
    if unknown:
        raise TableError(f"column {column.name!r} must contain train or test (or 0 and 1); it has {unknown[0]!r}")
    is_test = marks.map(TEST_MARKS).to_numpy(dtype=bool)
    return is_test, f"{int(is_test.sum())} rows marked in column {column.name!r}"


def _drawn(
    y: NDArray[Any], task: Task, players: pd.Series[Any] | None, fraction: float, seed: int
) -> tuple[Masks, str]:
    """Draw test rows at random, or whole units, as a mask and in words.

    Exactly max(1, round(fraction * count)) of them, with the classes in proportion where scikit-learn can do that.
    """
    if not 0 < fraction < 1:
        raise TableError(f"--test-fraction must be between 0 and 1, got {fraction}")
    units = None if players is None else pd.factorize(players)[0]
    count, what = (len(y), "rows") if units is None else (int(units.max()) + 1, "units")
    n_test = max(1, round(fraction * count))
    if n_test == count:
        raise TableError(
            f"a --test-fraction of {fraction} leaves none of {count} {what} for training: choose a smaller one"
        )
    classes = np.unique(y, return_inverse=True)[1] if task == "classification" else None
    if units is not None:
        splitter = GroupShuffleSplit
    elif classes is not None and _can_stratify(classes, n_test):
        splitter = StratifiedShuffleSplit
    else:
        splitter = ShuffleSplit
    split = splitter(n_splits=1, test_size=n_test, random_state=seed % 2**32)
    is_test = np.zeros(len(y), dtype=bool)
    is_test[next(split.split(y, classes, units))[1]] = True
    drawn = f"{int(is_test.sum())} rows" + ("" if units is None else f" ({n_test} units)")
    return is_test, f"{drawn} drawn at random, seed {seed}"


def _can_stratify(classes: NDArray[np.intp], n_test: int) -> bool:
    """Say whether StratifiedShuffleSplit accepts these classes: two rows of each, and room for each on both sides."""
    counts = np.bincount(classes)
    return bool(counts.min() >= 2 and len(counts) <= min(n_test, len(classes) - n_test))


def _labels(table: TableFile, name: str, group_missing: str | None) -> NDArray[Any]:
    """Return the group of each row, as text."""
    column = table.column(name, "the provider")
    missing = column.isna() | (column.astype(str).str.strip() == "")
    if missing.any():
        if group_missing is None:
            raise TableError(
                f"column {name!r} (the provider) has missing values in {int(missing.sum())} of {len(column)} rows: "
                "fill them in, or make these rows a group of their own with --group-missing NAME"
            )
        column = column.astype(object).mask(missing, group_missing)
    return column.astype(str).to_numpy(dtype=object)


def _bands(column: pd.Series[Any]) -> NDArray[Any]:
    """Return the group of each row by any column: its value as text, or one of three bands of many numbers."""
    words = column.astype(object).where(column.notna(), "(missing)").astype(str)
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > MOST_CLASSES:
        low, high = column.quantile([1 / 3, 2 / 3])
        bands = np.select(
            [column <= low, column <= high], [f"up to {low:g}", f"{low:g} to {high:g}"], f"above {high:g}"
        )
        words = words.where(column.isna(), pd.Series(bands, index=column.index))
    return words.to_numpy(dtype=object)


def _partition(labels: NDArray[Any], is_test: Masks, units: NDArray[Any] | None, name: str) -> Partition:
    """Return the group of each player, in the order of the file; a group without training rows has no players."""
    training = labels[~is_test]
    if units is not None:
        codes, _ = pd.factorize(units)  # players are numbered by the first appearance of their units
        first = np.unique(codes, return_index=True)[1]
        crossing = np.unique(codes[training != training[first][codes]])
        if len(crossing):
            raise TableError(
                f"unit {_shown(units[first[crossing[0]]])} is in more than one group of column {name!r} "
                f"({len(crossing)} such units): a unit is one player, so all its rows must be in one group"
            )
        training = training[first]
    codes_of = {label: code for code, label in enumerate(dict.fromkeys(labels.tolist()))}
    if len(codes_of) < 2:
        raise TableError(f"column {name!r} has only one group, {labels[0]!r}: shares need at least two")
    return Partition(tuple(codes_of), None, np.array([codes_of[label] for label in training], dtype=np.int64))


def _groups_without_players(partition: Partition) -> list[str]:
    empty = [str(name) for name, size in zip(partition.names, partition.sizes, strict=True) if not size]
    return [f"without training rows, so their value is zero: {', '.join(empty[:10])}"] if empty else []


def _shown(cell: Any) -> str:
    """Return a cell as the user wrote it: text in quotes, numbers without their type."""
    return repr(cell) if isinstance(cell, str) else str(cell)
