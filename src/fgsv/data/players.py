"""Players and their groups: the provider of each row, which rows are one player, and who owns a player."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fgsv.data.choice import Choice, chosen
from fgsv.data.reading import TableError, TableFile
from fgsv.data.roles import Roles, SharedUnits
from fgsv.partition import Partition
from fgsv.types import Ints, Masks
from fgsv.words import option, some

if TYPE_CHECKING:
    from fgsv.data.pieces import Pieces

MOST_CLASSES = 10
"""A target of whole numbers with more distinct values than this is a quantity, not a class."""


@dataclass(frozen=True, eq=False)
class Players:
    """The players that training rows make, and their groups."""

    units: NDArray[Any] | None
    """(rows,) the unit of each training row; None where each row is a player."""
    groupings: dict[str, Partition]
    """Column -> partition of the players; the first is the main one."""
    paid: tuple[str, ...] = ()
    """The columns of providers, among those of `groupings`."""
    shared_units: SharedUnits | None = None
    pieces: Pieces | None = None
    """How `units` were cut; None if they are not pieces of fixed size."""
    notes: tuple[str, ...] = ()
    """The choices that were made, in plain words."""

    @property
    def partition(self) -> Partition:
        """The main grouping."""
        return next(iter(self.groupings.values()))


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingRows(ABC):
    """Training rows, their players, and the choice of test rows: what a table and texts have in common."""

    players: Players
    registered: Ints | None = None
    """(rows,) the order in which training rows were registered; None: unknown."""
    test_groups: dict[str, NDArray[Any]]
    """Column -> the group of each test row, where the test rows have that column."""
    split_seed: int | None = None
    """The split seed by which test rows were chosen; None if they were not chosen by it."""
    warnings: tuple[str, ...] = ()
    """What is odd about the choice of test rows."""
    notes: tuple[str, ...] = ()
    """The choices that were made besides those of players, in plain words."""

    @abstractmethod
    def contents(self) -> list[bytes]:
        """Return the content of each training row."""


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows of a file, by their roles."""

    table: TableFile
    roles: Roles
    labels: dict[str, NDArray[Any]]
    """Provider column -> (rows,) the provider of each row."""
    units: pd.Series[Any] | None
    """(rows,) the unit of each row; None if each row is a player."""
    ranks: Ints | None
    """(rows,) the order in which rows were registered; None: unknown."""

    @classmethod
    def of(cls, table: TableFile, roles: Roles) -> Rows:
        """Find the provider, unit and rank of each row; what is missing is an error, unless the roles allow it."""
        labels = {name: labels_of(table, name, roles.group_missing) for name in roles.group}
        units = None if roles.unit is None else complete(table, roles.unit, "the unit")
        ranks = None if roles.registered is None else ranks_of(table, roles.registered)
        return cls(table, roles, labels, units, ranks)

    def choose(self, content: Sequence[str], problem: Callable[[Masks], str | None], what: str = "rows") -> Choice:
        """Choose test rows by a hash of their content, or of their unit.

        Args:
            content: The columns that are hashed.
            problem: (rows,) whether each row is a test row -> why these cannot be used, or None.
            what: What rows are called.

        Raises:
            TableError: The choice cannot be used; the error names a seed that gives another one.

        """
        frame = self.table.frame[list(content)]
        return chosen(frame, self.units, self.roles.test_fraction, self.roles.split_seed, problem, what)

    def players(self, is_test: Masks) -> Players:
        """Return the players of all rows but the test rows; a group all of whose rows are test rows has none."""
        roles = self.roles
        others = [name for name in roles.regroup if name not in self.labels]
        labels = self.labels | {name: bands_of(self.table.column(name, "to group by")) for name in others}
        training = {name: each[~is_test] for name, each in labels.items()}
        units = None if self.units is None else self.units.to_numpy()[~is_test]
        notes: list[str] = []
        if units is not None and roles.shared_units == "split":
            units, notes = _split_units(units, [training[name] for name in roles.group])
        names = {name: tuple(dict.fromkeys(each.tolist())) for name, each in labels.items()}
        groupings = {
            name: partition_of(training[name], names[name], units, name, roles.shared_units) for name in labels
        }
        notes += [note for partition in groupings.values() for note in _groups_without_players(partition)]
        notes += [note for name, partition in groupings.items() for note in _shared_players(partition, name)]
        return Players(units, groupings, tuple(roles.group), roles.shared_units, notes=tuple(notes))


def complete(table: TableFile, name: str, role: str) -> pd.Series[Any]:
    """Return a column in which nothing may be missing.

    Args:
        table: The rows of a file.
        name: The column.
        role: What it says about the rows, for errors.

    Raises:
        TableError: There is no such column, or some of its cells are missing.

    """
    column = table.column(name, role)
    missing = int(column.isna().sum())
    if missing:
        raise TableError(
            f"column {name!r} ({role}) of {table.name} has missing values in {missing} of {len(column)} rows: "
            "fill them in or remove these rows"
        )
    return column


def ranks_of(table: TableFile, name: str) -> Ints:
    """Return the order in which rows were registered, from a column of numbers or dates; equal times, equal ranks."""
    column = complete(table, name, "when rows were registered")
    times = column if pd.api.types.is_datetime64_any_dtype(column) else pd.to_numeric(column, errors="coerce")
    if times.isna().any():
        times = pd.to_datetime(column.astype(str).str.strip(), errors="coerce", format="ISO8601", utc=True)
    if times.isna().any():
        first = int(np.argmax(times.isna()))
        raise TableError(
            f"column {name!r} (when rows were registered) has {shown(column.iloc[first])} in row "
            f"{column.index[first] + 1}: expected numbers, or dates and times such as 2025-03-31 or 2025-03-31 14:05"
        )
    return np.asarray(np.unique(times.to_numpy(), return_inverse=True)[1], dtype=np.int64)


def labels_of(table: TableFile, name: str, group_missing: str | None) -> NDArray[Any]:
    """Return the group of each row, as text, without spaces around it.

    Args:
        table: The rows of a file.
        name: A provider column.
        group_missing: The group of rows without one; None: they are refused.

    Raises:
        TableError: There is no such column, or some rows have no group.

    """
    column = table.column(name, "the provider")
    missing = column.isna() | (column.astype(str).str.strip() == "")
    if missing.any():
        if group_missing is None:
            raise TableError(
                f"column {name!r} (the provider) has missing values in {int(missing.sum())} of {len(column)} rows: "
                f"fill them in, or make these rows a group of their own with {option('group_missing', 'NAME')}"
            )
        column = column.astype(object).mask(missing, group_missing)
    return column.astype(str).str.strip().to_numpy(dtype=object)


def warnings_of_names(names: Iterable[Any], kind: str = "provider") -> list[str]:
    r"""Return a warning that lists names that differ only in capitals, spaces or how accents are encoded.

    >>> warnings_of_names(["Elm GmbH", "Ash", "ELM  GmbH"])
    ["these names may be one provider: 'Elm GmbH' and 'ELM  GmbH'; if so, write them alike"]

    Names that look the same are written with the numbers of their characters:

    >>> warnings_of_names(["Andr\u00e9", "Andre\u0301"])
    ["these names may be one provider: 'Andr\\xe9' and 'Andre\\u0301'; if so, write them alike"]
    """
    alike: dict[str, list[str]] = {}
    for name in map(str, names):
        alike.setdefault(" ".join(unicodedata.normalize("NFKC", name).casefold().split()), []).append(name)
    found = []
    for each in alike.values():
        looks = {unicodedata.normalize("NFKC", name) for name in each}
        if len(each) > 1:
            found.append(" and ".join(map(repr if len(looks) == len(each) else ascii, each)))
    return [f"these names may be one {kind}: {'; '.join(found[:5])}; if so, write them alike"] if found else []


def bands_of(column: pd.Series[Any]) -> NDArray[Any]:
    """Return the group of each row by any column: its value as text, or one of three bands of many numbers."""
    words = column.astype(object).where(column.notna(), "(missing)").astype(str)
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > MOST_CLASSES:
        numbers = column.astype(float)  # nullable ones compare to NA
        low, high = numbers.quantile([1 / 3, 2 / 3])
        bands = np.select(
            [numbers <= low, numbers <= high], [f"up to {low:g}", f"{low:g} to {high:g}"], f"above {high:g}"
        )
        words = words.where(column.isna(), pd.Series(bands, index=column.index))
    return words.to_numpy(dtype=object)


def _split_units(units: NDArray[Any], labels: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], list[str]]:
    """Return a unit for each unit and provider, and a note if that made more of them."""
    keys = [pd.Series(part) for part in (units, *labels)]
    split = pd.DataFrame(dict(enumerate(keys))).groupby(list(range(len(keys))), sort=False).ngroup().to_numpy()
    before = len(pd.unique(pd.Series(units)))
    after = int(split.max()) + 1
    note = f"{before} units become {after} players, one for each of their providers"
    return split, [note] if after > before else []


def partition_of(
    labels: NDArray[Any],
    names: tuple[str, ...],
    units: NDArray[Any] | None,
    column: str,
    shared_units: SharedUnits | None,
) -> Partition:
    """Return the group of each player, in the order of the file; a group without training rows has no players.

    Args:
        labels: (rows,) the group of each training row.
        names: All groups, also those without training rows.
        units: (rows,) the unit of each training row; None: each row is a player.
        column: Names the grouping in errors.
        shared_units: "co-own": a unit with rows of several groups is owned by them in proportion to their rows;
            otherwise it is refused.

    Raises:
        TableError: There is only one group, or a unit is in several.

    """
    if len(names) < 2:
        raise TableError(f"column {column!r} has only one group, {names[0]!r}: shares need at least two")
    codes = pd.Index(names).get_indexer(pd.Index(labels))
    if units is None:
        return Partition(names, codes.astype(np.int64))
    players, _ = pd.factorize(units)  # players are numbered by the first appearance of their units
    first = np.unique(players, return_index=True)[1]
    crossing = np.unique(players[codes != codes[first][players]])
    if not len(crossing):
        return Partition(names, codes[first].astype(np.int64))
    if shared_units is None:
        raise TableError(
            f"unit {shown(units[first[crossing[0]]])} is in more than one group of column {column!r} "
            f"({len(crossing)} such units): {option('shared_units', 'co-own')} makes it one player that they own in "
            f"proportion to their rows, {option('shared_units', 'split')} makes one player for each group"
        )
    rows = np.zeros((len(first), len(names)))
    np.add.at(rows, (players, codes), 1.0)
    return Partition(names, rows / rows.sum(axis=1, keepdims=True))


def without_training_rows(labels: Mapping[str, NDArray[Any]], is_test: Masks) -> str | None:
    """Name the providers all of whose rows are test rows; None if there are none."""
    for name, each in labels.items():
        trained = set(each[~is_test].tolist())
        lost = [label for label in dict.fromkeys(each.tolist()) if label not in trained]
        if lost:
            of_all = f"{len(lost)} of the providers in column {name!r}"
            return f"the test rows include every row of {of_all}, whose data would be worth zero: {some(lost)}"
    return None


def _shared_players(partition: Partition, column: str) -> list[str]:
    if partition.is_disjoint:
        return []
    shared = int((partition.owners.max(axis=1) < 1).sum())
    return [f"{shared} units are owned by several groups of column {column!r}, in proportion to their rows"]


def _groups_without_players(partition: Partition) -> list[str]:
    empty = [name for name, size in zip(partition.names, partition.sizes, strict=True) if not size]
    return [f"without training rows, so their value is zero: {some(empty)}"] if empty else []


def shown(cell: Any) -> str:
    """Return a cell as the user wrote it: text in quotes, numbers without their type."""
    return repr(cell) if isinstance(cell, str) else str(cell)
