"""Recorded results: compares what a result's file says now with what the ledger recorded when it was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fgsv.ledger import Ledger
from fgsv.methods import Enumeration
from fgsv.valuation import Valuation
from fgsv.valuation.file import statement


def compare_with_record(
    document: Mapping[str, Any], recorded: list[dict[str, str]]
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that were altered, with what they say now, and the fields that have no record.

    A run may have several results (other groupings, a payout): the most similar record counts. Records of another
    game do not count: a ledger that took over evaluations of this game has no record of its results.
    """
    own = statement(document)
    game = own.get("settings.fingerprint")
    recorded = [each for each in recorded if each.get("settings.fingerprint", game) == game]
    if not recorded:
        return {}, sorted(own)
    best = max(recorded, key=lambda each: sum(own.get(name) == digest for name, digest in each.items()))
    fields = sorted(set(own) | set(best))
    altered = {name: _shown(document, name) for name in fields if name in best and own.get(name) != best[name]}
    return altered, [name for name in fields if name not in best]


def _shown(document: Mapping[str, Any], name: str) -> str:
    section, _, entry = name.partition(".")
    place = document.get(section, {}) if entry else document
    key = entry or section
    if key not in place:
        return "nothing: it was removed"
    text = repr(place[key])
    return text if len(text) <= 200 else text[:200] + "..."


def longer_runs(ledger: Ledger, valuation: Valuation) -> list[str]:
    """Return a note if the ledger records a run that went further than the one a valuation states."""
    settings = valuation.settings
    assert settings is not None
    most = max(
        (
            run.n_evaluations or 0
            for run in ledger.runs()
            if all(run.settings.get(name) == getattr(settings, name) for name in ("fingerprint", "seed"))
            and run.settings.get("method") in (settings.method, Enumeration.name)
        ),
        default=0,
    )
    if most <= valuation.n_evaluations:
        return []
    return [f"the ledger also records a run of this game and seed that went on to {most} evaluations"]
