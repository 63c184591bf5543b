"""The report: one HTML file that opens offline, with its charts, a what-if panel and what it takes to check it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from fgsv.report.charts import convergence_chart, gains_chart, share_chart
from fgsv.report.folder import spent_by, warnings_of
from fgsv.report.panel import Panel, panel_of
from fgsv.valuation import Valuation

MOST_ROWS = 2000
"""Rows of a table; what is beyond stands in valuation.csv."""


def render(
    valuation: Valuation,
    *,
    others: Mapping[str, Valuation] | None = None,
    aggregate_only: bool = False,
    confidence: float | None = None,
    title: str | None = None,
) -> str:
    """Return the report of a valuation as one HTML page without links to anything outside it.

    `others` are valuations of the same players under other groupings. `aggregate_only` leaves the players' values
    out, for a page that is handed to competitors: then the what-if panel moves whole groups only.
    """
    try:
        from jinja2 import Environment, StrictUndefined, UndefinedError
    except ImportError:
        raise ImportError("the report needs jinja2 and altair: pip install 'fgsv[report]'") from None
    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    environment.filters["money"] = lambda text: f"{Decimal(text):,}"
    template = environment.from_string(_asset("report.html.j2"))
    try:
        return str(template.render(_contents(valuation, others or {}, aggregate_only, confidence, title)))
    except (KeyError, UndefinedError) as error:
        raise ValueError(f"the settings or info of this valuation lack a field: {error}; value it anew") from None


def _contents(
    valuation: Valuation,
    others: Mapping[str, Valuation],
    aggregate_only: bool,
    confidence: float | None,
    title: str | None,
) -> dict[str, Any]:
    """Return what the template asks for."""
    settings, info = valuation.settings, valuation.info
    confidence = confidence or settings.get("confidence", 0.95)
    payout, audit = info.get("payout"), info.get("audit")
    has_shares = bool(np.all(valuation.total > 0))
    panel = panel_of(valuation, confidence, aggregate_only=aggregate_only) if has_shares else None
    charts = _charts(valuation, confidence, panel, audit)
    return {
        "version": fgsv.__version__,
        "title": title or f"What the data of {valuation.partition.n_groups} providers is worth",
        "summary": _summary(valuation),
        "warnings": warnings_of(valuation),
        "confidence": f"{confidence:.0%}",
        "group_name": settings.get("columns", {}).get("group", ["group"])[0],
        "has_shares": has_shares,
        "rows": _rows(valuation, confidence),
        "others": [{"name": name, "rows": _rows(each, confidence)} for name, each in others.items()],
        "payout": payout,
        "test_error": _test_error(info.get("test_error")),
        "n_evaluations": f"{valuation.n_evaluations:,}",
        "stopped": f"The run ended because: {valuation.stopped}",
        "outputs": valuation.outputs or ("",),
        "whatif": None if panel is None else _json(panel.data),
        "whatif_words": "" if panel is None else panel.words,
        "has_players": panel is not None and panel.has_players,
        "audit": None if audit is None else _audit(audit),
        "has_history": "convergence" in charts,
        "failures": _failures(info),
        "notes": settings.get("notes", []),
        "facts": _facts(valuation),
        "css": _asset("report.css"),
        "bundle": _bundle(),
        "charts": _json(charts),
        "whatif_script": _asset("whatif.js"),
    }


def _asset(name: str) -> str:
    return files("fgsv.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    try:
        import vl_convert
    except ImportError:
        raise ImportError("the report needs vl-convert-python: pip install 'fgsv[report]'") from None
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")


def _json(document: Any) -> str:
    """Return JSON that can stand inside a script element whatever the names in it are."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _charts(
    valuation: Valuation, confidence: float, panel: Panel | None, audit: dict[str, Any] | None
) -> dict[str, Any]:
    charts: dict[str, Any] = {}
    if np.all(valuation.total > 0):
        frame = valuation.to_frame(confidence)
        frame["group"] = frame["group"].astype(str)
        charts["shares"] = share_chart(frame)
        if panel is not None:
            charts["whatif"] = share_chart(_first_output(frame), name="rows")
    history = [point for point in valuation.info.get("history", []) if point[1]]
    if len(history) > 1:
        charts["convergence"] = convergence_chart(history)
    if audit is not None and audit.get("attacks"):
        charts["gains"] = gains_chart(audit["attacks"])
    return charts


def _first_output(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first output, which is what the panel shows first."""
    return frame[frame["output"] == frame["output"].iloc[0]].drop(columns="output") if "output" in frame else frame


def _summary(valuation: Valuation) -> str:
    settings = valuation.settings
    players = f"{valuation.partition.n_players:,} points"
    what = f"{valuation.partition.n_groups} providers supplied {players}"
    if "file" in settings:
        what += f" ({settings['file']})"
    how = ""
    if "model" in settings:
        how = f" A model, {settings['model']}, was trained on many selections of them and scored by "
        how += f"{settings['metric']} on {settings['test_rows']:,} test rows."
    totals = ", ".join(f"{total:.4g}" for total in np.atleast_1d(valuation.total))
    ends = settings.get("ends")
    scores = f" (from {ends[0]:.4g} with nobody's to {ends[1]:.4g} with everybody's)" if ends else ""
    return f"{what}.{how} Together their data is worth {totals}{scores}; this page says who brought which part of it."


def _rows(valuation: Valuation, confidence: float) -> list[dict[str, Any]]:
    return [
        {
            "group": str(row["group"]),
            "output": row.get("output"),
            "points": f"{row['points']:,.6g}",
            "value": f"{row['value']:.4g}",
            "stderr": "unknown" if math.isnan(row["stderr"]) else f"{row['stderr']:.2g}",
            "share": _percent(row.get("share")),
            "low": _percent(row.get("share_low")),
            "high": _percent(row.get("share_high")),
            "negative": row["value"] < 0,
        }
        for row in valuation.to_frame(confidence).head(MOST_ROWS).to_dict("records")
    ]


def _test_error(found: dict[str, Any] | None) -> dict[str, Any] | None:
    if found is None or not found["rows"]:
        return None
    names = ("share", "monte_carlo", "test")
    rows = [row | {name: _percent(row[name]) for name in names} for row in found["rows"]]
    return found | {"rows": rows}


def _audit(audit: dict[str, Any]) -> dict[str, Any]:
    """Return the audit as sections of words and tables."""
    sections: list[dict[str, Any]] = []
    if audit.get("gsv"):
        rows = [
            [r["group"], _percent(r["share"]), _percent(r["gsv_share"]), _error(r["gsv_half_width"])]
            for r in audit["gsv"]
        ]
        sections.append(
            {
                "title": "Faithful values beside the usual group values",
                "words": [],
                "columns": ["group", "FGSV share", "GSV share", "GSV error"],
                "rows": rows,
            }
        )
    if audit.get("attacks"):
        rows = [
            [r["group"], f"{r['way']}, into {r['parts']}", _percent(r["gain"]), _range(r), "0"]
            for r in audit["attacks"]
        ]
        sections.append(
            {
                "title": "Shell companies: what splitting would earn",
                "words": [
                    "In percentage points of all shares. Under the faithful value nobody gains, by construction: "
                    "a provider has the sum of its points' values under any number of names. Dots of one colour "
                    "stand for more parts from top to bottom; what reaches beyond 100 points is cut off."
                ],
                "chart": "gains",
                "columns": ["group", "split", "gain under GSV", "from … to", "under FGSV"],
                "rows": rows,
            }
        )
    sections.extend(audit.get("tables", []))
    return {"sections": sections, "budget_words": spent_by(audit)}


def _failures(info: dict[str, Any]) -> str:
    failures = info.get("failures")
    if not failures:
        return "No evaluation failed."
    kinds = ", ".join(f"{count} {kind}" for kind, count in failures["kinds"].items())
    return f"{failures['coalitions']:,} evaluations failed and count as {failures['counted_as']:g}: {kinds}."


def _facts(valuation: Valuation) -> list[tuple[str, str]]:
    """Return what another person needs to get the same numbers."""
    settings = valuation.settings
    facts = [
        ("method", f"{valuation.method}, {valuation.n_evaluations:,} evaluations"),
        ("seed", str(valuation.seed)),
        ("to stop at", "; ".join([f"{settings.get('budget', 0):,} evaluations", *settings.get("rules", [])])),
        ("replicates", "none" if valuation.deviations is None else str(len(valuation.deviations))),
    ]
    labels = {
        "file": "file",
        "sha256": "SHA-256 of the file",
        "test_file": "test file",
        "test_sha256": "SHA-256 of it",
    }
    for role, named in settings.get("columns", {}).items():
        columns = ", ".join(named) if isinstance(named, list) else named
        facts += [(f"column: {role}", str(columns))] if columns else []
    labels |= {"task": "task", "model": "model", "metric": "score", "game": "fingerprint of the game"}
    facts += [(label, str(settings[key])) for key, label in labels.items() if settings.get(key)]
    facts.append(("fingerprint of the groups", valuation.partition.fingerprint))
    versions = settings.get("versions", {"fgsv": fgsv.__version__})
    return [*facts, ("versions", ", ".join(f"{name} {number}" for name, number in versions.items()))]


def _error(half_width: float) -> str:
    return "exact" if half_width == 0 else f"± {_percent(half_width)}"


def _range(row: dict[str, Any]) -> str:
    low, high = _percent(row["gain_low"]), _percent(row["gain_high"])
    return "exact" if low == high else f"{low} to {high}"


def _percent(share: float | None) -> str:
    return "" if share is None or math.isnan(share) else f"{share:.2%}"
