"""Checks of what users give: numbers, lists, texts and types, with errors that name what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from types import UnionType
from typing import Any, SupportsFloat


def positive_number(name: str, number: Any) -> float:
    """Return a number as a float, or raise an error if it is not positive."""
    if not (positive := as_number(number)) > 0:
        raise ValueError(f"{name} must be a positive number, got {number!r:.200}")
    return positive


def whole_number(name: str, number: Any, least: int | None = None) -> int:
    """Return a number as an integer.

    >>> whole_number("n_steps", 3.0, least=1)
    3

    Args:
        name: The argument, for errors.
        number: What a user gave; a text of digits is no number.
        least: The smallest that is allowed. Default: any.

    Raises:
        ValueError: It is not whole, or too small.

    """
    try:
        whole = int(number)
    except (TypeError, ValueError, OverflowError):
        whole = None
    if whole is None or whole != number or isinstance(number, str):
        raise ValueError(f"{name} must be a whole number, got {number!r:.200}")
    if least is not None and whole < least:
        raise ValueError(f"{name} must be at least {least}, got {whole}")
    return whole


def as_number(given: object) -> float:
    """Return a number as a float; NaN for anything else, and for a whole number too large for a float.

    >>> as_number(2), as_number("2"), as_number(10**400)
    (2.0, nan, nan)
    """
    try:
        return float(given) if isinstance(given, SupportsFloat) else nan
    except (TypeError, ValueError, OverflowError):
        return nan


def as_list(given: Any, expected: str) -> list[Any]:
    """Return the entries of a list, or raise an error that says what was expected: a text is no list.

    >>> as_list(("a", "b"), "names must be a list")
    ['a', 'b']
    """
    if isinstance(given, Iterable) and not isinstance(given, str | bytes) and getattr(given, "ndim", 1) != 0:
        return list(given)
    raise TypeError(f"{expected}, got {'the text ' if isinstance(given, str) else ''}{given!r:.200}")


def as_texts(given: Any, argument: str, what: str = "texts") -> list[str]:
    """Return a list of texts.

    Args:
        given: What a user gave.
        argument: Its name, for errors.
        what: What the texts are, in the plural.

    Raises:
        TypeError: It is no list, such as a single text, or an entry is no text.

    """
    texts = as_list(given, f"{argument} must be a list of {what}")
    for each in texts:
        check_type(each, str, f"a list of {what} as {argument}", "one entry is no text")
    return texts


def check_type(given: object, kind: type | UnionType | tuple[type, ...], expected: str, hint: str = "") -> None:
    """Raise an error if an argument is of another type.

    >>> check_type("data.csv", dict, "a mapping as data", "open the file first")
    Traceback (most recent call last):
    TypeError: expected a mapping as data, got str: open the file first

    Args:
        given: What a user gave.
        kind: The type that is expected, or several.
        expected: It and the argument, in words.
        hint: How to get it.

    Raises:
        TypeError: It is of another type.

    """
    if not isinstance(given, kind):
        raise TypeError(f"expected {expected}, got {type(given).__name__}{hint and f': {hint}'}")
