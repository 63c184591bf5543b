"""Parsers: turn option text into Python values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fgsv.results import Result, Seal


def a_confidence(number: float) -> float:
    """Reject a confidence that is not a probability, before any evaluation."""
    if not 0 < number < 1:
        raise typer.BadParameter(f"must be between 0 and 1, such as 0.95, got {number:g}")
    return number


def parts(texts: Sequence[str]) -> tuple[int, ...]:
    """Return numbers of companies from texts, each with one or several separated by commas.

    >>> parts(["2,10", "20"])
    (2, 10, 20)
    """
    try:
        return tuple(int(number) for number in listed(texts))
    except ValueError:
        raise typer.BadParameter(f"must be like 2,3,5, got {','.join(texts)!r}") from None


def amounts(texts: Sequence[str]) -> str | list[str]:
    """Return the amount, or one for each output if there are several.

    >>> amounts(["1000"]), amounts(["600,400"]), amounts(["600", "400"])
    ('1000', ['600', '400'], ['600', '400'])
    """
    found = listed(texts)
    return found[0] if len(found) == 1 else found


def numbers(texts: Sequence[str]) -> list[float]:
    """Return the numbers that an option lists.

    >>> numbers(["0,0.5"])
    [0.0, 0.5]
    """
    try:
        return [float(number) for number in listed(texts)]
    except ValueError:
        raise typer.BadParameter(f"must be like 0 or 0,0.5, got {','.join(texts)!r}") from None


def listed(texts: Sequence[str]) -> list[str]:
    """Return what an option lists: separated by commas, the option repeated, or both.

    >>> listed(["a, b", "c"])
    ['a', 'b', 'c']
    """
    return [part.strip() for text in texts for part in text.split(",")]


def settings(texts: Sequence[str]) -> dict[str, int | float | str]:
    """Return settings from texts such as steps=100,rank=16, with numbers as numbers.

    >>> settings(["steps=100,per=byte", "learning_rate=5e-4"])
    {'steps': 100, 'per': 'byte', 'learning_rate': 0.0005}
    """
    found: dict[str, int | float | str] = {}
    for text in listed(texts):
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise typer.BadParameter(f"must be like steps=100,rank=16, got {text!r}")
        found[name] = value
        for kind in (float, int):
            with suppress(ValueError):
                found[name] = kind(value)
    return found


def duration(text: str) -> float:
    """Return the seconds of 90, 90s, 10m or 2h.

    >>> duration("1.5h")
    5400.0
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text.lower())
    if match is None or float(match[1]) == 0:
        raise typer.BadParameter(f"must be like 90s, 10m or 2h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def on_error(text: str) -> str | float:
    """Return `raise`, `empty`, or the number that a failed evaluation counts as.

    >>> on_error("raise"), on_error("0.5")
    ('raise', 0.5)
    """
    try:
        return text if text in ("raise", "empty") else float(text)
    except ValueError:
        raise typer.BadParameter(f"must be raise, empty or a number, got {text!r}") from None


def seal(path: Path) -> Seal:
    """Return the seal in a file."""
    from fgsv.results import Seal

    return Seal.load(path)


def result(path: Path) -> Result:
    """Return a saved result."""
    from fgsv.results import Result

    return Result.load(path)
