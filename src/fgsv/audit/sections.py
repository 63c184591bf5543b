"""Sections of an audit: sentences and a table, for a page or a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Section:
    """A title, some sentences, and a table; one without rows has no table."""

    title: str
    words: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    technical: bool = False
    """Whether it is about the method rather than the providers: reports put it into the appendix."""
    shows_players: bool = False
    """Whether its rows show single players, which a report for competitors leaves out."""

    def to_frame(self) -> pd.DataFrame:
        """Return the table."""
        return pd.DataFrame(list(self.rows), columns=list(self.columns))

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        lists = {"words": list(self.words), "columns": list(self.columns), "rows": [list(row) for row in self.rows]}
        return asdict(self) | lists

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Section:
        """Read what `to_dict` returned."""
        rows = tuple(tuple(row) for row in document["rows"])
        flags = (document.get("technical", False), document.get("shows_players", False))
        return cls(document["title"], tuple(document["words"]), tuple(document["columns"]), rows, *flags)

    def for_competitors(self) -> Section:
        """Return the section without single players."""
        return replace(self, rows=()) if self.shows_players else self
