"""Fingerprints: a hash of the content of a utility, the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse


class _NoFingerprint(Exception):
    """Raised for an object that has no content to hash, only an address in memory."""


def fingerprint(*parts: Any) -> str | None:
    """Return the SHA-256 of the content of all parts, or None where one of them has no content to hash.

    A part may be a number, string, array, data frame, sparse matrix, an estimator (hashed with its parameters), a
    function (by name and code), or a container of these. Arrays are hashed by type, shape and little-endian bytes.
    """
    digest = hashlib.sha256()
    try:
        for part in parts:
            _add(digest, part)
    except _NoFingerprint:
        return None
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    """Add one part to the digest, after its kind and length, so that no two contents give the same bytes."""
    if part is None or isinstance(part, bool | int | float | complex | str | bytes):
        _add_bytes(digest, type(part).__name__, repr(part).encode())
    elif isinstance(part, np.generic):
        _add(digest, part.item())
    elif isinstance(part, np.ndarray):
        _add_array(digest, part)
    elif isinstance(part, pd.DataFrame):
        _add(digest, ["frame", [str(name) for name in part.columns]])
        for position in range(part.shape[1]):
            _add_array(digest, np.asarray(part.iloc[:, position]))
    elif scipy.sparse.issparse(part):
        matrix = part.tocsr().copy()
        matrix.sum_duplicates()
        _add(digest, ["sparse", matrix.shape, matrix.data, matrix.indices.astype(np.int64)])
        _add_array(digest, matrix.indptr.astype(np.int64))
    elif isinstance(part, Mapping):
        _add(digest, ["mapping", [[key, part[key]] for key in sorted(part, key=repr)]])
    elif isinstance(part, list | tuple):
        _add_bytes(digest, "sequence", str(len(part)).encode())
        for item in part:
            _add(digest, item)
    elif isinstance(part, type):
        _add(digest, ["class", part.__module__, part.__qualname__])
    elif hasattr(part, "get_params"):
        _add(digest, ["estimator", type(part), _changed_parameters(part)])
    elif isinstance(part, partial):
        _add(digest, ["partial", part.func, part.args, part.keywords])
    elif hasattr(part, "_score_func"):  # what sklearn.metrics.make_scorer returns
        _add(digest, ["scorer", part._score_func, part._sign, part._kwargs, part._response_method])
    elif hasattr(part, "__code__"):
        _add(digest, ["function", part.__module__, part.__qualname__, part.__code__.co_code])
        _add(
            digest,
            [repr(constant) for constant in part.__code__.co_consts if not hasattr(constant, "co_code")],
        )
        _add(digest, [part.__defaults__, part.__kwdefaults__])
        _add(digest, [cell.cell_contents for cell in part.__closure__ or ()])
    else:
        raise _NoFingerprint(type(part).__name__)


def _changed_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that differ from their defaults; the defaults change with scikit-learn's version."""
    defaults = {name: item.default for name, item in inspect.signature(type(estimator)).parameters.items()}
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in parameters.items() if value is not defaults.get(name, inspect)}


def _add_array(digest: Any, array: np.ndarray[Any, Any]) -> None:
    if array.dtype.kind not in "biufcSUmM":
        _add(digest, ["objects", array.shape, [_plain(value) for value in array.reshape(-1)]])
        return
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    _add_bytes(digest, f"array {array.dtype.str} {array.shape}", array.tobytes())


def _plain(value: Any) -> Any:
    """Return a cell of an object column, with None for every kind of missing value."""
    if value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return None
    return value


def _add_bytes(digest: Any, kind: str, content: bytes) -> None:
    digest.update(f"{kind} {len(content)}:".encode())
    digest.update(content)
