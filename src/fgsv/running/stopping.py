"""Stopping rules: callables that take a run's progress and return why to stop, or None to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

import fgsv
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


FEWEST_DRAWS = 64
"""Draws before which no error is known well enough to stop at."""
FEWEST_FREEDOM = 8
"""The same for the degrees of freedom of an error."""
RULE_OF_THREE = 3.0
"""What none of m draws has shown happens with a probability of at most 3/m, at 95% confidence."""
NOTHING_VARIED = 20_000
"""Evaluations before which an error of exactly zero, though not every coalition is evaluated, meets no target."""


def fewest_evaluations(valuation: Valuation, width: float) -> float:
    """Return the evaluations before which a half-width of this share of the total cannot be known.

    Errors reflect what was drawn. A share may be off by what was not, so 3/m is to be within the target as well.
    """
    one_group = valuation.efficient and valuation.partition.n_groups == 1  # its value is U(N) - U(0)
    if valuation.exact or one_group:
        return 0
    if not valuation.stderr.any():
        return NOTHING_VARIED
    if valuation.degrees_of_freedom < FEWEST_FREEDOM:
        return np.inf
    return 2 + max(FEWEST_DRAWS, np.ceil(RULE_OF_THREE / width))


@dataclass(frozen=True)
class StandardError:
    """Stop when every group's standard error is at most `target`, in units of the utility."""

    target: float

    name: ClassVar[str] = "a standard error"

    def __call__(self, progress: Progress) -> str | None:
        """Return why to stop, or None to go on."""
        return f"every standard error is at most {self.target:g}" if _is_met(self, progress.valuation) else None

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest standard error over the target."""
        return float(np.max(valuation.stderr)) / self.target

    def fewest(self, valuation: Valuation) -> float:
        """Return the evaluations before which the target cannot be met."""
        total = float(np.max(np.abs(valuation.total)))
        return fewest_evaluations(valuation, 2 * self.target / total if total > 0 else np.inf)


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
        met = _is_met(self, progress.valuation)
        return f"every share is within {self.target:g} at {self.confidence:.0%} confidence" if met else None

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest half-width of a share over the target."""
        low_high = valuation.share_interval(self.confidence)
        return float(np.max(low_high[..., 1] - low_high[..., 0])) / 2 / self.target

    def fewest(self, valuation: Valuation) -> float:
        """Return the evaluations before which the target cannot be met."""
        return fewest_evaluations(valuation, self.target)


def _is_met(rule: StandardError | Precision, valuation: Valuation) -> bool:
    """Say whether a target is met; an unknown error, which is NaN, meets none."""
    return rule.ratio(valuation) <= 1 and valuation.n_evaluations + valuation.n_known >= rule.fewest(valuation)


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
    for rule in _targets(rules):
        needed = max(valuation.n_evaluations * rule.ratio(valuation) ** 2, rule.fewest(valuation))
        if np.isfinite(needed) and not _is_met(rule, valuation):
            n = valuation.partition.n_players
            count = f"all {2**n:,}" if np.log2(needed) > n else f"about {float(f'{needed:.2g}'):,.0f}"
            notes.append(f"{rule.name} of {rule.target:g} would take {count} evaluations")
    return notes


def same_end(stated: Valuation, derived: Valuation) -> bool:
    """Say whether two runs ended alike: in the same words, or for the same reason if the versions differ."""
    settings = stated.settings
    if settings is not None and settings.version == fgsv.__version__:
        return stated.end == derived.end
    targets = [] if settings is None or stated.end.reason is not Reason.TARGET else _targets(rules_of(settings))
    if any(rule.ratio(derived) <= 1 for rule in targets):
        return True  # 0.1.0 stopped at the first error within a target
    return stated.end.reason is derived.end.reason


def _targets(rules: Iterable[Rule]) -> list[StandardError | Precision]:
    return [rule for rule in rules if isinstance(rule, StandardError | Precision)]
