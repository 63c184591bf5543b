"""The report: one HTML file that opens offline, with charts, a what-if panel and how to reproduce the result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import fgsv
from fgsv.audit.auditing import SPLITS
from fgsv.files import write_whole
from fgsv.packages import optional
from fgsv.report.charts import convergence_chart, gains_chart, most_groups, share_chart
from fgsv.report.panel import Panel, panel_of
from fgsv.report.sections import (
    FAILED,
    MOST_ON_A_PAGE,
    REFUSED,
    RUN,
    VALUES,
    VERDICT,
    WARNING,
    appendix,
    for_lawyer,
    for_manager,
    largest_first,
)
from fgsv.results.result import Result, as_result
from fgsv.valuation import Valuation
from fgsv.valuation.display import Section
from fgsv.words import counted, level, now

TURNING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\N{REPLACEMENT CHARACTER}")
"""Characters that change the direction of the text after them, and their replacements."""


def render(
    result: Result | Valuation,
    *,
    others: Mapping[str, Valuation] | None = None,
    aggregate_only: bool = False,
    confidence: float | None = None,
    title: str | None = None,
) -> str:
    """Return the report of a result, or of a bare valuation, as one HTML page without external links.

    Args:
        result: A result, or a valuation.
        others: Valuations of the same players under other groupings, by name.
        aggregate_only: Leave the values of single players out of the report. In Python too, the what-if panel then
            moves whole groups only, for a page that competitors will read.
        confidence: Level of all intervals. Default: the result's.
        title: Title of the page. Default: the name of the file that was valued.

    Returns:
        The page, as HTML.

    Raises:
        TypeError: This is no result.

    """
    result = as_result(result, others)
    if confidence is not None:
        result = replace(result, confidence=confidence)
    if aggregate_only:
        result = replace(result, highlights=None, facts={})
    return str(_template().render(_contents(result, aggregate_only, title)))


@cache
def _template() -> Any:
    jinja2 = optional("jinja2", "reports", "report")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined, finalize=_in_order
    )
    return environment.from_string(_asset("report.html.j2"))


def _in_order(part: Any) -> Any:
    """Return text without direction marks: in a name, they would reverse the amounts after it."""
    return part if hasattr(part, "__html__") else str(part).translate(TURNING)


def _contents(result: Result, aggregate_only: bool, title: str | None) -> dict[str, Any]:
    """Return the template's variables."""
    valuation, confidence = result.valuation, result.confidence
    panel = None
    if np.all(valuation.total > 0):
        panel = panel_of(valuation, confidence, aggregate_only=aggregate_only, payout=result.payout)
    charts = _charts(result, confidence, panel)
    first, second, rest = (
        [each.for_competitors() if aggregate_only else each for each in part(result)]
        for part in (for_manager, for_lawyer, appendix)
    )
    drawn = most_groups(len(valuation.outputs or ("",)))
    of_data = f"What the data of {counted(len(valuation), 'provider')} is worth"
    return {
        "version": fgsv.__version__,
        "title": title or (of_data if result.account is None else result.account.title),
        "made": _made(result),
        "decision": result.verdict.decision,
        "many": len(valuation) > MOST_ON_A_PAGE,
        "first": first,
        "second": second,
        "rest": [*(each for each in rest if not each.technical), *(each for each in rest if each.technical)],
        "verdict_title": VERDICT,
        "warning_title": WARNING,
        "alarms": (REFUSED, FAILED),
        "n_warnings": sum(len(each.words) for each in second if each.title == WARNING),
        "chart_of": _places(charts, first, rest),
        "not_all_drawn": drawn if len(valuation) > drawn else None,
        "confidence": level(confidence),
        "group_name": next(iter(result.groupings)),
        "outputs": valuation.outputs or ("",),
        "whatif": None if panel is None else _json(panel.data),
        "whatif_words": "" if panel is None else panel.words,
        "has_players": panel is not None and panel.has_players,
        "currency": None if panel is None or panel.data["money"] is None else panel.data["money"]["currency"],
        "css": _asset("report.css"),
        "bundle": _bundle(),
        "charts": _json(charts),
        "tables_script": _asset("tables.js"),
        "whatif_script": _asset("whatif.js"),
    }


def _places(charts: Mapping[str, Any], first: list[Section], rest: list[Section]) -> dict[str, str]:
    """Return the titles of the sections that have a chart: title -> chart."""
    tables = [each for each in first if each.rows]
    if len(tables[0].rows) > MOST_ON_A_PAGE:
        tables = [each for each in (*first, *rest) if each.title.startswith(VALUES)]
    named = {"gains": SPLITS, "convergence": RUN, "shares": tables[0].title}
    return {title: name for name, title in named.items() if name in charts}


def _asset(name: str) -> str:
    return files("fgsv.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script: made in seconds, then kept in the user's cache folder."""
    vl_convert = optional("vl_convert", "reports", "report")
    name = f"vega-{vl_convert.__version__}.js"
    with suppress(OSError, RuntimeError, UnicodeError):
        return (_cache_folder() / name).read_bytes().decode()
    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
    with suppress(OSError, RuntimeError):  # no home, or none to write in: it is made again next time
        _cache_folder().mkdir(parents=True, exist_ok=True)
        write_whole(_cache_folder() / name, script)
    return script


def _cache_folder() -> Path:
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or "~/.cache").expanduser() / "fgsv"
    )


def _json(document: Any) -> str:
    """Return JSON that is safe inside a script element, whatever names it contains, which read as in the tables."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=False).translate(TURNING)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _charts(result: Result, confidence: float, panel: Panel | None) -> dict[str, Any]:
    charts: dict[str, Any] = {}
    valuation = result.valuation
    if np.all(valuation.total > 0):
        frame = largest_first(valuation.to_frame(confidence))
        frame["group"] = frame["group"].astype(str)
        charts["shares"] = share_chart(frame)
        if panel is not None:
            if "output" in frame:  # the panel shows the first one first
                frame = frame[frame["output"] == frame["output"].iloc[0]].drop(columns="output")
            charts["whatif"] = share_chart(frame, name="rows")
    history = [[point.n_evaluations, point.half_width] for point in result.history if point.half_width]
    if len(history) > 1:
        charts["convergence"] = convergence_chart(history)
    if result.audit is not None and len(result.audit.attacks):
        charts["gains"] = gains_chart(result.audit.attacks.to_dict("records"))
    return charts


def _made(result: Result) -> str:
    """Return when a result was made; if it does not say, now."""
    made = now() if result.made is None else result.made
    return f"Made on {made.replace('T', ', ').replace('Z', ' UTC')}, with fgsv {fgsv.__version__}."
