"""The JSON that `--json` prints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from fgsv.files import encode
from fgsv.results.result import Result


def plain(document: Any) -> Any:
    """Return a document with null for the numbers JSON cannot represent: NaN and the infinities.

    >>> plain({"gain": [1.5, float("nan")]})
    {'gain': [1.5, None]}
    """
    if isinstance(document, Mapping):
        return {name: plain(part) for name, part in document.items()}
    if isinstance(document, (list, tuple)):
        return [plain(part) for part in document]
    return None if isinstance(document, float) and not math.isfinite(document) else document


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON: null for missing cells, plain numbers for numpy's."""
    return json.loads(frame.to_json(orient="records", double_precision=15))


def document_of(result: Result) -> dict[str, Any]:
    """Return a result in the form that `--json` prints."""
    valuation = result.valuation
    main = next(iter(result.groupings))
    results = {main: replace(result, payout=None), **result.of_others()}
    errors = result.errors_of_shares()
    return {
        "verdict": encode(result.verdict),
        "n_evaluations": valuation.n_evaluations,
        "n_known": valuation.n_known,
        "n_unfitted": valuation.n_unfitted,
        "efficient": valuation.efficient,
        "end": encode(valuation.end),
        "notes": [] if result.source is None else list(result.source.notes),
        "groupings": {column: records(each.table()) for column, each in results.items()},
        "warnings": result.warnings,
        "failures": encode(valuation.failures),
        "intervals": valuation.about_intervals,
        "errors_of_shares": None if errors is None else records(errors),
        **result.parts,
    }
