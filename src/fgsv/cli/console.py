"""Terminal output: tables, the plan and a progress bar."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as RichTable
from rich.text import Text

from fgsv.cli.printing import say
from fgsv.packages import how_to_install
from fgsv.payout import PayoutRefused
from fgsv.planning import Limits, Plan, Watcher
from fgsv.report.sections import FAILED, REFUSED, shown
from fgsv.results.result import Result
from fgsv.running.bar import bar_of_evaluations
from fgsv.running.first_cost import PILOT, FirstCost
from fgsv.running.preparation import DEFAULT_BUDGET
from fgsv.valuation import Valuation
from fgsv.valuation.display import Section
from fgsv.words import duration, level, percent, printable, some

WIDE = 160
EXIT_REFUSED = 3
"""Exit code of a command whose payout was refused; everything else was done."""
MOST_ROWS = 1000
"""A longer table is printed as plain lines."""
LONG = 30
"""Cells of more characters are text, which wraps."""


def show(section: Section) -> None:
    """Print a table; text is shown literally, without markup or control characters.

    Names and sentences are wrapped between words, numbers never: where they do not fit, the terminal breaks lines.
    """
    header = list(map(printable, section.columns))
    rows = [list(map(printable, row)) for row in section.rows]
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE  # files and pipes have no width limit
    console.print(Text(printable(section.title), style="italic"))
    if len(rows) > MOST_ROWS:
        # rich would take minutes for a hundred thousand rows
        console.file.write(pd.DataFrame(rows, columns=header).to_string(index=False) + "\n")
        return
    console.print(_drawn(header, rows, console))


def _drawn(header: list[str], rows: list[list[str]], console: Console) -> RichTable:
    """Return a table that fits the console, which is made wider where it would lose names or digits."""
    columns = list(zip(header, *rows, strict=True))
    wraps = [not number or max(map(cell_len, cells)) > LONG for number, cells in enumerate(columns)]
    least = [
        max(map(cell_len, " ".join(cells).split() if wrap else cells))
        for cells, wrap in zip(columns, wraps, strict=True)
    ]
    gaps = len(least) - 1
    tight = console.width < sum(least) + 3 * gaps + 2
    console.width = max(console.width, sum(least) + 2 * gaps)
    drawn = RichTable(
        header_style="bold", box=SIMPLE_HEAD, pad_edge=False, show_edge=not tight, collapse_padding=tight
    )
    for number, (words, width) in enumerate(zip(header, least, strict=True)):
        justify: Literal["left", "right"] = "left" if wraps[number] else "right"
        drawn.add_column(Text(words), justify=justify, no_wrap=not wraps[number], overflow="fold", min_width=width)
    for row in rows:
        drawn.add_row(*map(Text, row))
    return drawn


def show_sections(sections: Iterable[Section]) -> None:
    """Print the sentences of each section, then its table."""
    for section in sections:
        say(*section.lines)
        if section.rows:
            show(section)


def show_result(result: Result) -> None:
    """Print what a result says; why a payout was refused or a step failed is said last, by the command."""
    show_sections(each for each in shown(result) if each.title not in (REFUSED, FAILED))


def code_of_payout(unpaid: PayoutRefused | None, *, quiet: bool = False) -> int:
    """Return the exit code of a requested payout: 3 if it was refused; print why, unless JSON says it."""
    if unpaid is None:
        return 0
    if not quiet:
        say(f"refused: {unpaid}")
    return EXIT_REFUSED


@contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """Show a progress bar while a table is valued, then print each warning of its models once; or do neither."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        if quiet:
            yield Watcher()
            return
        with bar_of_evaluations() as bar:
            yield Bar(bar)
    say(*dict.fromkeys(f"warning: {str(each.message).splitlines()[0]}" for each in warned))


class Bar(Watcher):
    """A watcher that prints the plan and moves a progress bar."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("pilot", total=PILOT)

    def measured(self, cost: FirstCost) -> None:
        """Print what the run starts from, and what it will cost where it takes a while."""
        if cost.start:
            self._print(printable(cost.start))
        if cost.is_worth_saying:
            self._print(str(cost))

    def planned(self, plan: Plan | None, limits: Limits) -> None:
        """Print the plan."""
        self._print(describe(plan, limits))
        for words in () if plan is None else plan.foreseen:
            self._print(words)

    def after_round(self, valuation: Valuation, half_width: float, expected: int | None, pace: str) -> None:
        """Move the bar."""
        words = f"widest share ± {percent(half_width)}" if math.isfinite(half_width) else "no shares"
        done = valuation.n_evaluations
        self._bar.update(self._task, description=f"{words}, {pace}", completed=done, total=expected or done)

    def audit_begins(self, n_evaluations: int, seconds: float) -> None:
        """Print what the audit will cost, and restart the bar."""
        self._print(f"audit: at most {n_evaluations:,} more evaluations, about {duration(seconds)}")
        self._bar.reset(self._task, description="audit", total=n_evaluations)

    def audited(self, n_evaluations: int) -> None:
        """Move the bar."""
        self._bar.advance(self._task, n_evaluations)

    def _print(self, words: str) -> None:
        self._bar.console.print(Text(words), soft_wrap=True)


def describe(plan: Plan | None, limits: Limits) -> str:
    """Describe in one line what a run will cost and how precise it will be."""
    if plan is None:
        return "plan: U(N) - U(0) is not positive, so there are no shares; try another --metric"
    target = plan.expected(limits) or DEFAULT_BUDGET
    new = "new " if plan.n_known else ""
    return (
        f"plan: about {target:,} {new}evaluations, {duration(plan.seconds_for(target))}, by which every "
        f"share is within about {percent(plan.half_width_after(target))} at {level(plan.confidence)} confidence "
        f"(pilot: {plan.n_evaluations:,} in {duration(plan.seconds)})"
        f"{'; ' if plan.about_test_rows else ''}{plan.about_test_rows}"
    )


def say_written(folder: Path | None, result: Result) -> None:
    """Print which files of a result were written."""
    if folder is None:
        return
    say(f"written to {folder}: {some(path.name for path in result.files)}")
    if not result.errors and not any(path.suffix == ".html" for path in result.files):
        say(f"report.html was not written, because its packages are missing: {how_to_install('report')}")
