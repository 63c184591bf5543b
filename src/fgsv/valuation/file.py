"""The file of a valuation: JSON that reads back bit for bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.files import as_path, decode, encode, other_schema, read_json, write_whole
from fgsv.valuation.valuation import Valuation

SCHEMA = 3
SECTIONS = ("estimate", "partition", "settings", "info")
"""Fields whose entries a statement has one by one."""
_ROUNDING = 1e-6
"""Relative error allowed in the sum of a file's values, made on another machine."""


def to_document(valuation: Valuation) -> dict[str, Any]:
    """Return a valuation as a document for JSON; `info` is for what a result adds, as it may to the settings."""
    document: dict[str, Any] = encode(valuation)
    return {"schema": SCHEMA, **document, "settings": document["settings"] or {}, "info": {}}


def statement(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of each field of a document, and of each entry of its sections.

    A ledger records it for the results of its runs, so that `fgsv verify` can name a field that was altered.
    """
    fields = {name: part for name, part in document.items() if name not in (*SECTIONS, "files")}
    for section in SECTIONS:
        fields |= {f"{section}.{name}": part for name, part in document[section].items()}
    return {name: _digest(part) for name, part in fields.items()}


def _digest(part: Any) -> str:
    content = json.dumps(part, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def write(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write a document by rename: readers see all of it or nothing."""
    write_whole(
        as_path(path, "a saved valuation"), json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    )


def read(path: str | Path) -> dict[str, Any]:
    """Return the document of a saved valuation: of a file, or of the folder of `fgsv value --out`."""
    path = as_path(path, "a saved valuation")
    try:
        document = read_json(path / "valuation.json" if path.is_dir() else path)
        schema = document["schema"]
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no saved valuation at {path}: expected a valuation.json or its folder"
        ) from None
    except (ValueError, TypeError, KeyError) as error:
        words = str(error) if isinstance(error, ValueError) else "it has no schema"
        raise ValueError(
            f"{path} is not a saved valuation: {words}; expected a valuation.json or its folder"
        ) from None
    if schema != SCHEMA:
        raise ValueError(f"{path} cannot be read: {other_schema(schema, SCHEMA)}")
    return dict(document)


def from_document(document: Mapping[str, Any], path: str | Path) -> Valuation:
    """Read a document made by `to_document`; errors name the file and the field."""
    try:
        for section in ("settings", "info"):
            decode(dict[str, Any], document.get(section), section)
        settings = document["settings"] if "method" in document["settings"] else None
        loaded = decode(Valuation, {**document, "settings": settings})
        _check(loaded)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return loaded


def _check(valuation: Valuation) -> None:
    """Raise an error if the fields of a file contradict each other."""
    estimate = valuation.estimate
    partition = valuation.partition
    names = () if valuation.outputs is None else (len(valuation.outputs),)
    n = partition.n_groups if estimate.of_groups else partition.n_players
    q = (*names, 1)[0]
    shapes: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "estimate.values": (estimate.values, (n, q)),
        "estimate.deviations": (estimate.deviations, (..., n, q)),
        "estimate.stderr": (estimate.stderr, (partition.n_groups, q)),
        "ends": (valuation.ends, (2, *names)),
    }
    if (noise := valuation.seed_noise) is not None:
        shapes |= {f"seed_noise.{each}": (getattr(noise, each), (..., q)) for each in ("own", "common", "total")}
    if (tested := valuation.test_rows) is not None:
        p = 1 if tested.total.shape[-1:] == (1,) else q
        shapes |= {f"test_rows.{each}": (getattr(tested, each), (..., n, p)) for each in ("players", "sampled")}
        shapes["test_rows.total"] = (tested.total, (max(2, len(tested.players)), p))
    for name, (array, shape) in shapes.items():
        found = np.shape(array)
        expected = (*found[:1], *shape[1:]) if shape[0] is ... else shape
        if array is not None and found != expected:
            raise ValueError(f"the field {name!r} has shape {found}; expected {expected}")
        if array is not None and name != "estimate.stderr" and not np.isfinite(array).all():
            raise ValueError(f"the field {name!r} must have finite numbers")
    if partition.is_disjoint and n and not 0 <= partition.codes.min() <= partition.codes.max() < partition.n_groups:
        raise ValueError("the field 'partition.owners' refers to a group that is not among 'partition.names'")
    # outputs, the last axis, may be of very different scales
    scale = np.maximum(np.abs(estimate.values).max(axis=0, initial=0), np.abs(valuation.total))
    if estimate.efficient and not (np.abs(estimate.values.sum(axis=0) - valuation.total) <= _ROUNDING * scale).all():
        raise ValueError(
            "the field 'estimate.values' contradicts 'ends': values do not add up to U(N) - U(0). The file was "
            "altered after it was made: value it again"
        )
