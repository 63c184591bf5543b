"""Tables: a file with a column of providers becomes players, groups, features and a target."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fgsv.partition import Partition
from fgsv.types import Masks

Task = Literal["classification", "regression"]

MOST_CLASSES = 10
"""A target of whole numbers with more distinct values than this is a quantity, not a class."""
MOST_CATEGORIES = 20
"""Rarer categories of a text column than this many share one column."""
DATE_SHARE = 0.95
"""A text column is one of dates when at least this part of it reads as dates."""
DECIMAL_COMMA = r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:[eE][+-]?\d+)?"


class TableError(ValueError):
    """A file, a column or a row is not what was expected."""


@dataclass(frozen=True, eq=False)
class Table:
    """A file's rows, and what the file was."""

    frame: pd.DataFrame
    name: str
    sha256: str
    notes: tuple[str, ...] = ()
    """What was decided in reading it, in plain words."""

    def column(self, name: str, role: str) -> pd.Series[Any]:
        """Return a column, or raise an error that suggests the closest name."""
        if name not in self.frame.columns:
            raise TableError(_no_such_column(name, role, self.name, [str(c) for c in self.frame.columns]))
        return self.frame[name]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training players, test rows and the groupings of the players: what a utility and a valuation need."""

    features: pd.DataFrame
    """The training rows, as in the file."""
    target: NDArray[Any]
    test_features: pd.DataFrame
    test_target: NDArray[Any]
    units: NDArray[Any] | None
    """(rows,) the unit of each training row where a player is more than a row."""
    groupings: dict[str, Partition]
    """Column -> partition of the players, the first one foremost."""
    test_groups: dict[str, NDArray[Any]]
    """Column -> the group of each test row, where the test file says it."""
    task: Task
    notes: tuple[str, ...]
    """What was decided on the way, in plain words."""

    @property
    def partition(self) -> Partition:
        """The first grouping."""
        return next(iter(self.groupings.values()))


def read(path: str | Path, *, text: Sequence[str] = (), encoding: str = "utf-8") -> Table:
    r"""Read CSV, TSV (either of them gzipped) or Parquet; columns named in `text` stay as they are written.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "small.csv")
    >>> _ = file.write_text("provider,y\n007,1\n008,2\n")
    >>> read(file, text=["provider"]).frame["provider"].tolist()
    ['007', '008']
    """
    path, notes = Path(path), []
    if path.is_dir():
        raise TableError(f"{path} is a directory: give a CSV, TSV or Parquet file")
    if not path.exists():
        near = get_close_matches(path.name, [p.name for p in path.parent.glob("*")], n=1, cutoff=0.75)
        raise TableError(f"no file {path}" + (f"; did you mean {path.parent / near[0]}?" if near else ""))
    content = path.read_bytes()
    if not content:
        raise TableError(f"{path} is empty")
    if content.startswith(b"SQLite format 3\x00"):
        raise TableError(f"{path} is a database, not a table: export the table you mean as CSV")
    if {".parquet", ".pq"} & set(path.suffixes):
        frame = _read_parquet(path)
        for name in text:
            if name in frame:
                frame[name] = frame[name].astype("string").astype(object)
    else:
        frame, separator = _read_text(path, content, text, encoding)
        if separator == ";":
            notes = _read_decimal_commas(frame, text)
    if not len(frame):
        raise TableError(f"{path} has a header but no rows")
    return Table(frame, path.name, hashlib.sha256(content).hexdigest(), tuple(notes))


def _read_text(path: Path, content: bytes, text: Sequence[str], encoding: str) -> tuple[pd.DataFrame, str]:
    """Return the rows and the separator between their cells."""
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise TableError(f"{path} is not a whole gzip file: {error}") from None
    if encoding.lower().replace("_", "-") == "utf-8":
        encoding = "utf-8-sig"  # the same, without the mark that spreadsheets put in front
    try:
        decoded = content.decode(encoding)
    except LookupError:
        raise TableError(f"unknown encoding {encoding!r}: try utf-8 or latin-1") from None
    except UnicodeDecodeError as error:
        likely = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin-1"
        raise TableError(
            f"{path} is not {encoding.removesuffix('-sig')} text (byte 0x{content[error.start]:02x} at position "
            f"{error.start}): say --encoding {likely}, or whatever it was written in"
        ) from None
    if not decoded.strip():
        raise TableError(f"{path} is empty")
    header = decoded.lstrip().splitlines()[0]
    separator = max(",\t;|", key=header.count)
    names = next(csv.reader([header], delimiter=separator))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"{path} has two columns named {twice!r}: rename one")
    try:
        kept = dict.fromkeys(text, object)
        return pd.read_csv(io.StringIO(decoded), sep=separator, dtype=kept, low_memory=False), separator
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path} is not a table: {str(error).strip()}") from None


def _read_decimal_commas(frame: pd.DataFrame, text: Sequence[str]) -> list[str]:
    """Turn columns such as "1,5" and "1.234,5" into numbers, in place; return the note that names them.

    A column is one of numbers when all its cells are, and one of them at least has the comma.
    """
    changed = []
    for name in frame.columns:
        if name in text or pd.api.types.is_numeric_dtype(frame[name]):
            continue
        cells = frame[name].dropna().astype(str).str.strip()
        if cells.str.contains(",").any() and cells.str.fullmatch(DECIMAL_COMMA).all():
            plain = cells.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
            frame[name] = plain.astype(float).reindex(frame.index)
            changed.append(str(name))
    return [f"read as numbers with decimal commas: {', '.join(changed)}"] if changed else []


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'fgsv[parquet]'") from None
    try:
        return pd.read_parquet(path)
    except Exception as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from None


def _no_such_column(name: str, role: str, file: str, columns: list[str]) -> str:
    near = get_close_matches(name, columns, n=1, cutoff=0.5) or [
        column for column in columns if column.strip().lower() == name.strip().lower()
    ]
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(columns[:12])}"
    hint += ", ..." if not near and len(columns) > 12 else ""
    return f"{file} has no column {name!r} ({role}); {hint}"


def prepare(
    table: Table,
    *,
    group: Sequence[str],
    target: str,
    regroup: Sequence[str] = (),
    unit: str | None = None,
    test: Table | None = None,
    test_by: str | None = None,
    test_fraction: float = 0.25,
    group_missing: str | None = None,
    ignore: Sequence[str] = (),
    task: Task | None = None,
    seed: int = 0,
) -> Dataset:
    """Return the data set of a table: who owns which player, what is learned from what, and what tests it.

    The test rows are those of `test`, those that column `test_by` marks ("test", true, 1), or a random fraction,
    drawn by unit and never by group: which rows test must not depend on how the providers are cut.

    `regroup` names further columns to group the players by, which stay features; many numbers are cut at terciles.
    """
    if not group:
        raise TableError("no group column: name the column that says whose row it is")
    if target in group:
        raise TableError(f"column {target!r} is both the group and the target")
    notes = list(dict.fromkeys([*table.notes, *(() if test is None else test.notes)]))
    values = table.column(target, "the target")
    labels = {name: _labels(table, name, group_missing) for name in group}
    players = None if unit is None else table.column(unit, "the unit")
    if players is not None and players.isna().any():
        raise TableError(f"column {unit!r} (the unit) is missing in {int(players.isna().sum())} rows")
    missing = int(values.isna().sum())
    if missing:
        raise TableError(f"column {target!r} (the target) is missing in {missing} of {len(values)} rows")
    apart = {*group, target, *ignore} | {name for name in (unit, test_by) if name is not None}
    for name in ignore:
        table.column(name, "to ignore")
    feature_names = [name for name in table.frame.columns if name not in apart]
    if not feature_names:
        raise TableError("no feature columns are left beside group, target, unit and ignored ones")
    kind = task or recognise(values)
    notes.append(_task_note(kind, target, values, chosen=task is not None))
    y = _target(values, kind, target)
    if test is not None:
        test_y = _target(test.column(target, "the target"), kind, target)
        for name in feature_names:
            test.column(name, "a feature")
        is_test = np.zeros(len(y), dtype=bool)
        test_features, notes_test = test.frame[feature_names], f"{len(test_y)} rows of {test.name}"
        test_groups = {name: test.frame[name].to_numpy() for name in group if name in test.frame}
    else:
        is_test, notes_test = _choose_test(table, y, kind, players, test_by, test_fraction, seed)
        test_features, test_y = table.frame.loc[is_test, feature_names], y[is_test]
        test_groups = {name: labels[name][is_test] for name in group}
    notes.append(f"tested on {notes_test}")
    _check_target(y[~is_test], test_y, kind, target)
    units = None if players is None else players.to_numpy()[~is_test]
    labels |= {name: _bands(table.column(name, "to group by")) for name in regroup if name not in labels}
    groupings = {name: _partition(labels[name], is_test, units, name, notes) for name in labels}
    return Dataset(
        table.frame.loc[~is_test, feature_names],
        y[~is_test],
        test_features,
        test_y,
        units,
        groupings,
        test_groups,
        kind,
        tuple(notes),
    )


def recognise(values: pd.Series[Any]) -> Task:
    """Say whether a target is a class or a quantity.

    Text, booleans and categories are classes; numbers are when they are whole and at most ten differ.
    """
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return "classification"
    distinct = np.asarray(values.dropna().unique(), dtype=float)
    whole = np.isfinite(distinct).all() and np.all(np.mod(distinct, 1) == 0)
    return "classification" if whole and len(distinct) <= MOST_CLASSES else "regression"


def _task_note(kind: Task, target: str, values: pd.Series[Any], *, chosen: bool) -> str:
    distinct = values.nunique()
    why = "as asked" if chosen else f"{target!r} has {distinct} distinct values"
    return f"{kind} ({why})"


def _target(values: pd.Series[Any], kind: Task, name: str) -> NDArray[Any]:
    if kind == "classification":
        return np.asarray(values.astype(str) if values.dtype == object else values.to_numpy())
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = numbers.isna() | ~np.isfinite(numbers.astype(float))
    if wrong.any():
        row = int(np.argmax(wrong))
        cell = values.iloc[row]
        raise TableError(
            f"column {name!r} (the target) must be finite numbers for a regression; "
            f"row {row + 1} has {repr(cell) if isinstance(cell, str) else cell}"
        )
    return np.asarray(numbers, dtype=float)


def _check_target(y: NDArray[Any], test_y: NDArray[Any], kind: Task, name: str) -> None:
    if len(test_y) == 0:
        raise TableError("no test rows are left")
    if len(y) == 0:
        raise TableError("no training rows are left")
    if len(np.unique(y)) < 2:
        raise TableError(f"column {name!r} (the target) has one value only, {y[0]}: there is nothing to learn")
    if kind == "classification":
        unknown = sorted(set(np.unique(test_y).tolist()) - set(np.unique(y).tolist()), key=str)
        if unknown:
            raise TableError(f"the test rows have classes that no training row has: {unknown[:5]}")


def _labels(table: Table, name: str, group_missing: str | None) -> NDArray[Any]:
    """Return the group of each row, as text."""
    column = table.column(name, "the group")
    missing = column.isna() | (column.astype(str).str.strip() == "")
    if missing.any():
        if group_missing is None:
            raise TableError(
                f"column {name!r} (the group) is missing in {int(missing.sum())} of {len(column)} rows: "
                "fill them, or say --group-missing NAME to make them a group of that name"
            )
        column = column.astype(object).mask(missing, group_missing)
    return column.astype(str).to_numpy(dtype=object)


def _bands(column: pd.Series[Any]) -> NDArray[Any]:
    """Return labels of a column of any kind: words as they are, many different numbers as three bands."""
    words = column.astype(object).where(column.notna(), "(missing)").astype(str)
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > MOST_CLASSES:
        low, high = column.quantile([1 / 3, 2 / 3])
        bands = np.select(
            [column <= low, column <= high], [f"up to {low:g}", f"{low:g} to {high:g}"], f"above {high:g}"
        )
        words = words.where(column.isna(), pd.Series(bands, index=column.index))
    return words.to_numpy(dtype=object)


def _choose_test(
    table: Table,
    y: NDArray[Any],
    kind: Task,
    players: pd.Series[Any] | None,
    test_by: str | None,
    fraction: float,
    seed: int,
) -> tuple[Masks, str]:
    if test_by is not None:
        return _marked(table.column(test_by, "which rows test"), test_by)
    if not 0 < fraction < 1:
        raise TableError(f"--test-fraction must be between 0 and 1, got {fraction}")
    rng = np.random.default_rng(seed)
    if players is not None:
        codes = pd.factorize(players)[0]
        chosen = rng.permutation(codes.max() + 1)[: max(1, round(fraction * (codes.max() + 1)))]
        is_test = np.isin(codes, chosen)
        return is_test, f"{int(is_test.sum())} rows ({len(chosen)} units) drawn at random, seed {seed}"
    order = rng.permutation(len(y))
    if kind == "classification":  # each class in proportion: spread the classes evenly over the order
        ranks = np.empty(len(y))
        for value in np.unique(y):
            members = order[y[order] == value]
            ranks[members] = (np.arange(len(members)) + rng.random()) / len(members)
        order = np.argsort(ranks, kind="stable")
    is_test = np.zeros(len(y), dtype=bool)
    is_test[order[: max(1, round(fraction * len(y)))]] = True
    return is_test, f"{int(is_test.sum())} rows drawn at random, seed {seed}"


def _marked(column: pd.Series[Any], name: str) -> tuple[Masks, str]:
    """Return which rows a column marks as test rows."""
    words = column.astype(str).str.strip().str.lower()
    known = {"test": True, "true": True, "1": True, "1.0": True, "yes": True}
    known |= {"train": False, "false": False, "0": False, "0.0": False, "no": False}
    unknown = sorted(set(words) - set(known))
    if unknown:
        raise TableError(f"column {name!r} must say train or test (or 0 and 1); it has {unknown[0]!r}")
    is_test = words.map(known).to_numpy(dtype=bool)
    return is_test, f"{int(is_test.sum())} rows that column {name!r} marks"


def _partition(
    labels: NDArray[Any], is_test: Masks, units: NDArray[Any] | None, name: str, notes: list[str]
) -> Partition:
    """Return who owns which player, in the order of the file; who has no training rows stays, with none."""
    training = labels[~is_test]
    if units is not None:
        # players stand in the order in which their units first appear
        codes, _ = pd.factorize(units)
        first = np.unique(codes, return_index=True)[1]
        crossing = np.unique(codes[training != training[first][codes]])
        if len(crossing):
            raise TableError(
                f"{len(crossing)} units belong to more than one group of column {name!r}; the first is "
                f"{units[first[crossing[0]]]!r}. A unit is one player and has one owner"
            )
        training = training[first]
    codes_of = {label: code for code, label in enumerate(dict.fromkeys(labels.tolist()))}
    if len(codes_of) < 2:
        raise TableError(f"column {name!r} has one group only, {labels[0]!r}: there is nobody to share with")
    without = [str(label) for label in codes_of if label not in set(training)]
    if without:
        notes.append(f"without training rows, so without value: {', '.join(without[:10])}")
    return Partition(tuple(codes_of), None, np.array([codes_of[label] for label in training], dtype=np.int64))
