"""An account: what a result says of itself if its players are no training data, such as a month of answers."""

from __future__ import annotations

from dataclasses import dataclass

from fgsv.valuation.display import Section


@dataclass(frozen=True)
class Account:
    """Words in place of those about data, model and test rows."""

    title: str
    group: str
    """What a group is called, such as publisher."""
    negative: str
    """What a negative value means."""
    verdict: tuple[str, ...]
    """How well the payments are known, and what would halve their errors."""
    sections: tuple[Section, ...]
    """What was agreed, what was found, how to check it."""
