"""What a result says, in order: the terminal, the page and a notebook show these sections and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from fgsv.data.source import Source
from fgsv.results.periods import compare_results
from fgsv.results.result import Result
from fgsv.results.sensitivities import sensitivity
from fgsv.running.stopping import rules_of
from fgsv.types import Floats
from fgsv.valuation import Valuation
from fgsv.valuation.display import NEGATIVE, Section
from fgsv.words import counted, in_percent, level, sentence, significant, some

Row = Mapping[Any, Any]
Cell = Callable[[Row], str]

VERDICT, WARNING, REFUSED, FAILED = "Verdict", "Warning", "Refused", "Failed"
VALUES, RUN = "Values and shares", "Run"
"""Titles of sections that a page treats in a way of its own, or gives a chart."""
MOST_ON_A_PAGE = 12
"""With more providers than this, the first page has only what they are paid."""


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
        yield result.payout.section(_group(result), _negative(result))
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
        yield from compare_results(result.before, result, result.confidence).sections()
    yield from list(_providers(result))[1 if len(valuation) <= MOST_ON_A_PAGE else 0 :]
    if result.payout is not None:
        section = values(valuation, group, result.confidence, negative=_negative(result))
        yield replace(section, technical=True)
    yield from _by_output(result)
    for name, other in result.others.items():
        yield values(other, name, result.confidence, f"The same evaluations, grouped by {name}")
    yield from _errors(result)
    if result.by_question is not None and valuation.total > 0:
        yield from sensitivity(result, confidence=result.confidence).sections(group)
    if result.highlights is not None:
        yield result.highlights
    if result.audit is not None:
        yield from (each for each in result.audit.sections() if each.title != WARNING)
    if result.account is None:
        yield Section(RUN, tuple(_run(result)))
    if result.source is not None and result.source.notes:
        yield Section("Choices made by the command", tuple(result.source.notes), technical=True)


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
    columns = _columns_of_groups(valuation, group)
    named = "Values"
    if np.all(valuation.total > 0):
        columns |= {"share": lambda row: in_percent(row["share"]), "interval": _interval}
        named = f"{VALUES}, with {level(confidence)} intervals"
    columns |= {
        "players": lambda row: f"{row['players']:,.6g}",
        "value": lambda row: significant(row["value"], 4),
        "± stderr": lambda row: "unknown" if math.isnan(row["stderr"]) else significant(row["stderr"], 2),
    }
    words = [] if valuation.about_shares is None else [sentence(valuation.about_shares)]
    if (valuation.values < 0).any():
        words.append(negative)
    return _table(title or named, words, columns, largest_first(valuation.to_frame(confidence)))


def _columns_of_groups(valuation: Valuation, group: str) -> dict[str, Cell]:
    """Return the columns that name a group, and its output if there are several."""
    columns: dict[str, Cell] = {group: lambda row: str(row["group"])}
    return columns if valuation.outputs is None else columns | {"output": lambda row: row["output"]}


def _interval(row: Row) -> str:
    low, high = row["share_low"], row["share_high"]
    return "unknown" if math.isnan(low) else f"{in_percent(low)} to {in_percent(high)}"


def _table(title: str, words: Iterable[str], columns: Mapping[str, Cell], frame: pd.DataFrame) -> Section:
    """Return a section with these columns, each with what its cells say of a row."""
    rows = tuple(tuple(cell(row) for cell in columns.values()) for row in frame.to_dict("records"))
    return Section(title, tuple(words), tuple(columns), rows)


def _providers(result: Result) -> Iterator[Section]:
    """Yield what the data of each provider is like, and the scores without and of each."""
    valuation, without = result.valuation, result.without
    names = [str(name) for name in valuation.names]
    if result.facts:
        order = np.argsort(-valuation.values.reshape(len(names), -1).sum(axis=1), kind="stable")
        rows = tuple((names[k], result.facts[names[k]]) for k in order if names[k] in result.facts)
        yield Section("The data of each provider", (), (_group(result), "its data"), rows)
    if without is not None:
        words = [
            f"With all the data the model scores {_of_outputs(valuation, valuation.ends[1])}, with none "
            f"{_of_outputs(valuation, valuation.ends[0])}."
            if valuation.ends is not None
            else "",
            f"Beside it: the score without a provider's data, and with that data alone ({without.n_evaluations} "
            "evaluations outside the budget).",
        ]
        columns = _columns_of_groups(valuation, _group(result)) | {
            "players": lambda row: f"{row['players']:,.6g}",
            "score without": lambda row: significant(row["without"], 4),
            "score alone": lambda row: significant(row["alone"], 4),
        }
        yield _table("How the model scores", [" ".join(filter(None, words))], columns, largest_first(result.table()))


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
        yield from (sentence(note) for note in payout.notes if note != valuation.about_intervals)
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
        yield f"{sentence(valuation.about_intervals)}"
    yield f"Values depend on the model, the score and the {tested}: others give others."
    if result.audit is None:
        yield "Copies of others' players, and players made to look like them, earn a share: an audit looks for them."
    if result.verdict.ranking:
        yield f"{sentence(result.verdict.ranking)} Their payments are as certain as all the others."


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
    ordered = frame.sort_values("share", ascending=False, kind="stable").set_index("group")
    rows = tuple((name, *map(in_percent, cells)) for name, *cells in ordered.itertuples())
    columns = (_group(result), *ordered.rename(columns=causes))
    yield Section("How far shares may be off, by cause", tuple(words), columns, rows)


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


def _listed(named: Any) -> str:
    return ", ".join(map(str, named)) if isinstance(named, list) else str(named or "")
