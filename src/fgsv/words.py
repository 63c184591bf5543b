"""Words for people: lists, durations, numbers, the time of a result, names of options, text safe on a terminal."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

NOT_PRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, invisible characters, direction marks, and halves of characters."""

OPTIONS = {
    "max_seconds": "--max-time",
    "n_jobs": "--jobs",
    "n_records": "--records",
    "players": "--player",
    "providers": "--provider",
    "text_missing": "--target-missing",
    "with_values": "--no-values",
    "without": "--no-without",
}
"""Options of commands that are not named like the parameter in Python."""

_in_command: ContextVar[bool] = ContextVar("_in_command", default=False)


@contextmanager
def in_command() -> Iterator[None]:
    """Let messages of the block name options: they are read by the user of a command."""
    before = _in_command.set(True)
    try:
        yield
    finally:
        _in_command.reset(before)


def option(name: str, value: Any = None) -> str:
    """Return what a message calls a parameter, alone or with a value: an argument in Python, an option in a command.

    >>> option("test_by"), option("target_missing", "drop"), option("n_jobs", 2), option("force", True)
    ('test_by', 'target_missing="drop"', 'n_jobs=2', 'force=True')
    >>> with in_command():
    ...     option("test_by"), option("target_missing", "drop"), option("n_jobs", 2), option("force", True)
    ('--test-by', '--target-missing drop', '--jobs 2', '--force')

    Words that are saved with a result are the same for both: they name neither.
    """
    if _in_command.get():
        flag = OPTIONS.get(name, "--" + name.replace("_", "-"))
        return flag if value is None or value is True else f"{flag} {shlex.quote(str(value))}"
    if value is None:
        return name
    return f"{name}={json.dumps(value, ensure_ascii=False) if isinstance(value, str) else value}"


def some(names: Iterable[Any], most: int = 10) -> str:
    """Return the first names with commas between them, and how many more there are.

    >>> some(["north", "south", "east"]), some(["north", "south", "east"], most=2)
    ('north, south, east', 'north, south and 1 more')
    """
    listed = [str(name) for name in names]
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def duration(seconds: float) -> str:
    """Return a duration with a readable unit.

    >>> duration(42.2), duration(600), duration(9000), duration(7_000_000)
    ('42 s', '10 min', '2.5 h', '81 days')
    """
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.2g} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"


def significant(x: float, digits: int) -> str:
    """Return a number with so many significant digits, and all those before the point: no powers of ten for money.

    >>> significant(0.0123456, 4), significant(2112.3, 2), significant(-52345.6, 4), significant(1e15, 4)
    ('0.01235', '2112', '-52346', '1e+15')
    """
    return f"{x:.0f}" if 10**digits - 0.5 <= abs(x) < 1e12 else f"{x:.{digits}g}"


def percent(fraction: float) -> str:
    """Return a width in percent, with two decimals; if these are zeros, with its first digit: 0.00% would be exact.

    >>> percent(0.1185), percent(0.00002), percent(0.0)
    ('11.85%', '0.002%', '0.00%')
    """
    rounds_to_zero = 0 < abs(fraction) < 0.00005
    return f"{100 * fraction:.1g}%" if rounds_to_zero else f"{fraction:.2%}"


def in_percent(share: float | None) -> str:
    """Return a share in percent; empty if it is unknown.

    >>> in_percent(0.12345), in_percent(-1e-9), in_percent(float("nan"))
    ('12.35%', '0.00%', '')
    """
    return "" if share is None or math.isnan(share) else f"{share:z.2%}"


def sentence(fact: str) -> str:
    """Return words as a sentence.

    >>> sentence("nobody changes rank")
    'Nobody changes rank.'
    """
    return f"{fact[0].upper()}{fact[1:]}."


def level(confidence: float) -> str:
    """Return a level of confidence in percent, with all its digits.

    >>> level(0.95), level(0.999), level(0.29)
    ('95%', '99.9%', '29%')
    """
    return f"{100 * confidence:.10g}%"


def now() -> str:
    """Return the date and time in UTC; the variable SOURCE_DATE_EPOCH replaces the clock, for equal bytes.

    >>> len(now())
    20
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    seconds = time.time() if epoch is None else float(epoch)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def printable(words: Any) -> str:
    r"""Return text for a terminal: without what moves its cursor, changes its colours or the direction of text.

    >>> printable("north\x1b[31m") == "north\N{REPLACEMENT CHARACTER}[31m"
    True
    """
    return NOT_PRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(words))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s in the plural.

    >>> counted(1, "file"), counted(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def roughly(count: float, more_than: float = 0, digits: int = 2) -> float:
    """Return an estimated count with few digits; if these are no more than what was made already, the next ones up.

    >>> roughly(73_412), roughly(204, more_than=200), roughly(214, more_than=200)
    (73000.0, 210.0, 210.0)
    """
    nearest = float(f"{count:.{digits}g}")
    return nearest if nearest > more_than else nearest + 10.0 ** (math.floor(math.log10(nearest)) + 1 - digits)


def numbered(items: Iterable[T]) -> Iterator[tuple[T, int]]:
    """Yield each item with the number of equal ones before it.

    >>> list(numbered(["a", "b", "a"]))
    [('a', 0), ('b', 0), ('a', 1)]
    """
    seen: Counter[T] = Counter()
    for item in items:
        yield item, seen[item]
        seen[item] += 1
