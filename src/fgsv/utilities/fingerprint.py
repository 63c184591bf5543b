"""Fingerprints: a hash of what a utility is made of, equal in every process and on every machine."""

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
    """Something whose content cannot be told from its address in memory."""


def fingerprint(*parts: Any) -> str | None:
    """Return the SHA-256 of the content of all parts, or None where one of them has no content to hash.

    Numbers, strings, arrays, data frames, sparse matrices, estimators with their parameters, and functions by
    name and code; containers of these. Arrays enter by type, shape and bytes, little end first.
    """
    digest = hashlib.sha256()
    try:
        for part in parts:
            _add(digest, part)
    except _NoFingerprint:
        return None
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    """Feed one part to the digest, preceded by its kind and length so that no two contents read alike."""
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
    """Return the parameters that are not at their defaults, which change with scikit-learn's versions."""
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
    """Return a cell of a column of objects as something with content; missing values are all alike."""
    if value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return None
    return value


def _add_bytes(digest: Any, kind: str, content: bytes) -> None:
    digest.update(f"{kind} {len(content)}:".encode())
    digest.update(content)
