"""A result: a valuation with its payout and audit, and the file valuation.json that stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.audit import Audit
from fgsv.checks import check_type
from fgsv.data.source import Source
from fgsv.files import decode, encode
from fgsv.payout import Payout, PayoutRefused, Terms
from fgsv.payout.splitting import AlteredPayout
from fgsv.planning import HistoryPoint
from fgsv.results.account import Account
from fgsv.results.questions import SharesByQuestion
from fgsv.results.scores_without import ScoresWithout
from fgsv.results.seals import Sealed
from fgsv.results.verdicts import Verdict, verdict
from fgsv.valuation import Reason, Valuation, check_valuation, file
from fgsv.valuation.display import Section, as_html, as_text

PARTS: dict[str, Any] = {
    "without": ScoresWithout,
    "highlights": Section,
    "by_question": SharesByQuestion,
    "account": Account,
    "sealed": Sealed,
    "unpaid": PayoutRefused,
}
"""Parts that a result may have, besides its payout and its audit, which are saved in forms of their own."""


@dataclass(frozen=True, eq=False)
class Result:
    """A valuation, its source, and its payout and audit if requested."""

    valuation: Valuation
    source: Source | None = None
    confidence: float = 0.95
    payout: Payout | None = None
    audit: Audit | None = None
    history: tuple[HistoryPoint, ...] = ()
    own_warnings: tuple[str, ...] = ()
    """Warnings other than the audit's."""
    others: Mapping[str, Valuation] = field(default_factory=dict)
    """The same players under other groupings, by column."""
    errors: tuple[Exception, ...] = ()
    """Why the requested payout or audit could not be made, or files could not be written; the rest is valid."""
    unpaid: PayoutRefused | None = None
    """Why the requested payout was refused."""
    without: ScoresWithout | None = None
    """The scores without each group of the main grouping, and of each alone, if they were computed."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Group -> what its data is like, in a sentence."""
    made: str | None = None
    """When it was made, in UTC: 2026-01-31T12:00:00Z."""
    command: str | None = None
    """The command line that made it."""
    files: tuple[Path, ...] = ()
    """Files written, if a folder was requested."""
    before: Result | None = None
    """The result of the previous period, which the report shows beside this one; not saved."""
    highlights: Section | None = None
    """The documents that earned and cost most, if texts were valued and single players may be shown."""
    by_question: SharesByQuestion | None = None
    """The shares by other scores and slices of the test rows, if these were declared."""
    account: Account | None = None
    """What is said in place of data and model, if the players are no training data."""
    sealed: Sealed | None = None
    """The seal of the run, the public value, and the root over its records, if the run was sealed."""

    @property
    def warnings(self) -> list[str]:
        """Warnings of the run, its seal, payout and audit, without repeats."""
        of_audit = () if self.audit is None else self.audit.warnings
        pays = any(each is not None for each in (self.payout, self.unpaid, self.sealed))
        of_money = self.source.warnings_of_payments if pays and self.source is not None else []
        return list(dict.fromkeys([*self.own_warnings, *of_money, *of_audit]))

    @property
    def test_noise(self) -> float | None:
        """The half-width of U(N) - U(0) due to the choice of test rows; None if unknown, or of several outputs."""
        noise = self.valuation.total_half_width(self.confidence)
        return None if noise is None or noise.ndim else float(noise)

    @property
    def verdict(self) -> Verdict:
        """How well the payments are known; without a payout, the shares."""
        return verdict(self.valuation, confidence=self.confidence, paid=self.payout)

    def errors_of_shares(self) -> pd.DataFrame | None:
        """Return each share with its half-widths by cause; None unless more than the Monte Carlo error is known.

        Columns: group, share, monte_carlo, training_seeds and test_rows, the last two if they are known.
        """
        valuation, tested = self.valuation, self.valuation.knows_test_rows
        if (valuation.seed_noise is None and not tested) or valuation.outputs is not None or not valuation.total > 0:
            return None
        frame = pd.DataFrame(
            {
                "group": [str(name) for name in valuation.names],
                "share": valuation.shares(),
                "monte_carlo": valuation.sampling_half_width(self.confidence),
            }
        )
        if valuation.seed_noise is not None:
            frame["training_seeds"] = valuation.seed_half_width(self.confidence)
        if tested:
            frame["test_rows"] = valuation.test_half_width(self.confidence)
        return frame

    def paid_by(self, terms: Terms) -> Result:
        """Return the result with an amount split by these terms, or with the reason why it was not."""
        terms.check(self.valuation.partition.n_groups, self.valuation.outputs)
        try:
            paid = terms.split(self.valuation, self.confidence)
        except PayoutRefused as refused:
            return replace(self, payout=None, unpaid=refused)
        except ValueError as error:
            return replace(self, payout=None, errors=(*self.errors, error))
        return replace(self, payout=paid, unpaid=None)

    @property
    def interrupted(self) -> bool:
        """Whether the run, or a step after it, was interrupted."""
        return self.valuation.end.reason is Reason.INTERRUPTED or not self.valuation.finished

    @property
    def groupings(self) -> dict[str, Valuation]:
        """Column -> valuation, the main grouping first."""
        columns = {} if self.source is None else self.source.columns
        name = columns.get("group", ["group"])[0] if self.account is None else self.account.group
        return {name: self.valuation, **self.others}

    def table(self) -> pd.DataFrame:
        """Return the table of the main grouping, with payments and the scores of groups if there are any."""
        frame = self.valuation.to_frame(self.confidence)
        if self.payout is not None and self.valuation.outputs is None:
            frame["payout"] = pd.Series(list(self.payout.payments), dtype=object)
        if self.without is not None:
            frame["without"], frame["alone"] = self.without.columns
        return frame

    def of_others(self) -> dict[str, Result]:
        """Return the results of the other groupings, by column: the same run, without payout and audit."""
        return {
            column: Result(
                each, self.source, self.confidence, made=self.made, command=self.command, sealed=self.sealed
            )
            for column, each in self.others.items()
        }

    def sections(self) -> list[Section]:
        """Return what a terminal and a notebook show."""
        from fgsv.report.sections import shown

        return shown(self)

    __repr__ = as_text
    _repr_html_ = as_html

    def to_document(self) -> dict[str, Any]:
        """Return the contents of valuation.json."""
        document = file.to_document(self.valuation)
        source = {} if self.source is None else self.source.to_dict()
        settings = {"confidence": self.confidence} | document["settings"] | source
        info = {
            "history": [[point.n_evaluations, point.half_width] for point in self.history] or None,
            "warnings": list(self.own_warnings),  # if there are none, a ledger knows that there were none
            **self.parts,
            "made": self.made,
            "command": self.command,
            "facts": dict(self.facts) or None,
            "verdict": encode(self.verdict),
        }
        stated = {name: part for name, part in info.items() if part is not None}
        settings |= {"shown_confidence": self.confidence}
        return document | {"settings": settings, "info": document["info"] | stated}

    @property
    def parts(self) -> dict[str, dict[str, Any] | None]:
        """Its payout and all other parts, as files have them; None for those that it does not have."""
        payout = None if self.payout is None else self.payout.to_dict()
        audit = None if self.audit is None else self.audit.to_dict()
        return {"payout": payout, "audit": audit, **{name: encode(getattr(self, name)) for name in PARTS}}

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
                history=tuple(HistoryPoint(*point) for point in info.get("history", [])),
                own_warnings=tuple(info.get("warnings", [])),
                made=info.get("made"),
                command=info.get("command"),
                facts={str(group): str(words) for group, words in info.get("facts", {}).items()},
                **{name: decode(kind, info[name]) for name, kind in PARTS.items() if name in info},
            )
        except AlteredPayout as error:
            raise ValueError(
                f"{path} was changed after it was made: {error}. Restore it, or value the data again"
            ) from None
        except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
            raise ValueError(f"{path}: settings or info cannot be read: {error!r}; value it again") from None


def as_result(given: Result | Valuation, others: Mapping[str, Valuation] | None = None) -> Result:
    """Return a result unchanged, or wrap a bare valuation in one."""
    if not isinstance(given, Result):
        check_valuation(given)
    if others is not None:
        check_type(others, Mapping, "a mapping from names of groupings to valuations as others")
        for each in others.values():
            check_valuation(each)
    result = given if isinstance(given, Result) else Result(given)
    return result if others is None else replace(result, others=others)


def check_result(given: object) -> None:
    """Raise an error if this is no result, such as the path of a saved one."""
    check_type(given, Result, "a result", "fgsv.results.Result.load(path) opens a saved one")
