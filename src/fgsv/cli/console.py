"""What the command line shows: tables, a plan and a progress bar."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from fgsv.payout import Payout
from fgsv.planning import PILOT, PILOT_SECONDS, Plan
from fgsv.report.folder import INTERRUPTED, spent_by, table_of, warnings_of
from fgsv.running.run import DEFAULT_BUDGET, iterate
from fgsv.valuation import Valuation

HEADERS = {"stderr": "± stderr", "half_width": "± share"}
HEADERS |= {"gsv_share": "GSV share", "gsv_half_width": "± GSV", "way": "best split", "parts": "into"}
SHARES = {"share", "half_width", "gsv_share", "gsv_half_width", "gain", "share_a", "share_b", "difference"}
COUNTS = {"points", "evaluations", "parts"}
WIDE = 160


def show(frame: pd.DataFrame, title: str | None = None) -> None:
    """Print a table; text is shown as it is, without markup or control characters.

    A pair of columns NAME_low and NAME_high becomes one, "from ... to"; nothing but names is ever cut short.
    """
    table = RichTable(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    shown = [name for name in frame.columns if not name.endswith("_high")]
    for number, name in enumerate(shown):
        table.add_column(
            HEADERS.get(name, name.replace("_low", ", from ... to") if name.endswith("_low") else name),
            justify="left" if number == 0 else "right",
            no_wrap=number > 0,
            overflow="fold",
        )
    for row in frame.to_dict("records"):
        table.add_row(*(Text(_cell(name, row)) for name in shown))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE  # a file or a pipe has no width to fit into
    if title is not None:
        console.print(Text(printable(title), style="italic"))
    console.print(table)


def say(words: str) -> None:
    """Print a line for people, beside the results."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(printable(words)))


def say_all(lines: Iterable[str]) -> None:
    """Print lines for people, beside the results."""
    for words in lines:
        say(words)


def show_results(valuations: Mapping[str, Valuation], payout: Payout | None, confidence: float) -> None:
    """Print the tables of a run: values, payments and, where there was one, the audit."""
    first = next(iter(valuations.values()))
    for column, valuation in valuations.items():
        frame = table_of(valuation, payout if valuation is first else None, confidence)
        show(frame.rename(columns={"group": column}))
    found = first.info.get("audit")
    if found is not None:
        attacks = pd.DataFrame(found["attacks"])
        best = attacks.loc[attacks.groupby("group", sort=False)["gain_low"].idxmax()]  # not the luckiest
        title = "faithful shares, the usual group values (GSV), and what the best split found earns under GSV"
        show(pd.DataFrame(found["gsv"]).merge(best, on="group", how="left"), f"{title}; under FGSV nothing")
        say(spent_by(found))
        for table in found["tables"]:
            say_all(table["words"])
            if table["rows"]:
                show(pd.DataFrame(table["rows"], columns=table["columns"]), table["title"])
    say_all(f"mind: {warning}" for warning in warnings_of(first))
    say(f"{first.n_evaluations:,} evaluations; {first.stopped}")
    say_all(() if payout is None else payout.notes)


def printable(words: Any) -> str:
    """Return text without the characters that move a terminal's cursor or change its colours."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", str(words))


def duration(seconds: float) -> str:
    """Return seconds as people say them.

    >>> duration(42.2), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    return f"{seconds / 60:.3g} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"


def run(
    game: Any,
    groups: Any,
    *,
    budget: int | None = None,
    precision: float | None = None,
    max_seconds: float | None = None,
    confidence: float = 0.95,
    quiet: bool = False,
    shown_as: Callable[[Valuation], Valuation] = lambda valuation: valuation,
    **options: Any,
) -> Valuation:
    """Value a game with the plan first and a progress bar; Ctrl-C ends it with what there is.

    The pilot of the plan is the first part of the run itself, so the plan costs nothing. `shown_as` makes of the
    game's valuation the one whose shares are spoken of.
    """
    rounds = iterate(
        game, groups, budget=budget, precision=precision, max_seconds=max_seconds, confidence=confidence, **options
    )
    pilot = PILOT if budget is None else min(PILOT, budget // 4)
    history: list[tuple[int, float]] = []
    start = time.monotonic()
    valuation: Valuation | None = None
    plan: Plan | None = None
    planned = False
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of about {task.total:,.0f} evaluations"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet,
    )
    with bar, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        task = bar.add_task("pilot", total=budget or pilot)
        try:
            for valuation in rounds:
                seconds = time.monotonic() - start
                shown = shown_as(valuation)
                half_width = _half_width(shown, confidence)
                history.append((valuation.n_evaluations, half_width))
                if not planned and (valuation.n_evaluations >= pilot or seconds > PILOT_SECONDS):
                    plan, planned = _plan(shown, seconds, confidence), True
                    if not quiet:
                        bar.console.print(Text(describe(plan, budget, precision, max_seconds)), soft_wrap=True)
                total = expected(plan, budget, precision, max_seconds) or valuation.n_evaluations
                words = f"widest share ± {half_width:.2%}" if math.isfinite(half_width) else "no shares"
                bar.update(task, description=words, completed=valuation.n_evaluations, total=total)
        except KeyboardInterrupt:
            if valuation is None:
                raise
            valuation = replace(valuation, stopped=INTERRUPTED)
    if not quiet:
        say_all(dict.fromkeys(f"warning: {str(each.message).splitlines()[0]}" for each in warned))
    assert valuation is not None
    return replace(valuation, info=valuation.info | {"history": [list(point) for point in _thinned(history)]})


def expected(plan: Plan | None, budget: int | None, precision: float | None, max_seconds: float | None) -> int | None:
    """Return how many evaluations a run will take, by the first of its limits; None where nothing is known."""
    limits = [] if budget is None else [budget]
    if plan is not None and precision is not None:
        limits.append(plan.evaluations_for(precision))
    if plan is not None and max_seconds is not None and plan.seconds > 0:
        limits.append(int(plan.n_evaluations * max_seconds / plan.seconds))
    return min(limits, default=None)


def describe(plan: Plan | None, budget: int | None, precision: float | None, max_seconds: float | None) -> str:
    """Say in one line what a run will cost and give."""
    if plan is None:
        return "plan: U(N) - U(0) is not positive, so there are no shares; values only"
    target = expected(plan, budget, precision, max_seconds) or DEFAULT_BUDGET
    return (
        f"plan: about {target:,} evaluations, {duration(plan.seconds_for(target))}, every share within "
        f"about {plan.half_width_after(target):.2%} at {plan.confidence:.0%} confidence "
        f"(pilot: {plan.n_evaluations:,} in {duration(plan.seconds)})"
    )


def _plan(valuation: Valuation, seconds: float, confidence: float) -> Plan | None:
    try:
        return Plan.of(valuation, seconds, confidence)
    except ValueError:
        return None


def _half_width(valuation: Valuation, confidence: float) -> float:
    plan = _plan(valuation, 0.0, confidence)
    return math.nan if plan is None else plan.half_width


def _thinned(history: list[tuple[int, float]]) -> Iterator[tuple[int, float | None]]:
    """Yield at most about a hundred points of the history, the last one among them; JSON has no NaN."""
    step = max(1, len(history) // 100)
    for number, (count, half_width) in enumerate(history):
        if number % step == 0 or number == len(history) - 1:
            yield count, half_width if math.isfinite(half_width) else None


def _cell(name: Hashable, row: dict[Hashable, Any]) -> str:
    """Return what stands in a cell of a row."""
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
    if name == "gsv_half_width" and cell == 0:
        return "exact"
    if isinstance(cell, float):
        return f"{cell:.2%}" if name in SHARES else f"{cell:.4g}"
    return printable(cell)
