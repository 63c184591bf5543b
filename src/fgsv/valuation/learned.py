"""What a method learned about a game from its own draws, and what that was worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

NOTHING = "nothing"


@dataclass(frozen=True)
class Learned:
    """What a method learned, how well it predicts, and what is left of the error.

    >>> str(Learned("a Gaussian process", 0.873, 0.214))
    'learned a Gaussian process (87% of the variance within sizes); errors are 0.21 times those of independent draws'
    """

    what: str
    explained: float | None
    """Fraction of the variance of drawn utilities within each size that was predicted from other draws; several
    outputs count equally. None if nothing was learned, nothing varies, or there are few draws."""
    error: float | None
    """Root mean square of the players' standard errors, divided by that of as many independent draws with the best
    allocation to sizes and no learning. None if it is unknown, if such draws have none, or with few draws."""

    def __str__(self) -> str:
        words = f"learned {self.what}"
        if self.explained is not None:
            words += f" ({max(0.0, self.explained):.0%} of the variance within sizes)"
        beside = "" if self.error is None else f"; errors are {self.error:.2g} times those of independent draws"
        return words + beside

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Learned:
        """Read what `to_dict` returned."""
        numbers = (document[name] for name in ("explained", "error"))
        return cls(str(document["what"]), *(None if each is None else float(each) for each in numbers))
