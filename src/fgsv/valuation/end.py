"""How a run ended: a reason for code, and details for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why a run ended."""

    BUDGET = "budget"
    TARGET = "target"
    """A precision, a standard error, or the user's own rule was met."""
    TIME = "time"
    EXHAUSTED = "exhausted"
    """Nothing is left to evaluate."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """An error ended the run; only a ledger records such a run."""


@dataclass(frozen=True)
class End:
    """The end of a run.

    >>> end = End(Reason.BUDGET, "budget of 100 reached")
    >>> str(end), End.from_dict(end.to_dict()) == end
    ('budget of 100 reached', True)
    """

    reason: Reason
    detail: str = ""
    n_unused: int = field(default=0, compare=False)
    """Evaluations that workers had begun at the end: made, and recorded, but not used."""

    def __str__(self) -> str:
        unused = f"; {self.n_unused} more evaluations were under way, and are not used" if self.n_unused else ""
        return (self.detail or str(self.reason)) + unused

    def with_note(self, note: str) -> End:
        """Return the same end with a note added."""
        return replace(self, detail=f"{self.detail or self.reason}; {note}")

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        document = {"reason": str(self.reason), "detail": self.detail}
        return document | ({"n_unused": self.n_unused} if self.n_unused else {})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> End:
        """Read what `to_dict` returned."""
        return cls(Reason(document["reason"]), str(document["detail"]), int(document.get("n_unused", 0)))


INTERRUPTED = End(Reason.INTERRUPTED)
