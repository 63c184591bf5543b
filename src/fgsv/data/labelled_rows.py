"""Labelled rows: rows of a table become players with their groups, features, a target and test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fgsv.data.carried_over import CarriedOver, check_features, find_rows, kept_rows, row_hashes
from fgsv.data.choice import Choice, contents_with_target, marked
from fgsv.data.pieces import in_units
from fgsv.data.players import MOST_CLASSES, Rows, TrainingRows, bands_of, shown, without_training_rows
from fgsv.data.reading import TableError, TableFile, odd_number, without_rows
from fgsv.data.roles import Roles
from fgsv.game import provider_digest
from fgsv.ledger.kept_rows import PROVIDER
from fgsv.types import Ints, Masks
from fgsv.words import option, some

Task = Literal["classification", "regression"]
MOST_SLICES = 10
"""Limit on the slices of the test rows by one column."""
NEXT_MONTH = (
    "the next month needs the same test rows: they stay beside the ledger, if there is one; or hold them out into a "
    "file of their own before"
)
MOSTLY = 0.8
"""A target with more classes than this part of the rows is an id or a date, ..."""
FEW = 20
"""... unless that is no more than so many rows."""


@dataclass(frozen=True, eq=False)
class LabelledRows(TrainingRows):
    """Training rows and test rows with features and a target: everything that a utility and a valuation need."""

    features: pd.DataFrame
    """The features of the training rows, as in the file."""
    target: NDArray[Any]
    test_features: pd.DataFrame
    test_target: NDArray[Any]
    task: Task
    test_hashes: tuple[str, ...] | None = None
    """A hash of each test row, in order; None if a file or a column names the test rows."""
    test_rows: pd.DataFrame | None = None
    """The same test rows as the file has them, each with a digest of its provider, for the next month."""
    test_slices: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Column -> the slice that each test row is in."""

    def contents(self) -> list[bytes]:
        """Return the content of each training row: its features and its target."""
        return contents_with_target(self.features, self.target)


def prepare(
    table: TableFile,
    roles: Roles,
    *,
    target: str,
    target_missing: str | None = None,
    task: Task | None = None,
    test: TableFile | None = None,
    carried: CarriedOver | None = None,
    slices: Sequence[str] = (),
) -> LabelledRows:
    """Make labelled rows of a table.

    Args:
        table: The rows.
        roles: Their providers, units and test rows.
        target: Column to predict.
        target_missing: Rows without a target: "drop" leaves them out, any other word makes them a class of this name,
            None refuses them.
        task: Default: what `recognise` infers from the target.
        test: A file of test rows. Default: rows of the table, as `roles` say.
        carried: What is taken over from an earlier run: its features and, unless `test` or `test_by` name them, its
            test rows.
        slices: Columns by whose values the test rows are also scored separately.

    Raises:
        TableError: A column is missing or incomplete, or nothing can be learned from these rows or tested on them.

    """
    roles.check_provider(target, "target", "a file for each provider")
    table = _with_targets(table, target, target_missing)
    test = None if test is None else _with_targets(test, target, target_missing)
    rows = Rows.of(table, roles)
    names, earlier = _features(table, roles, target, carried)
    content = [*names, target]
    task, why = _task(table.frame[target], task, carried)
    y = _target(table.frame[target], task)
    if task == "classification":
        _check_classes(table.frame[target])
    if test is not None:
        for name in names:
            test.column(name, "a feature")
        choice = Choice(np.zeros(len(y), dtype=bool), f"{len(test.frame)} rows of {test.name}")
        tested = test
    else:
        choice = _choice(rows, y, task, content, carried)
        tested = replace(table, frame=_own_test_rows(rows, choice.places) if choice.kept is None else choice.kept)
    test_y = _target(tested.frame[target], task)
    _check_target(y[~choice.is_test], test_y, task, target)
    players = rows.players(choice.is_test)
    named = test is not None or roles.test_by is not None
    made = LabelledRows(
        features=table.frame.loc[~choice.is_test, names],
        target=y[~choice.is_test],
        test_features=tested.frame[names],
        test_target=test_y,
        players=players,
        test_groups={name: tested.frame[name].to_numpy() for name in roles.group if name in tested.frame},
        task=task,
        notes=(
            *dict.fromkeys([*table.notes, *tested.notes]),
            f"{task} ({why})",
            f"tested on {choice.note}",
            *([] if named else [NEXT_MONTH]),
            *earlier,
        ),
        test_hashes=None if named else tuple(row_hashes(tested.frame[_identity(content, roles)])),
        test_rows=None if named else tested.frame.reindex(columns=[*_identity(content, roles), PROVIDER]),
        test_slices={name: _slices(tested, name) for name in slices},
        registered=None if rows.ranks is None else rows.ranks[~choice.is_test],
        split_seed=choice.split_seed,
        warnings=tuple(choice.warnings(rows.labels)),
    )
    units = None if carried is None else carried.units
    return in_units(made, roles.unit_size, roles.max_players, seed=roles.split_seed, carried=units)


def _own_test_rows(rows: Rows, places: Ints) -> pd.DataFrame:
    """Return test rows of a table, with their providers and a digest of the first."""
    providers = {name: each[places] for name, each in rows.labels.items()}
    digests = list(map(provider_digest, providers[rows.roles.group[0]]))
    return rows.table.frame.iloc[places].assign(**providers, **{PROVIDER: digests})


def _features(
    table: TableFile, roles: Roles, target: str, carried: CarriedOver | None
) -> tuple[list[str], list[str]]:
    """Return the feature columns, and notes on those that an earlier run did not have."""
    for name in roles.ignore:
        table.column(name, "to ignore")
    others = {*roles.group, target, roles.unit, roles.test_by, roles.registered, *roles.ignore}
    names = [name for name in table.frame.columns if name not in others]
    if not names:
        raise TableError("no feature columns are left: all are provider, target, unit, test or ignored columns")
    return (names, []) if carried is None else (list(carried.features), check_features(names, carried))


def _identity(content: Sequence[str], roles: Roles) -> list[str]:
    """Return the columns by which a row is recognised in another period: its features, target and unit."""
    return [*content, *([] if roles.unit is None else [roles.unit])]


def _choice(rows: Rows, y: NDArray[Any], task: Task, content: Sequence[str], carried: CarriedOver | None) -> Choice:
    """Return the test rows of a table: marked in a column, those of an earlier run, or chosen by their content."""
    table = rows.table
    roles = rows.roles
    if roles.test_by is not None:
        return marked(table.column(roles.test_by, "marks the test rows"))
    if carried is not None and carried.test_rows is not None:
        names = _identity(content, roles)
        order = find_rows(table.frame[names], carried.test_rows)
        note = f"the {len(order)} test rows of the run to start from"
        missing = int((order < 0).sum())
        kept = kept_rows(carried, names, missing) if missing else None
        note += ", which are kept beside its ledger" if missing else ""
        return Choice(np.isin(np.arange(len(y)), order), note, order=order, kept=kept)

    def problem(is_test: Masks) -> str | None:
        return _problem(y[~is_test], y[is_test], task) or without_training_rows(rows.labels, is_test)

    return rows.choose(content, problem)


def _slices(tested: TableFile, name: str) -> NDArray[Any]:
    """Return the slice of each test row by a column: its value as text, or one of three bands of many numbers."""
    slices = bands_of(tested.column(name, "of slices"))
    found = pd.unique(pd.Series(slices))
    if not 2 <= len(found) <= MOST_SLICES:
        raise TableError(
            f"column {name!r} has {len(found)} values among the {len(slices)} test rows: "
            f"{option('also_slice')} needs 2 to {MOST_SLICES}. Choose another column, or one with broader values"
        )
    return slices


def _task(values: pd.Series[Any], asked: Task | None, carried: CarriedOver | None) -> tuple[Task, str]:
    """Return the task, and in words why it is this one."""
    if asked is not None:
        return asked, "as requested"
    if carried is not None:
        return cast(Task, carried.task), "as in the run to start from"
    if values.nunique() > MOST_CLASSES and (cell := odd_number(values)) is not None:
        raise TableError(
            f"column {values.name!r} (the target) is read as text, because of cells such as {shown(cell)}, though "
            "most look like numbers: write plain numbers, such as 1234.5, or use "
            f"{option('task', 'classification')}"
        )
    return recognise(values), f"inferred: {values.name!r} has {values.nunique()} distinct values"


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
            f"rows out with {option('target_missing', 'drop')}, or make them a class with "
            f"{option('target_missing', 'NAME')}"
        )
    if absent.all():
        raise TableError(f"column {name!r} (the target) of {table.name} is empty: choose another {option('target')}")
    if missing == "drop":
        frame = without_rows(table.frame, absent)
        note = f"left out {count} of {table.name} without a target"
    else:
        words = column.convert_dtypes().astype(object)  # whole numbers beside missing ones are written as floats
        frame = table.frame.assign(**{name: words.mask(absent, missing).astype(str)})
        note = f"{count} of {table.name} without a target are the class {missing!r}"
    return replace(table, frame=frame, notes=(*table.notes, note))  # the index still numbers the rows of the file


def _target(values: pd.Series[Any], task: Task) -> NDArray[Any]:
    """Return the target as an array: classes as they are, quantities as finite floats."""
    if task == "classification":
        if pd.api.types.is_float_dtype(values) and (fractions := values[np.mod(values.astype(float), 1) != 0]).any():
            raise TableError(
                f"column {values.name!r} (the target) has fractional values, such as {fractions.iloc[0]:g}: "
                "classification "
                f"needs classes. Choose {option('task', 'regression')}, or write the classes as words"
            )
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            small = bool((values.astype(float).abs() < 2**53).all())
            return values.to_numpy("int64" if small else None)  # class 1 is the same class as 1.0 in another file
        return np.asarray(values.astype(str) if values.dtype == object else values.to_numpy())
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise TableError(
            f"column {values.name!r} (the target) has {shown(values.iloc[first])} in row {values.index[first] + 1}: "
            "regression needs finite numbers. Correct the value or remove the row"
        )
    return np.asarray(numbers)


def _check_classes(target: pd.Series[Any]) -> None:
    """Raise an error if nearly every row of a table has a class of its own."""
    n_classes = target.nunique()
    n_rows = len(target)
    if n_classes > MOSTLY * n_rows > FEW:
        raise TableError(
            f"column {target.name!r} (the target) has {n_classes:,} classes in {n_rows:,} rows, such as "
            f"{shown(target.iloc[0])}: nothing can be learned about ids or dates. Name another target"
        )


def _problem(y: NDArray[Any], test_y: NDArray[Any], task: Task) -> str | None:
    """Say why these rows cannot be trained and tested on; None if they can."""
    if len(test_y) == 0:
        return "there are no test rows"
    if len(y) == 0:
        return "there are no training rows: all are test rows"
    if task == "classification":
        unknown = sorted(set(np.unique(test_y).tolist()) - set(np.unique(y).tolist()), key=str)
        if unknown:
            return f"the test rows have classes that no training row has: {some(unknown, 5)}"
    return None


def _check_target(y: NDArray[Any], test_y: NDArray[Any], task: Task, name: str) -> None:
    """Check that something can be learned from the training rows and tested on the test rows."""
    problem = _problem(y, test_y, task)
    if problem is not None:
        where = f"in the {option('test_by')} column or the {option('test')} file"
        raise TableError(f"{problem}. Choose other test rows, {where}")
    if len(np.unique(y)) < 2:
        raise TableError(
            f"column {name!r} (the target) has only one value in the training rows, {y[0]}: there is nothing to learn"
        )
