"""Repeats: many independent runs of a method, by its name and options, on several workers."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config
from rich.console import Console
from rich.progress import track

T = TypeVar("T")
R = TypeVar("R")


def run_all(function: Callable[[T], R], tasks: Sequence[T], *, jobs: int = 2, label: str = "") -> list[R]:
    """Return function(task) for every task, in order, with a progress bar; each worker computes with one thread."""
    return list(each_of(function, tasks, jobs=jobs, label=label))


def each_of(function: Callable[[T], R], tasks: Sequence[T], *, jobs: int = 2, label: str = "") -> Iterator[R]:
    """Yield the same as soon as it is there."""
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=jobs, return_as="generator")(delayed(function)(task) for task in tasks)
        console = Console(stderr=True)
        yield from track(results, description=label, total=len(tasks), console=console, transient=True)


def read_method(text: str) -> tuple[str, dict[str, Any]]:
    """Return a method's name and options from one string.

    >>> read_method("kernelshap, paired=True")
    ('kernelshap', {'paired': True})
    """
    name, *pairs = text.split(", ")
    options = dict(pair.split("=") for pair in pairs)
    return name, {key: literal_eval(option) for key, option in options.items()}
