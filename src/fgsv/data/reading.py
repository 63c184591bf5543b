"""Reading: a file of text becomes rows, cells of any format become text and numbers, and names find columns."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import shlex
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fgsv.files import most_expanded
from fgsv.types import Floats
from fgsv.words import option, some

SEPARATORS = ",\t;|"
QUOTED = re.compile(r'''(?<![^,\t;|])"(?:[^"]|"")*"''')
"""A name in quotes, which may contain separators; a quote within a name is one of its characters."""
LISTED_NAME = re.compile(r"""\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,]*))\s*(?:,|$)""")
"""A name of a list with commas; only a name that begins and ends with a double quote is in quotes."""
DECIMAL_COMMA = r"\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:[eE][+-]?\d+)?\s*"
"""A number written as 1,5 or 1.234,5. A point must be followed by three digits: 1.5 does not match."""

_DIGITS = r"[+-]?(?:\d{1,3}(?:[.,'’\s]\d{3})+|\d+)(?:[.,]\d+)?(?:[eE][+-]?\d+)?"
_UNIT = r"(?:[$€£¥₹%]|[A-Z]{3})?"
NUMBER = rf"\s*{_UNIT}\s*{_DIGITS}\s*{_UNIT}\s*"
"""A number with or without thousands separators, a currency or a percent sign, as in € 1.234,50."""
MOSTLY_NUMBERS = 0.8
"""A column of text is one of numbers by mistake if at least this fraction of its first cells match `NUMBER`."""
FIRST_CELLS = 1_000
NUMBERS = {"decimal", "integer", "floating", "mixed-integer-float"}
"""What pandas infers of objects that are all numbers."""
DURATIONS = {"timedelta", "timedelta64"}
TITLE = "if the first line is not the header but a title, delete it"
UNNAMED = re.compile(r"Unnamed: \d+")
"""What pandas calls a column without a name."""


class TableError(ValueError):
    """A file, column, row or option that cannot be used; the message says why and what to do."""


class NotDecoded(TableError):
    """A file that is not text in the given encoding."""


@dataclass(frozen=True, eq=False)
class TableFile:
    """The rows of a file, with the file's name and hash."""

    frame: pd.DataFrame
    name: str
    sha256: str
    notes: tuple[str, ...] = ()
    """Decisions made while reading, in plain words."""
    by_file: str | None = None
    """The column with the name of each row's file, if that is the provider."""

    def column(self, name: str, role: str) -> pd.Series[Any]:
        """Return a column, or raise an error that suggests the closest name."""
        if not isinstance(name, str) or name not in self.frame.columns:
            raise TableError(_no_such_column(name, role, self.name, [str(c) for c in self.frame.columns]))
        return self.frame[name]


def _in_words(error: str) -> str:
    """Return what the parser of pandas has found, in words for those who made the file; otherwise its own words.

    >>> _in_words("Error tokenizing data. C error: Expected 5 fields in line 162, saw 7")
    'line 162 has 7 cells, expected 5: quote cells that contain the separator'
    """
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error):
        expected, line, cells = found.groups()
        what = f"line {line} has {cells} cells, expected {expected}"
        return f"{what}: {TITLE if expected == '1' else 'quote cells that contain the separator'}"
    if "EOF inside string" in error:
        return "a quotation mark opens a cell and none closes it"
    return error


def read_text(path: Path, decoded: str, text: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a text file, and notes on how they were read."""
    if not decoded.strip():
        raise empty_file(path)
    header = _header(decoded)
    separator = max(SEPARATORS, key=QUOTED.sub("", header).count)
    try:
        names = next(csv.reader(io.StringIO(header, newline=""), delimiter=separator))
    except csv.Error as error:
        raise TableError(f"{path} is not a table: its header cannot be read, {error}") from None
    check_names(path, [name for name in names if name.strip()])  # spreadsheets end lines with commas of empty columns

    notes = []
    given: dict[str, Any] = {"sep": separator, "dtype": dict.fromkeys(text, object), "index_col": False}

    def parse(**options: Any) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(decoded), low_memory=False, **given | options)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = parse()
    except pd.errors.ParserWarning:  # more cells than names, and not all of the last ones are empty
        given["index_col"] = None  # pandas takes the cell that rows have beyond the header for their name
        frame = parse()
        if frame.index.nlevels > 1 or not frame.index.is_unique:
            raise TableError(
                f"{path} has rows with more cells than its header has names ({len(names)}): {TITLE}; otherwise name "
                "every column, and quote cells that contain the separator"
            ) from None
        notes.append("the first cell of each row, which has no column name, is taken as the row's name")
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path} is not a table: {_in_words(str(error).strip())}") from None
    kept = [name for name in dict.fromkeys(text) if name in frame.columns]
    if kept and frame[kept].isna().to_numpy().any():  # NA, None and null may be names: only empty cells are missing
        frame[kept] = parse(keep_default_na=False, na_values=[""])[kept].to_numpy(object)
    commas = _columns_with_decimal_commas(frame, text) if separator == ";" else []
    if commas:
        # only these columns: with the same options 1.5 in another one would become 15
        frame[commas] = parse(decimal=",", thousands=".")[commas].to_numpy(float)
        notes.append(f"read as numbers with decimal commas: {', '.join(commas)}")
    padded = _columns_with_leading_zeros(frame, parse(dtype=str, nrows=FIRST_CELLS), text)
    if padded:
        cells = "; ".join(f"{name} ({cell} is {cell.lstrip('0') or 0})" for name, cell in padded.items())
        notes.append(f"read as numbers without leading zeros: {cells}. If they are codes, add a letter to them")
    return _with_numbers(frame, text), notes


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise an error if two columns have the same name."""
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise TableError(f"{path} has two columns named {repeated!r}: rename one of them")


def _columns_with_leading_zeros(frame: pd.DataFrame, written: pd.DataFrame, text: Sequence[str]) -> dict[str, str]:
    """Return the columns of whole numbers with a cell such as 01234 among the first, which are `written` as text."""
    found = {}
    for name in frame.columns:
        if name not in text and pd.api.types.is_numeric_dtype(frame[name]):
            cells = written[name].dropna()
            padded = cells[cells.str.fullmatch(r"\s*0\d+\s*", flags=re.ASCII)]
            if len(padded):
                found[name] = padded.iloc[0].strip()
    return found


def _header(decoded: str) -> str:
    """Return the first line that is not blank, with those that a quoted line break joins to it."""
    lines = io.StringIO(decoded, newline="")
    header = [next(line for line in lines if line.strip())]
    is_open = header[0].count('"') % 2 == 1
    while is_open and (line := next(lines, "")):
        header.append(line)
        is_open = line.count('"') % 2 == 0
    return header[0] if is_open else "".join(header)  # a quote that nothing closes is a character of a name


def is_utf8(encoding: str) -> bool:
    """Say whether this is a name of UTF-8."""
    return codecs.lookup(encoding).name == "utf-8"


def decode(path: Path, content: bytes, encoding: str) -> str:
    """Return the text of a file's content, which may be gzipped.

    Args:
        path: Names the file in errors.
        content: Its bytes.
        encoding: A name that Python knows; of UTF-8, a byte order mark is dropped.

    Raises:
        NotDecoded: It is not text in this encoding; the error says which one to try.
        TableError: It expands to far more than tables do, or there is no such encoding.

    """
    if content[:2] == b"\x1f\x8b":
        most = most_expanded(len(content))
        try:
            with gzip.open(io.BytesIO(content)) as stream:
                content = stream.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise NotDecoded(f"{path} is not a complete gzip file: {error}") from None
        if len(content) > most:
            raise TableError(
                f"{path} expands to more than {most / 2**20:,.0f} MiB, far more than tables do: if you trust it, "
                "decompress it first (gunzip)"
            )
    try:
        if is_utf8(encoding):
            encoding = "utf-8-sig"  # the same, without the byte order mark that spreadsheets write
        return content.decode(encoding)
    except LookupError:
        raise TableError(f"unknown encoding {encoding!r}: try utf-8 or latin-1") from None
    except UnicodeDecodeError as error:
        likely = "latin-1"
        if not is_utf8(encoding) and _is_utf8_text(content):
            raise NotDecoded(f"{path} is utf-8 text, not {encoding}: save all files in one encoding") from None
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            likely = "utf-16"
        elif b"\0" in content:
            raise NotDecoded(
                f"{path} is not text: it has null bytes, as binary files do. If it is text in another encoding, name "
                f"it with {option('encoding', 'NAME')}"
            ) from None
        elif re.search(rb"[\x80-\x9f]", content):  # € and quotation marks of Windows, nothing in latin-1
            likely = "cp1252"
        other = codecs.lookup(likely) != codecs.lookup(encoding)
        advice = f"try {option('encoding', likely)}, or the encoding it was saved in"
        raise NotDecoded(
            f"{path} is not {encoding.removesuffix('-sig')} text (byte 0x{content[error.start]:02x} at position "
            f"{error.start}): {advice if other else 'name the encoding it was saved in'}"
        ) from None


def _is_utf8_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def could_be_utf8(path: Path, content: bytes, decoded: str) -> bool:
    """Say whether a file that was read in another encoding would be another text in UTF-8: rarely so by chance.

    Args:
        path: Names the file in errors.
        content: Its bytes.
        decoded: The text that they are in the encoding that was given.

    """
    try:
        return not decoded.isascii() and decode(path, content, "utf-8") != decoded
    except NotDecoded:
        return False


def _columns_with_decimal_commas(frame: pd.DataFrame, text: Sequence[str]) -> list[str]:
    """Return the columns whose cells are all numbers such as 1,5 and 1.234,5, at least one of them with a comma."""
    found = []
    for name in frame.columns:
        if name in text or pd.api.types.is_numeric_dtype(frame[name]):
            continue
        cells = frame[name].dropna().astype(str)
        if cells.str.contains(",").any() and cells.str.fullmatch(DECIMAL_COMMA, flags=re.ASCII).all():
            found.append(name)
    return found


def odd_number(column: pd.Series[Any]) -> str | None:
    """Return the first cell that makes text of a column whose cells are mostly numbers; None if it has no such cell.

    One that is no number even with a decimal comma comes before those that are.

    >>> odd_number(pd.Series(["1", "<5", "7", "9", "11"])), odd_number(pd.Series(["A1", "B2"]))
    ('<5', None)
    >>> odd_number(pd.Series(["1,5", "2,5", "unknown", "3,5", "4,5", "5,5"]))
    'unknown'
    """
    words = column.dropna().astype(str)
    if not len(words) or words.iloc[:FIRST_CELLS].str.fullmatch(NUMBER).mean() < MOSTLY_NUMBERS:
        return None
    others = words[pd.to_numeric(words, errors="coerce").isna()]
    without_commas = others[~others.str.fullmatch(DECIMAL_COMMA, flags=re.ASCII)]
    found = without_commas if len(without_commas) else others
    return found.iloc[0] if len(found) else None


NESTED = (list, tuple, dict, set, np.ndarray)
"""What a cell of text cannot be."""


def with_text(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return a frame as a file of text would have it: these columns are text, numbers are numbers.

    A list in one of them, such as the messages of a chat, is refused: its brackets would be part of the text.
    """
    for name in frame.columns.intersection(list(names)):
        nested = frame[name].map(lambda cell: isinstance(cell, NESTED)).to_numpy(bool)
        if nested.any():
            row = int(nested.argmax())
            kind = type(frame[name].iloc[row]).__name__
            raise TableError(f"column {name!r} has a {kind} in row {row + 1}: expected text (join its parts)")
    named = {name: _whole(frame[name]).astype("string").astype(object) for name in names if name in frame.columns}
    return _with_numbers(frame, names).assign(**named)


def as_floats(column: pd.Series[Any]) -> Floats:
    """Return the cells of a column that are numbers, also those written as text; NaN for all others."""
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)


def _whole(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return integers that a missing one has turned into floats as integers: provider 7 is not 7.0."""
    there = column.dropna()
    if column.dtype != float or len(there) == len(column):
        return column
    return column.astype("Int64") if _are_integers(there) else column


def _are_integers(floats: pd.Series[Any]) -> bool:
    return bool(((floats % 1 == 0) & (floats.abs() < 2**53)).all())


def _with_numbers(frame: pd.DataFrame, text: Sequence[str]) -> pd.DataFrame:
    """Return a frame with numbers in place of decimals, integers beyond 64 bits, and durations, in days."""
    numbers = {}
    for name in frame.columns.difference(list(text), sort=False):
        column = frame[name]
        kind = pd.api.types.infer_dtype(column)
        if kind in DURATIONS:
            with suppress(pd.errors.OutOfBoundsTimedelta):  # centuries stay what they are
                numbers[name] = pd.to_timedelta(column) / pd.Timedelta(days=1)
        elif column.dtype == object and kind in NUMBERS:
            column = column.infer_objects()  # integers that fit stay integers
            with suppress(OverflowError):  # hundreds of digits are text
                numbers[name] = (
                    column if column.dtype != object else column.where(column.notna(), np.nan).astype(float)
                )
    return frame.assign(**numbers)


def without_rows(frame: pd.DataFrame, left_out: pd.Series[bool]) -> pd.DataFrame:
    """Return a frame without some rows; integers that a missing cell of these had turned into floats are integers.

    >>> without_rows(pd.DataFrame({"y": [1, None, 2]}), pd.Series([False, True, False]))["y"].tolist()
    [1, 2]
    """
    kept = frame[~left_out]
    floats = [name for name in kept.columns if kept[name].dtype == float and frame.loc[left_out, name].isna().any()]
    whole = [name for name in floats if _are_integers(kept[name])]
    return kept.astype(dict.fromkeys(whole, "int64"))


def listed_names(names: str | Sequence[str]) -> list[str]:
    """Return the names in a list, or in a text with commas between them; one in double quotes is kept as it is.

    >>> listed_names('site, "Name, first "')
    ['site', 'Name, first ']
    """
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not all(isinstance(each, str) for each in listed):
        raise TableError(f"columns are named by text, such as '5' for the column 5 of a data frame; got {names!r}")
    parts = [match for each in listed for match in LISTED_NAME.finditer(each)]
    found = [(part["quoted"] or "").replace('""', '"') or (part["plain"] or "").strip() for part in parts]
    return [name for name in found if name]


def as_listed(names: Iterable[str]) -> str:
    """Return names as an option lists them, such that `listed_names` finds them again.

    >>> as_listed(["id", "Name, first"])
    'id,"Name, first"'
    """
    quoted = (name if listed_names(name) == [name] else '"' + name.replace('"', '""') + '"' for name in names)
    return ",".join(quoted)


def empty_file(path: Path) -> TableError:
    """Return the error for a file without a character."""
    return TableError(f"{path} is empty: expected a header and rows")


def _no_such_column(name: Any, role: str, file: str, columns: list[str]) -> str:
    """Return words about a name, such as the number of a data frame's column, which is known by its text here."""
    near = get_close_matches(str(name), columns, n=1, cutoff=0.5) or [
        column for column in columns if column.strip().lower() == str(name).strip().lower()
    ]
    hint = f"did you mean {near[0]!r}?" if near else f"it has {some(columns, most=12)}"
    if near and ("," in near[0] or near[0] != near[0].strip()):
        hint += f" An option that lists columns takes it in double quotes: {shlex.quote(as_listed(near[:1]))}"
    if not near and 2 * sum(UNNAMED.fullmatch(column) is not None for column in columns) > len(columns):
        hint = f"most of its columns have no name: {TITLE}"
    return f"{file} has no column {name!r} ({role}); {hint}"
