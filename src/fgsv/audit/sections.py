"""Sections of an audit: sentences and a table, for a page or a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Section:
    """A title, some sentences, and a table; one without rows has no table."""

    title: str
    words: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    technical: bool = False
    """Whether it is about the method rather than the providers: reports put it into the appendix."""

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        lists = {"words": list(self.words), "columns": list(self.columns), "rows": [list(row) for row in self.rows]}
        return asdict(self) | lists

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Section:
        """Read what `to_dict` returned."""
        rows = tuple(tuple(row) for row in document["rows"])
        technical = document.get("technical", False)
        return cls(document["title"], tuple(document["words"]), tuple(document["columns"]), rows, technical)
