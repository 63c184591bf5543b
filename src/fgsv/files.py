"""Files: written whole or not at all, CSV that is safe in spreadsheets, JSON, and the limit for compressed ones."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pandas as pd

FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet takes for the beginning of a formula; some take the wide forms, too."""


def as_path(given: object, name: str) -> Path:
    """Return a path that a user gave, or raise an error that names the argument."""
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{name} must be given as a path, got {type(given).__name__}")
    return Path(given)


@contextmanager
def written_whole(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name when the block is done: readers see all of it or nothing.

    Until then it has a random, unused name, so a link that somebody planted is never followed.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}: create it, or choose another")
    part = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: str | Path, text: str) -> Path:
    r"""Write a text file by renaming a complete one: readers see all of it or nothing.

    Text that is not valid UTF-8, such as parts of some file names, is written as \udcff, which JSON reads.
    """
    with written_whole(path) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))
    return Path(path)


def writable_folder(folder: str | Path) -> Path:
    """Return a folder, created if need be, in which files can be written; raise an error if they cannot."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (FileExistsError, NotADirectoryError):
        raise FileExistsError(f"{folder} is not a folder, or is inside a file: choose another folder") from None
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"no file can be written in {folder} ({reason}): choose another folder") from None


def most_expanded(size: int) -> int:
    """Return the most bytes that a compressed part of a foreign file may expand to; tables take 3 to 30 times it.

    >>> most_expanded(10_000)
    268435456
    """
    return max(2**28, 200 * size)


def to_csv(frame: pd.DataFrame, **options: Any) -> str:
    r"""Return a table as CSV in which no spreadsheet mistakes text for a formula.

    >>> import pandas as pd
    >>> to_csv(pd.DataFrame({"group": ["=cmd()", "north"], "value": [-1.0, 2.0]}))
    "group,value\n'=cmd(),-1.0\nnorth,2.0\n"
    """
    safe = frame.rename(columns=harmless)
    for number, kind in enumerate(frame.dtypes):
        if kind.kind not in "biufcmM":
            safe.isetitem(number, list(map(harmless, frame.iloc[:, number])))
    return str(safe.to_csv(index=False, lineterminator="\n", **options))


def harmless(cell: Any) -> Any:
    r"""Put an apostrophe before text that a spreadsheet would run as a formula; return anything but text unchanged.

    A \r in text becomes \n: CSV writers do not quote it, and what follows would be a new row.
    """
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.lstrip().startswith(FORMULA) or text.startswith(("\t", "\n")) else text


def other_schema(found: object, schema: int) -> str:
    """Say what to do with a file whose schema is not the one that is read.

    >>> other_schema(9, 2)
    'it has schema 9, and this fgsv reads schema 2: install a newer fgsv'
    >>> other_schema(1, 2)
    'it has schema 1, and this fgsv reads schema 2: it was written before version 1.0, make it again'
    """
    is_newer = isinstance(found, int) and found > schema
    remedy = "install a newer fgsv" if is_newer else "it was written before version 1.0, make it again"
    return f"it has schema {found!r:.50}, and this fgsv reads schema {schema}: {remedy}"


def read_json(path: str | Path) -> Any:
    """Return the contents of a JSON file; the error for another kind of file quotes nothing from it."""
    if Path(path).is_dir():
        raise ValueError("it is a folder")
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from None
