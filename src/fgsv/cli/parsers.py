"""Parsers: turn option text into Python values."""

from __future__ import annotations

import re

import typer


def a_confidence(number: float) -> float:
    """Reject a confidence that is not a probability, before any evaluation."""
    if not 0 < number < 1:
        raise typer.BadParameter(f"must be between 0 and 1, such as 0.95, got {number:g}")
    return number


def parts(text: str) -> tuple[int, ...]:
    """Return numbers of companies from text separated by commas.

    >>> parts("2,10")
    (2, 10)
    """
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"--parts must be like 2,3,5, got {text!r}") from None


def amounts(text: str) -> str | list[str]:
    """Return the amount, or one for each output if separated by commas.

    >>> amounts("1000"), amounts("600,400")
    ('1000', ['600', '400'])
    """
    found = text.split(",")
    return text if len(found) == 1 else found


def duration(text: str) -> float:
    """Return the seconds of 90, 90s, 10m or 2h.

    >>> duration("1.5h")
    5400.0
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text.lower())
    if match is None or float(match[1]) == 0:
        raise typer.BadParameter(f"--max-time must be like 90s, 10m or 2h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def on_error(text: str) -> str | float:
    """Return `raise`, `empty`, or the number that a failed evaluation counts as.

    >>> on_error("raise"), on_error("0.5")
    ('raise', 0.5)
    """
    try:
        return text if text in ("raise", "empty") else float(text)
    except ValueError:
        raise typer.BadParameter(f"--on-error must be raise, empty or a number, got {text!r}") from None
