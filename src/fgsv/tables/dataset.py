"""Data sets: rows become players with their groups, features, a target and test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fgsv.partition import Partition
from fgsv.tables.reading import TableError, TableFile
from fgsv.tables.standing import Standing, check_features, find_rows, row_hashes
from fgsv.tables.test_rows import TestRows, chosen, marked
from fgsv.types import Masks

Task = Literal["classification", "regression"]
SharedUnits = Literal["co-own", "split"]
"""A unit with rows of several providers: one player that they own by rows, or a player of each."""

MOST_CLASSES = 10
"""A target of whole numbers with more distinct values than this is a quantity, not a class."""


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
    test_hashes: tuple[str, ...] | None = None
    """A hash of each test row, in order; None if a file or a column names the test rows."""

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
    split_seed: int = 0,
    group_missing: str | None = None,
    target_missing: str | None = None,
    shared_units: SharedUnits | None = None,
    ignore: Sequence[str] = (),
    task: Task | None = None,
    standing: Standing | None = None,
) -> Dataset:
    """Make a data set of a table.

    The test rows are the rows of `test`, the rows marked in column `test_by` ("test", true, 1), or about a fraction
    of rows or units, chosen by a hash of their content (`fgsv.tables.test_rows`).

    `group` names the provider columns, which are not features. `regroup` names further columns to group the players
    by, which remain features; a numeric column with many distinct values is cut into three bands. Rows with the same
    value in column `unit` are one player; `shared_units` says what happens to a unit with rows of several providers.
    Rows without a target are refused, dropped (`target_missing="drop"`) or a class of this name. `task` defaults to
    what `recognise` infers from the target. `standing` is what an earlier run stood on: its features and, unless
    `test` or `test_by` name them, its test rows.
    """
    if not group:
        raise TableError("no provider column: name it with --group, or give a file for each provider")
    if target in group:
        raise TableError(f"column {target!r} is both the provider and the target: choose another for one of them")
    table = _with_targets(table, target, target_missing)
    test = None if test is None else _with_targets(test, target, target_missing)
    values = table.frame[target]
    labels = {name: _labels(table, name, group_missing) for name in group}
    players = None if unit is None else _complete(table, unit, "the unit")
    for name in ignore:
        table.column(name, "to ignore")
    not_features = {*group, target, unit, test_by, *ignore}
    feature_names = [name for name in table.frame.columns if name not in not_features]
    if not feature_names:
        raise TableError("no feature columns are left: all are provider, target, unit, test or ignored columns")
    earlier: list[str] = []
    if standing is not None:
        earlier = check_features(feature_names, standing)
        feature_names, task = list(standing.features), task or cast(Task, standing.task)
    inferred = task is None
    task = task or recognise(values)
    y = _target(values, task)
    if test is not None:
        rows, hashes = _rows_of_file(test, target, task, feature_names, group), None
        is_test = np.zeros(len(y), dtype=bool)
    else:
        places, hashes = None, None
        identity = [*feature_names, target, *([] if unit is None else [unit])]
        if test_by is not None:
            is_test, note = marked(table.column(test_by, "marks the test rows"))
        elif standing is not None and standing.test_rows is not None:
            places = find_rows(table.frame[identity], standing.test_rows)
            is_test = np.isin(np.arange(len(y)), places)
            note = f"the {len(places)} test rows of the run to start from"
        else:

            def problem(is_test: Masks) -> str | None:
                return _problem(y[~is_test], y[is_test], task) or _without_training_rows(labels, is_test)

            content = table.frame[[*feature_names, target]]
            is_test, note = chosen(content, players, test_fraction, split_seed, problem)
        places = np.flatnonzero(is_test) if places is None else places
        if test_by is None:
            hashes = tuple(row_hashes(table.frame[identity].iloc[places]))
        features = table.frame[feature_names].iloc[places]
        rows = TestRows(features, y[places], {name: labels[name][places] for name in group}, note)
    _check_target(y[~is_test], rows.target, task, target)
    units = None if players is None else players.to_numpy()[~is_test]
    labels |= {name: _bands(table.column(name, "to group by")) for name in regroup if name not in labels}
    training = {name: each[~is_test] for name, each in labels.items()}
    unit_notes: list[str] = []
    if units is not None and shared_units == "split":
        units, unit_notes = _split_units(units, [training[name] for name in group])
    names = {name: tuple(dict.fromkeys(each.tolist())) for name, each in labels.items()}
    groupings = {name: _partition(training[name], names[name], units, name, shared_units) for name in labels}
    why = f"inferred: {target!r} has {values.nunique()} distinct values" if inferred else "as requested"
    notes = [
        *dict.fromkeys([*table.notes, *(() if test is None else test.notes)]),
        f"{task} ({why})",
        f"tested on {rows.note}",
        *earlier,
        *unit_notes,
        *(note for partition in groupings.values() for note in _groups_without_players(partition)),
        *(note for name, partition in groupings.items() for note in _shared_players(partition, name)),
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
        test_hashes=hashes,
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


def _with_targets(table: TableFile, name: str, missing: str | None) -> TableFile:
    """Return a table in which every row has a target: the rest is refused, dropped, or a class named `missing`."""
    column = table.column(name, "the target")
    absent = column.isna() | (column.astype(str).str.strip() == "")
    count = f"{int(absent.sum())} of {len(column)} rows"
    if not absent.any():
        return table
    if missing is None:
        raise TableError(
            f"column {name!r} (the target) of {table.name} has missing values in {count}: fill them in, leave these "
            "rows out with --target-missing drop, or make them a class with --target-missing NAME"
        )
    if absent.all():
        raise TableError(f"column {name!r} (the target) of {table.name} is empty: choose another --target")
    if missing == "drop":
        frame, note = table.frame[~absent], f"left out {count} of {table.name} without a target"
    else:
        words = column.convert_dtypes().astype(object)  # whole numbers beside missing ones are written as floats
        frame = table.frame.assign(**{name: words.mask(absent, missing).astype(str)})
        note = f"{count} of {table.name} without a target are the class {missing!r}"
    return replace(table, frame=frame.reset_index(drop=True), notes=(*table.notes, note))


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


def _problem(y: NDArray[Any], test_y: NDArray[Any], task: Task) -> str | None:
    """Say why these rows cannot be trained and tested on; None if they can."""
    if len(test_y) == 0:
        return "there are no test rows"
    if len(y) == 0:
        return "there are no training rows: all are test rows"
    if task == "classification":
        unknown = sorted(set(np.unique(test_y).tolist()) - set(np.unique(y).tolist()), key=str)
        if unknown:
            return f"the test rows have classes that no training row has: {unknown[:5]}"
    return None


def _without_training_rows(labels: Mapping[str, NDArray[Any]], is_test: Masks) -> str | None:
    """Name the providers all of whose rows are test rows; None if there are none."""
    for name, each in labels.items():
        trained = set(each[~is_test].tolist())
        lost = [str(label) for label in dict.fromkeys(each.tolist()) if label not in trained]
        if lost:
            return (
                f"the test rows are all the rows of {len(lost)} of the providers in column {name!r}: "
                f"{', '.join(lost[:10])}{', ...' if len(lost) > 10 else ''}"
            )
    return None


def _check_target(y: NDArray[Any], test_y: NDArray[Any], task: Task, name: str) -> None:
    """Check that something can be learned from the training rows and tested on the test rows."""
    problem = _problem(y, test_y, task)
    if problem is not None:
        raise TableError(f"{problem}. Choose other test rows, in the --test-by column or the --test file")
    if len(np.unique(y)) < 2:
        raise TableError(
            f"column {name!r} (the target) has only one value in the training rows, {y[0]}: there is nothing to learn"
        )


def _rows_of_file(
    test: TableFile, target: str, task: Task, feature_names: Sequence[str], group: Sequence[str]
) -> TestRows:
    y = _target(test.frame[target], task)
    for name in feature_names:
        test.column(name, "a feature")
    groups = {name: test.frame[name].to_numpy() for name in group if name in test.frame}
    return TestRows(test.frame[list(feature_names)], y, groups, f"{len(y)} rows of {test.name}")


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


def _split_units(units: NDArray[Any], labels: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], list[str]]:
    """Return a unit for each unit and provider, and a note if that made more of them."""
    keys = [pd.Series(part) for part in (units, *labels)]
    split = pd.DataFrame(dict(enumerate(keys))).groupby(list(range(len(keys))), sort=False).ngroup().to_numpy()
    before, after = len(pd.unique(pd.Series(units))), int(split.max()) + 1
    return split, [f"{before} units are {after} players, one for each of their providers"] if after > before else []


def _partition(
    labels: NDArray[Any],
    names: tuple[str, ...],
    units: NDArray[Any] | None,
    column: str,
    shared_units: SharedUnits | None,
) -> Partition:
    """Return the group of each player, in the order of the file; a group without training rows has no players.

    A unit with rows of several groups is owned by them in proportion to their rows, if that was chosen.
    """
    if len(names) < 2:
        raise TableError(f"column {column!r} has only one group, {names[0]!r}: shares need at least two")
    codes = pd.Index(names).get_indexer(pd.Index(labels))
    if units is None:
        return Partition(names, None, codes.astype(np.int64))
    players, _ = pd.factorize(units)  # players are numbered by the first appearance of their units
    first = np.unique(players, return_index=True)[1]
    crossing = np.unique(players[codes != codes[first][players]])
    if not len(crossing):
        return Partition(names, None, codes[first].astype(np.int64))
    if shared_units is None:
        raise TableError(
            f"unit {_shown(units[first[crossing[0]]])} is in more than one group of column {column!r} "
            f"({len(crossing)} such units): --shared-units co-own makes it one player that they own in proportion to "
            "their rows, --shared-units split a player of each"
        )
    rows = np.zeros((len(first), len(names)))
    np.add.at(rows, (players, codes), 1.0)
    return Partition(names, rows / rows.sum(axis=1, keepdims=True))


def _shared_players(partition: Partition, column: str) -> list[str]:
    if partition.is_disjoint:
        return []
    assert partition.ownership is not None
    shared = int((partition.ownership.max(axis=1) < 1).sum())
    return [f"{shared} units are owned by several groups of column {column!r}, in proportion to their rows"]


def _groups_without_players(partition: Partition) -> list[str]:
    empty = [str(name) for name, size in zip(partition.names, partition.sizes, strict=True) if not size]
    return [f"without training rows, so their value is zero: {', '.join(empty[:10])}"] if empty else []


def _shown(cell: Any) -> str:
    """Return a cell as the user wrote it: text in quotes, numbers without their type."""
    return repr(cell) if isinstance(cell, str) else str(cell)
