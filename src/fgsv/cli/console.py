"""Terminal output: tables, the plan and a progress bar."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

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
from fgsv.words import duration, level, percent, printable, significant, some

HEADERS = {"minutes": "time", "half_width": "± share", "test_rows": "± test rows"}
OF_OUTPUT = "half_width_"
"""Begins the columns of a plan with several metrics."""
WIDE = 160
EXIT_REFUSED = 3
"""Exit code of a command whose payout was refused; everything else was done."""
MOST_ROWS = 1000
"""A longer table is printed as plain lines."""
LONG = 30
"""Cells of more characters are text, which wraps."""


def show(table: pd.DataFrame | Section, title: str | None = None) -> None:
    """Print a table; text is shown literally, without markup or control characters.

    Names and sentences are wrapped between words, numbers never: where they do not fit, the terminal breaks lines.
    """
    if isinstance(table, Section):
        title, header = table.title, list(map(printable, table.columns))
        rows = [list(map(printable, row)) for row in table.rows]
    else:
        header = [printable(_header(str(name))) for name in table.columns]
        rows = [[_cell(str(name), cell) for name, cell in row.items()] for row in table.to_dict("records")]
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE  # files and pipes have no width limit
    if title is not None:
        console.print(Text(printable(title), style="italic"))
    if len(rows) > MOST_ROWS:
        console.file.writelines(_aligned([header, *rows]))
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


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    """Yield lines of cells in columns; rich would take minutes for a hundred thousand of them."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        blanks = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [
            cell + blank if number == 0 else blank + cell
            for number, (cell, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        yield "  ".join(cells) + "\n"


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
def watching(limits: Limits, *, quiet: bool) -> Iterator[Watcher]:
    """Show a progress bar while a table is valued, then print each warning of its models once; or do neither."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        if quiet:
            yield Watcher()
            return
        with bar_of_evaluations() as bar:
            yield Bar(limits, bar)
    say(*dict.fromkeys(f"warning: {str(each.message).splitlines()[0]}" for each in warned))


class Bar(Watcher):
    """A watcher that prints the plan and moves a progress bar."""

    def __init__(self, limits: Limits, bar: Progress) -> None:
        self._limits, self._bar = limits, bar
        self._task = bar.add_task("pilot", total=limits.budget or PILOT)

    def measured(self, cost: FirstCost) -> None:
        """Print what the run starts from, and what it will cost where it takes a while."""
        if cost.start:
            self._print(printable(cost.start))
        if cost.is_worth_saying:
            self._print(str(cost))

    def planned(self, plan: Plan | None) -> None:
        """Print the plan."""
        self._print(describe(plan, self._limits))
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


def _header(name: str) -> str:
    """Return what a column of a plan or a ledger is called."""
    if name.startswith(OF_OUTPUT):
        return f"± share, {name.removeprefix(OF_OUTPUT)}"
    return HEADERS.get(name, name.replace("_", " "))


def _cell(name: str, cell: Any) -> str:
    """Return the text of a cell of a plan or a ledger."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if name == "minutes":
        return duration(60 * cell)
    if isinstance(cell, float) and name.startswith("half_width"):
        return f"{cell:.2%}"
    if isinstance(cell, (int, float)) and name in ("players", "evaluations"):
        return f"{cell:,.0f}"
    return significant(cell, 4) if isinstance(cell, float) else printable(cell)
