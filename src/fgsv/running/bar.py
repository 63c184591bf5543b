"""Bars that show a run: the one of `fgsv.value` is a stopping rule that never stops, and shows what it sees."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from fgsv.evaluation.evaluator import Evaluator
from fgsv.running.first_cost import FirstCost
from fgsv.running.stopping import MaxSeconds, Rule, evaluations_for, targets_in
from fgsv.types import Floats
from fgsv.valuation import RunSettings, Valuation, t_quantile
from fgsv.words import duration, percent

if TYPE_CHECKING:
    from rich import progress as rich_progress

    from fgsv.running.progress import Progress

PATIENCE = 1.0
"""Seconds before a bar appears: quick runs have none."""
EVERY = 0.5
"""Seconds between two looks at the valuation, which costs an estimate."""
EVERY_LINE = 30.0
"""The same where no bar can be drawn, as in the log of a batch job: each look prints a line."""


def is_shown(progress: bool | None) -> bool:
    """Say whether to show a bar: as asked, or else in a terminal or notebook, but not in pipes and tests."""
    if progress is not None:
        if not isinstance(progress, bool | np.bool_):
            raise TypeError(f"progress must be True, False or None, got {progress!r:.200}")
        return bool(progress)
    watched = sys.stderr is not None and sys.stderr.isatty()
    return (watched or "ipykernel" in sys.modules) and "PYTEST_CURRENT_TEST" not in os.environ


def bar_of_evaluations() -> rich_progress.Progress:
    """Return a bar that shows evaluations done and expected; it is drawn on stderr and leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of about {task.total:,.0f} evaluations"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class Bar:
    """Shows evaluations, the widest interval, busy workers and the time left; it has no say in when a run stops."""

    def __init__(self, rules: tuple[Rule, ...], settings: RunSettings, evaluator: Evaluator) -> None:
        self._rules = rules
        self._settings = settings
        self._evaluator = evaluator
        self._bar: Any = None
        self._task: Any = None
        self._before = evaluator.meter
        self._next = 0.0

    def check(self, total: Floats) -> None:
        """Print the expected cost of a long run; this evaluates U(0) and U(N) and nothing else."""
        n_evaluations = None if self._rules else self._settings.budget
        seconds = (self._evaluator.meter - self._before).seconds
        cost = FirstCost(seconds, n_evaluations, self._evaluator.n_workers)
        if cost.is_worth_saying:
            self._start()
            self._bar.console.print(str(cost), soft_wrap=True)

    def __call__(self, progress: Progress) -> None:
        """Show the state of the run, if some time has passed since the last one."""
        now = time.monotonic()
        if progress.seconds < PATIENCE or now < self._next:
            return
        if self._bar is None:
            self._start()
        n = progress.n_evaluations
        total = expected(self._rules, self._settings.budget, progress)
        words = widest(progress.valuation, self._settings.confidence)
        words += f", {pace(self._evaluator, n, progress.seconds)}"
        self._bar.update(self._task, description=words, completed=n, total=total)
        console = self._bar.console
        every = EVERY
        if not (console.is_terminal or console.is_jupyter):
            left = duration((total - n) * progress.seconds / n)
            console.print(f"{n:,} of about {total:,} evaluations, {words}, {left} left", soft_wrap=True)
            every = EVERY_LINE
        self._next = now + max(every, 10 * (time.monotonic() - now))  # never more than a tenth of the time

    def _start(self) -> None:
        self._bar = bar_of_evaluations()
        self._task = self._bar.add_task("", total=self._settings.budget)
        self._bar.start()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def pace(evaluator: Evaluator, n_evaluations: int, seconds: float) -> str:
    """Return in words how fast a run is: evaluations a second, and how many of its workers are busy.

    Args:
        evaluator: The evaluator of the run.
        n_evaluations: Evaluations so far.
        seconds: Seconds since the run began.

    Returns:
        Such as "2.1 evaluations a second, 3 of 4 workers busy"; without the second part if there is one worker.

    """
    words = f"{n_evaluations / max(seconds, 1e-9):.2g} evaluations a second"
    n_workers = evaluator.n_workers
    return words if n_workers == 1 else f"{words}, {evaluator.n_busy} of {n_workers} workers busy"


def widest(valuation: Valuation, confidence: float) -> str:
    """Return the half-width of the widest share in words, or of the widest value if there are no shares."""
    half_width = valuation.stderr * float(t_quantile(confidence, valuation.degrees_of_freedom))
    if np.all(valuation.total > 0):
        return f"widest share ± {percent(float(np.max(half_width / valuation.total)))}"
    return f"widest value ± {np.max(half_width):.3g}"


def expected(rules: tuple[Rule, ...], budget: int, progress: Progress) -> int:
    """Return about how many evaluations a run will take in total, from its rules and its pace so far.

    Args:
        rules: The rules that may end the run.
        budget: Its budget.
        progress: Its state.

    Returns:
        The smallest of what the rules and the budget allow, and no less than there are.

    """
    done = progress.n_evaluations
    counts = [float(budget)]
    counts += [done * rule.seconds / progress.seconds for rule in rules if isinstance(rule, MaxSeconds)]
    counts += [evaluations_for(rule, progress.valuation) for rule in targets_in(rules)]
    return max(done, int(np.nanmin(counts)))
