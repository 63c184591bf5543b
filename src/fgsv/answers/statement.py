"""Statements of a month: what is said of it, what copies earned, and for each publisher what every answer paid."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fgsv.answers.answer import digest_of
from fgsv.answers.month import FEW
from fgsv.files import to_csv, write_whole
from fgsv.pipeline.folder import file_names
from fgsv.results import Result
from fgsv.results.account import Account
from fgsv.types import Floats, Masks
from fgsv.valuation.display import Section
from fgsv.words import counted, level, now, percent, some

if TYPE_CHECKING:
    from fgsv.answers.royalties import Done, Valued

PUBLISHERS = "publishers"
"""The folder of their tables."""
RULES = {
    "share": "those that several publishers have are shared equally",
    "first": "those that several publishers have belong to the one who registered them first",
}


def account_of(result: Result, month: Done, fees: Decimal, currency: str, seed_from: str) -> Result:
    """Return the result with what is to be said of a month, and its warnings."""
    found, valuation, verdict = month.royalties, result.valuation, result.verdict
    paid = Decimal(float(valuation.total)).quantize(Decimal("0.01"))
    widest = int(found.stderr.argmax())
    within = min(1.0, found.within[widest] / max(found.covariance[widest, widest], 1e-300))
    pieces = month.valued[0].pieces
    empty = sum(each.valuation is None for each in month.valued)
    known = "exactly" if not verdict.half_width else f"to within {percent(verdict.half_width)} of the whole"
    words = [f"{verdict.decision}: royalties are known {known} at {level(result.confidence)} confidence"]
    if verdict.half_width:
        words.append(
            f"{within:.0%} of the widest variance is from evaluations, the rest from the choice of answers; about "
            f"{found.draws_to_narrow(2.0):,} answers would halve the widest interval"
        )
    more = f", and {month.times:.1f} times as many for the second half" if month.times > 1 else ""
    rows = (
        ("answers", f"{found.n_answers:,}, of {counted(len(valuation), 'publisher')}"),
        ("fees", f"{fees:,} {currency}"),
        ("shared", f"about {paid:,} {currency}: answers that their sources hardly help are not paid"),
        ("drawn", f"{found.n_draws:,} in proportion to fees, {empty:,} of them with nothing to share"),
        ("seed from", repr(seed_from)),
        ("pieces", f"{pieces.cut}; {RULES[pieces.duplicates]}"),
        ("evaluations", f"{month.n_evaluations:,}: the fewest that give unbiased values{more}"),
        ("command", result.command or "in Python"),
    )
    certain = (
        "Shares of an answer have no bias, and so has their sum: the kernel's parameters, and what tokens let one "
        "expect, are learned from other answers.",
        "The same answers, seed and ledger give the same numbers, without any evaluation. The folder publishers has "
        "a table for each publisher: its drawn answers, what each paid it, and what it paid to others.",
    )
    account = Account(
        f"What {counted(found.n_answers, 'answer')} paid to {counted(len(valuation), 'publisher')}",
        "publisher",
        tuple(words),
        (
            Section("The month", rows=rows),
            _copies(month.valued),
            Section("What is certain, and how to check it", certain, technical=True),
        ),
    )
    rare = [str(name) for name, size in zip(valuation.names, valuation.partition.sizes, strict=True) if size < FEW]
    if rare and found.n_draws < found.n_answers:
        warned = f"in fewer than {FEW} of the drawn answers, so paid by what tokens let one expect: {some(rare)}"
        result = replace(result, own_warnings=(*result.own_warnings, warned))
    return replace(result, account=account)


def _copies(valued: Sequence[Valued]) -> Section:
    """Return the audit of a month: what pieces earned that several publishers have."""
    rows: dict[str, Floats] = {}
    for each in valued:
        if each.valuation is None:
            continue
        owned, placed = _owned(each), _placed(each)
        has = np.stack([placed[:, _of(each, name)].any(axis=1) for name in each.answer.publishers], axis=1)
        copied = has.sum(axis=1) > 1
        worth = np.asarray(each.valuation.of_players().shares())[copied] @ owned[copied]
        for k, name in enumerate(each.answer.publishers):
            counts = np.array([has[:, k].sum(), has[copied, k].sum(), each.stands_for * worth[k]])
            rows[name] = rows.get(name, 0.0) + counts
    found = sorted(((name, *row) for name, row in rows.items() if row[1]), key=lambda row: -row[3])
    return Section(
        "Copies across publishers",
        (f"In the drawn answers: {RULES[valued[0].pieces.duplicates]}.", *(() if found else ("There are none.",))),
        ("publisher", "its pieces", "also others'", "royalties for these"),
        tuple((name, f"{n:,.0f}", f"{m:,.0f}", f"{earned:,.2f}") for name, n, m, earned in found),
    )


def write_statements(folder: Path, valued: Sequence[Valued], confidence: float) -> list[Path]:
    """Write a table for each publisher, of the answers that were drawn and what they paid, and telemetry."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for each in valued:
        publishers, stated = each.answer.publishers, _stated(each, confidence)
        for k, name in enumerate(publishers):
            others = [f"{publishers[j]} {stated[j, 0]:.2%}" for j in range(len(publishers)) if j != k]
            row: dict[str, Any] = {"answer": each.answer.id, "query": each.answer.query, "fee": str(each.answer.fee)}
            row |= dict(zip(("share", "low", "high"), stated[k].tolist(), strict=True))
            row |= {"royalty": stated[k, 0] * float(each.answer.fee), "stands_for": each.stands_for}
            rows.setdefault(name, []).append(row | _how(each) | {"others": "; ".join(others)})
    own = folder / PUBLISHERS
    own.mkdir(exist_ok=True)
    for earlier in own.glob("*.csv"):
        earlier.unlink()
    written = [
        write_whole(own / f"{stem}.csv", to_csv(pd.DataFrame(rows[name])))
        for name, stem in file_names(rows, "").items()
    ]
    lines = [json.dumps(event) for each in valued for event in _events(each, confidence)]
    return [*written, write_whole(folder / "telemetry.jsonl", "".join(f"{line}\n" for line in lines))]


def _events(each: Valued, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield an event of Content Telemetry 0.1 for each passage, with what it earned of the answer."""
    owned, placed = _owned(each), _placed(each)
    by_passage = np.zeros(placed.shape)
    for k, name in enumerate(each.answer.publishers):
        mine = placed * _of(each, name)
        by_passage += owned[:, [k]] * mine / np.maximum(mine.sum(axis=1, keepdims=True), 1)
    session = uuid.uuid5(uuid.NAMESPACE_OID, f"{each.answer.id}\0{each.answer.digest}")
    stated = _stated(each, confidence, by_passage)
    for passage, numbers in zip(each.answer.passages, stated.tolist(), strict=True):
        said = dict(zip(("share", "low", "high"), numbers, strict=True)) | _how(each)
        data = {"scope": "turn", "tokens_ingested": passage.tokens, "fgsv": said}
        data["content_hash"] = f"sha256:{digest_of(passage.text)}"
        event = {"type": "content_grounded", "timestamp": now(), "turn_id": each.answer.id, "source_role": "agent"}
        event |= {"content_url": passage.url, "content_id": passage.document, "license_ref": passage.licence}
        known = {name: part for name, part in {**event, "data": data}.items() if part is not None}
        yield {"document_type": "event", "schema_version": "0.1", "session_id": str(session), "event": known}


def _stated(each: Valued, confidence: float, groups: Any = None) -> Floats:
    """Return (groups, 3): the share of each publisher, or of other groups, and the ends of its interval."""
    if each.valuation is None:
        return np.zeros((len(each.answer.publishers) if groups is None else groups.shape[1], 3))
    found = each.valuation if groups is None else each.valuation.regroup(groups)
    return np.column_stack([found.shares(), found.share_interval(confidence)])


def _how(each: Valued) -> dict[str, Any]:
    """Return the method and the evaluations of an answer."""
    found = each.valuation
    return (
        {"method": "nothing to share", "evaluations": 2}
        if found is None
        else {"method": found.method, "evaluations": found.n_evaluations}
    )


def _owned(each: Valued) -> Floats:
    """Return (n, K): the part of each player that each publisher has."""
    owned = each.pieces.partition.ownership
    return np.eye(len(each.answer.publishers))[each.pieces.partition.codes] if owned is None else owned


def _placed(each: Valued) -> Masks:
    """Return (n, passages): whether a player stands in a passage."""
    placed = np.zeros((each.pieces.n_players, len(each.answer.passages)), dtype=bool)
    for place in each.pieces.places:
        placed[place.player, place.passage] = True
    return placed


def _of(each: Valued, publisher: str) -> Masks:
    """Return (passages,): whether they are a publisher's."""
    return np.array([passage.publisher == publisher for passage in each.answer.passages])
