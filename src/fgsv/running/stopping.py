"""Stopping rules: callables that take a run's progress and return why to stop, or None to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fgsv.types import Floats
from fgsv.valuation import End, Reason, RunSettings, Valuation, positive_total


class Progress(Protocol):
    """What a rule can see after a round."""

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far."""

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""

    @property
    def round_seconds(self) -> float:
        """Seconds that the last round took."""

    @property
    def valuation(self) -> Valuation:
        """The valuation so far, computed on first use."""


Rule = Callable[[Progress], str | None]
"""Return after a round why to stop, or None to go on.

A rule may have two attributes: `reason`, the reason of the end, and `check(total)`, which is called with U(N) - U(0)
before the first round and raises an error if the rule can never be met.
"""


@dataclass(frozen=True)
class MaxSeconds:
    """Stop after the first round that ends later than this many seconds."""

    seconds: float

    reason: ClassVar[Reason] = Reason.TIME

    def __call__(self, progress: Progress) -> str | None:
        """Return why to stop, or None to go on."""
        return f"max_seconds of {self.seconds:g} passed" if progress.seconds >= self.seconds else None


@dataclass(frozen=True)
class StandardError:
    """Stop when every group's standard error is at most `target`, in units of the utility."""

    target: float

    name: ClassVar[str] = "a standard error"

    def __call__(self, progress: Progress) -> str | None:
        """Return why to stop, or None to go on."""
        return f"every standard error is at most {self.target:g}" if self.ratio(progress.valuation) <= 1 else None

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest standard error over the target."""
        return float(np.max(valuation.stderr)) / self.target


@dataclass(frozen=True)
class Precision:
    """Stop when every group's share is known to within `target`."""

    target: float
    confidence: float = 0.95

    name: ClassVar[str] = "a precision"

    def check(self, total: Floats) -> None:
        """Raise an error if there is nothing to share."""
        positive_total(total)

    def __call__(self, progress: Progress) -> str | None:
        """Return why to stop, or None to go on."""
        if not self.ratio(progress.valuation) <= 1:  # an unknown error meets no target
            return None
        return f"every share is within {self.target:g} at {self.confidence:.0%} confidence"

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest half-width of a share over the target."""
        low_high = valuation.share_interval(self.confidence)
        return float(np.max(low_high[..., 1] - low_high[..., 0])) / 2 / self.target


def rules_of(settings: RunSettings, own: Rule | Sequence[Rule] | None = None) -> tuple[Rule, ...]:
    """Return the rules in the settings of a run, and the user's own."""
    rules: list[Rule] = []
    if settings.max_seconds is not None:
        rules.append(MaxSeconds(settings.max_seconds))
    if settings.stderr is not None:
        rules.append(StandardError(settings.stderr))
    if settings.precision is not None:
        rules.append(Precision(settings.precision, settings.confidence))
    return (*rules, *own_rules(own))


def own_rules(stop: Rule | Sequence[Rule] | None) -> tuple[Rule, ...]:
    """Return the rules that `stop=` gives: one callable, or several."""
    rules = () if stop is None else tuple(stop) if isinstance(stop, Sequence) else (stop,)
    for rule in rules:
        if not callable(rule):
            raise TypeError(f"stop must be one or more callables from progress to text or None; got {rule!r}")
    return rules


def met(rules: Iterable[Rule], progress: Progress) -> End | None:
    """Return the end of a run if any rules are met, or None to go on."""
    found = [
        (getattr(rule, "reason", Reason.TARGET), str(words))
        for rule in rules
        if (words := rule(progress)) is not None
    ]
    if not found:
        return None
    reasons = [reason for reason, _ in found]
    return End(
        Reason.TARGET if Reason.TARGET in reasons else reasons[0],
        "; ".join(words for _, words in found),
    )


def unreached(rules: Iterable[Rule], valuation: Valuation) -> list[str]:
    """Estimate the evaluations for each missed target: errors fall with the square root of the evaluations."""
    notes = []
    for rule in rules:
        if not isinstance(rule, StandardError | Precision):
            continue
        ratio = rule.ratio(valuation)
        if 1 < ratio < np.inf:
            needed = float(f"{valuation.n_evaluations * ratio**2:.2g}")
            n = valuation.partition.n_players
            count = f"all {2**n:,}" if np.log2(needed) > n else f"about {needed:,.0f}"
            notes.append(f"{rule.name} of {rule.target:g} would take {count} evaluations")
    return notes
