"""What commands print without tables: lines of text, or for machines one JSON document and nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import typer

from fgsv.environment import printable


def echo(words: Any, *, err: bool = False) -> None:
    """Print a line to stdout or stderr, without control characters."""
    typer.echo(printable(words), err=err)


def print_json(document: Any) -> None:
    """Print a document on one line."""
    from fgsv.report.documents import plain

    print(json.dumps(plain(document), allow_nan=False))


@contextmanager
def prose_aside(as_json: bool) -> Iterator[None]:
    """Send what is printed in the block to stderr if stdout is reserved for JSON."""
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        yield
