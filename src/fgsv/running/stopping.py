"""Stopping rules: callables that take a run's progress and return why to stop, or None to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fgsv.valuation import End, Reason, Valuation


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
    def last_look(self) -> int:
        """Evaluations when targets were last looked at."""

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
        return f"time limit of {self.seconds:g} s reached" if progress.seconds >= self.seconds else None


def own_rules(stop: Rule | Sequence[Rule] | None) -> tuple[Rule, ...]:
    """Return the rules that `stop=` gives: one callable, or several."""
    rules = () if stop is None else tuple(stop) if isinstance(stop, Sequence) else (stop,)
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
