"""Folders of texts: one folder for each provider, with its documents in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from fgsv.data.reading import NotDecoded, TableError, TableFile, as_listed, could_be_utf8, decode, is_utf8
from fgsv.words import counted, option, some

PROVIDER = "provider"
"""The column of a folder with the name of each document's folder."""
FILE = "file"
"""The column with its path in there."""
TEXT = "text"
"""The column with its content."""
SHOWN = 3
"""Links that are named."""


def read_folder(path: str | Path, *, ignore: Sequence[str] = (), encoding: str = "utf-8") -> TableFile:
    """Return the documents of a folder: a row for each file in the folder of a provider, or in a folder of that.

    Hidden files, links, pipes and hidden folders are left out. A provider's own folder may be a link, which names the
    provider. Notes say what was left out or followed. The hash is that of all names and contents.

    Args:
        path: The folder, with a folder for each provider.
        ignore: Patterns of files to leave out: *.png in every folder, or Acme/draft.txt, the file of one provider.
        encoding: That of all files; a note says how many may be in UTF-8 if it is another.

    Raises:
        TableError: A provider has no documents, or a file is not text in this encoding.

    """
    path = Path(path)
    documents, notes = _documents(path, ignore)
    rows = []
    digest = hashlib.sha256()
    refused: list[str] = []
    doubtful: list[str] = []
    for provider, file in documents:
        content = file.read_bytes()
        name = file.relative_to(path).as_posix()
        try:
            text = decode(file, content, encoding)
        except NotDecoded as error:
            refused.append(f"{error}; {_advice(file, name, encoding, is_text=0 not in content)}")
            continue
        if not is_utf8(encoding) and could_be_utf8(file, content, text):
            doubtful.append(_shown(name))
        who = _shown(provider.name)
        name = _shown(file.relative_to(provider).as_posix())
        digest.update(f"{who}\0{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        rows.append((who, name, text))
    if refused:
        others = f". {counted(len(refused) - 1, 'more file')} cannot be read, either" if len(refused) > 1 else ""
        raise TableError(f"{refused[0]}{others}")
    where = path.absolute().name
    if doubtful:
        which = f"{counted(len(doubtful), 'file')} of {where}, such as {doubtful[0]}"
        notes.append(f"read as {encoding}, but also valid utf-8: {which}. Those that are utf-8 are garbled")
    frame = pd.DataFrame(rows, columns=[PROVIDER, FILE, TEXT], dtype=object)
    return TableFile(frame, where, digest.hexdigest(), tuple(notes), PROVIDER)


def _documents(path: Path, ignore: Sequence[str]) -> tuple[list[tuple[Path, Path]], list[str]]:
    """Return the documents, each after the folder of its provider, and notes on what was left out or followed."""
    folders = sorted(each for each in path.iterdir() if each.is_dir())
    providers = [each for each in folders if not each.name.startswith(".")]
    if not providers:
        raise TableError(f"{path} has no subfolders: expected one for each provider, with its documents")
    skipped = [each for each in folders if each.name.startswith(".")]
    matched = dict.fromkeys(ignore, 0)
    documents: list[tuple[Path, Path]] = []
    for provider in providers:
        before = len(documents)
        for file in _entries(provider):
            name = file.relative_to(path).as_posix()
            pattern = next((each for each in ignore if _matches(name, each)), None)
            if file.name.startswith(".") or file.is_symlink() or not file.is_file():  # a pipe would be waited for
                skipped.append(file)
            elif pattern is not None:
                matched[pattern] += 1
            else:
                documents.append((provider, file))
        if len(documents) == before:
            raise TableError(f"provider {provider.name!r} has no documents in {provider}: add some, or remove it")
    beside = sum(each.is_file() and not each.name.startswith(".") for each in path.iterdir())
    where = path.absolute().name
    notes = [f"left out {counted(beside, 'file')} of {where} in no provider's folder"] if beside else []
    if skipped:
        kinds = "hidden file, hidden folder or link" if len(skipped) == 1 else "hidden files, hidden folders or links"
        such = _shown(skipped[0].relative_to(path).as_posix())
        notes.append(f"left out {len(skipped):,} {kinds} of {where}, such as {such}")
    for pattern, count in matched.items():
        notes.append(f"left out {counted(count, 'file')} of {where} matching {pattern}")
    if linked := [_shown(each.name) for each in providers if each.is_symlink()]:
        names = some(linked, SHOWN)
        notes.append(f"followed {counted(len(linked), 'link')} of {where} to the folder of a provider: {names}")
    return documents, notes


def _shown(name: str) -> str:
    r"""Return the name of a file as text that can be written: a byte that is not UTF-8 becomes its number, \xff."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, and the subfolders not entered: hidden ones and links."""
    for where, folders, names in os.walk(folder, onerror=_unreadable):
        closed = [each for each in folders if each.startswith(".") or Path(where, each).is_symlink()]
        folders[:] = sorted(set(folders) - set(closed))
        yield from (Path(where, name) for name in sorted([*names, *closed]))


def _unreadable(error: OSError) -> None:
    """Raise an error for a folder that cannot be listed: its documents would be missing."""
    raise TableError(f"cannot read the folder {error.filename}: {error.strerror}")


def _matches(name: str, pattern: str) -> bool:
    """Say whether a file, named with its folders, matches a pattern; one without / is for the name alone.

    >>> _matches("Acme/a [1].txt", "a [1].txt"), _matches("Acme/a.txt", "Ac*"), _matches("Acme/a.txt", "Acme/*")
    (True, False, True)
    """
    name = name if "/" in pattern else name.rpartition("/")[2]
    return name == pattern or fnmatchcase(name, pattern)


def _advice(file: Path, name: str, encoding: str, is_text: bool) -> str:
    """Return what to do with a file that is not text in this encoding, where others are."""
    alike = f", or all files like it with {option('ignore', f'*{file.suffix}')}" if file.suffix else ""
    save = f". All files are read in one encoding: if the others are {encoding}, save this one as {encoding}"
    return f"leave it out with {option('ignore', as_listed([name]))}{alike}{save if is_text else ''}"
