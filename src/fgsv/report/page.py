"""The report: one HTML file that opens offline, with charts, a what-if panel and how to reproduce the result."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from fgsv.audit import Audit
from fgsv.audit.sections import Section
from fgsv.data.source import Source
from fgsv.files import write_whole
from fgsv.packages import optional
from fgsv.payout import Payout
from fgsv.report.charts import convergence_chart, gains_chart, most_groups, share_chart
from fgsv.report.panel import Panel, panel_of
from fgsv.results.periods import compare_results
from fgsv.results.result import Result, as_result, table_of
from fgsv.results.scores_without import ScoresWithout
from fgsv.results.sensitivities import sensitivity
from fgsv.types import Floats
from fgsv.valuation import RunSettings, Valuation
from fgsv.words import counted, level, now, significant, some

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

    `others` are valuations of the same players under other groupings. `aggregate_only` leaves out the players'
    values, for a page that competitors will read: the what-if panel then moves whole groups only.
    """
    return str(_template().render(_contents(as_result(result, others), aggregate_only, confidence, title)))


@cache
def _template() -> Any:
    jinja2 = optional("jinja2", "reports", "report")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined, finalize=_in_order
    )
    environment.filters["money"] = lambda text: f"{Decimal(text):,}"
    return environment.from_string(_asset("report.html.j2"))


def _in_order(part: Any) -> Any:
    """Return text without direction marks: in a name, they would reverse the amounts after it."""
    return part if hasattr(part, "__html__") else str(part).translate(TURNING)


def _contents(result: Result, aggregate_only: bool, confidence: float | None, title: str | None) -> dict[str, Any]:
    """Return the template's variables."""
    valuation, source = result.valuation, result.source
    confidence = result.confidence if confidence is None else confidence
    has_shares = bool(np.all(valuation.total > 0))
    drawn = most_groups(len(valuation.outputs or ("",)))
    panel = None
    if has_shares:
        panel = panel_of(valuation, confidence, aggregate_only=aggregate_only, payout=result.payout)
    charts = _charts(result, confidence, panel)
    rows, payments = _rows(valuation, confidence, result.without), _payments(result.payout)
    return {
        "version": fgsv.__version__,
        "title": title or f"What the data of {counted(len(valuation), 'provider')} is worth",
        "made": _made(result),
        "summary": _summary(valuation, source),
        "first_facts": _first_facts(result),
        "verdict": result.verdict,
        "warnings": result.warnings,
        "confidence": level(confidence),
        "group_name": next(iter(result.groupings)),
        "has_shares": has_shares,
        "about_shares": valuation.about_shares,
        "not_all_drawn": drawn if valuation.partition.n_groups > drawn else None,
        "rows": rows,
        "any_negative": any(row["negative"] for row in rows),
        "with_scores": result.without is not None,
        "n_without": 0 if result.without is None else result.without.n_evaluations,
        "everybody": "" if valuation.ends is None else _by_output(valuation, valuation.ends[1]),
        "matrix": _matrix(valuation, confidence),
        "highlights": None if aggregate_only else result.highlights,
        "tested": _tested(source),
        "others": [{"name": name, "rows": _rows(each, confidence)} for name, each in result.others.items()],
        "payout": None if result.payout is None else result.payout.to_dict(),
        "payout_confidence": "" if result.payout is None else level(result.payout.confidence),
        "payments": payments,
        "amounts": {} if result.payout is None else result.payout.by_output,
        "any_charged": any(row["payout"].startswith("-") for row in payments),
        "objections": () if result.payout is None else result.payout.objections,
        "unpaid": result.unpaid,
        "before": None if result.before is None else _before(result.before, result, confidence),
        "errors": _errors(result),
        "questions": _questions(result, confidence),
        "covered": _covered(result),
        "stopped": f"The run ended because: {valuation.end}",
        "outputs": valuation.outputs or ("",),
        "whatif": None if panel is None else _json(panel.data),
        "whatif_words": "" if panel is None else panel.words,
        "has_players": panel is not None and panel.has_players,
        "whatif_money": panel is not None and panel.data["money"] is not None,
        "audit": None if result.audit is None else _audit(result.audit, aggregate_only),
        "has_history": "convergence" in charts,
        "failures": "No evaluation failed." if valuation.failures is None else f"{valuation.failures}.",
        "unfitted": "" if valuation.about_unfitted is None else f"{valuation.about_unfitted}.",
        "notes": [] if source is None else source.notes,
        "facts": [*_facts(valuation, source), *_seal_facts(result)],
        "css": _asset("report.css"),
        "bundle": _bundle(),
        "charts": _json(charts),
        "tables_script": _asset("tables.js"),
        "whatif_script": _asset("whatif.js"),
    }


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
        frame = _sorted(valuation.to_frame(confidence))
        frame["group"] = frame["group"].astype(str)
        charts["shares"] = share_chart(frame)
        if panel is not None:
            charts["whatif"] = share_chart(_first_output(frame), name="rows")
    history = [[point.n_evaluations, point.half_width] for point in result.history if point.half_width]
    if len(history) > 1:
        charts["convergence"] = convergence_chart(history)
    if result.audit is not None and len(result.audit.attacks):
        charts["gains"] = gains_chart(_records(result.audit.attacks))
    return charts


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): cell for name, cell in row.items()} for row in frame.to_dict("records")]


def _first_output(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first output, the one the panel shows first."""
    return frame[frame["output"] == frame["output"].iloc[0]].drop(columns="output") if "output" in frame else frame


def _summary(valuation: Valuation, source: Source | None) -> str:
    is_text = source is not None and source.task == "text"
    players = f"{valuation.partition.n_players:,} {'documents' if is_text else 'players'}"
    what = f"{counted(len(valuation), 'provider')} supplied {players}"
    how = ""
    if source is not None:
        what += f" ({source.file})"
        how = f" A model ({source.model}) was trained on many selections of them and scored by "
        how += f"{source.metric} on {source.test_rows:,} test {'texts' if is_text else 'rows'}."
    totals = _by_output(valuation, valuation.total)
    scores = ""
    if valuation.ends is not None and valuation.outputs is None:
        nobody, everybody = valuation.ends
        scores = f" (from {significant(nobody, 4)} with no data to {significant(everybody, 4)} with all of it)"
    return f"{what}.{how} Together their data is worth {totals}{scores}; this page shows each provider's part of it."


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each output from the largest value to the smallest."""
    largest_first = frame.sort_values("value", ascending=False, kind="stable")
    if "output" not in frame:
        return largest_first
    order = {output: place for place, output in enumerate(frame["output"].unique())}
    return largest_first.sort_values("output", key=lambda names: names.map(order), kind="stable")


def _rows(valuation: Valuation, confidence: float, without: ScoresWithout | None = None) -> list[dict[str, Any]]:
    return [
        {
            "group": str(row["group"]),
            "output": row.get("output"),
            "players": f"{row['players']:,.6g}",
            "value": significant(row["value"], 4),
            "stderr": "unknown" if math.isnan(row["stderr"]) else significant(row["stderr"], 2),
            "share": _percent(row.get("share")),
            "low": _percent(row.get("share_low")),
            "high": _percent(row.get("share_high")),
            "without": significant(row["without"], 4) if "without" in row else "",
            "negative": row["value"] < 0,
        }
        for row in _sorted(table_of(valuation, None, confidence, without)).to_dict("records")
    ]


def _matrix(valuation: Valuation, confidence: float) -> dict[str, Any] | None:
    """Return the share of each group in each output; None if there is one output, or one without shares."""
    if valuation.outputs is None or not np.all(valuation.total > 0):
        return None
    shares, errors = valuation.shares(), valuation.share_half_width(confidence)
    order = np.argsort(-shares.mean(axis=1), kind="stable")
    rows = [
        [
            str(valuation.names[group]),
            *(f"{s:.1%} ± {e:.1%}" for s, e in zip(shares[group], errors[group], strict=True)),
        ]
        for group in order
    ]
    return {"columns": list(valuation.outputs), "rows": rows}


def _payments(payout: Payout | None) -> list[dict[str, Any]]:
    """Return the payments from the largest to the smallest."""
    if payout is None:
        return []
    rows = [row | {"percent": _percent(row["share"])} for row in payout.to_dict()["payments"]]
    return sorted(rows, key=lambda row: -Decimal(row["payout"]))


def _before(before: Result, result: Result, confidence: float) -> Section:
    """Return the comparison with the previous period as text and a table."""
    found = compare_results(before, result, confidence)
    money = {}
    if found.settlement is not None:
        rows = found.settlement.to_frame().to_dict("records")
        money = {row["group"]: [f"{row[name]:,}" for name in ("paid", "due", "correction")] for row in rows}
    noise = {True: "yes", False: "within noise", None: ""}
    table = []
    for row in _records(found.frame):
        shares = [_percent(row[name]) for name in ("share_a", "share_b", "difference")]
        table.append((row["group"], row["status"], *shares, noise[row["clear"]], *money.get(row["group"], ())))
    columns = ["provider", "in which", "share before", "share now", "difference", "moved"]
    words = [] if before.made is None else [f"The earlier result was made on {before.made[:10]}."]
    words += map(_sentence, found.facts)
    if found.settlement is not None:
        columns += ["paid before", "due", "to correct it"]
        words.append(
            f"If this result corrects the earlier payment: the last columns, in {found.settlement.currency}; due is "
            f"{found.settled_as}."
        )
    words += [f"Warning: {each}." for each in found.warnings]
    return Section("Then and now", tuple(words), tuple(columns), tuple(table))


def _sentence(fact: str) -> str:
    return f"{fact[0].upper()}{fact[1:]}."


def _by_output(valuation: Valuation, scores: Floats) -> str:
    """Return a score, or one for each output with its name."""
    numbers = [significant(score, 4) for score in np.atleast_1d(scores)]
    if valuation.outputs is None:
        return numbers[0]
    return some(f"{number} for {output}" for number, output in zip(numbers, valuation.outputs, strict=True))


def _made(result: Result) -> str:
    """Return when a result was made; if it does not say, now."""
    made = now() if result.made is None else result.made
    return f"Made on {made.replace('T', ', ').replace('Z', ' UTC')}, with fgsv {fgsv.__version__}."


def _first_facts(result: Result) -> list[tuple[str, str]]:
    """Return what a reader wants to know first: the command, the file, its columns, the model and the score."""
    source = result.source
    facts = [] if result.command is None else [("command", result.command)]
    if source is None:
        return facts
    tested = f"{source.test_rows:,}" + ("" if source.test_file is None else f" of {source.test_file}")
    named = {"provider": "group", "target": "target", "text": "text", "unit": "unit", "domain": "output"}
    named["ignored"] = "ignored"
    columns = {label: _listed(source.columns.get(role)) for label, role in named.items()}
    columns["features"] = ", ".join(source.features)
    stated = {"file": source.file, **columns, "model": source.model, "score": source.metric, _tested(source): tested}
    return [*facts, *((label, words) for label, words in stated.items() if words)]


def _tested(source: Source | None) -> str:
    """Return the report's word for what models are tested on."""
    return "test texts" if source is not None and source.task == "text" else "test rows"


def _listed(named: Any) -> str:
    return ", ".join(map(str, named)) if isinstance(named, list) else str(named or "")


def _questions(result: Result, confidence: float) -> Section | None:
    """Return the shares by every question as text and a table; None if only one was asked."""
    if result.answers is None or not result.valuation.total > 0:
        return None
    found = sensitivity(result, confidence=confidence)
    rows: dict[str, list[str]] = {}
    for row in _records(found.shares):
        half = (row["share_high"] - row["share_low"]) / 2
        mark = " *" if row["clear"] else ""
        rows.setdefault(row["group"], []).append(f"{row['share']:.1%} ± {half:.1%}{mark}")
    ranked = found.groups.sort_values("share", ascending=False, kind="stable")
    parts = {row["group"]: [_percent(row[name]) for name in ("choice", "error")] for row in _records(ranked)}
    words = (
        f"The shares above are by {result.answers.questions[0]}. The other questions were declared before the run "
        "and answered by the same trainings. A star marks a share that differs from the first by more than its "
        "error. The spread is the standard deviation over questions, split into choice and the error of the run."
    )
    questions = dict.fromkeys(found.shares["question"])
    return Section(
        "How much depends on the question",
        (words, *map(_sentence, found.facts)),
        (next(iter(result.groupings)), "spread by choice", "spread by error", *questions),
        tuple((group, *parts[group], *rows[group]) for group in parts),
    )


def _covered(result: Result) -> str:
    """Return which errors the intervals of the page cover, and which they do not."""
    valuation, tested = result.valuation, _tested(result.source)
    has_shares = bool(np.all(valuation.total > 0))
    shown = "intervals" if has_shares else "standard errors"
    covered = [f"the Monte Carlo error of {valuation.about_evaluations}"]
    if has_shares and valuation.seed_noise is not None:
        covered.append("that of training seeds")
    if has_shares and valuation.knows_test_rows:
        covered.append(f"that from the choice of {tested}")
        return f"The {shown} cover {some(covered[:-1])} and {covered[-1]}"
    return f"The {shown} cover {' and '.join(covered)}, not the error from the choice of {tested}"


def _errors(result: Result) -> Section | None:
    """Return the half-widths of the shares by cause, and where they come from in words; None if one is known."""
    frame, tested, noise = result.errors_of_shares(), result.valuation.test_rows, result.valuation.seed_noise
    if frame is None:
        return None
    words = []
    if noise is not None:
        words.append(
            f"Every selection of the data was trained once, with its own seed. The shares refer to the expected "
            f"score over seeds; {noise.n_evaluations} more trainings measured how far off they may be."
        )
    if "test_rows" in frame and tested is not None:
        words.append(
            f"The test rows were split at random into {tested.n_folds} parts. Their error is estimated from how much "
            "the shares differ without each part, and holds a part of the error from evaluations."
        )
        if result.test_noise is not None:
            words.append(
                f"The value of all the data together is known to within ± {significant(result.test_noise, 3)}."
            )
    causes = {"monte_carlo": "± from evaluations", "training_seeds": "± from training seeds"}
    causes["test_rows"] = "± from test rows"
    names = [name for name in causes if name in frame]
    rows = tuple(
        (row["group"], *(_percent(row[name]) for name in ("share", *names)))
        for row in _records(frame.sort_values("share", ascending=False, kind="stable"))
    )
    columns = (next(iter(result.groupings)), "share", *(causes[name] for name in names))
    return Section("How far the shares may be off, by cause", tuple(words), columns, rows)


def _audit(audit: Audit, aggregate_only: bool) -> dict[str, Any]:
    """Return the audit in sections; that of the attacks has a chart."""
    gsv = Section(
        "Faithful values next to the usual group values",
        columns=("group", "FGSV share", "GSV share", "GSV error"),
        rows=tuple(
            (r["group"], _percent(r["share"]), _percent(r["gsv_share"]), _error(r["gsv_half_width"]))
            for r in sorted(_records(audit.gsv), key=lambda r: -r["share"])
        ),
    )
    attacks = Section(
        "Shell companies: what splitting would earn",
        (
            "In percentage points of all shares. Under the faithful value nobody gains, by construction: "
            "whatever names it uses, a provider earns the sum of its players' values. For dots of one "
            "colour, the number of parts grows from top to bottom; gains beyond 100 percentage points are "
            "cut off.",
        ),
        ("group", "split", "gain under GSV", "from … to", "under FGSV"),
        tuple(
            (r["group"], f"{r['way']}, into {r['parts']}", _percent(r["gain"]), _range(r), "0")
            for r in _records(audit.attacks)
        ),
    )
    others = [each.for_competitors() if aggregate_only else each for each in audit.tables]
    return {
        "gsv": gsv if gsv.rows else None,
        "attacks": attacks if attacks.rows else None,
        "sections": [each for each in others if not each.technical],
        "technical": [each for each in others if each.technical],
        "budget_words": audit.spent_in_words,
    }


def _facts(valuation: Valuation, source: Source | None) -> list[tuple[str, str]]:
    """Return what someone else needs to reproduce the numbers."""
    limits = [] if valuation.settings is None else _limits(valuation.settings)
    facts = [
        ("method", f"{valuation.method}, {valuation.n_evaluations:,} evaluations"),
        *([("known before", f"{valuation.n_known:,} evaluations of earlier runs")] if valuation.n_known else []),
        ("seed", str(valuation.seed)),
        ("stopping rules", "; ".join(limits)),
        *([] if valuation.about_correction is None else [("what is stated", valuation.about_correction)]),
    ]
    if source is not None:
        stated = {
            "SHA-256 of the file": source.sha256,
            "SHA-256 of the test file": source.test_sha256,
            "task": source.task,
            "fingerprint of the game": source.game,
        }
        facts += [(label, str(fact)) for label, fact in stated.items() if fact]
    facts.append(("fingerprint of the groups", valuation.partition.fingerprint))
    packages = {"fgsv": fgsv.__version__} if source is None else source.versions
    return [*facts, ("versions", ", ".join(f"{name} {number}" for name, number in packages.items()))]


def _limits(settings: RunSettings) -> list[str]:
    """Return what could end a run, in words."""
    found = [f"{settings.budget:,} evaluations"]
    if settings.max_seconds is not None:
        found.append(f"{settings.max_seconds:g} seconds")
    if settings.stderr is not None:
        found.append(f"every standard error at most {settings.stderr:g}")
    if settings.precision is not None:
        found.append(f"every share within {settings.precision:g} at {level(settings.confidence)} confidence")
    return found


def _seal_facts(result: Result) -> list[tuple[str, str]]:
    """Return what a sealed run was sealed by."""
    sealed = result.sealed
    if sealed is None:
        return []
    root = f"{sealed.root}, over {sealed.n_records:,} records"
    return [("commitment of the seal", sealed.commitment), ("public value", sealed.public), ("Merkle root", root)]


def _error(half_width: float) -> str:
    return "exact" if half_width == 0 else f"± {_percent(half_width)}"


def _range(row: dict[str, Any]) -> str:
    low, high = _percent(row["gain_low"]), _percent(row["gain_high"])
    return "exact" if low == high else f"{low} to {high}"


def _percent(share: float | None) -> str:
    return "" if share is None or math.isnan(share) else f"{share:z.2%}"
