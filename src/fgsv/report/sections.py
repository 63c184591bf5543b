"""What a result says, in order: the terminal, the page and a notebook show these sections and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from fgsv.audit import Audit
from fgsv.data.source import Source
from fgsv.payout import Payout
from fgsv.results.periods import Comparison, compare_results
from fgsv.results.result import Result, table_of
from fgsv.results.sensitivities import Sensitivity, sensitivity
from fgsv.running.stopping import rules_of
from fgsv.types import Floats
from fgsv.valuation import Valuation
from fgsv.valuation.display import Section
from fgsv.words import counted, level, significant, some

VERDICT, WARNING, REFUSED, FAILED = "Verdict", "Warning", "Refused", "Failed"
VALUES, SPLITS, RUN = "Values and shares", "Shell companies: what every split would earn", "Run"
"""Titles of sections that a page treats in a way of its own, or gives a chart."""
MOST_ON_A_PAGE = 12
"""With more providers than this, the first page has only what they are paid."""
NEGATIVE = (
    "A negative value means that, averaged over all selections of the data, adding these players lowered the score. "
    "How the model scores without them is another question."
)


def sections(result: Result) -> list[Section]:
    """Return what a result says, in order."""
    return [*for_manager(result), *for_lawyer(result), *appendix(result)]


def shown(result: Result) -> list[Section]:
    """Return what a terminal and a notebook show: all but what is about the method."""
    return [section for section in sections(result) if not section.technical]


def for_manager(result: Result) -> Iterator[Section]:
    """Yield who is paid what, and how well that is known."""
    yield Section(VERDICT, result.verdict.sentences if result.account is None else result.account.verdict)
    if result.unpaid is not None:
        yield Section(REFUSED, (str(result.unpaid.reasons),))
    if result.errors:
        yield Section(FAILED, tuple(map(str, result.errors)))
    if result.payout is not None:
        yield payments(result.payout, _group(result), _negative(result))
    else:
        yield values(result.valuation, _group(result), result.confidence, negative=_negative(result))
    if len(result.valuation) <= MOST_ON_A_PAGE:
        yield from list(_providers(result))[:1]


def for_lawyer(result: Result) -> list[Section]:
    """Return what was agreed, what is certain, what is not, and how to check it."""
    warnings = Section(WARNING, tuple(_warnings(result)))
    if result.account is not None:
        return [*result.account.sections, *([warnings] if warnings.words else [])]
    found = [
        Section("What was agreed", rows=_agreed(result), technical=True),
        Section("What is certain", tuple(_certain(result)), technical=True),
        Section("What is not certain", tuple(_uncertain(result))),
        warnings,
        Section("How to check it", _CHECK, rows=_facts(result), technical=True),
    ]
    return [each for each in found if each.words or each.rows]


def appendix(result: Result) -> Iterator[Section]:
    """Yield everything else."""
    valuation, group = result.valuation, _group(result)
    if result.before is not None:
        yield then_and_now(compare_results(result.before, result, result.confidence))
    yield from list(_providers(result))[1 if len(valuation) <= MOST_ON_A_PAGE else 0 :]
    if result.payout is not None:
        section = values(valuation, group, result.confidence, negative=_negative(result))
        yield replace(section, technical=True)
    yield from _by_output(result)
    for name, other in result.others.items():
        yield values(other, name, result.confidence, f"The same evaluations, grouped by {name}")
    yield from _errors(result)
    if result.by_question is not None and valuation.total > 0:
        yield from by_question(sensitivity(result, confidence=result.confidence), group)
    if result.highlights is not None:
        yield result.highlights
    if result.audit is not None:
        yield from _audit(result.audit)
    if result.account is None:
        yield Section(RUN, tuple(_run(result)))
    if result.source is not None and result.source.notes:
        yield Section("Choices made by the command", tuple(result.source.notes), technical=True)


def payments(payout: Payout, group: str = "provider", negative: str = NEGATIVE) -> Section:
    """Return who is paid what, from the largest payment to the smallest."""
    words = [
        f"Amount: {payout.describe()}.",
        *(f"It was paid although {each}." for each in payout.objections),
    ]
    if any(paid < 0 for paid in payout.payments):
        words.append(
            f"{negative} It is charged, and the others are paid from that: otherwise payments would depend on who "
            "splits or merges."
        )
    columns = payout.names, payout.payments, payout.low, payout.high, payout.shares.tolist()
    rows = sorted(zip(*columns, strict=True), key=lambda row: -row[1])
    return Section(
        f"Payments in {payout.currency}, with {level(payout.confidence)} intervals",
        tuple(words),
        (group, "payment", "interval", "of the amount"),
        tuple(
            (str(name), f"{paid:,}", "unknown" if low.is_nan() else f"{low:,} to {high:,}", _percent(share))
            for name, paid, low, high, share in rows
        ),
    )


def values(valuation: Valuation, group: str, confidence: float, title: str = "", negative: str = NEGATIVE) -> Section:
    """Return the shares and values of the groups, from the largest to the smallest.

    Args:
        valuation: The values of the groups.
        group: What the groups are called: the name of their column.
        confidence: Confidence level of the intervals.
        title: The section's title. Default: that of values and shares.
        negative: What a negative value means.

    Returns:
        The section, without shares if there is nothing to share.

    """
    has_shares = bool(np.all(valuation.total > 0))
    rows = []
    for row in records(largest_first(valuation.to_frame(confidence))):
        cells = [str(row["group"]), *([row["output"]] if "output" in row else [])]
        if has_shares:
            low, high = row["share_low"], row["share_high"]
            cells += [
                _percent(row["share"]),
                "unknown" if math.isnan(low) else f"{_percent(low)} to {_percent(high)}",
            ]
        stderr = "unknown" if math.isnan(row["stderr"]) else significant(row["stderr"], 2)
        rows.append((*cells, f"{row['players']:,.6g}", significant(row["value"], 4), stderr))
    of_outputs = () if valuation.outputs is None else ("output",)
    of_shares = ("share", "interval") if has_shares else ()
    words = [] if valuation.about_shares is None else [f"{_sentence(valuation.about_shares)}"]
    if (valuation.values < 0).any():
        words.append(negative)
    named = f"{VALUES}, with {level(confidence)} intervals" if has_shares else "Values"
    columns = (group, *of_outputs, *of_shares, "players", "value", "± stderr")
    return Section(title or named, tuple(words), columns, tuple(rows))


def _providers(result: Result) -> Iterator[Section]:
    """Yield what the data of each provider is like, and the scores without and of each."""
    valuation, without = result.valuation, result.without
    names = [str(name) for name in valuation.names]
    if result.facts:
        order = np.argsort(-valuation.values.reshape(len(names), -1).sum(axis=1), kind="stable")
        rows = tuple((names[k], result.facts[names[k]]) for k in order if names[k] in result.facts)
        yield Section("The data of each provider", (), (_group(result), "its data"), rows)
    if without is not None:
        frame = table_of(valuation, None, result.confidence, without)
        words = [
            f"With all the data the model scores {_of_outputs(valuation, valuation.ends[1])}, with none "
            f"{_of_outputs(valuation, valuation.ends[0])}."
            if valuation.ends is not None
            else "",
            f"Beside it: the score without a provider's data, and with that data alone ({without.n_evaluations} "
            "evaluations outside the budget).",
        ]
        rows = tuple(
            (
                str(row["group"]),
                *([row["output"]] if "output" in row else []),
                f"{row['players']:,.6g}",
                significant(row["without"], 4),
                significant(row["alone"], 4),
            )
            for row in records(largest_first(frame))
        )
        of_outputs = () if valuation.outputs is None else ("output",)
        columns = (_group(result), *of_outputs, "players", "score without", "score alone")
        yield Section("How the model scores", (" ".join(filter(None, words)),), columns, rows)


def _agreed(result: Result) -> tuple[tuple[str, str], ...]:
    """Return the terms: what was valued, how, and what is paid for it."""
    source, payout, settings = result.source, result.payout, result.valuation.settings
    found: dict[str, str | None] = {"valued": _valued(result)}
    if payout is not None:
        found["amount"] = f"{payout.amount:,} {payout.currency}"
        found["policy"] = payout.terms.describe()
    if source is not None:
        columns = source.columns
        named = {"provider": "group", "target": "target", "text": "text", "unit": "unit", "domain": "output"}
        tested = f"{source.test_rows:,}" + ("" if source.test_file is None else f" of {source.test_file}")
        found |= {label: _listed(columns.get(role)) for label, role in named.items()}
        found |= {"ignored": _listed(columns.get("ignored")), "features": some(source.features, 12)}
        found |= {"model": source.model, "score": source.metric, _tested(source): tested}
    if settings is not None:
        found["may end by"] = "; ".join([f"{settings.budget:,} evaluations", *map(str, rules_of(settings))])
    if result.sealed is not None:
        found["commitment of the seal"] = result.sealed.commitment
        found["public value"] = result.sealed.public
    found["command"] = result.command
    return tuple((label, words) for label, words in found.items() if words)


def _valued(result: Result) -> str:
    """Say in one sentence what was valued, and what it is worth together."""
    valuation, source = result.valuation, result.source
    players = "documents" if source is not None and source.task == "text" else "players"
    what = f"{counted(len(valuation), 'provider')} supplied {valuation.partition.n_players:,} {players}"
    scores = ""
    if valuation.ends is not None and valuation.outputs is None:
        nobody, everybody = valuation.ends
        scores = f" (from {significant(nobody, 4)} with no data to {significant(everybody, 4)} with all of it)"
    file = "" if source is None else f" ({source.file})"
    return f"{what}{file}. Together their data is worth {_of_outputs(valuation, valuation.total)}{scores}."


def _certain(result: Result) -> Iterator[str]:
    valuation, payout = result.valuation, result.payout
    if payout is not None:
        yield from (_sentence(note) for note in payout.notes)
    if not valuation.grouped and (payout is None or payout.is_faithful):
        yield (
            "Nobody gains by splitting, merging or renaming fixed players: a value is the sum over single players, "
            "whoever they belong to, and no other share changes."
        )
    yield "The same file, options, seed and versions give the same numbers."
    yield f"{_covered(result)}."


def _uncertain(result: Result) -> Iterator[str]:
    valuation, tested = result.valuation, _tested(result.source)
    if not valuation.knows_test_rows:
        yield f"{_sentence(valuation.about_intervals)}"
    yield f"Values depend on the model, the score and the {tested}: others give others."
    if result.audit is None:
        yield "Copies of others' players, and players made to look like them, earn a share: an audit looks for them."
    if result.verdict.ranking:
        yield f"{_sentence(result.verdict.ranking)} Their payments are as certain as all the others."


def _warnings(result: Result) -> list[str]:
    failures = result.valuation.failures
    return [*result.warnings, *([] if failures is None else [str(failures)])]


_CHECK = (
    "fgsv verify computes every number again from the ledger of the run, without data or model; given the data, it "
    "also evaluates a sample again.",
)


def _facts(result: Result) -> tuple[tuple[str, str], ...]:
    """Return what someone else needs to reproduce the numbers."""
    valuation, source, sealed = result.valuation, result.source, result.sealed
    known = f"{valuation.n_known:,} evaluations of earlier runs" if valuation.n_known else ""
    found: dict[str, str | None] = {
        "method": f"{valuation.method}, {valuation.n_evaluations:,} evaluations",
        "known before": known,
        "seed": str(valuation.seed),
    }
    if source is not None:
        found["SHA-256 of the file"] = source.sha256
        found["SHA-256 of the test file"] = source.test_sha256
        found["fingerprint of the game"] = source.game
    found["fingerprint of the groups"] = valuation.partition.fingerprint
    if sealed is not None:
        found["Merkle root"] = f"{sealed.root}, over {sealed.n_records:,} records"
    packages = {"fgsv": fgsv.__version__} if source is None else source.versions
    found["versions"] = ", ".join(f"{name} {number}" for name, number in packages.items())
    return tuple((label, words) for label, words in found.items() if words)


def then_and_now(found: Comparison) -> Section:
    """Return what moved between two results, and what corrects the earlier payment."""
    money = {}
    if found.settlement is not None:
        rows = found.settlement.to_frame().to_dict("records")
        money = {row["group"]: [f"{row[name]:,}" for name in ("paid", "due", "correction")] for row in rows}
    noise = {True: "yes", False: "within noise", None: ""}
    table = []
    for row in records(found.frame):
        shares = [_percent(row[name]) for name in ("share_a", "share_b", "difference")]
        table.append((row["group"], row["status"], *shares, noise[row["clear"]], *money.get(row["group"], ())))
    columns = ["provider", "in which", "share before", "share now", "difference", "moved"]
    words = [*map(_sentence, found.facts)]
    if found.settlement is not None:
        settled = found.settlement
        columns += ["paid before", "due", "to correct it"]
        words.append(
            f"If this corrects the earlier payment: the last columns, in {settled.currency}, which add up to "
            f"{settled.total:,}; due is {found.settled_as}."
        )
    words += [f"Warning: {each}" for each in found.warnings]
    return Section("Then and now", tuple(words), tuple(columns), tuple(table))


def _by_output(result: Result) -> Iterator[Section]:
    """Yield the share of each group in each output, if there are several."""
    valuation, confidence = result.valuation, result.confidence
    if valuation.outputs is None or not np.all(valuation.total > 0):
        return
    shares, errors = valuation.shares(), valuation.share_half_width(confidence)
    order = np.argsort(-shares.mean(axis=1), kind="stable")
    rows = tuple(
        (str(valuation.names[k]), *(f"{s:.1%} ± {e:.1%}" for s, e in zip(shares[k], errors[k], strict=True)))
        for k in order
    )
    title = f"Shares by provider and output, with {level(confidence)} intervals"
    yield Section(title, (), (_group(result), *valuation.outputs), rows, technical=result.payout is None)


def _errors(result: Result) -> Iterator[Section]:
    """Yield the half-widths of the shares by cause, if more than one is known."""
    frame, tested, noise = result.errors_of_shares(), result.valuation.test_rows, result.valuation.seed_noise
    if frame is None:
        return
    words = []
    if noise is not None:
        words.append(
            f"Every selection of the data was trained once, with its own seed. Shares refer to the expected score "
            f"over seeds; {noise.n_evaluations} more trainings measured how far off they may be."
        )
    if "test_rows" in frame and tested is not None:
        words.append(
            f"The test rows were split at random into {tested.n_folds} parts: their error is estimated from how much "
            "shares differ without each part, and holds a part of the error from evaluations."
        )
        if result.test_noise is not None:
            words.append(f"All the data together is known to within ± {significant(result.test_noise, 3)}.")
    causes = {"monte_carlo": "± evaluations", "training_seeds": "± training seeds", "test_rows": "± test rows"}
    names = [name for name in causes if name in frame]
    rows = tuple(
        (row["group"], *(_percent(row[name]) for name in ("share", *names)))
        for row in records(frame.sort_values("share", ascending=False, kind="stable"))
    )
    columns = (_group(result), "share", *(causes[name] for name in names))
    yield Section("How far shares may be off, by cause", tuple(words), columns, rows)


def by_question(found: Sensitivity, group: str = "group") -> Iterator[Section]:
    """Yield the shares by every question, and how ranks depend on it and on the test rows."""
    rows: dict[str, list[str]] = {}
    for row in records(found.shares):
        half = (row["share_high"] - row["share_low"]) / 2
        mark = " *" if row["clear"] else ""
        rows.setdefault(row["group"], []).append(f"{row['share']:.1%} ± {half:.1%}{mark}")
    ranked = records(found.groups.sort_values("share", ascending=False, kind="stable"))
    questions = tuple(dict.fromkeys(found.shares["question"]))
    words = list(map(_sentence, found.facts))
    if len(questions) > 1:
        words.insert(
            0,
            f"Shares are by {questions[0]}; the other questions were answered by the same trainings, or by other "
            "runs. A star marks a share that differs from the first by more than its error.",
        )
        table = tuple((row["group"], *rows[row["group"]]) for row in ranked)
        yield Section("How much depends on the question", tuple(words), (group, *questions), table)
    columns = {"rank": "rank", "best_rank": "best rank", "worst_rank": "worst rank"}
    columns |= {"choice": "spread by choice", "error": "spread by error"} if len(questions) > 1 else {}
    tested = "test_low" in found.groups
    table = tuple(
        (
            row["group"],
            *(str(row[name]) if "rank" in name else _percent(row[name]) for name in columns),
            *(
                (f"{_percent(row['test_low'])} to {_percent(row['test_high'])}", f"{row['rank_kept']:.0%}")
                if tested
                else ()
            ),
        )
        for row in ranked
    )
    named = (group, *columns.values(), *(("over other test rows", "rank kept") if tested else ()))
    yield Section("Ranks", () if len(questions) > 1 else tuple(words), named, table)


def _audit(audit: Audit) -> Iterator[Section]:
    """Yield what an audit found: the usual group values, what splitting earns under them, and its own sections."""
    if len(audit.gsv):
        # by the lower bound: the largest estimate may be luck
        best = audit.attacks.sort_values("gain_low", ascending=False, kind="stable") if len(audit.attacks) else None
        found = {} if best is None else {row["group"]: row for row in reversed(records(best))}
        words = (
            "The faithful value (FGSV) sums up what a provider's players contribute, however they are grouped. The "
            "usual group value (GSV) takes each provider as one block, and changes when it splits into shell "
            "companies; under FGSV that gains nothing.",
            audit.spent_in_words,
        )
        rows = tuple(
            (row["group"], _percent(row["share"]), _gsv(row), *_best_split(found.get(row["group"])))
            for row in sorted(records(audit.gsv), key=lambda row: -row["share"])
        )
        named = ("group", "FGSV share", "GSV share", "best split", "gain under GSV")
        yield Section("Faithful values beside the usual group values", words, named, rows)
    if len(audit.attacks):
        splits = tuple((row["group"], *_best_split(row), _percent(row["gain"])) for row in records(audit.attacks))
        columns = ("group", "split", "interval", "gain under GSV")
        said = "In percentage points of all shares. Under FGSV every gain is zero."
        yield Section(SPLITS, (said,), columns, splits, technical=True)
    if not len(audit.gsv):
        yield Section("Audit", (audit.spent_in_words,))
    yield from audit.tables


def _gsv(row: Mapping[str, Any]) -> str:
    half_width = row["gsv_half_width"]
    return _percent(row["gsv_share"]) + ("" if half_width == 0 else f" ± {_percent(half_width)}")


def _best_split(row: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("", "") if row is None else (f"{row['way']}, into {row['parts']}", _gain(row))


def _gain(row: Mapping[str, Any]) -> str:
    low, high = _percent(row["gain_low"]), _percent(row["gain_high"])
    return f"{low} exactly" if low == high else f"{low} to {high}"


def _run(result: Result) -> Iterator[str]:
    """Yield how many evaluations were made, and why no more."""
    valuation = result.valuation
    yield f"{valuation.about_evaluations}; {valuation.end}"
    yield from filter(None, (valuation.about_correction, valuation.about_unfitted))


def _covered(result: Result) -> str:
    """Say which errors intervals cover, and which they do not."""
    valuation, tested = result.valuation, _tested(result.source)
    has_shares = bool(np.all(valuation.total > 0))
    what = "intervals" if has_shares else "standard errors"
    covered = [f"the Monte Carlo error of {valuation.about_evaluations}"]
    if has_shares and valuation.seed_noise is not None:
        covered.append("that of training seeds")
    if has_shares and valuation.knows_test_rows:
        return f"The {what} cover {some(covered)} and that from the choice of {tested}"
    return f"The {what} cover {' and '.join(covered)}, not the error from the choice of {tested}"


def _group(result: Result) -> str:
    """Return what the result calls its providers: the name of their column."""
    return next(iter(result.groupings))


def _negative(result: Result) -> str:
    """Return what a negative value means."""
    return NEGATIVE if result.account is None else result.account.negative


def _tested(source: Source | None) -> str:
    """Return what models are tested on."""
    return "test texts" if source is not None and source.task == "text" else "test rows"


def _of_outputs(valuation: Valuation, scores: Floats) -> str:
    """Return a score, or one for each output with its name."""
    numbers = [significant(score, 4) for score in np.atleast_1d(scores)]
    if valuation.outputs is None:
        return numbers[0]
    return some(f"{number} for {output}" for number, output in zip(numbers, valuation.outputs, strict=True))


def largest_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each output from the largest value to the smallest."""
    ordered = frame.sort_values("value", ascending=False, kind="stable")
    if "output" not in frame:
        return ordered
    order = {output: place for place, output in enumerate(frame["output"].unique())}
    return ordered.sort_values("output", key=lambda names: names.map(order), kind="stable")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table by column."""
    return [{str(name): cell for name, cell in row.items()} for row in frame.to_dict("records")]


def _listed(named: Any) -> str:
    return ", ".join(map(str, named)) if isinstance(named, list) else str(named or "")


def _sentence(fact: str) -> str:
    return f"{fact[0].upper()}{fact[1:]}."


def _percent(share: float | None) -> str:
    return "" if share is None or math.isnan(share) else f"{share:z.2%}"
