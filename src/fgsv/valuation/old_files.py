"""Files of fgsv 0.1.0: they store the end of a run and its stopping rules as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fgsv.valuation.end import End, Reason

_ENDS = {
    "interrupted": Reason.INTERRUPTED,
    "abandoned": Reason.INTERRUPTED,
    "failed": Reason.FAILED,
    "budget of": Reason.BUDGET,
    "max_seconds of": Reason.TIME,
    "every standard error": Reason.TARGET,
    "every share": Reason.TARGET,
    "nothing is left": Reason.EXHAUSTED,
    "every coalition": Reason.EXHAUSTED,
}
_NUMBERS = re.compile(r"(\w+)=(?:np\.float64\()?([^,)]+)")


def end_of(stopped: str) -> End:
    """Return the end that 0.1.0 stored as text.

    >>> end_of("budget of 300 reached").reason
    <Reason.BUDGET: 'budget'>
    """
    for beginning, reason in _ENDS.items():
        if stopped.startswith(beginning):
            return End(reason, "" if stopped == str(reason) else stopped)
    raise ValueError(f"unknown end of a run: {stopped!r}")


def settings_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run of 0.1.0 with its stopping rules as named numbers.

    >>> settings_of({"rules": ["Precision(target=0.05, confidence=0.9)"], "proxy": False})["precision"]
    0.05
    """
    found = dict(document)
    for rule in document.get("rules", []):
        numbers = {name: float(number) for name, number in _NUMBERS.findall(rule)}
        if rule.startswith("Precision("):
            found |= {"precision": numbers["target"], "confidence": numbers["confidence"]}
        elif rule.startswith("StandardError("):
            found["stderr"] = numbers["target"]
        elif rule.startswith("MaxSeconds("):
            found["max_seconds"] = numbers["seconds"]
    return found | {"version": "0.1.0", "needs": ["proxy"] if document.get("proxy") else []}


def weights_of(document: Mapping[str, Any]) -> list[float] | None:
    """Return the weights with which a valuation of 0.1.0 combined the folds of the test rows, if any."""
    found = document.get("info", {}).get("test_error")
    return None if found is None else found["weights"]


def ends_of(document: Mapping[str, Any]) -> Any:
    """Return U(0) and U(N), if a valuation of 0.1.0 has them."""
    return document.get("settings", {}).get("ends")


def is_finished(document: Mapping[str, Any]) -> bool:
    """Say whether 0.1.0 considered a result finished."""
    return bool(document.get("stopped") != str(Reason.INTERRUPTED))
