"""Formats: which one a file has, and how those other than text in columns become rows: JSON, Excel, Parquet, zip."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from fgsv.data.reading import (
    TableError,
    TableFile,
    check_names,
    could_be_utf8,
    decode,
    empty_file,
    is_utf8,
    read_text,
    with_text,
    without_rows,
)
from fgsv.files import most_expanded
from fgsv.packages import optional
from fgsv.words import counted, option

PARQUET = b"PAR1"
"""How such a file begins; so the next two."""
ZIP = b"PK\x03\x04"
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
EXCEL_BOOK = "xl/workbook.xml"
FOREIGN = {
    b"SQLite format 3\x00": "is an SQLite database, not a table: export the table as CSV",
    b"ARROW1": "is a Feather or Arrow file: save it as Parquet or CSV",
    b"BZh91AY&SY": "is compressed with bzip2: decompress it first, or use gzip",
    b"\xfd7zXZ\x00": "is compressed with xz: decompress it first, or use gzip",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd: decompress it first, or use gzip",
}
"""How files that are not read begin, and what to do with them."""


def content_of(path: Path) -> bytes:
    """Return the bytes of a file that may be a table; of the path -, those of stdin."""
    if str(path) == "-":
        content = sys.stdin.buffer.read()
    elif path.is_dir():
        raise TableError(
            f"{path} is a directory: expected a CSV, TSV, JSON lines, Excel or Parquet file, or several; texts with "
            f"one folder for each provider are opened without {option('target')}"
        )
    elif not path.exists():
        near = get_close_matches(path.name, [p.name for p in path.parent.glob("*")], n=1, cutoff=0.75)
        raise TableError(f"there is no file {path}" + (f"; did you mean {path.parent / near[0]}?" if near else ""))
    elif path.is_char_device() or path.is_block_device():
        raise TableError(f"{path} is a device: expected a CSV, TSV or Parquet file")
    else:
        content = path.read_bytes()
    if not content:
        raise empty_file(path)
    for beginning, what in FOREIGN.items():
        if content.startswith(beginning):
            raise TableError(f"{path} {what}")
    return content


def parse(path: Path, content: bytes, *, text: Sequence[str] = (), encoding: str = "utf-8") -> TableFile:
    r"""Return the rows of a CSV, TSV, JSON (each may be gzipped), Excel or Parquet file.

    >>> parse(Path("small.csv"), b"provider,y\n007,1\n008,2\n", text=["provider"]).frame["provider"].tolist()
    ['007', '008']

    The separator is the one of comma, tab, semicolon and bar that is most frequent in the header. Where it is a
    semicolon, columns written with decimal commas become numbers, and a note names them.

    Args:
        path: Names the file in errors, and says which kind of file it is where the content does not.
        content: Its bytes.
        text: Columns that are kept as they are written.
        encoding: That of a text file.

    Raises:
        TableError: It is no table, or has no rows.

    """
    notes: list[str] = []
    if {".parquet", ".pq"} & set(path.suffixes) or content.startswith(PARQUET):
        frame = _read_parquet(path, content, text)
    elif content.startswith((ZIP, OLD_EXCEL)):
        frame, notes = read_excel(path, content, text)
    else:
        decoded = decode(path, content, encoding)
        if is_json(path, decoded):
            frame = read_json(path, decoded, text)
        else:
            frame, notes = read_text(path, decoded, text)
        if not is_utf8(encoding) and could_be_utf8(path, content, decoded):
            notes.append(f"read as {encoding}, but also valid utf-8: {path.name}. If it is utf-8, it is garbled")
    empty = frame.isna().all(axis=1)
    if empty.all():
        raise TableError(f"{path} has a header but no rows")
    if empty.any():  # spreadsheets export them as lines of separators
        frame = without_rows(frame, empty)
        notes.append(f"left out {counted(int(empty.sum()), 'empty row')} of {path.name}")
    return TableFile(frame, path.name, hashlib.sha256(content).hexdigest(), tuple(notes))


def is_json(path: Path, text: str) -> bool:
    """Say whether a text is JSON: by its first character, whatever the file's name."""
    first = text.lstrip()[:1]
    return first == "{" or (first == "[" and ".json" in path.suffixes)


def read_json(path: Path, text: str, names: Sequence[str]) -> pd.DataFrame:
    """Return the rows of JSON lines, or of one list of objects; an object in an object becomes columns `a.b`.

    Args:
        path: Names the file in errors.
        text: Its content.
        names: Columns that are kept as they are written.

    Raises:
        TableError: It is not JSON, a row is not an object, or has half a character.

    """
    try:
        records = json.loads(text) if text.lstrip()[0] == "[" else list(_lines(text))
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits and deep nesting, too
        raise TableError(f"{path} is not a JSON lines file with one object per line: {error}") from None
    wrong = next((number for number, record in enumerate(records, 1) if not isinstance(record, dict)), None)
    if wrong is not None:
        raise TableError(f"{path}: row {wrong} is not an object with a value for each column")
    if "\\ud" in text or "\\uD" in text:  # once for all rows: a large file is searched in no time, but not often
        half = next((number for number, record in enumerate(records, 1) if not _is_unicode(record)), None)
        if half is not None:
            raise TableError(
                f"{path}: row {half} has half a character (a lone surrogate, such as \\ud800): repair it"
            )
    frame = pd.json_normalize(records)
    kept = {name: pd.Series([record.get(name) for record in records], dtype=object) for name in names}
    # as they were written: beside a missing value a provider 7 would become 7.0
    frame = frame.assign(**{name: column for name, column in kept.items() if name in frame.columns})
    others = [name for name in frame.columns if name not in names]
    listed = [name for name in others if frame[name].map(lambda cell: isinstance(cell, list)).any()]
    for name in listed:
        frame[name] = frame[name].map(lambda cell: json.dumps(cell) if isinstance(cell, list) else cell)
    return with_text(frame, names)


def _lines(text: str) -> Any:
    for number, line in enumerate(text.split("\n"), 1):  # texts may contain other characters that end lines
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from None


def _is_unicode(record: Any) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_excel(path: Path, content: bytes, names: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of the first sheet, and a note if there are more.

    Args:
        path: Names the file in errors.
        content: Its bytes.
        names: Columns that are kept as they are written.

    Raises:
        TableError: It cannot be read, two columns have one name, or a formula was never calculated.

    """
    if content.startswith(OLD_EXCEL):
        raise TableError(f"{path} is an old Excel file (.xls): save it as .xlsx or CSV")
    openpyxl = optional("openpyxl", "Excel files", extra="excel")
    try:
        with pd.ExcelFile(io.BytesIO(content), engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            options: dict[str, Any] = {"sheet_name": sheets[0], "dtype": dict.fromkeys(names, object)}
            frame = pd.read_excel(book, **options)
            header = pd.read_excel(book, sheet_name=sheets[0], header=None, nrows=1, dtype=object)
            kept = [name for name in dict.fromkeys(names) if name in frame.columns]
            if kept and frame[kept].isna().to_numpy().any():  # NA may be a name, as in a text file
                frame[kept] = pd.read_excel(book, **options, keep_default_na=False, na_values=[""])[kept]
    except Exception as error:
        raise TableError(f"{path} is not an Excel file that can be read: {error}") from None
    check_names(path, [str(name) for name in header.to_numpy().ravel() if pd.notna(name)])  # pandas renames them
    if frame.isna().to_numpy().any() and _has_formulas(content):
        books = (
            openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=only) for only in (False, True)
        )
        _check_formulas(path, *(book[sheets[0]] for book in books))
    frame.columns = frame.columns.astype(str)
    notes = [f"read sheet {sheets[0]!r} of {path.name}, not {', '.join(sheets[1:])}"] if len(sheets) > 1 else []
    return with_text(frame, names), notes


def _has_formulas(content: bytes) -> bool:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sheets = (archive.read(name) for name in archive.namelist() if name.startswith("xl/worksheets/"))
        return any(b"<f>" in each or b"<f " in each for each in sheets)


def _check_formulas(path: Path, formulas: Any, results: Any) -> None:
    """Raise an error for a formula that no program has calculated: its cell would count as missing.

    A formula whose result is an empty text has a result.
    """
    for written, calculated in zip(formulas.iter_rows(), results.iter_rows(), strict=True):
        for formula, result in zip(written, calculated, strict=True):
            if formula.data_type == "f" and result.data_type == "n" and result.value is None:
                raise TableError(
                    f"{path} has a formula that was never calculated, in cell {formula.coordinate}: open the file in "
                    "a spreadsheet program and save it there"
                )


def _read_parquet(path: Path, content: bytes, text: Sequence[str]) -> pd.DataFrame:
    parquet = optional("pyarrow.parquet", "Parquet files", extra="parquet")
    try:
        described = parquet.read_metadata(io.BytesIO(content))
    except Exception as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from None
    cells = described.num_rows * described.num_columns
    most = most_expanded(len(content))
    if 8 * cells > most:
        raise TableError(
            f"{path} has {cells:,} cells, which take more than {most / 2**20:,.0f} MiB, far more than its size: if "
            "you trust it, save it as CSV first"
        )
    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except Exception as error:
        raise TableError(f"{path} is not a Parquet file: {error}") from None
    # an index with names is columns of the file
    return with_text(frame.reset_index(drop=all(name is None for name in frame.index.names)), text)


def members(path: Path, content: bytes) -> list[tuple[Path, bytes]] | None:
    """Return the files in a zip archive; None if this is not one, or an Excel file."""
    if not content.startswith(ZIP):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            expanded = sum(each.file_size for each in archive.infolist())
            if expanded > most_expanded(len(content)):
                raise TableError(
                    f"{path} expands to {expanded / 2**20:,.0f} MiB, far more than tables do: if you trust it, "
                    "unpack it first"
                )
            if EXCEL_BOOK in archive.namelist():
                return None
            names = [each for each in archive.infolist() if not each.is_dir() and _is_data(each.filename)]
            if not names:
                raise TableError(f"{path} is an archive without files")
            return [(path / PurePosixPath(each.filename).name, archive.read(each)) for each in names]
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise TableError(f"{path} cannot be unpacked: {error}") from None


def _is_data(name: str) -> bool:
    """Say whether a file of an archive was put there by a person and not by a file manager."""
    return not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)
