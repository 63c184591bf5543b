"""The cost of a run, estimated before it begins: U(N) is evaluated first, and timed."""

from __future__ import annotations

from dataclasses import dataclass

from fgsv.evaluation.evaluator import Evaluator
from fgsv.running.preparation import DEFAULT_BUDGET
from fgsv.valuation import Limits
from fgsv.words import duration

PILOT = 2048
"""If a run's number of evaluations is unknown, the time of this many is announced instead."""
WORTH_SAYING = 0.5
"""The cost of a run is announced if one evaluation takes at least this many seconds."""
LONG = 600.0
"""The cost of a run is announced if the run takes at least this many seconds."""
TOO_LONG = 3600.0
"""A cheaper way is suggested for runs of at least this many seconds."""


@dataclass(frozen=True)
class FirstCost:
    """What a run will cost, from the time that U(N) took.

    >>> print(FirstCost(10.0, 20_000, 2, "fewer test rows"))
    one evaluation of all the data takes about 10 s, this run of 20,000 about 14 h. Cheaper: fewer test rows
    >>> print(FirstCost(0.6, None))
    one evaluation of all the data takes about 0.6 s, the first 2,048 about 10.2 min
    """

    seconds_of_all: float
    """One evaluation of the coalition of all players."""
    n_evaluations: int | None
    """Evaluations of the run; None if it stops at a target."""
    n_workers: int = 1
    advice: str = ""
    """What would be cheaper, in words."""
    start: str = ""
    """What the run starts from, in words."""

    @property
    def seconds(self) -> float | None:
        """Expected seconds: a coalition has half of the players on average, and costs about half of what all do."""
        return None if self.n_evaluations is None else self.seconds_each * self.n_evaluations

    @property
    def seconds_each(self) -> float:
        """Expected seconds for each evaluation, with all workers."""
        return self.seconds_of_all / 2 / self.n_workers

    @property
    def is_worth_saying(self) -> bool:
        """Whether an evaluation, or the run, takes long enough for the user to be told."""
        return self.seconds_of_all >= WORTH_SAYING or self._seconds_said >= LONG

    @property
    def _seconds_said(self) -> float:
        return PILOT * self.seconds_each if self.seconds is None else self.seconds

    def __str__(self) -> str:
        seconds = self._seconds_said
        what = f"the first {PILOT:,}" if self.n_evaluations is None else f"this run of {self.n_evaluations:,}"
        one = f"one evaluation of all the data takes about {duration(self.seconds_of_all)}"
        cheaper = f". Cheaper: {self.advice}" if seconds >= TOO_LONG and self.advice else ""
        return f"{one}, {what} about {duration(seconds)}{cheaper}"


def first_cost(evaluator: Evaluator, limits: Limits, advice: str = "") -> FirstCost:
    """Evaluate U(0) and U(N), which every run does first and once, and return what the run will cost.

    Args:
        evaluator: The open evaluator of the run.
        limits: When the run ends.
        advice: What would be cheaper, in words.

    Returns:
        What the run will cost.

    """
    before = evaluator.meter
    evaluator.ends()
    seconds = (evaluator.meter - before).seconds
    default = None if limits.early else DEFAULT_BUDGET
    return FirstCost(seconds, limits.budget or default, evaluator.n_workers, advice)
