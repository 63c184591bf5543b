"""Statements of a month: what is said of it, and for each publisher what its answers paid, and to whom."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fgsv.answers.answer import digest_of
from fgsv.answers.month import FEW, Royalties
from fgsv.files import to_csv
from fgsv.pipeline.folder import file_names
from fgsv.results.account import Account
from fgsv.results.result import Result
from fgsv.types import Floats
from fgsv.valuation.display import Section
from fgsv.words import counted, level, now, percent, some

if TYPE_CHECKING:
    from fgsv.answers.paying import Valued

NEGATIVE = (
    "A negative royalty means that, averaged over all selections of the passages, those of the publisher made the "
    "answers less likely."
)
CERTAIN = (
    "Shares of an answer have no bias, and neither has their sum: the kernel's parameters, and what tokens let one "
    "expect, are learned from other answers.",
    "The same answers, seed and ledger give the same numbers, without any evaluation. Each publisher has a file of "
    "its own with the answers that were drawn, and what each of them paid to whom.",
)
NOTHING: dict[str, Any] = {
    "share": 0.0,
    "share_low": 0.0,
    "share_high": 0.0,
    "method": "nothing to share",
    "evaluations": 2,
}
RULES = {"share": "share its value equally", "first": "leave its value to the one who registered it first"}


def with_account(result: Result, found: Royalties, valued: Sequence[Valued], fees: str, seed_from: str) -> Result:
    """Return the result with what is to be said of a month, and its warnings."""
    valuation = result.valuation
    verdict = result.verdict
    pieces = valued[0].pieces
    part = min(1.0, found.within[found.widest] / (found.stderr[found.widest] ** 2 or 1.0))
    halving = found.draws_to_narrow(2.0)
    words = (
        f"{verdict.decision}: royalties are known to within {percent(verdict.half_width or 0.0)} of the whole at "
        f"{level(result.confidence)} confidence",
        f"{part:.0%} of the widest variance is from evaluations, the rest from the choice of answers; "
        + (
            "all answers would not halve the widest interval without more evaluations of each"
            if halving is None
            else f"about {halving:,} answers would halve the widest interval"
        ),
    )
    is_sampled = found.n_draws < found.n_answers
    rare = [
        str(name)
        for name, size in zip(valuation.names, valuation.partition.sizes, strict=True)
        if size < FEW and is_sampled
    ]
    rows = {
        "answers": f"{found.n_answers:,}, of {counted(len(valuation), 'publisher')}",
        "fees": f"{fees}; about {valuation.total:,.2f} of them for answers that their sources help",
        "drawn": f"{found.n_draws:,} in proportion to fees, "
        f"{sum(each.valuation is None for each in valued):,} of them with nothing to share",
        "seed from": repr(seed_from),
        "players": f"{pieces.cut}; publishers of one that several have {RULES[pieces.duplicates]}",
        f"in fewer than {FEW} of them": f"{some(rare)}: paid mostly by what tokens let one expect"
        if rare
        else "nobody",
        "evaluations": f"{valuation.n_evaluations:,} in {len(valued):,} answers",
        "command": result.command or "in Python",
    }
    return replace(
        result,
        account=Account(
            title=f"What {counted(found.n_answers, 'answer')} paid to {counted(len(valuation), 'publisher')}",
            group="publisher",
            negative=NEGATIVE,
            verdict=words[: 1 + is_sampled],
            sections=(
                Section("The month", columns=("what", "in this month"), rows=tuple(rows.items())),
                _copies(valued),
                Section("What is certain, and how to check it", CERTAIN, technical=True),
            ),
        ),
    )


def _copies(valued: Sequence[Valued]) -> Section:
    """Return the audit of a month: what pieces earned that several publishers have."""
    copied: defaultdict[str, Floats] = defaultdict(lambda: np.zeros(2))
    for each in valued:
        owned, stands, of_passage = _places(each)
        has = stands @ np.eye(owned.shape[1])[of_passage] > 0
        has &= has.sum(axis=1, keepdims=True) > 1
        earned = 0.0 if each.valuation is None else each.stands_for * each.valuation.of_players().shares()
        for name, row in zip(
            each.answer.publishers, np.stack([has, has * owned * np.c_[earned]]).sum(1).T, strict=True
        ):
            copied[name] += row
    found = sorted((item for item in copied.items() if item[1][0]), key=lambda item: -item[1][1])
    return Section(
        "Pieces that several publishers have",
        (f"In the drawn answers, and for all fees that these stand for.{'' if found else ' There are none.'}",),
        ("publisher", "pieces", "royalties"),
        tuple((name, f"{count:,.0f}", f"{earned:,.2f}") for name, (count, earned) in found),
    )


def texts(valued: Sequence[Valued], confidence: float) -> dict[str, str]:
    """Return the files of a month by name: a table for each publisher, and telemetry."""
    tables = [_table(each, confidence).rename(columns={"group": "publisher"}) for each in valued]
    of_publisher: defaultdict[str, list[pd.DataFrame]] = defaultdict(list)
    for each, table in zip(valued, tables, strict=True):
        for name in each.answer.publishers:
            of_publisher[name].append(table)
    names = file_names(of_publisher, "publisher-")
    return {
        **{f"{names[name]}.csv": to_csv(pd.concat(parts)) for name, parts in of_publisher.items()},
        "telemetry.jsonl": "".join(
            json.dumps(event) + "\n" for each in valued for event in _events(each, confidence)
        ),
    }


def _table(each: Valued, confidence: float, groups: Any = None) -> pd.DataFrame:
    """Return the share of each publisher, or of other groups, in an answer, and how it is known."""
    found, answer = each.valuation, each.answer
    if found is None:
        names = answer.publishers if groups is None else range(groups.shape[1])
        table = pd.DataFrame({"group": names}).assign(**NOTHING)
    else:
        table = (found if groups is None else found.regroup(groups)).to_frame(confidence)
        table = table[["group", "share", "share_low", "share_high"]].assign(
            method=found.method, evaluations=found.n_evaluations
        )
    return table.assign(answer=answer.id, query=answer.query, fee=str(answer.fee), stands_for=each.stands_for)


def _events(each: Valued, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield an event of Content Telemetry 0.1 for each passage, with what it earned of the answer."""
    owned, stands, of_passage = _places(each)
    by_passage = owned[:, of_passage] * stands / np.maximum(stands @ np.equal.outer(of_passage, of_passage), 1)
    session, _, turn = str(each.answer.id).rpartition("/")
    session = session or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{each.answer.id}\0{each.answer.digest}"))
    rows = _table(each, confidence, by_passage).to_dict("records")
    for passage, row in zip(each.answer.passages, rows, strict=True):
        data = {
            "scope": "turn",
            "tokens_ingested": passage.tokens,
            "content_hash": f"sha256:{digest_of(passage.text)}",
            "fgsv": {
                "share": row["share"],
                "low": row["share_low"],
                "high": row["share_high"],
                "method": row["method"],
                "evaluations": row["evaluations"],
            },
        }
        event = {
            "type": "content_grounded",
            "timestamp": now(),
            "turn_id": turn,
            "content_url": passage.url,
            "content_id": passage.document,
            "license_ref": passage.licence,
            "data": _known(data),
        }
        yield {"document_type": "event", "schema_version": "0.1", "session_id": session, "event": _known(event)}


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: field for name, field in fields.items() if field is not None}


def _places(each: Valued) -> tuple[Floats, Floats, list[int]]:
    """Return (n, K) the part of a player that a publisher has, (n, passages) where it stands, and whose these are."""
    partition = each.pieces.partition
    owned = np.eye(partition.n_groups)[partition.owners] if partition.is_disjoint else partition.owners
    stands = np.zeros((len(owned), len(each.answer.passages)))
    for place in each.pieces.places:
        stands[place.player, place.passage] = 1.0
    return owned, stands, [each.answer.publishers.index(passage.publisher) for passage in each.answer.passages]
