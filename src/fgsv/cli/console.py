"""Terminal output: tables, the plan and a progress bar."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as RichTable
from rich.text import Text

from fgsv.audit import Audit
from fgsv.packages import how_to_install
from fgsv.payout import Payout, PayoutRefused
from fgsv.planning import Limits, Plan, Watcher
from fgsv.results.result import Result, table_of
from fgsv.running.bar import bar_of_evaluations
from fgsv.running.first_cost import PILOT, FirstCost
from fgsv.running.preparation import DEFAULT_BUDGET
from fgsv.valuation import Valuation
from fgsv.words import duration, level, percent, printable, significant

HEADERS = {"stderr": "± stderr", "half_width": "± share", "without": "score without", "minutes": "time"}
HEADERS |= {"gsv_share": "GSV share", "gsv_half_width": "± GSV", "way": "best split", "parts": "into"}
HEADERS |= {"monte_carlo": "± run", "training_seeds": "± training seeds", "test_rows": "± test rows"}
SHARES = {"share", "share_a", "share_b", "gsv_share", "difference", "gain", "lowest", "highest", "rank_kept"}
SHARES |= {"half_width", "gsv_half_width", "monte_carlo", "training_seeds", "test_rows", "test"}
SHARES |= {"spread", "choice", "error"}
"""Columns that are shown in percent."""
OF_OUTPUT = "half_width_"
"""Begins the columns of a plan with several metrics."""
COUNTS = {"players", "evaluations", "parts"}
WIDE = 160
LEAST_NAME = 6
"""Cells to which names may be narrowed before a table is wider than the terminal."""
NEGATIVE = (
    "a negative value means that, averaged over all selections of the data, adding these players lowered the score. "
    "The column `score without` answers another question: how the model scores without them"
)
EXIT_REFUSED = 3
"""Exit code of a command whose payout was refused; everything else was done."""
MOST_ROWS = 1000
"""A longer table is printed as plain lines."""


def show(frame: pd.DataFrame, title: str | None = None, headers: Mapping[str, str] | None = None) -> None:
    """Print a table; text is shown literally, without markup or control characters.

    Columns NAME_low and NAME_high become one, "from ... to"; only names are wrapped, never numbers: where they do not
    fit, the terminal breaks the lines. `headers` are shown in place of columns' names.
    """
    names = [name for name in frame.columns if not name.endswith("_high")]
    own = {name: f"{name.removesuffix('_low')}, from ... to" for name in names if name.endswith("_low")}
    own |= {name: f"± share, {name.removeprefix(OF_OUTPUT)}" for name in names if name.startswith(OF_OUTPUT)}
    shown_as = own | HEADERS | dict(headers or {})
    header = [printable(shown_as.get(name, name.replace("_", " "))) for name in names]
    rows = [[_cell(name, row) for name in names] for row in frame.to_dict("records")]
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE  # files and pipes have no width limit
    if title is not None:
        console.print(Text(printable(title), style="italic"))
    if len(rows) > MOST_ROWS:
        console.file.writelines(_aligned([header, *rows]))
        return
    first, *others = _widths([header, *rows])
    gaps, least = len(others), min(first, LEAST_NAME) + sum(others)
    tight = console.width < least + 3 * gaps + 2
    console.width = max(console.width, least + 2 * gaps)  # rich would drop names and digits
    table = RichTable(
        header_style="bold", box=SIMPLE_HEAD, pad_edge=False, show_edge=not tight, collapse_padding=tight
    )
    for number, words in enumerate(header):
        justify: Literal["left", "right"] = "right" if number else "left"
        table.add_column(Text(words), justify=justify, no_wrap=number > 0, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    """Yield lines of cells in columns; rich would take minutes for a hundred thousand of them."""
    widths = _widths(rows)
    for row in rows:
        blanks = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [
            cell + blank if number == 0 else blank + cell
            for number, (cell, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        yield "  ".join(cells) + "\n"


def _widths(rows: list[list[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def say(words: str) -> None:
    """Print a line to stderr, so that stdout holds only results."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(printable(words)))


def say_all(lines: Iterable[str]) -> None:
    """Print lines to stderr, so that stdout holds only results."""
    for words in lines:
        say(words)


def show_result(result: Result) -> None:
    """Print the tables of a result: values, payments and the audit, if there was one."""
    valuation, payout, audit = result.valuation, result.payout, result.audit
    for column, each in result.groupings.items():
        frame = result.table() if each is valuation else table_of(each, None, result.confidence)
        show(frame, headers={"group": column})
    if payout is not None and valuation.outputs is not None:  # a payment is for all outputs: it has no place above
        show_payout(payout, next(iter(result.groupings)))
    say(f"verdict: {result.verdict}")
    if result.without is not None and (valuation.values < 0).any():
        say(NEGATIVE)
    show_errors(result)
    if audit is not None:
        show_audit(audit)
    if valuation.about_shares is not None:
        say(f"warning: {valuation.about_shares}")
    say_all(f"warning: {warning}" for warning in result.warnings)
    say(f"{valuation.about_evaluations}; {valuation.end}")
    if valuation.about_correction is not None:
        say(valuation.about_correction)
    if valuation.failures is not None:
        say(f"warning: {valuation.failures}")
    if valuation.about_unfitted is not None:
        say(valuation.about_unfitted)
    if payout is not None:
        if valuation.outputs is None:  # otherwise the table of payments says it
            say(f"paid: {payout.describe()}")
        say_payout(payout)


def code_of_payout(unpaid: PayoutRefused | None, *, quiet: bool = False) -> int:
    """Return the exit code of a requested payout: 3 if it was refused; print why, unless JSON says it."""
    if unpaid is None:
        return 0
    if not quiet:
        say(f"refused: {unpaid}")
    return EXIT_REFUSED


def show_payout(payout: Payout, group: str = "group") -> None:
    """Print the table of payments; with a floor or a cap, a part of the amount is not the share of the value."""
    show(payout.to_frame(), payout.describe(), {"group": group, "share": "share of the amount"})


def say_payout(payout: Payout) -> None:
    """Print what the reader of a payout should know."""
    say_all(payout.notes)
    say_all(f"warning: paid although {objection}" for objection in payout.objections)


def show_errors(result: Result) -> None:
    """Print the half-widths of each share by cause: the run, training seeds, and the choice of test rows."""
    valuation, frame = result.valuation, result.errors_of_shares()
    if not valuation.knows_test_rows:
        say(valuation.about_intervals)
    if frame is None:
        return
    causes = {"monte_carlo": "the run", "training_seeds": "training seeds", "test_rows": "the choice of test rows"}
    named = [words for name, words in causes.items() if name in frame]
    title = f"how far shares may be off at {level(result.confidence)} confidence, by {', by '.join(named)}"
    show(frame, title)


def show_audit(audit: Audit) -> None:
    """Print the tables of an audit."""
    attacks = audit.attacks
    # by the lower bound: the largest estimate may be luck
    best = attacks.sort_values("gain_low", ascending=False, kind="stable").drop_duplicates("group")
    title = "faithful shares, the usual group values (GSV), and the gain of the best split found under GSV"
    if len(audit.gsv):
        # of many providers only those that were measured: the report has the others
        how: Literal["left", "inner"] = "left" if audit.sample is None else "inner"
        show(audit.gsv.merge(best, on="group", how=how), f"{title}; under FGSV it gains nothing")
    say(audit.spent_in_words)
    for section in audit.tables:
        say_all(section.words)
        if section.rows:
            show(section.to_frame(), section.title)


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
    say_all(dict.fromkeys(f"warning: {str(each.message).splitlines()[0]}" for each in warned))


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

    def after_round(self, valuation: Valuation, half_width: float, expected: int | None) -> None:
        """Move the bar."""
        words = f"widest share ± {percent(half_width)}" if math.isfinite(half_width) else "no shares"
        done = valuation.n_evaluations
        self._bar.update(self._task, description=words, completed=done, total=expected or done)

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
    say(f"written to {folder}: {', '.join(path.name for path in result.files)}")
    if not result.errors and not any(path.suffix == ".html" for path in result.files):
        say(f"report.html was not written, because its packages are missing: {how_to_install('report')}")


def _cell(name: Hashable, row: dict[Hashable, Any]) -> str:
    """Return the text of one cell; a low and a high bound share one."""
    words = str(name)
    if words.endswith("_low"):
        stem = words.removesuffix("_low")
        low, high = (_number(stem, row[f"{stem}_{end}"]) for end in ("low", "high"))
        return f"{low} to {high}" if low else ""
    return _number(words, row[name])


def _number(name: str, cell: Any) -> str:
    if isinstance(cell, Decimal):
        return "" if cell.is_nan() else f"{cell:,}"
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, (int, float)) and name in COUNTS:
        return f"{cell:,.6g}" if cell % 1 else f"{cell:,.0f}"
    if name == "minutes":
        return duration(60 * cell)
    if name == "gsv_half_width" and cell == 0:
        return "exact"
    if isinstance(cell, float):
        return f"{cell:.2%}" if name in SHARES or name.startswith(OF_OUTPUT) else significant(cell, 4)
    return printable(cell)
