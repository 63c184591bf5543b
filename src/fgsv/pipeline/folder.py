"""The folder of a result: files of one run, written by rename, that never silently replace a finished result."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fgsv.checks import check_type
from fgsv.files import as_path, to_csv, writable_folder, write_whole
from fgsv.payout import Payout
from fgsv.report.page import render
from fgsv.results.as_json import plain
from fgsv.results.result import Result, check_result
from fgsv.signals import held_interrupts
from fgsv.valuation import Reason, file
from fgsv.words import option

PACKAGES_OF_REPORT = ("vl_convert", "jinja2")
SCHEMA = 1
"""Of a payout in a file of its own."""
RESULT = "valuation.json"
TABLE = "valuation.csv"
PAGE = "report.html"
OURS = (TABLE, PAGE, "valuation-*.csv", "valuation-*.json", "publisher-*.csv", "telemetry.jsonl")
"""Files beside valuation.json that a later run removes."""
LONGEST_NAME = 100
"""Bytes of a column's name in the name of its file."""


class UnwrittenError(RuntimeError):
    """Some files of a result could not be written; the others were."""

    def __init__(self, folder: Path, failed: dict[str, BaseException], written: Iterable[Path]) -> None:
        words = "; ".join(f"{name}: {error or type(error).__name__}" for name, error in failed.items())
        if list(failed) == [PAGE]:
            again = f"the rest is in {folder}, and fgsv report {folder / RESULT} writes the report again"
        else:
            again = "free some space, or choose another folder, and run it again; with a ledger, nothing is repeated"
        super().__init__(f"not written to {folder}: {words}: {again}")
        self.files = tuple(written)


def check_folder(folder: Path, *, force: bool, run: Mapping[str, Any] | None = None) -> None:
    """Raise an error if a folder contains a finished result; an interrupted one may be replaced.

    With `run`, what is to be valued (`game`, `groups` and `seed` of its settings), it must be the same run.
    """
    folder = as_path(folder, "a folder")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise FileExistsError(f"{folder} is a file: {option('out')} must name a folder")
    saved = folder / RESULT
    for name in (RESULT, TABLE, PAGE):
        if os.path.isdir(folder / name):
            raise FileExistsError(
                f"{folder / name} is a folder, where a file is to be written: choose another folder"
            )
    if force:
        return
    otherwise = f"add {option('force', True)} to replace it, or choose another folder"
    if not os.path.exists(saved):  # where Path.exists raises an error, a folder cannot be created either
        for name in (TABLE, PAGE):
            if os.path.exists(folder / name):
                raise FileExistsError(f"{folder} has a file {name} of its own: {otherwise}")
        return
    try:
        document = file.read(saved)
        valuation = file.from_document(document, saved)
        replaceable = not valuation.finished or valuation.end.reason is Reason.INTERRUPTED
    except ValueError:
        replaceable = False
    if not replaceable:
        raise FileExistsError(f"{folder} has a finished valuation: {otherwise}")
    other = _other_run(document["settings"] or {}, run or {})
    if other:
        raise FileExistsError(
            f"{folder} has an interrupted valuation {other}, which this run would not continue: {otherwise}"
        )


def _other_run(saved: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return in words how a saved run differs from one that would replace it; empty if it could be continued."""
    words = {"game": "of other data, model or score", "groups": "of other providers", "seed": "with another seed"}
    return next((words[name] for name in words if name in run and saved.get(name, run[name]) != run[name]), "")


def check_file(path: Path, *, force: bool, kinds: Sequence[str] = ()) -> None:
    """Raise an error if a file exists, cannot be written there, or has none of the suffixes in `kinds`."""
    path = as_path(path, "a file")
    if kinds and path.suffix.lower() not in kinds:
        raise ValueError(f"{path} must end in {' or '.join(kinds)}")
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}: create it, or choose another")
    if path.exists() and not force:
        raise FileExistsError(
            f"{path} already exists: add {option('force', True)} to replace it, or choose another name"
        )


def write_payout(path: str | Path, payout: Payout) -> Path:
    """Write payments as .csv, a row for each group, or as .json, with all that `Payout.to_dict` holds."""
    check_type(payout, Payout, "a payout", "fgsv.payout.split makes one")
    suffix = as_path(path, "a payout").suffix.lower()
    if suffix not in (".csv", ".json"):
        raise ValueError(f"{path} must end in .csv or .json")
    if suffix == ".json":
        document = {"schema": SCHEMA} | plain(payout.to_dict())
        return write_whole(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))
    frame = payout.to_frame().assign(currency=payout.currency, policy=payout.terms.describe())
    return write_whole(path, to_csv(frame))


@contextmanager
def folder_of_run(folder: Path | None, *, force: bool, run: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Keep a folder for one run, checked and created before it; a run that writes nothing leaves no new folder.

    The lock is on the folder itself and ends with the process, so nothing stale can block the next run.
    """
    if folder is None:
        yield
        return
    check_folder(folder, force=force, run=run)
    created = not os.path.exists(folder)
    lock = os.open(writable_folder(folder), os.O_RDONLY)
    try:
        _lock(lock, folder)
        check_folder(folder, force=force, run=run)  # once more: another run may have ended in between
        yield
    finally:
        os.close(lock)
        if created:
            with suppress(OSError):  # it has files
                folder.rmdir()


def _lock(number: int, folder: Path) -> None:
    """Lock an open folder, where the system can."""
    try:
        import fcntl

        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileExistsError(f"another run is writing to {folder}: wait for it, or choose another folder") from None
    except (ImportError, OSError):
        pass


def write_result(
    folder: str | Path, result: Result, *, aggregate_only: bool = False, texts: Mapping[str, str] | None = None
) -> list[Path]:
    """Write valuation.json, valuation.csv, the `texts` by file name and, last of all, report.html; return the paths.

    These are the names for the first grouping; one by column C is saved as valuation-C.json and valuation-C.csv.
    report.html is skipped if its packages are not installed. Files of an earlier run are removed. A file that cannot
    be written is an `UnwrittenError`, raised when the others are written.
    """
    folder = as_path(folder, "folder")
    check_result(result)
    with suppress(OSError):  # each file will say so
        folder.mkdir(parents=True, exist_ok=True)
    names = file_names(result.others)
    has_page = all(map(find_spec, PACKAGES_OF_REPORT))
    steps: dict[str, Callable[[Path], Any]] = {}
    for column, other in result.of_others().items():
        steps[f"{names[column]}.json"] = other.save
        steps[f"{names[column]}.csv"] = partial(_write_table, other)
    steps[TABLE] = partial(_write_table, result)
    steps |= {name: partial(write_whole, text=text) for name, text in (texts or {}).items()}
    first = {RESULT: partial(_save, result, [*steps, *([PAGE] if has_page else [])])}
    written: list[Path] = []
    failed: dict[str, BaseException] = {}
    try:
        with held_interrupts():
            _remove_earlier(folder)
            for name, write in (first | steps).items():
                try:
                    write(folder / name)
                    written.append(folder / name)
                except Exception as error:
                    failed[name] = error
        if has_page:
            written.append(write_whole(folder / PAGE, render(result, aggregate_only=aggregate_only)))
    except (Exception, KeyboardInterrupt) as error:  # without the page, the result is complete
        failed[PAGE] = error
    if failed:
        raise UnwrittenError(folder, failed, written)
    return written


def save_unfinished(folder: Path, result: Result) -> None:
    """Save the valuation of a run as unfinished, before its payout and audit; a failure is reported at the end."""
    with suppress(OSError), held_interrupts():
        _remove_earlier(folder)
        _save(replace(result, valuation=replace(result.valuation, finished=False)), [], folder / RESULT)


def _save(result: Result, names: list[str], path: Path) -> None:
    """Write valuation.json with the names of the files beside it."""
    file.write(path, result.to_document() | {"files": names})


def _write_table(result: Result, path: Path) -> None:
    write_whole(path, to_csv(result.table()))


def _remove_earlier(folder: Path) -> None:
    """Remove the files of an earlier run but valuation.json, which is replaced: a folder never mixes two runs.

    Only names that this module gives are removed, whatever valuation.json states.
    """
    stated: Any = ()
    with suppress(ValueError, OSError):
        stated = file.read(folder / RESULT).get("files", ())
    names = {PAGE, TABLE, *(name for name in stated if isinstance(name, str))} if isinstance(stated, list) else ()
    for name in names:
        if any(fnmatchcase(name, ours) for ours in OURS) and Path(name).name == name:
            with suppress(OSError):
                (folder / name).unlink(missing_ok=True)
    for name in (RESULT, TABLE, PAGE, "valuation-*", "publisher-*", "telemetry.jsonl"):
        for part in folder.glob(f".{name}.{'[0-9a-f]' * 16}.part"):  # of a run that was killed while writing
            part.unlink(missing_ok=True)


def file_names(columns: Iterable[str], prefix: str = "valuation-") -> dict[str, str]:
    """Return column -> file name without suffix; names that a file system may take for the same are numbered.

    >>> file_names(["site", "Site", "a b", "a_b"])
    {'site': 'valuation-site', 'Site': 'valuation-Site-2', 'a b': 'valuation-a_b', 'a_b': 'valuation-a_b-2'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for column in columns:
        plain = unicodedata.normalize("NFC", "".join(c if c.isalnum() or c in "-_" else "_" for c in column))
        stem = prefix + plain.encode()[:LONGEST_NAME].decode(errors="ignore")
        name = stem
        number = 1
        while unicodedata.normalize("NFC", name.casefold()) in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(unicodedata.normalize("NFC", name.casefold()))
        found[column] = name
    return found
