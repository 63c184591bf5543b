"""Joining: files, archives of files and data frames of any library become one table."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.data.formats import content_of, members, parse
from fgsv.data.reading import TableError, TableFile, as_listed, with_text
from fgsv.words import numbered, option, some

FILE = "file"
"""The column with the file that each row is from, if there is no provider column."""


def read_all(
    given: Any,
    *,
    group: Sequence[str] = (),
    ignore: Sequence[str] = (),
    text: Sequence[str] = (),
    encoding: str = "utf-8",
) -> TableFile:
    """Read what is given as one table.

    Args:
        given: A path, a data frame (from pandas, or with a method `to_pandas`, as in polars and Hugging Face), or a
            list of these with the same columns. A zip archive is the list of its files.
        group: Provider columns. If one of several files lacks one, its name without suffixes takes its place; without
            any provider column the names are the column `file`.
        ignore: Columns that not every file must have.
        text: Columns that are kept as they are written.
        encoding: That of text files.

    Raises:
        TableError: A file cannot be read, is given twice, or does not fit the others.

    """
    listed = given if isinstance(given, (list, tuple)) else [given]
    paths = Counter(Path(each).resolve() for each in listed if isinstance(each, (str, Path)))
    twice = next((path.name for path, count in paths.items() if count > 1), None)
    if twice is not None:
        raise TableError(f"{twice} is given twice, so its rows would count twice: give it once")
    parts = [part for each in listed for part in _parts(each, text, encoding)]
    if not parts:
        raise TableError("there is no file: give at least one")
    return parts[0] if len(parts) == 1 else _joined(parts, group, ignore, text)


def _parts(given: Any, text: Sequence[str], encoding: str) -> list[TableFile]:
    if not isinstance(given, (str, Path)):
        return [_from_frame(given, text)]
    path = Path(given)
    content = content_of(path)
    inside = members(path, content) or [(path, content)]
    return [parse(each, part, text=text, encoding=encoding) for each, part in inside]


def _is_table(given: Any) -> bool:
    return isinstance(given, pd.DataFrame) or hasattr(given, "to_pandas")


def _from_frame(given: Any, text: Sequence[str]) -> TableFile:
    """Return a data frame as a table, with a hash of its content; levels of its index may be columns of `text`."""
    name = type(given).__name__
    frame = given.to_pandas() if hasattr(given, "to_pandas") else given
    if not isinstance(frame, pd.DataFrame):
        hint = ""
        if hasattr(given, "collect"):
            hint = ": collect it first"
        elif isinstance(given, dict) and not any(map(_is_table, given.values())):
            hint = ": make its cells a data frame, with pandas.DataFrame(...)"  # a column, or a row of a list
        elif hasattr(given, "keys"):
            hint = f": choose one of {', '.join(map(str, given.keys()))}"
        raise TableError(f"expected a path, a data frame, or a list of these, got {name}{hint}")
    named = [each for each in frame.index.names if each in text and each not in frame.columns]
    if len(set(named)) < len(named):
        raise TableError(f"{name} has two levels of its index named {named[0]!r}: rename one of them")
    frame = (frame.reset_index(level=named) if named else frame).reset_index(drop=True)
    frame.columns = frame.columns.map(str)
    if frame.columns.has_duplicates:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise TableError(f"{name} has two columns named {repeated!r}: rename one of them")
    if not len(frame):
        raise TableError(f"{name} has no rows")
    digest = hashlib.sha256("\0".join(frame.columns).encode())
    words = frame.astype({column: str for column in frame.columns if frame[column].dtype == object})
    digest.update(pd.util.hash_pandas_object(words, index=False).to_numpy().tobytes())
    return TableFile(with_text(frame, text), name, digest.hexdigest())


def _joined(
    parts: Sequence[TableFile], group: Sequence[str], ignore: Sequence[str], text: Sequence[str]
) -> TableFile:
    columns = list(dict.fromkeys(name for part in parts for name in part.frame.columns))
    labels = _labels(parts)
    if not group and FILE in columns:
        raise TableError(f"name the provider column: is it {option('group', FILE)}?")
    name_of_all = ", ".join(part.name for part in parts)
    for name in group:  # at least one of the files must have it
        TableFile(pd.DataFrame(columns=columns), name_of_all, "").column(name, "the provider")
    by_file = list(group) or [FILE]
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    frames = []
    named = []
    for part, label in zip(parts, labels, strict=True):
        lacking = [name for name in columns if name not in part.frame.columns]
        wanted = [name for name in lacking if name not in {*by_file, *ignore}]
        if wanted:
            raise TableError(
                f"{part.name} has no column {wanted[0]!r}, which another file has: add it, or leave it out of all of "
                f"them with {option('ignore', as_listed(wanted[:1]))}"
            )
        filled = [name for name in by_file if name not in part.frame.columns]
        named += [label] if filled else []
        frames.append(part.frame.assign(**dict.fromkeys(filled, label)))
    _check_kinds(parts, columns, {*group, *ignore, *text})
    if named:
        notes[f"the provider is the name of the file: {some(named)}"] = None
    return TableFile(
        pd.concat(frames, ignore_index=True),
        name_of_all,
        ", ".join(part.sha256 for part in parts),
        tuple(notes),
        None if group else FILE,
    )


def _labels(parts: Iterable[TableFile]) -> list[str]:
    """Return a name for each file, without suffixes; those of equal names are numbered."""
    stems = [part.name.partition(".")[0] or part.name for part in parts]
    counts = Counter(stems)
    return [stem if counts[stem] == 1 else f"{stem} ({before + 1})" for stem, before in numbered(stems)]


def _has_numbers(column: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _check_kinds(parts: Sequence[TableFile], columns: Iterable[str], skipped: set[str]) -> None:
    """Raise an error if a column has numbers in one file and text in another: it would be neither."""
    for name in columns:
        kinds = {
            _has_numbers(part.frame[name]): part.name
            for part in parts
            if name not in skipped and name in part.frame.columns and part.frame[name].notna().any()
        }
        if len(kinds) > 1:
            raise TableError(
                f"column {name!r} has numbers in {kinds[True]} and text in {kinds[False]}: use one kind in all "
                f"files, or leave it out with {option('ignore', as_listed([name]))}"
            )
