"""Folders of texts: one folder for each provider, with its documents in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from fgsv.tables.reading import TableError, TableFile, decode
from fgsv.words import option

PROVIDER, FILE, TEXT = "provider", "file", "text"
"""The columns of a folder: the name of a document's folder, its path in there, and its content."""


def read_folder(path: str | Path, *, ignore: Sequence[str] = (), encoding: str = "utf-8") -> TableFile:
    """Return the documents of a folder: a row for each file in the folder of a provider, or in a folder of that.

    Hidden files, links, pipes and files whose name matches a pattern of `ignore`, such as *.png, are left out. The
    hash is that of all names and contents.
    """
    path = Path(path)
    providers = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    if not providers:
        raise TableError(f"{path} has no subfolders: expected one for each provider, with its documents")
    beside = sum(each.is_file() and not each.name.startswith(".") for each in path.iterdir())
    notes = [f"left out {beside} files of {path.absolute().name} that are in no provider's folder"] if beside else []
    rows, digest = [], hashlib.sha256()
    for provider in providers:
        found = 0
        for file in _files(provider, ignore):
            content = file.read_bytes()
            who, name = _shown(provider.name), _shown(file.relative_to(provider).as_posix())
            digest.update(f"{who}\0{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
            rows.append((who, name, _text(file, content, encoding)))
            found += 1
        if not found:
            raise TableError(f"provider {provider.name!r} has no documents in {provider}: add some, or remove it")
    frame = pd.DataFrame(rows, columns=[PROVIDER, FILE, TEXT], dtype=object)
    return TableFile(frame, path.absolute().name, digest.hexdigest(), tuple(notes), PROVIDER)


def _shown(name: str) -> str:
    r"""Return the name of a file as text that can be written: a byte that is not UTF-8 becomes its number, \xff."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _files(folder: Path, ignore: Sequence[str]) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            file = Path(where, name)
            hidden = name.startswith(".") or file.is_symlink() or not file.is_file()  # a pipe would be waited for
            if not hidden and not any(fnmatchcase(name, pattern) for pattern in ignore):
                yield file


def _text(file: Path, content: bytes, encoding: str) -> str:
    try:
        return decode(file, content, encoding)
    except TableError as error:
        alike = f", or all files like it with {option('ignore', f'*{file.suffix}')}" if file.suffix else ""
        raise TableError(f"{error}; leave it out with {option('ignore', file.name)}{alike}") from None
