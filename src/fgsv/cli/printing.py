"""What commands print without tables: lines of text, or for machines one JSON document and nothing else."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

import typer

from fgsv.words import printable


def echo(words: Any) -> None:
    """Print a line to stdout, without control characters."""
    typer.echo(printable(words))


def say(*lines: Any) -> None:
    """Print lines to stderr, without control characters: stdout holds only results."""
    for words in lines:
        typer.echo(printable(words), err=True)


def print_json(document: Any) -> None:
    """Print a document on one line."""
    from fgsv.results.as_json import plain

    print(json.dumps(plain(document), allow_nan=False))


@contextmanager
def results_only() -> Iterator[None]:
    """Send what is printed in the block to stderr: by models, also in C code, and by processes started in it."""
    if sys.stdout is None:  # closed: another file may have its number by now
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    with redirect_stdout(sys.stderr):
        try:
            with suppress(OSError):
                os.dup2(2, 1)
            yield
        finally:
            with suppress(OSError, AttributeError, TypeError):
                ctypes.CDLL(None).fflush(None)  # what C code has printed and not written yet
            os.dup2(kept, 1)
            os.close(kept)
