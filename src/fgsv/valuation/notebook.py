"""How results look in a notebook: HTML in which every name is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 60


def html_of(frame: pd.DataFrame, lines: Iterable[str] = ()) -> str:
    r"""Return a table and lines of text as HTML; the first and last rows of a long table.

    >>> import pandas as pd
    >>> "&lt;b&gt;" in html_of(pd.DataFrame({"group": ["<b>"]}), ["1 < 2"])
    True
    """
    table = frame.to_html(
        index=False, escape=True, border=0, max_rows=MOST_ROWS, float_format=lambda number: f"{number:.6g}"
    )
    return table + html_lines(lines)


def html_lines(lines: Iterable[str]) -> str:
    """Return lines of text as HTML."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
