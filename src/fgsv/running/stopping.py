"""Rules that end a run: small, frozen, any of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fgsv.valuation import Valuation, check_confidence


class Progress(Protocol):
    """What a rule may look at after a round."""

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far."""

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""

    @property
    def valuation(self) -> Valuation:
        """The valuation so far, computed when first asked for."""


class Rule(Protocol):
    """Says after a round whether to stop, and why."""

    def met(self, progress: Progress) -> str | None:
        """Return the reason to stop, or None to go on."""


@dataclass(frozen=True)
class MaxSeconds:
    """Stop after the first round that ends later than this many seconds."""

    seconds: float

    def met(self, progress: Progress) -> str | None:
        """Return the reason to stop, or None to go on."""
        if progress.seconds >= self.seconds:
            return f"max_seconds of {self.seconds:g} passed"
        return None


@dataclass(frozen=True)
class StandardError:
    """Stop when every group's standard error is at most `target`, in units of the utility."""

    target: float

    name: ClassVar[str] = "a standard error"

    def met(self, progress: Progress) -> str | None:
        """Return the reason to stop, or None to go on."""
        if self.ratio(progress.valuation) <= 1:
            return f"every standard error is at most {self.target:g}"
        return None

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest standard error over the target."""
        return float(np.max(valuation.stderr)) / self.target


@dataclass(frozen=True)
class Precision:
    """Stop when the interval of every group's share reaches at most `target` to either side."""

    target: float
    confidence: float = 0.95

    name: ClassVar[str] = "a precision"

    def met(self, progress: Progress) -> str | None:
        """Return the reason to stop, or None to go on."""
        if self.ratio(progress.valuation) <= 1:
            return f"every share is within {self.target:g} at {self.confidence:.0%} confidence"
        return None

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest half-width of a share over the target."""
        low_high = valuation.share_interval(self.confidence)
        return float(np.max(low_high[..., 1] - low_high[..., 0])) / 2 / self.target


def unreached(rules: Iterable[Rule], progress: Progress) -> str:
    """Return what each target that was not reached would take: errors fall with the root of the evaluations."""
    text = ""
    for rule in rules:
        if isinstance(rule, (StandardError, Precision)):
            ratio = rule.ratio(progress.valuation)
            if 1 < ratio < np.inf:
                needed = float(f"{progress.n_evaluations * ratio**2:.2g}")
                text += f"; {rule.name} of {rule.target:g} would take "
                n = progress.valuation.partition.n_players
                text += f"all {2**n:,}" if np.log2(needed) > n else f"about {needed:,.0f}"
                text += " evaluations"
    return text


def rules(
    *,
    max_seconds: float | None = None,
    stderr: float | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
) -> tuple[Rule, ...]:
    """Return the rules that the arguments of `fgsv.value` ask for."""
    for name, number in (("max_seconds", max_seconds), ("stderr", stderr), ("precision", precision)):
        if number is not None and not number > 0:
            raise ValueError(f"{name} must be positive, got {number}")
    check_confidence(confidence)
    found: list[Rule] = []
    if max_seconds is not None:
        found.append(MaxSeconds(max_seconds))
    if stderr is not None:
        found.append(StandardError(stderr))
    if precision is not None:
        found.append(Precision(precision, confidence))
    return tuple(found)
