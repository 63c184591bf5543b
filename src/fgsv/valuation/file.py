"""The file of a valuation: JSON that reads back bit for bit."""

from __future__ import annotations

import hashlib
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, replace
from math import prod
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgsv.checks import check_type, whole_number
from fgsv.files import as_path, most_expanded, other_schema, read_json, write_whole
from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation.end import End
from fgsv.valuation.estimate import Failures
from fgsv.valuation.group_sums import MOST_DEVIATIONS
from fgsv.valuation.seed_noise import SeedNoise
from fgsv.valuation.settings import RunSettings
from fgsv.valuation.test_rows import TestRows
from fgsv.valuation.valuation import Valuation

SCHEMA = 2
_ROUNDING = 1e-6
"""Relative error allowed in sums of a file, made on another machine; deviations are stored in single precision."""


def to_document(valuation: Valuation) -> dict[str, Any]:
    """Return a valuation as a document for JSON."""
    partition = valuation.partition
    info = {
        "failures": valuation.failures and asdict(valuation.failures),
        "known": valuation.n_known or None,
        "unfitted": valuation.n_unfitted or None,
        "seed_noise": valuation.seed_noise and valuation.seed_noise.to_dict(),
        "correction": valuation.correction,
        "test_rows": None if valuation.test_rows is None else _of_test_rows(valuation.test_rows),
    }
    return {
        "schema": SCHEMA,
        "finished": valuation.finished,
        "method": valuation.method,
        "seed": valuation.seed,
        "n_evaluations": valuation.n_evaluations,
        "end": valuation.end.to_dict(),
        "outputs": None if valuation.outputs is None else list(valuation.outputs),
        "names": [_json_name(name) for name in partition.names],
        "groups": json_array(partition.owners),
        "values": valuation.values.tolist(),
        "stderr": _json_floats(valuation.stderr),
        "total": np.asarray(valuation.total).tolist(),
        "ends": None if valuation.ends is None else valuation.ends.tolist(),
        "weights": None if valuation.weights is None else list(valuation.weights),
        "player_values": None if valuation.player_values is None else json_array(valuation.player_values),
        "deviations": None if valuation.deviations is None else json_array(valuation.deviations),
        "degrees_of_freedom": _json_floats(np.asarray(valuation.degrees_of_freedom)),
        "exact": valuation.exact,
        "efficient": valuation.efficient,
        "grouped": valuation.grouped,
        "settings": {} if valuation.settings is None else valuation.settings.to_dict(),
        "info": {name: part for name, part in info.items() if part is not None},
    }


def statement(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of each field of a document, and of each entry of its settings and info.

    A ledger records it for the results of its runs, so that `fgsv verify` can name a field that was altered.
    """
    fields = {name: part for name, part in document.items() if name not in ("settings", "info", "files")}
    for section in ("settings", "info"):
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

    def field(name: str, read: Callable[[Any], Any], optional: bool = False) -> Any:
        if name not in document:
            raise ValueError(f"{path} is not a complete valuation: it lacks the field {name!r}")
        try:
            return None if optional and document[name] is None else read(document[name])
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, zlib.error) as error:
            raise ValueError(f"{path}: the field {name!r} cannot be read: {error!r:.200}") from None

    def entry(name: str, read: Callable[[Any], Any]) -> Any:
        return field("info", lambda info: read(info[name]) if name in _of(Mapping)(info) else None)

    def numbers(stated: Any) -> Floats:
        return np.array(stated, dtype=float)

    groups, names = field("groups", read_array), field("names", lambda stated: tuple(map(_name, stated)))
    loaded = Valuation(
        partition=Partition(names, groups),
        values=field("values", numbers),
        stderr=field("stderr", _floats),
        total=field("total", lambda stated: numbers(stated)[()]),
        player_values=field("player_values", read_array, optional=True),
        deviations=field("deviations", read_array, optional=True),
        degrees_of_freedom=field("degrees_of_freedom", lambda stated: float(_floats(stated))),
        method=field("method", _of(str)),
        n_evaluations=field("n_evaluations", lambda stated: whole_number("it", stated, least=0)),
        end=field("end", End.from_dict),
        outputs=field("outputs", tuple, optional=True),
        seed=field("seed", _of(Real), optional=True),  # one that is not whole was altered, as `fgsv verify` says
        exact=field("exact", _of(bool)),
        efficient=field("efficient", _of(bool)),
        grouped=field("grouped", _of(bool)),
        ends=field("ends", numbers, optional=True),
        settings=field(
            "settings", lambda stated: RunSettings.from_dict(stated) if "method" in _of(Mapping)(stated) else None
        ),
        failures=entry("failures", lambda stated: Failures(**stated)),
        weights=field("weights", lambda stated: tuple(map(float, stated)), optional=True),
        finished=field("finished", _of(bool)),
        n_known=entry("known", int) or 0,
        n_unfitted=entry("unfitted", int) or 0,
        seed_noise=entry("seed_noise", SeedNoise.from_dict),
        correction=entry("correction", float),
        test_rows=entry("test_rows", _read_test_rows),
    )
    _check_shapes(loaded, path)
    _check_sums(loaded, path)
    return loaded


def _of(kind: type) -> Callable[[Any], Any]:
    """Return what reads a field of this type, and raises an error for any other."""

    def read(stated: Any) -> Any:
        check_type(stated, kind, kind.__name__)
        return stated

    return read


def _check_shapes(valuation: Valuation, path: str | Path) -> None:
    """Raise an error if the fields of a file contradict each other."""
    partition = valuation.partition
    n, groups = partition.n_players, (partition.n_groups,)
    outputs = () if valuation.outputs is None else (len(valuation.outputs),)
    expected = {"values": groups + outputs, "stderr": groups + outputs, "total": outputs}
    if valuation.player_values is not None:
        expected["player_values"] = (n, *outputs)
    if valuation.deviations is not None:
        expected["deviations"] = (len(valuation.deviations), n, *(outputs or (1,)))
    if valuation.ends is not None:
        expected["ends"] = (2, *outputs)
    for name, shape in expected.items():
        found = np.shape(getattr(valuation, name))
        if found != shape:
            raise ValueError(f"{path}: the field {name!r} has shape {found}; expected {shape}")
    noise = valuation.seed_noise
    if noise is not None and any(
        part.shape[1] != (*outputs, 1)[0] for part in (noise.own, noise.common, noise.total)
    ):
        raise ValueError(f"{path}: the field 'seed_noise' must have a column for each output")
    tested = valuation.test_rows
    if tested is not None:
        rows = n if valuation.player_values is not None else partition.n_groups
        shapes = {each.shape[1:] for each in (tested.players, tested.sampled) if each is not None}
        q, p = (*outputs, 1)[0], tested.total.shape[1]
        if shapes != {(rows, p)} or len(tested.players) != len(tested.total) or p not in (1, q):
            raise ValueError(f"{path}: the field 'test_rows' must have a row for each fold and player")
    if partition.is_disjoint and n and not 0 <= partition.codes.min() <= partition.codes.max() < groups[0]:
        raise ValueError(f"{path}: the field 'groups' refers to a group that is not among 'names'")


def _check_sums(valuation: Valuation, path: str | Path) -> None:
    """Raise an error if the values of a file are not the sums of its player values, or do not add up."""
    parts = {"total": (valuation.total, None if valuation.ends is None else valuation.ends[1] - valuation.ends[0])}
    if valuation.player_values is not None:
        again = replace(valuation, grouped=False).regroup(valuation.partition)
        parts["values"] = valuation.values, again.values
        if valuation.deviations is None or len(valuation.deviations) < MOST_DEVIATIONS:  # else they are approximate
            parts["stderr"] = valuation.stderr, again.stderr
        if valuation.efficient:
            parts["player_values"] = valuation.player_values.sum(axis=0), valuation.total
    # outputs, the last axis, may be of very different scales
    scale = np.maximum(np.abs(valuation.values).max(axis=0, initial=0), np.abs(valuation.total))
    for name, (stated, derived) in parts.items():
        if derived is None:
            continue
        if not np.allclose(stated, derived, rtol=0, atol=_ROUNDING * scale, equal_nan=True):
            raise ValueError(
                f"{path}: the field {name!r} contradicts the others: it is not what follows from the player values "
                "and U(N) - U(0). The file was altered after it was made: value it again"
            )


def _json_name(name: Hashable) -> Any:
    if isinstance(name, tuple):
        return [_json_name(part) for part in name]
    if isinstance(name, np.generic):
        return name.item()
    return name if isinstance(name, (str, int, float, bool)) else str(name)


def _name(document: Any) -> Hashable:
    return tuple(map(_name, document)) if isinstance(document, list) else document


def json_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array as JSON: its type, shape and bytes (little-endian, zlib, base64)."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": little.dtype.str,
        "shape": list(little.shape),
        "zlib": b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii"),
    }


def read_array(document: dict[str, Any]) -> NDArray[Any]:
    """Read what `json_array` returned; no more is decompressed than the shape says."""
    dtype, shape = np.dtype(document["dtype"]), tuple(map(int, document["shape"]))
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ValueError(f"an array of numbers was expected, got {dtype} of shape {shape}")
    size, compressed = dtype.itemsize * prod(shape), b64decode(document["zlib"])
    if size > most_expanded(len(compressed)):
        raise ValueError(f"an array of {size} bytes in {len(compressed)} is compressed far more than arrays are")
    content = zlib.decompressobj().decompress(compressed, size + 1)
    if len(content) != size:
        raise ValueError(
            f"an array of shape {shape} has {size} bytes, got {'more' if len(content) > size else 'fewer'}"
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()


def _of_test_rows(tested: TestRows) -> dict[str, Any]:
    sampled = None if tested.sampled is None else json_array(tested.sampled)
    return {"players": json_array(tested.players), "total": tested.total.tolist(), "sampled": sampled}


def _read_test_rows(document: Mapping[str, Any]) -> TestRows:
    sampled = None if document["sampled"] is None else read_array(document["sampled"])
    players, total = read_array(document["players"]), np.array(document["total"], dtype=float)
    if total.ndim != 2 or players.ndim != 3 or len(players) < 2:
        raise ValueError("the error of the test rows must be a table for each of at least two folds")
    if not all(np.isfinite(each).all() for each in (players, total)):
        raise ValueError("the error of the test rows must be finite numbers")
    return TestRows(players, total, sampled)


def _json_floats(array: Floats) -> Any:
    """Return nested lists; JSON has no NaN or infinity, so they become null and "inf"."""

    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        return None if np.isnan(x) else "inf" if np.isinf(x) else x

    return one(np.asarray(array).tolist())


def _floats(document: Any) -> Floats:
    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        return np.nan if x is None else float(x)

    return np.array(one(document))
