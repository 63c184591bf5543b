"""Files: written whole or not at all, CSV that is safe in spreadsheets, dataclasses as JSON and back."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import Field, fields, is_dataclass
from math import isfinite, prod
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fgsv.checks import check_type

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

LISTED = 64
"""Arrays of at most so many floats are lists in a file, which people can read; others are compressed bytes."""
NOT_FINITE = ("nan", "inf", "-inf")
"""Numbers that JSON does not have, as texts."""
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


class FieldError(ValueError):
    """A field of a document is missing, or cannot be read; the words name it."""


def encode(given: Any) -> Any:
    """Return a dataclass, or what one consists of, as a document for JSON; `decode` reads it back, bit for bit.

    >>> from fgsv.valuation.end import End, Reason
    >>> encode(End(Reason.BUDGET, "budget of 100 reached"))
    {'reason': 'budget', 'detail': 'budget of 100 reached', 'n_unused': 0}

    Enumerations are their values, money and paths are texts, as is anything of another type, such as a date.
    """
    if is_dataclass(given):
        return {each.name: encode(getattr(given, each.name)) for each in saved_fields(given)}
    if isinstance(given, np.ndarray):
        listed = given.dtype == float and 0 < given.size <= LISTED
        return encode(given.tolist()) if listed else encode_array(given)
    if isinstance(given, Mapping):
        return {str(name): encode(part) for name, part in given.items()}
    if isinstance(given, list | tuple):
        return [encode(part) for part in given]
    plain = given.item() if isinstance(given, np.generic) else given
    if isinstance(plain, bytes):
        return plain.hex()
    if plain is None or type(plain) in (bool, int, str) or (isinstance(plain, float) and isfinite(plain)):
        return plain
    return str(plain)


def decode(kind: type[T], document: Any, field: str = "") -> T:
    """Return the dataclass that `encode` made a document of; other keys are ignored.

    >>> from fgsv.valuation.end import End
    >>> decode(End, {"reason": "budget"})
    Traceback (most recent call last):
    fgsv.files.FieldError: it lacks the field 'detail'

    Args:
        kind: The class, or the annotated type of a field.
        document: What JSON has of it.
        field: Where the document is in a larger one, for errors.

    Raises:
        FieldError: A field is missing, of another type, or refused by the class itself.

    """
    try:
        return cast("T", _decode(kind, document, field))
    except FieldError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, zlib.error) as error:
        raise FieldError(f"the field {field!r} cannot be read: {error!r:.200}") from None


def saved_fields(kind: Any) -> list[Field[Any]]:
    """Return the fields of a dataclass that files have."""
    return [each for each in fields(kind) if each.metadata.get("saved", True)]


def _decode(kind: Any, document: Any, field: str) -> Any:
    origin = get_origin(kind) or kind
    inner = get_args(kind)
    if is_dataclass(kind):
        check_type(document, Mapping, "an object")
        hints = get_type_hints(kind)
        places = {each.name: f"{field}.{each.name}".lstrip(".") for each in saved_fields(kind)}
        for name, place in places.items():
            if name not in document:
                raise FieldError(f"it lacks the field {place!r}")
        parts = {name: decode(hints[name], document[name], place) for name, place in places.items()}
        return origin(**parts)
    if origin in (Union, UnionType):
        if document is None and NoneType in inner:
            return None
        *others, last = (each for each in inner if each is not NoneType)
        for each in others:
            with suppress(FieldError):
                return decode(each, document, field)
        return decode(last, document, field)
    if origin is np.ndarray:
        return decode_array(document)
    if origin is tuple:
        check_type(document, list, "a list")
        kinds = inner[:1] * len(document) if inner[-1] is Ellipsis else inner
        return tuple(decode(each, part, field) for each, part in zip(kinds, document, strict=True))
    if origin in (dict, Mapping):
        check_type(document, Mapping, "an object")
        return {name: decode(inner[1], part, f"{field}.{name}") for name, part in document.items()}
    if kind is Hashable:
        return tuple(_decode(kind, part, field) for part in document) if isinstance(document, list) else document
    if kind is Any:
        return document
    if kind is float and (document in NOT_FINITE or type(document) is int):
        return float(document)
    if kind is bytes:
        return bytes.fromhex(document)
    if kind in (bool, int, float, str):
        if type(document) is not kind:  # to isinstance, True is an integer
            raise TypeError(f"expected {kind.__name__}, got {type(document).__name__}")
        return document
    return kind(document)


def encode_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array as JSON: its type, shape and bytes (little-endian, zlib, base64)."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": little.dtype.str,
        "shape": list(little.shape),
        "zlib": b64encode(zlib.compress(little.tobytes(), 1)).decode("ascii"),
    }


def decode_array(document: Any) -> NDArray[Any]:
    """Read an array, or a list of numbers; no more is decompressed than the shape says."""
    if isinstance(document, list):
        return np.array(document, dtype=float)
    dtype = np.dtype(document["dtype"])
    shape = tuple(map(int, document["shape"]))
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ValueError(f"an array of numbers was expected, got {dtype} of shape {shape}")
    size = dtype.itemsize * prod(shape)
    compressed = b64decode(document["zlib"])
    if size > most_expanded(len(compressed)):
        raise ValueError(f"an array of {size} bytes in {len(compressed)} is compressed far more than arrays are")
    content = zlib.decompressobj().decompress(compressed, size + 1)
    if len(content) != size:
        found = "more" if len(content) > size else "fewer"
        raise ValueError(f"an array of shape {shape} has {size} bytes, got {found}")
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()
