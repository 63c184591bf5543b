"""A result: a valuation with its payout and audit, and the file valuation.json that stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.audit import Audit
from fgsv.payout import Payout
from fgsv.planning import HistoryPoint
from fgsv.tables.folds import TestError
from fgsv.tables.source import Source
from fgsv.valuation import Reason, Valuation, file


@dataclass(frozen=True, eq=False)
class Result:
    """A valuation, its source, and its payout, audit and test error if requested."""

    valuation: Valuation
    source: Source | None = None
    confidence: float = 0.95
    payout: Payout | None = None
    audit: Audit | None = None
    test_error: TestError | None = None
    history: tuple[HistoryPoint, ...] = ()
    own_warnings: tuple[str, ...] = ()
    """Warnings besides those of the audit."""
    others: Mapping[str, Valuation] = field(default_factory=dict)
    """The same players under other groupings, by column."""
    errors: tuple[Exception, ...] = ()
    """Why the requested payout or audit could not be made, or files could not be written; the rest stands."""
    files: tuple[Path, ...] = ()
    """Files written, if a folder was requested."""

    @property
    def warnings(self) -> list[str]:
        """Warnings of the run and of the audit, without repeats."""
        of_audit = () if self.audit is None else self.audit.warnings
        return list(dict.fromkeys([*self.own_warnings, *of_audit]))

    @property
    def interrupted(self) -> bool:
        """Whether the run, or a step after it, was interrupted."""
        return self.valuation.end.reason is Reason.INTERRUPTED or not self.valuation.finished

    @property
    def groupings(self) -> dict[str, Valuation]:
        """Column -> valuation, the main grouping first."""
        columns = {} if self.source is None else self.source.columns
        return {columns.get("group", ["group"])[0]: self.valuation, **self.others}

    def of_others(self) -> dict[str, Result]:
        """Return the results of the other groupings, by column: the same run, without payout and audit."""
        return {column: Result(each, self.source, self.confidence) for column, each in self.others.items()}

    def to_document(self) -> dict[str, Any]:
        """Return the contents of valuation.json."""
        document = file.to_document(self.valuation)
        source = {} if self.source is None else self.source.to_dict()
        settings = {"confidence": self.confidence} | document["settings"] | source
        settings["shown_confidence"] = self.confidence
        if self.valuation.ends is not None and self.valuation.outputs is None:
            settings["ends"] = self.valuation.ends.tolist()
        info = dict(document["info"])
        if self.history:
            info["history"] = [[point.n_evaluations, point.half_width] for point in self.history]
        if self.own_warnings:
            info["warnings"] = list(self.own_warnings)
        for name, part in (("payout", self.payout), ("audit", self.audit), ("test_error", self.test_error)):
            if part is not None:
                info[name] = part.to_dict()
        return document | {"settings": settings, "info": info}

    def save(self, path: str | Path) -> None:
        """Write valuation.json; `Result.load` and `Valuation.load` read it."""
        file.write(path, self.to_document())

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read valuation.json; the error for a damaged file names the field."""
        document = file.read(path)
        valuation = file.from_document(document, path)
        settings, info = document["settings"], document["info"]
        try:
            return cls(
                valuation,
                Source.from_dict(settings),
                settings.get("shown_confidence", settings.get("confidence", 0.95)),
                Payout.from_dict(info["payout"], valuation) if "payout" in info else None,
                Audit.from_dict(info["audit"]) if "audit" in info else None,
                TestError.from_dict(info["test_error"]) if "test_error" in info else None,
                tuple(HistoryPoint(*point) for point in info.get("history", [])),
                tuple(info.get("warnings", [])),
            )
        except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
            raise ValueError(f"{path}: settings or info cannot be read: {error!r}; value it again") from None


def as_result(given: Result | Valuation, others: Mapping[str, Valuation] | None = None) -> Result:
    """Return a result unchanged, or wrap a bare valuation in one."""
    result = given if isinstance(given, Result) else Result(given)
    return result if others is None else replace(result, others=others)


def notes_on(first: Result, second: Result) -> list[str]:
    """Return warnings about comparing the shares of two results."""
    settings = [each.valuation.settings for each in (first, second)]
    games = [None if each is None else each.fingerprint for each in settings]
    if None in games or games[0] == games[1]:
        return []
    sources = [vars(each.source) if each.source is not None else {} for each in (first, second)]
    differing = [name for name in ("file", "model", "metric") if sources[0].get(name) != sources[1].get(name)]
    words = ", ".join(differing) or "their data or test rows"
    return [f"these results come from different games, which differ in {words}"]


def table_of(valuation: Valuation, payout: Payout | None = None, confidence: float = 0.95) -> pd.DataFrame:
    """Return the table of a valuation, with payments if there are any."""
    frame = valuation.to_frame(confidence)
    if payout is not None and valuation.outputs is None:
        frame["payout"] = pd.Series(list(payout.payments), dtype=object)
    return frame
