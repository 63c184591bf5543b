"""JSON documents: what a command prints for machines, one on stdout and nothing else."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def print_json(document: Any) -> None:
    """Print a document on one line."""
    print(json.dumps(plain(document), allow_nan=False))


def plain(document: Any) -> Any:
    """Return a document with null for the numbers that JSON has not: NaN and the infinities.

    >>> plain({"gain": [1.5, float("nan")]})
    {'gain': [1.5, None]}
    """
    if isinstance(document, Mapping):
        return {name: plain(part) for name, part in document.items()}
    if isinstance(document, (list, tuple)):
        return [plain(part) for part in document]
    return None if isinstance(document, float) and not math.isfinite(document) else document


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON has them: null for what is missing, plain numbers for numpy's."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return rows


@contextmanager
def prose_aside(as_json: bool) -> Iterator[None]:
    """Send what is printed in the block to stderr where stdout is for a machine."""
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        yield
