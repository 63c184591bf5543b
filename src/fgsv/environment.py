"""The environment of a run: package versions, optional packages, objects named by users, atomic file writes."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import platform
import shlex
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import fgsv

P = ParamSpec("P")
T = TypeVar("T")

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "pandas", "torch")
"""Packages whose versions may affect a result."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that may affect a result.

    >>> sorted(set(versions()) & {"python", "machine", "numpy"})
    ['machine', 'numpy', 'python']
    """
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    found["fgsv"] = fgsv.__version__
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return found


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
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from None


def write_whole(path: str | Path, text: str) -> Path:
    """Write a text file by renaming a complete one: readers see all of it or nothing."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="")
    part.replace(path)
    return path


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
