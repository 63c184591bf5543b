"""Stopping rules: callables from a run's progress to why to stop, or None; targets say how small errors must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fgsv.types import Floats
from fgsv.valuation import End, Reason, RunSettings, Valuation, positive_total
from fgsv.words import level, roughly

if TYPE_CHECKING:
    from fgsv.running.progress import Progress

LOOKS = 1.2
"""Targets are checked whenever the evaluations have grown by this factor: checking after every round would mean
waiting for an error that happens to be small."""
FEWEST_DRAWS = 64
"""Draws before which no error is known well enough to stop at."""
FEWEST_FREEDOM = 8
"""Degrees of freedom of an error that is taken as it is. With only d of them, either the error must be (8/d)^2 times
smaller than the target, or the evaluations (8/d)^2 times the fewest."""
RULE_OF_THREE = 3.0
"""An event that none of m draws has shown has a probability of at most 3/m, at 95% confidence."""
NOTHING_VARIED = 20_000
"""Before this many evaluations an error of exactly zero meets no target, unless every coalition is evaluated."""


Rule = Callable[["Progress"], str | None]
"""Return after a round why to stop, or None to go on.

A rule may have two attributes: `reason`, the reason of the end, and `check(total)`, which is called with U(N) - U(0)
before the first round and raises an error if the rule can never be met.
"""


@dataclass(frozen=True)
class MaxSeconds:
    """Stop after the first round that ends later than this many seconds."""

    seconds: float

    reason: ClassVar[Reason] = Reason.TIME

    def __str__(self) -> str:
        return f"{self.seconds:g} seconds"

    def __call__(self, progress: Progress) -> str | None:
        """Return why to stop, or None to go on."""
        return f"time limit of {self.seconds:g} s reached" if progress.seconds >= self.seconds else None


def own_rules(stop: Rule | Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that `stop=` gives: one callable, or several."""
    rules = tuple(stop) if isinstance(stop, Sequence) else (stop,)
    for rule in rules:
        if not callable(rule):
            raise TypeError(f"stop must be one or more callables from progress to text or None; got {rule!r}")
    return rules


def _words(rule: Rule, answer: object) -> str | None:
    """Return a rule's answer as text, or None to go on; a rule may also answer with True or False."""
    if answer is None or (isinstance(answer, bool | np.bool_) and not answer):
        return None
    name = getattr(rule, "__name__", type(rule).__name__)
    if isinstance(answer, bool | np.bool_):
        return f"the rule {name} is met"
    if not isinstance(answer, str) or not answer.strip():  # an empty reason may mean either
        raise TypeError(f"the rule {name} must return text or True to stop, None or False to go on; got {answer!r}")
    return answer


def met(rules: Iterable[Rule], progress: Progress) -> End | None:
    """Return the end of a run if any rules are met, or None to go on."""
    found = [
        (getattr(rule, "reason", Reason.TARGET), words)
        for rule in rules
        if (words := _words(rule, rule(progress))) is not None
    ]
    if not found:
        return None
    reasons = [reason for reason, _ in found]
    return End(
        Reason.TARGET if Reason.TARGET in reasons else reasons[0],
        "; ".join(words for _, words in found),
    )


def fewest_evaluations(valuation: Valuation, width: float) -> float:
    """Return the evaluations before which a half-width of this share of the total cannot be known.

    Errors reflect only what was drawn. A share may be off by what was not drawn, so 3/m must be within the target as
    well.
    """
    one_group = valuation.efficient and valuation.partition.n_groups == 1  # its value is U(N) - U(0)
    if valuation.exact or one_group:
        return 0
    if not valuation.stderr.any():
        return NOTHING_VARIED
    return 2 + max(FEWEST_DRAWS, np.ceil(RULE_OF_THREE / width))


@dataclass(frozen=True)
class StandardError:
    """Stop when every group's standard error is at most `target`, in units of the utility."""

    target: float
    weights: tuple[float, ...] | None = None
    """Of the outputs whose sum it is about; None for every output."""

    name: ClassVar[str] = "a standard error"

    def __str__(self) -> str:
        return f"every standard error at most {self.target:g}"

    def __call__(self, progress: Progress) -> str | None:
        """Return why to stop, or None to go on."""
        return f"every standard error is at most {self.target:g}" if _is_met(self, progress) else None

    def widths(self, valuation: Valuation) -> Floats:
        """Return the standard errors."""
        return valuation.stderr

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest standard error over the target."""
        return float(np.max(self.widths(valuation))) / self.target

    def fewest(self, valuation: Valuation) -> float:
        """Return the evaluations before which the target cannot be met."""
        total = float(np.max(np.abs(valuation.total)))
        return fewest_evaluations(valuation, 2 * self.target / total if total > 0 else np.inf)


@dataclass(frozen=True)
class Precision:
    """Stop when the Monte Carlo error of every group's share is within `target`; test rows and seeds do not count."""

    target: float
    confidence: float = 0.95
    weights: tuple[float, ...] | None = None
    """Of the outputs whose sum it is about; None for every output."""

    name: ClassVar[str] = "a precision"

    def __str__(self) -> str:
        return f"every share within {self.target:g} at {level(self.confidence)} confidence"

    def check(self, total: Floats) -> None:
        """Raise an error if there is nothing to share."""
        positive_total(total if self.weights is None else np.asarray(total @ np.array(self.weights)))

    def __call__(self, progress: Progress) -> str | None:
        """Return why to stop, or None to go on."""
        met = _is_met(self, progress)
        return f"every share is within {self.target:g} at {level(self.confidence)} confidence" if met else None

    def widths(self, valuation: Valuation) -> Floats:
        """Return the widths of the shares' intervals by the Monte Carlo error, which evaluations narrow."""
        return 2 * valuation.sampling_half_width(self.confidence)

    def ratio(self, valuation: Valuation) -> float:
        """Return the largest half-width of a share over the target."""
        return float(np.max(self.widths(valuation))) / 2 / self.target

    def fewest(self, valuation: Valuation) -> float:
        """Return the evaluations before which the target cannot be met."""
        return fewest_evaluations(valuation, self.target)


Target = StandardError | Precision
"""A rule about errors."""


def is_look(progress: Progress) -> bool:
    """Say whether targets are checked after this round."""
    return progress.n_evaluations >= LOOKS * progress.last_look


def _aimed_at(rule: Target, valuation: Valuation) -> Valuation:
    """Return the valuation that a target is about."""
    return valuation if rule.weights is None else valuation.combined(rule.weights)


def _is_met(rule: Target, progress: Progress) -> bool:
    return is_look(progress) and _holds(rule, progress.valuation)


def _holds(rule: Target, valuation: Valuation) -> bool:
    """Say whether the errors are within a target; an unknown one, which is NaN, is within none."""
    valuation = _aimed_at(rule, valuation)
    fewest = rule.fewest(valuation)
    trust = (min(valuation.degrees_of_freedom, FEWEST_FREEDOM) / FEWEST_FREEDOM) ** 2 if fewest else 1.0
    ratio = rule.ratio(valuation)
    n_evaluations = valuation.n_evaluations + valuation.n_known
    return (ratio <= trust and n_evaluations >= fewest) or (ratio <= 1 and trust * n_evaluations >= fewest)


def rules_of(settings: RunSettings, own: tuple[Rule, ...] = ()) -> tuple[Rule, ...]:
    """Return the rules in the settings of a run, and the user's own."""
    rules: list[Rule] = []
    if settings.max_seconds is not None:
        rules.append(MaxSeconds(settings.max_seconds))
    if settings.stderr is not None:
        rules.append(StandardError(settings.stderr, settings.weights))
    if settings.precision is not None:
        rules.append(Precision(settings.precision, settings.confidence, settings.weights))
    return (*rules, *own)


def evaluations_for(rule: Target, valuation: Valuation) -> float:
    """Estimate the evaluations that a target takes: errors fall with the square root of the evaluations."""
    found = _aimed_at(rule, valuation)
    ratio = rule.ratio(found)
    return max(found.n_evaluations * ratio * ratio, rule.fewest(found))  # infinite, where a power would be an error


def unreached(rules: Iterable[Rule], valuation: Valuation) -> list[str]:
    """Return a note for each missed target: about how many evaluations it would take, if that can be said."""
    notes = []
    for rule in targets_in(rules):
        needed = evaluations_for(rule, valuation)
        if not np.isnan(needed) and not _holds(rule, valuation):
            n = valuation.partition.n_players
            aim = f"{rule.name} of {rule.target:g} would take"
            made = valuation.n_evaluations + valuation.n_known
            if needed <= made:  # the error has too few degrees of freedom
                notes.append(f"{aim} more evaluations: errors are known only roughly so far")
                continue
            count = f"about {roughly(needed, more_than=made):,.0f}" if np.isfinite(needed) else "over 1e308"
            if n < min(np.log2(needed), 1024):
                count = f"all {2**n:,}"
            notes.append(f"{aim} {count} evaluations")
    return notes


def targets_in(rules: Iterable[Rule]) -> list[Target]:
    """Return the rules that are about errors."""
    return [rule for rule in rules if isinstance(rule, Target)]
