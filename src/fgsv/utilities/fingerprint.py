"""Fingerprints: a hash of what a utility depends on, the same in every process and on every machine.

Your own functions and classes are identified by their code, the variables they close over, and the globals they refer
to; objects of installed packages by their name and the package's version (only by name for the packages whose
versions a ledger records, which evaluates some coalitions again when they change).
"""

from __future__ import annotations

import copyreg
import hashlib
import inspect
import random
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import pairwise
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from fgsv.packages import PACKAGES


class _NoFingerprint(Exception):
    """Raised for an object that has no content to hash, only an address in memory."""


def fingerprint(*parts: Any) -> str | None:
    """Return the SHA-256 of the content of all parts, or None if one of them has no content to hash.

    A part may be a number, string, array, data frame, sparse matrix, an estimator (hashed with its parameters), a
    function or class, an instance of your own class (with its attributes), or a container of these. Arrays are hashed
    by type, shape and little-endian bytes.
    """
    content = _Content()
    try:
        for part in parts:
            content.add(part)
    except _NoFingerprint:
        return None
    return content.digest.hexdigest()


class _Content:
    """Hashes parts in turn; each function, class and module once, so that they may refer to each other."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is used twice

    def add(self, part: Any) -> None:
        """Add one part, after its kind and length, so that no two contents give the same bytes."""
        if part is None or isinstance(part, bool | int | float | complex | str | bytes):
            self._bytes(type(part).__name__, repr(part).encode())
        elif isinstance(part, np.generic):
            self.add(part.item())
        elif isinstance(part, np.ndarray):
            self._array(part)
        elif isinstance(part, pd.DataFrame):
            self.add(["frame", [str(name) for name in part.columns]])
            for position in range(part.shape[1]):
                self._array(np.asarray(part.iloc[:, position]))
        elif scipy.sparse.issparse(part):
            matrix = part.tocsr().copy()
            matrix.sum_duplicates()
            self.add(["sparse", matrix.shape, matrix.data, matrix.indices.astype(np.int64)])
            self._array(matrix.indptr.astype(np.int64))
        elif isinstance(part, Mapping):
            self.add(["mapping", [[key, part[key]] for key in sorted(part, key=repr)]])
        elif isinstance(part, list | tuple):
            self._bytes("sequence", str(len(part)).encode())
            for item in part:
                self.add(item)
        elif isinstance(part, type):
            self._class(part)
        elif hasattr(part, "get_params"):
            self.add(["estimator", type(part), self._changed_parameters(part)])
        elif isinstance(part, partial):
            self.add(["partial", part.func, part.args, part.keywords])
        elif hasattr(part, "_score_func"):  # what sklearn.metrics.make_scorer returns
            self.add(["scorer", part._score_func, part._sign, part._kwargs, part._response_method])
        elif isinstance(part, FunctionType):
            self._function(part)
        else:
            self._other(part)

    def _bytes(self, kind: str, content: bytes) -> None:
        self.digest.update(f"{kind} {len(content)}:".encode())
        self.digest.update(content)

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.kind not in "biufcSUmM":
            self.add(["objects", array.shape, [_plain(value) for value in array.reshape(-1)]])
            return
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self._bytes(f"array {array.dtype.str} {array.shape}", array.tobytes())

    def _changed_parameters(self, estimator: Any) -> dict[str, Any]:
        """Return the parameters that differ from their defaults; the defaults change with scikit-learn's version."""
        defaults = {name: item.default for name, item in inspect.signature(type(estimator)).parameters.items()}
        parameters = estimator.get_params(deep=False)
        return {name: value for name, value in parameters.items() if not _is_same(value, defaults.get(name, inspect))}

    def _function(self, function: FunctionType) -> None:
        if self._is_new("function", function):
            self.add([function.__qualname__, function.__defaults__, function.__kwdefaults__])
            self._code(function.__code__)
            for cell in function.__closure__ or ():
                self._referred(_cell(cell))
            for name in sorted(_names(function.__code__) & set(function.__globals__)):
                self.add(["global", name])
                self._referred(function.__globals__[name])

    def _code(self, code: CodeType) -> None:
        self.add([code.co_code, list(code.co_names), list(code.co_varnames)])
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self.add(constant)

    def _class(self, part: type) -> None:
        if self._is_new("class", part):
            self.add([part.__qualname__, list(part.__bases__)])
            for name, attribute in sorted(vars(part).items()):
                if name not in _OF_ANY_CLASS and not name.startswith(("_abc_", "_sklearn_")):
                    self.add(["attribute", name, attribute])

    def _other(self, part: Any) -> None:
        if isinstance(part, MethodType):
            self.add(["method", part.__func__, part.__self__])
        elif isinstance(part, staticmethod | classmethod):
            self.add([type(part).__name__, part.__func__])
        elif isinstance(part, property):
            self.add(["property", part.fget, part.fset])
        elif isinstance(part, ModuleType):
            if self._is_new("module", part):
                self._module(part)
        elif isinstance(part, set | frozenset):
            self.add(["set", sorted(part, key=repr)])
        elif isinstance(part, cached_property):
            self.add(["property", part.func])
        elif isinstance(part, _BUILTIN):
            owner = getattr(part, "__module__", None) or getattr(part, "__objclass__", None) or "builtins"
            self.add(["builtin", str(owner), getattr(part, "__qualname__", part.__name__)])
        elif isinstance(part, _RANDOM):
            raise _NoFingerprint(type(part).__name__)
        elif self._is_new("instance", part):
            self.add(_reduced(part))

    def _referred(self, part: Any) -> None:
        """Add what a function refers to; a model counts there as it was fitted, not only with its parameters."""
        is_model = hasattr(part, "get_params") and not isinstance(part, type)
        self.add(["fitted", type(part), vars(part)] if is_model else part)

    def _module(self, module: ModuleType) -> None:
        """Add the source of a module that is not installed, and of those it uses."""
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).is_file():
            raise _NoFingerprint(module.__name__)
        self._bytes("source", Path(file).read_bytes())
        for name, each in sorted(vars(module).items()):
            if isinstance(each, ModuleType):
                self.add(["uses", name, each])
            elif inspect.isroutine(each) or isinstance(each, type):
                origin = sys.modules.get(getattr(each, "__module__", None) or "")
                if origin is not None and origin is not module:
                    self.add(["uses", name, origin])

    def _is_new(self, kind: str, part: Any) -> bool:
        """Add the name of a function, class or module; say whether its content is to follow."""
        module = part.__name__ if isinstance(part, ModuleType) else getattr(part, "__module__", None) or ""
        if kind != "instance" and _is_installed(module):
            name = getattr(part, "__qualname__", "")
            if "<locals>" not in name or kind == "module":
                self.add([kind, module, name, _version(module.partition(".")[0])])
                return False
        if id(part) in self._seen:
            self.add([kind, "seen", self._seen[id(part)]])
            return False
        self._seen[id(part)] = len(self._seen)
        self._kept.append(part)
        self.add([kind])
        return True


_OF_ANY_CLASS = {
    *("__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__firstlineno__", "__static_attributes__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__abstractmethods__", "__parameters__"),
}


_BUILTIN = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, MemberDescriptorType, np.ufunc)


_RANDOM = (np.random.Generator, np.random.RandomState, random.Random)
"""Objects whose state changes with every use."""


def _reduced(part: Any) -> Any:
    """Return what an instance is made of, as pickle would take it."""
    try:
        registered = copyreg.dispatch_table.get(type(part))
        reduced = part.__reduce_ex__(4) if registered is None else registered(part)
    except Exception:
        raise _NoFingerprint(type(part).__name__) from None
    return reduced if isinstance(reduced, str) else [*reduced[:3], *(list(items or ()) for items in reduced[3:5])]


def _names(code: CodeType) -> set[str]:
    """Return the names that code and the code nested in it refer to."""
    nested = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*nested)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a function that refers to itself before it is defined
        return "empty"


@cache
def _places() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({str(Path(paths[name]).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def _is_installed(module: str) -> bool:
    """Say whether a module belongs to Python or to an installed package, not to the user's own code."""
    top = module.partition(".")[0]
    if top in sys.builtin_module_names or top in ("builtins", "fgsv"):
        return True
    if top == "__main__":
        return False
    found = sys.modules.get(module) or sys.modules.get(top)
    file = getattr(found, "__file__", None) or next(iter(getattr(found, "__path__", [])), None)
    if file is None:
        return False
    path = Path(file).resolve()
    # packages may also come from another environment's folder
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(map(path.is_relative_to, _places()))


@cache
def _version(package: str) -> str:
    """Return the version of an installed package; "" for Python's own and those that a ledger checks."""
    if package in sys.stdlib_module_names or package in {*PACKAGES, "sklearn", "fgsv"}:
        return ""
    try:
        return version(package)
    except PackageNotFoundError:  # the package is installed under another name
        names = packages_distributions().get(package)
        return version(names[0]) if names else ""


def _is_same(value: Any, default: Any) -> bool:
    """Say whether a parameter has its default, written out or read from a file; of objects, only the same one."""
    return value is default or (isinstance(value, int | float | str) and repr(value) == repr(default))


def _plain(value: Any) -> Any:
    """Return a cell of an object column, with None for every kind of missing value."""
    if value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return None
    return value


def row_digests(X: Any, labels: np.ndarray[Any, Any], units: list[np.ndarray[Any, Any]] | None) -> bytes:
    """Return 16 bytes for the content of each row, or of each unit, the same beside any other rows.

    Args:
        X: (n, ...) features: an array, a data frame or a sparse matrix.
        labels: (n,) as users give them.
        units: The rows of each unit, which count in no order; None: a digest for each row.

    """
    n = len(labels)
    label_bytes = _cells(labels)
    if scipy.sparse.issparse(X):
        sorted_rows = X.tocsr().copy()
        sorted_rows.sum_duplicates()
        places = sorted_rows.indices.astype("<i8")
        cells = _cells(sorted_rows.data)
        rows = [slice(*ends) for ends in pairwise(sorted_rows.indptr.tolist()[: n + 1])]
        whole = [
            places[row].tobytes() + cells[row].tobytes() + label.tobytes()
            for row, label in zip(rows, label_bytes, strict=True)
        ]
    else:
        columns = [X.iloc[:, j] for j in range(X.shape[1])] if isinstance(X, pd.DataFrame) else [X.reshape(n, -1)]
        table = np.concatenate([*map(_cells, map(np.asarray, columns)), label_bytes], axis=1)
        whole = [row.tobytes() for row in table]
    if units is not None:
        whole = [b"".join(sorted(whole[row] for row in rows)) for rows in units]
    return b"".join(hashlib.sha256(each).digest()[:16] for each in whole)


def _cells(column: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the (n, w) bytes of n cells, or of n rows of cells; those of a cell do not depend on the others."""
    if column.dtype.kind not in "biufcmM":
        cells = column.reshape(-1)
        # objects: an array of text would be as wide in every cell as in its longest
        words = (
            cells if column.dtype.kind in "SU" else np.array([repr(_plain(value)) for value in cells], dtype=object)
        )
        distinct, places = np.unique(words, return_inverse=True)
        digests = b"".join(hashlib.sha256(str(word).encode()).digest()[:16] for word in distinct.tolist())
        column = np.frombuffer(digests, np.uint8).reshape(-1, 16)[places.reshape(-1)].reshape(len(column), -1)
    column = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
    width = column.itemsize * (column.size // max(len(column), 1))
    return column.view(np.uint8).reshape(len(column), width)
