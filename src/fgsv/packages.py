"""Installed packages: their versions, the optional ones, and objects that users name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import fgsv

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "pandas", "torch")
"""Packages whose versions may affect a result."""


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


def optional(module: str, purpose: str, extra: str) -> ModuleType:
    """Import a package of an extra.

    >>> optional("not_there", "figures", "plots")
    Traceback (most recent call last):
    ImportError: figures need the package not_there: pip install 'matplotlib>=3.8'

    Args:
        module: What to import, such as "matplotlib.figure".
        purpose: What needs it, in the plural.
        extra: The extra of fgsv that has it.

    Raises:
        ImportError: It is not installed; the error says how to install it.

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

    here = os.getcwd()
    known = set(sys.modules)
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(here):
            cloudpickle.register_pickle_by_value(sys.modules[name])
