"""How a run ended: a reason for code, and details for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    >>> str(end), end.with_note("2 were left unspent").detail
    ('budget of 100 reached', 'budget of 100 reached; 2 were left unspent')
    """

    reason: Reason
    detail: str = ""

    def __str__(self) -> str:
        return self.detail or str(self.reason)

    def with_note(self, note: str) -> End:
        """Return the same end with a note added."""
        return End(self.reason, f"{self}; {note}")


INTERRUPTED = End(Reason.INTERRUPTED)
