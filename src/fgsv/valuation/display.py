"""How a valuation and a result look: tables with sentences, for code, a terminal and a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from fgsv.valuation.valuation import Valuation

SHOWN = 60
"""Rows that a terminal or a notebook shows."""
NEGATIVE = (
    "A negative value means that, averaged over all selections of the data, adding these players lowered the score. "
    "How the model scores without them is another question."
)


@dataclass(frozen=True)
class Section:
    """A title, some sentences, and a table; one without rows has no table.

    >>> print(Section("Warning", ("few test rows",)))
    warning: few test rows
    """

    title: str
    words: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """None for a table of two columns, names and what is said of them."""
    rows: tuple[tuple[Any, ...], ...] = ()
    technical: bool = False
    """Whether it is about the method rather than the providers: only the report shows it, in its appendix."""
    shows_players: bool = False
    """Whether its rows show single players, which a report for competitors leaves out."""

    @property
    def lines(self) -> list[str]:
        """The sentences; without a table below them, the title comes first."""
        if self.rows:
            return list(self.words)
        if " " in self.title:
            return [f"{self.title}:", *(f"- {each}" for each in self.words)]
        return [f"{self.title.lower()}: {each}" for each in self.words]

    def to_frame(self) -> pd.DataFrame:
        """Return the table."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(self.columns) or None)

    def __str__(self) -> str:
        table = [self.title, self.to_frame().to_string(index=False)] if self.rows else []
        return "\n".join([*self.lines, *table])

    def _repr_html_(self) -> str:
        """Return the sentences and the table for a notebook."""
        return html_of(self.to_frame(), [self.title, *self.lines]) if self.rows else html_lines(self.lines)

    def for_competitors(self) -> Section:
        """Return the section without single players."""
        return replace(self, rows=()) if self.shows_players else self


def as_text(described: Any) -> str:
    """Return the sections of a result as text: the `__repr__` of what has sections."""
    return "\n".join(filter(None, map(str, described.sections())))


def as_html(described: Any) -> str:
    """Return the sections of a result for a notebook: the `_repr_html_` of what has sections."""
    return "".join(each._repr_html_() for each in described.sections())


def to_frame(valuation: Valuation, confidence: float) -> pd.DataFrame:
    """Return a row for each group (and output), with value, error and, where defined, share."""
    import pandas as pd

    shared = bool(np.all(valuation.total > 0))
    values = np.atleast_2d(valuation.values.T).T
    frames = []
    for column, output in enumerate(valuation.outputs or (None,)):
        frame = pd.DataFrame({"group": pd.Series(list(valuation.names), dtype=object)})
        if output is not None:
            frame["output"] = output
        frame["players"] = valuation.partition.sizes
        frame["value"] = values[:, column]
        frame["stderr"] = valuation.stderr.reshape(values.shape)[:, column]
        if shared:
            frame["share"] = valuation.shares().reshape(values.shape)[:, column]
            bounds = valuation.share_interval(confidence).reshape(*values.shape, 2)[:, column]
            frame["share_low"], frame["share_high"] = bounds[:, 0], bounds[:, 1]
        frames.append(frame)
    frame = pd.concat(frames, ignore_index=True)
    if (frame["players"] % 1 == 0).all():
        frame["players"] = frame["players"].astype(int)
    return frame


def to_text(valuation: Valuation) -> str:
    """Return the first rows of the table, without bounds, and the lines below it."""
    frame = valuation.to_frame().drop(columns=["share_low", "share_high"], errors="ignore")
    table = frame.head(SHOWN).to_string(index=False, float_format=lambda x: f"{x:.6g}")
    side = f", each with {len(valuation.outputs)} outputs" if valuation.outputs else ""
    more = [] if len(frame) <= SHOWN else [f"... {valuation.partition.n_groups} groups in total{side}"]
    return "\n".join([table, *more, *_footnotes(valuation)])


def to_html(valuation: Valuation) -> str:
    """Return the table for a notebook, and the lines below it."""
    return html_of(valuation.to_frame(), _footnotes(valuation))


def _footnotes(valuation: Valuation) -> list[str]:
    """Return the lines below the table: how it was made, and what to know about it."""
    total = np.array2string(np.asarray(valuation.total), precision=6)
    how = f"{valuation.method}: {valuation.about_evaluations}; {valuation.end}; U(N) - U(0) = {total}"
    notes = [] if valuation.failures is None else [str(valuation.failures)]
    notes += [] if valuation.about_unfitted is None else [valuation.about_unfitted]
    notes.append(valuation.about_intervals)
    if valuation.seed_noise is not None:
        notes.append(f"intervals include training seeds ({valuation.seed_noise.n_evaluations} more trainings)")
    notes += [] if valuation.about_correction is None else [valuation.about_correction]
    return [how, *notes, *([] if valuation.about_shares is None else [valuation.about_shares])]


def html_of(frame: pd.DataFrame, lines: Iterable[str] = ()) -> str:
    r"""Return a table and lines of text as HTML; the first and last rows of a long table.

    >>> import pandas as pd
    >>> "&lt;b&gt;" in html_of(pd.DataFrame({"group": ["<b>"]}), ["1 < 2"])
    True
    """
    table = frame.to_html(
        index=False, escape=True, border=0, max_rows=SHOWN, float_format=lambda number: f"{number:.6g}"
    )
    return table + html_lines(lines)


def html_lines(lines: Iterable[str]) -> str:
    """Return lines of text as HTML."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
