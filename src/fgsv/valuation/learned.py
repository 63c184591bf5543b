"""What a method learned about a game from its own draws, and what that was worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

NOTHING = "nothing"
ORACLE = "best allocated to sizes in hindsight"


@dataclass(frozen=True)
class Learned:
    """What a method learned, how well it predicts, and what is left of the error.

    >>> str(Learned("a Gaussian process", 0.873, None))
    'learned a Gaussian process (87% of the variance within sizes)'
    >>> str(Learned("a kernel", None, 0.214))
    'learned a kernel; errors are 0.21 times those of independent draws, best allocated to sizes in hindsight'
    """

    what: str
    explained: float | None
    """Fraction of the variance of drawn utilities within each size that was predicted from other draws; several
    outputs count equally. None if nothing was learned, nothing varies, or there are few draws."""
    error: float | None
    """Root mean square of the players' standard errors, divided by that of as many independent draws with the best
    allocation to sizes, which no run knows beforehand, and no learning. None if it is unknown, if utilities of one
    size hardly differ, or with few draws."""

    def __str__(self) -> str:
        words = f"learned {self.what}"
        if self.explained is not None:
            words += f" ({max(0.0, self.explained):.0%} of the variance within sizes)"
        if self.error is not None:
            words += f"; errors are {self.error:.2g} times those of independent draws, {ORACLE}"
        return words

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Learned:
        """Read what `to_dict` returned."""
        numbers = (document[name] for name in ("explained", "error"))
        return cls(str(document["what"]), *(None if each is None else float(each) for each in numbers))
