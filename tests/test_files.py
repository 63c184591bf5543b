"""Files are written whole or not at all."""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgsv.files import FieldError, decode, encode, write_whole
from fgsv.valuation import End, Reason


def test_a_file_is_whole_or_not_there(tmp_path):
    path = write_whole(tmp_path / "a.txt", "one\n")
    assert path.read_bytes() == b"one\n"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", "two\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "folder"]


@dataclass(frozen=True)
class Inner:
    money: Decimal
    on_error: str | float


@dataclass(frozen=True)
class Outer:
    names: tuple[Hashable, ...]
    end: End
    inner: tuple[Inner, ...]
    pair: tuple[float, float]
    options: Mapping[str, Any]
    counts: dict[str, int]
    key: bytes
    arrays: tuple[NDArray[Any], ...]
    missing: float | None = None


def whole():
    single = np.linspace(0, 1, 300, dtype=np.float32).reshape(3, 100)
    arrays = (single, np.arange(5), np.array([[1.5, np.nan], [np.inf, -0.0]]), np.zeros((0, 3)))
    inner = (Inner(Decimal("0.10"), "raise"), Inner(Decimal(3), 0.5))
    end = End(Reason.TIME, "slow")
    return Outer(
        (("a", 1), "b", 2, True), end, inner, (np.inf, 1), {"deep": [1, {"a": None}]}, {"x": 2}, b"\0k", arrays
    )


def test_every_kind_of_field_comes_back_bit_for_bit():
    document = json.loads(json.dumps(encode(whole()), allow_nan=False))
    found = decode(Outer, document | {"later": 1})
    for ours, theirs in zip(found.arrays, whole().arrays, strict=True):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    assert {**vars(found), "arrays": ()} == {**vars(whole()), "arrays": ()}
    assert encode(found) == document


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"end": {"reason": "bored", "detail": "", "n_unused": 0}},
            "'end.reason' cannot be read.*'bored' is not a valid Reason",
        ),
        ({"end": {"reason": "time"}}, "lacks the field 'end.detail'"),
        ({"inner": [{"money": "1", "on_error": []}]}, "'inner.on_error' cannot be read"),
        ({"inner": [{"money": "much", "on_error": 1}]}, "'inner.money' cannot be read"),
        ({"pair": [1.0]}, "'pair' cannot be read"),
        ({"counts": {"x": True}}, "'counts.x' cannot be read.*expected int, got bool"),
        ({"arrays": [{"dtype": "|O", "shape": [1], "zlib": ""}]}, "'arrays' cannot be read.*array of numbers"),
        ({"missing": "none"}, "'missing' cannot be read.*expected float, got str"),
    ],
)
def test_an_error_names_the_field(change, words):
    with pytest.raises(FieldError, match=words):
        decode(Outer, encode(whole()) | change)
