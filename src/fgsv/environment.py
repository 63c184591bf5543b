"""The environment of a run: package versions, optional packages, objects named by users, atomic file writes."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import platform
import re
import secrets
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, ParamSpec, TypeVar

import fgsv

if TYPE_CHECKING:
    import pandas as pd

NOT_PRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, invisible characters, direction marks, and halves of characters."""

P = ParamSpec("P")
T = TypeVar("T")

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "pandas", "torch")
"""Packages whose versions may affect a result."""
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet takes for the beginning of a formula; some take the wide forms, too."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that may affect a result.

    >>> sorted(set(versions()) & {"python", "machine", "numpy"})
    ['machine', 'numpy', 'python']
    """
    found = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    found["fgsv"] = fgsv.__version__
    installed = {package: _version(package) for package in PACKAGES}
    return found | {package: version for package, version in installed.items() if version is not None}


@cache
def _version(package: str) -> str | None:
    """Return the version of a package, None if it is not installed; looking for it takes milliseconds."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def now() -> str:
    """Return the date and time in UTC; the variable SOURCE_DATE_EPOCH replaces the clock, for equal bytes.

    >>> len(now())
    20
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    seconds = time.time() if epoch is None else float(epoch)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def optional(module: str, purpose: str, extra: str) -> ModuleType:
    """Import a package of an extra, or raise an error that says how to install it.

    >>> optional("not_there", "figures", "plots")
    Traceback (most recent call last):
    ImportError: figures need the package not_there: pip install 'matplotlib>=3.8'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} need the package {package}: {how_to_install(extra)}") from None


def how_to_install(*extras: str) -> str:
    """Return the command that installs the packages of extras: from an index, which need not have fgsv itself.

    >>> how_to_install("plots")
    "pip install 'matplotlib>=3.8'"
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        listed = [line.partition(";") for line in requires("fgsv") or []]
    except PackageNotFoundError:  # run from its source without having been installed
        listed = []
    wanted = [name.strip() for name, _, marker in listed for extra in extras if f"extra == '{extra}'" in marker]
    return f"pip install {shlex.join(wanted)}" if wanted else f"install the extra {', '.join(extras)} of fgsv"


def load_object(name: str) -> Any:
    """Return the object that `package.module:object` or `file.py:object` names.

    >>> load_object("math:pi")
    3.141592653589793

    Modules are also looked for in the current folder, but last: nothing there can shadow an installed package.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ValueError(f"expected package.module:object or file.py:object, got {name!r}")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_path(place, name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ValueError(f"{place} has no {attribute!r}") from None


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.exists() or spec is None or spec.loader is None:
        raise ValueError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _from_path(module: str, name: str) -> ModuleType:
    """Import a module from the usual places, or else from the current folder, which is searched only here."""
    try:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            return importlib.import_module(module)
        with _current_folder():
            return importlib.import_module(module)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from None


@contextmanager
def _current_folder() -> Iterator[None]:
    """Look for modules in the current folder too, but last; those found there go to workers by value.

    Afterwards the folder is no longer searched: a file named like a package that is not installed must not be
    imported in its place.
    """
    import cloudpickle

    here, known = os.getcwd(), set(sys.modules)
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(here):
            cloudpickle.register_pickle_by_value(sys.modules[name])


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
        raise FileExistsError(f"{folder} is not a folder, or is inside a file: choose another --out") from None
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"no file can be written in {folder} ({reason}): choose another --out") from None


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


def read_json(path: str | Path) -> Any:
    """Return the contents of a JSON file; the error for another kind of file quotes nothing from it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from None


def printable(words: Any) -> str:
    r"""Return text for a terminal: without what moves its cursor, changes its colours or the direction of text.

    >>> printable("north\x1b[31m") == "north\N{REPLACEMENT CHARACTER}[31m"
    True
    """
    return NOT_PRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(words))


def same_arguments(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function that takes *args and **kwargs the signature of the function it passes them to."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        signature = inspect.signature(source)
        returned = inspect.signature(function).return_annotation
        same.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return same

    return decorate


MOVED = {
    "fgsv.comparison": "fgsv.valuation.comparison",
    "fgsv.copies": "fgsv.audit.copies",
    "fgsv.shells": "fgsv.audit.shells",
    "fgsv.tabular": "fgsv.tables.opening",
}
"""Documented modules of 0.1.0, and where they are now."""


class MovedModules(MetaPathFinder, Loader):
    """Finds the modules of 0.1.0 that have moved, with a warning that says where to."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module that has moved, None for all others."""
        return importlib.util.spec_from_loader(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module from its new place."""
        place = MOVED[module.__name__]
        warnings.warn(f"{module.__name__} has moved to {place}", DeprecationWarning, stacklevel=6)
        names = vars(importlib.import_module(place))
        vars(module).update({name: each for name, each in names.items() if not name.startswith("__")})


def duration(seconds: float) -> str:
    """Return a duration with a readable unit.

    >>> duration(42.2), duration(600), duration(9000), duration(7_000_000)
    ('42 s', '10 min', '2.5 h', '81 days')
    """
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.2g} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"
