"""Reading: a file becomes rows."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.environment import optional

SEPARATORS = ",\t;|"
DECIMAL_COMMA = r"\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:[eE][+-]?\d+)?\s*"
"""A number written as 1,5 or 1.234,5. A point must be followed by three digits: 1.5 does not match."""


class TableError(ValueError):
    """A file, column, row or option that cannot be used; the message says why and what to do."""


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
        if name not in self.frame.columns:
            raise TableError(_no_such_column(name, role, self.name, [str(c) for c in self.frame.columns]))
        return self.frame[name]


def read(path: str | Path, *, text: Sequence[str] = (), encoding: str = "utf-8") -> TableFile:
    r"""Read a CSV, TSV, JSON (each may be gzipped), Excel or Parquet file; columns in `text` are kept as written.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "small.csv")
    >>> _ = file.write_text("provider,y\n007,1\n008,2\n")
    >>> read(file, text=["provider"]).frame["provider"].tolist()
    ['007', '008']

    The separator is the one of comma, tab, semicolon and bar that is most frequent in the header. Where it is a
    semicolon, columns written with decimal commas become numbers, and a note names them.
    """
    path = Path(path)
    return parse(path, content_of(path), text=text, encoding=encoding)


def parse(path: Path, content: bytes, *, text: Sequence[str] = (), encoding: str = "utf-8") -> TableFile:
    """Return the rows of a file's content; the path says which kind of file it is, where the content does not."""
    from fgsv.tables import formats

    notes: list[str] = []
    if {".parquet", ".pq"} & set(path.suffixes) or content.startswith(formats.PARQUET):
        frame = _read_parquet(path, content, text)
    elif content.startswith((formats.ZIP, formats.OLD_EXCEL)):
        frame, notes = formats.read_excel(path, content, text)
    else:
        decoded = _decode(path, content, encoding)
        if formats.is_json(path, decoded):
            frame = formats.read_json(path, decoded, text)
        else:
            frame, notes = _read_text(path, decoded, text)
    if not len(frame):
        raise TableError(f"{path} has a header but no rows")
    return TableFile(frame, path.name, hashlib.sha256(content).hexdigest(), tuple(notes))


def content_of(path: Path) -> bytes:
    """Return the bytes of a file that may be a table; of the path -, those of stdin."""
    if str(path) == "-":
        content = sys.stdin.buffer.read()
        if not content:
            raise _empty(path)
        return content
    if path.is_dir():
        raise TableError(f"{path} is a directory: expected a CSV, TSV, JSON lines, Excel or Parquet file, or several")
    if not path.exists():
        near = get_close_matches(path.name, [p.name for p in path.parent.glob("*")], n=1, cutoff=0.75)
        raise TableError(f"there is no file {path}" + (f"; did you mean {path.parent / near[0]}?" if near else ""))
    content = path.read_bytes()
    if not content:
        raise _empty(path)
    if content.startswith(b"SQLite format 3\x00"):
        raise TableError(f"{path} is an SQLite database, not a table: export the table as CSV")
    return content


def _read_text(path: Path, decoded: str, text: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a text file, and notes on how they were read."""
    if not decoded.strip():
        raise _empty(path)
    header = decoded.lstrip().splitlines()[0]
    separator = max(SEPARATORS, key=header.count)
    names = next(csv.reader([header], delimiter=separator))
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise TableError(f"{path} has two columns named {repeated!r}: rename one of them")

    def parse(**options: Any) -> pd.DataFrame:
        kept = dict.fromkeys(text, object)
        return pd.read_csv(io.StringIO(decoded), sep=separator, dtype=kept, low_memory=False, **options)

    try:
        frame = parse()
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path} is not a table: {str(error).strip()}") from None
    commas = _columns_with_decimal_commas(frame, text) if separator == ";" else []
    if not commas:
        return frame, []
    # only these columns: with the same options 1.5 in another one would become 15
    frame[commas] = parse(decimal=",", thousands=".")[commas].to_numpy(float)
    return frame, [f"read as numbers with decimal commas: {', '.join(commas)}"]


def _decode(path: Path, content: bytes, encoding: str) -> str:
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise TableError(f"{path} is not a complete gzip file: {error}") from None
    if encoding.lower().replace("_", "-") == "utf-8":
        encoding = "utf-8-sig"  # the same, without the byte order mark that spreadsheets write
    try:
        return content.decode(encoding)
    except LookupError:
        raise TableError(f"unknown encoding {encoding!r}: try utf-8 or latin-1") from None
    except UnicodeDecodeError as error:
        likely = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin-1"
        raise TableError(
            f"{path} is not {encoding.removesuffix('-sig')} text (byte 0x{content[error.start]:02x} at position "
            f"{error.start}): try --encoding {likely}, or the encoding it was saved in"
        ) from None


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


def _read_parquet(path: Path, content: bytes, text: Sequence[str]) -> pd.DataFrame:
    optional("pyarrow", "Parquet files", extra="parquet")
    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except Exception as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from None
    return with_text(frame, text)


def with_text(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return a frame whose columns of these names are text, as a file of text would have them."""
    named = {name: frame[name].astype("string").astype(object) for name in names if name in frame.columns}
    return frame.assign(**named)


def _empty(path: Path) -> TableError:
    return TableError(f"{path} is empty: expected a header and rows")


def _no_such_column(name: str, role: str, file: str, columns: list[str]) -> str:
    near = get_close_matches(name, columns, n=1, cutoff=0.5) or [
        column for column in columns if column.strip().lower() == name.strip().lower()
    ]
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(columns[:12])}"
    hint += ", ..." if not near and len(columns) > 12 else ""
    return f"{file} has no column {name!r} ({role}); {hint}"
