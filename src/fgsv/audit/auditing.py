"""The audit of a valuation: the usual group values (GSV), and what shell companies would earn under them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.audit.shells import COLUMNS as COLUMNS_OF_ATTACKS
from fgsv.audit.shells import Sample, Shells, measure_shells
from fgsv.audit.shells import least_budget as least_of_shells
from fgsv.audit.splits import PARTS, WAYS, Splits
from fgsv.checks import whole_number
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.recording import OutOfTime
from fgsv.evaluation.views import by_groups, without_folds
from fgsv.files import decode, encode
from fgsv.ledger import Ledger
from fgsv.running.preparation import access_to, read_players
from fgsv.running.run import value
from fgsv.valuation import Valuation, check_confidence, check_valuation, positive_total
from fgsv.valuation.display import Section, as_html, as_text
from fgsv.words import in_percent

FEWEST_OF_GSV = 100
"""Minimum evaluations for the usual group values."""
DEFAULT_BUDGET = 4000
SAME_GAME = 0.01
"""How far U(N) - U(0) may be from that of the valuation, relative to it: on a GPU it is not the same twice."""
SPLITS = "Shell companies: what every split would earn"
COLUMNS_OF_GSV = ["group", "share", "gsv_share", "gsv_half_width"]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; every table is a data frame."""

    gsv: pd.DataFrame
    """group, share (FGSV), gsv_share, gsv_half_width."""
    attacks: pd.DataFrame
    """group, way, parts, gain, gain_low, gain_high: gains from splitting under GSV, in shares; 0 under FGSV."""
    warnings: tuple[str, ...] = ()
    spent: Mapping[str, int] = field(default_factory=dict)
    """Purpose -> number of evaluations."""
    budget: int | None = None
    """The budget of the audit, if one was set."""
    tables: tuple[Section, ...] = ()
    """Further sections."""
    sample: Sample | None = None
    """The sample of groups whose splits were measured; None if it was all of them."""

    @property
    def n_evaluations(self) -> int:
        """Evaluations of the audit in total."""
        return sum(self.spent.values())

    @property
    def spent_in_words(self) -> str:
        """The evaluations of the audit by purpose, and its budget."""
        spent = ", ".join(f"{count:,} for {purpose}" for purpose, count in self.spent.items()) or "none"
        limit = "" if self.budget is None else f" of its budget of {self.budget:,}"
        sampled = "" if self.sample is None else f" {self.sample}."
        return f"The audit used {self.n_evaluations:,} more evaluations{limit}: {spent}.{sampled}"

    def sections(self) -> Iterator[Section]:
        """Yield the usual group values, what splitting earns under them, further sections, and the warnings."""
        attacks = self.attacks.to_dict("records")
        if len(self.gsv):
            words = (
                "The faithful value (FGSV) sums up what a provider's players contribute, however they are grouped. "
                "The usual group value (GSV) takes each provider as one block, and changes when it splits into shell "
                "companies; under FGSV that gains nothing.",
                self.spent_in_words,
            )
            best: dict[str, tuple[str, str]] = {}
            for row in sorted(attacks, key=lambda row: -row["gain_low"]):  # the largest estimate may be luck
                best.setdefault(row["group"], _split(row))
            table = tuple(
                (row["group"], in_percent(row["share"]), _gsv(row), *best.get(row["group"], ("", "")))
                for row in sorted(self.gsv.to_dict("records"), key=lambda row: -row["share"])
            )
            columns = ("group", "FGSV share", "GSV share", "best split", "gain under GSV")
            yield Section("Faithful values beside the usual group values", words, columns, table)
        else:
            yield Section("Audit", (self.spent_in_words,))
        if attacks:
            rows = tuple((row["group"], *_split(row), in_percent(row["gain"])) for row in attacks)
            said = "In percentage points of all shares. Under FGSV every gain is zero."
            yield Section(SPLITS, (said,), ("group", "split", "interval", "gain under GSV"), rows, technical=True)
        yield from self.tables
        yield Section("Warning", self.warnings)

    __repr__ = as_text
    _repr_html_ = as_html

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        return {
            "gsv": self.gsv.to_dict("records"),
            "attacks": self.attacks.to_dict("records"),
            "warnings": list(self.warnings),
            "n_evaluations": self.n_evaluations,
            "budget": self.budget,
            "spent": dict(self.spent),
            "tables": encode(self.tables),
            "sample": encode(self.sample),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Audit:
        """Read what `to_dict` returned."""
        return cls(
            _table(document["gsv"], COLUMNS_OF_GSV),
            _table(document["attacks"], COLUMNS_OF_ATTACKS),
            tuple(document["warnings"]),
            dict(document["spent"]),
            document["budget"],
            decode(tuple[Section, ...], document["tables"]),
            None if document["sample"] is None else decode(Sample, document["sample"]),
        )


def _gsv(row: Mapping[Any, Any]) -> str:
    half_width = row["gsv_half_width"]
    return in_percent(row["gsv_share"]) + ("" if half_width == 0 else f" ± {in_percent(half_width)}")


def _split(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Return how an attack splits a group, and the interval of what it gains."""
    low, high = in_percent(row["gain_low"]), in_percent(row["gain_high"])
    return f"{row['way']}, into {row['parts']}", f"{low} exactly" if low == high else f"{low} to {high}"


def _table(rows: Sequence[Mapping[str, Any]], columns: list[str]) -> pd.DataFrame:
    """Return the rows of a file as a table; a missing column is an error, not a column of missing numbers."""
    return pd.DataFrame([[row[name] for name in columns] for row in rows], columns=columns)


def audit(
    game: Any,
    valuation: Valuation,
    *,
    budget: int | None = None,
    parts: Sequence[int] = PARTS,
    classes: Any = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    ledger: str | Path | Ledger | None = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
) -> Audit:
    """Compare a valuation of one output with GSV and compute what shell companies would gain under GSV.

    GSV takes all coalitions of the groups if that is at most half the budget, else a quarter of it; the rest goes to
    the attacks of `shell_companies`: with more than 24 groups, of a sample of them (`Audit.sample`).

    Args:
        game: The game that was valued.
        valuation: Its valuation, by disjoint groups.
        budget: The most evaluations. Default: 4000, or the minimum it needs.
        parts: Numbers of companies to split into.
        classes: (n,) a class for each player, for splits by class. Default: none.
        confidence: Confidence level of all intervals.
        seed: Of what is drawn.
        n_jobs: Workers, as for `fgsv.value`, like the following.
        ledger: File that records every evaluation; with it, nothing is evaluated twice.
        on_error: What a failed evaluation counts as.
        timeout: Seconds that a batch may take.

    Returns:
        The usual group values beside the faithful ones, and what splitting gains under them.

    Raises:
        ValueError, TypeError: An argument is wrong, the budget is too small, or the game is not the one valued.
        GameError: An evaluation failed.

    """
    check_confidence(confidence)
    check_valuation(valuation)
    if valuation.outputs is not None:
        raise ValueError("an audit needs a valuation with one output: combine the outputs first")
    positive_total(valuation.total)
    partition = valuation.partition
    if not partition.is_disjoint:
        raise ValueError("the audit of shell companies needs one owner for each player, but some are co-owned")
    least = least_budget(partition, parts=parts, classes=classes)
    budget = max(DEFAULT_BUDGET, least) if budget is None else whole_number("budget", budget)
    seed = whole_number("seed", seed, least=0)
    if budget < least:
        raise ValueError(f"an audit of {partition.n_groups} groups needs a budget of at least {least}, got {budget}")
    read = read_players(game, partition)[0]
    access, opened = access_to(game, read, n_jobs=n_jobs, ledger=ledger, on_error=on_error, timeout=timeout)
    with opened:
        return audit_through(
            access, valuation, budget=budget, parts=parts, classes=classes, confidence=confidence, seed=seed
        )


def _check_same_game(access: GameAccess, valuation: Valuation) -> None:
    """Raise an error if a game is clearly not the one that was valued: all its players are worth something else."""
    ends = access.ends()
    stated = float(valuation.total)
    total = float((ends[1] - ends[0])[0])
    if ends.shape[1] > 1:
        raise ValueError(f"the game has {ends.shape[1]} outputs, but the valuation has one: audit a game of that one")
    if abs(total - stated) > SAME_GAME * stated:
        raise ValueError(
            f"U(N) - U(0) of the game is {total:.6g}, but {stated:.6g} in the valuation: audit the game it is of"
        )


def audit_through(
    access: GameAccess,
    valuation: Valuation,
    *,
    budget: int,
    parts: Sequence[int],
    classes: Any,
    confidence: float,
    seed: int,
) -> Audit:
    """Audit a valuation with open access, within its deadline; a warning names what there was no time for.

    Args:
        access: The game that was valued, open.
        valuation: Its valuation, by disjoint groups.
        budget: The most evaluations, at least `least_budget`.
        parts: Numbers of companies to split into.
        classes: (n,) a class for each player, for splits by class; None for no such splits.
        confidence: Confidence level of all intervals.
        seed: Of what is drawn.

    Returns:
        The audit, as far as there was time.

    """
    partition = valuation.partition
    evaluator = access.evaluator
    access = without_folds(access)
    spare = budget - least_budget(partition, parts=parts, classes=classes)
    everything = 2**partition.n_groups if partition.n_groups < 24 else budget
    part = everything if everything <= budget // 2 else budget // 4
    part = max(FEWEST_OF_GSV, min(part, FEWEST_OF_GSV + spare))
    frame = pd.DataFrame(columns=COLUMNS_OF_GSV)
    spent: dict[str, int] = {}
    warnings: list[str] = []
    shells = Shells(pd.DataFrame(columns=COLUMNS_OF_ATTACKS), 0)
    missing = "everybody"
    before = evaluator.meter
    with suppress(OutOfTime):
        with counted(spent, "group values", evaluator):
            _check_same_game(access, valuation)
            gsv = value(by_groups(access, partition), budget=part, seed=seed)
        frame = pd.DataFrame(
            {
                "group": [str(name) for name in valuation.names],
                "share": valuation.shares(),
                "gsv_share": gsv.shares(),
                "gsv_half_width": gsv.half_width(confidence) / gsv.total,
            }
        )
        with counted(spent, "shell companies", evaluator):
            splits = Splits(WAYS, parts, classes, valuation.player_values)
            left = budget - gsv.n_evaluations
            shells = measure_shells(access, partition, splits, budget=left, confidence=confidence, seed=seed)
        missing = ", ".join(shells.not_measured)
    if missing:
        warnings.append(f"time ran out before the splits of {missing} were measured: allow more time to measure them")
    if failures := (evaluator.meter - before).failures:
        warnings.append(f"in the audit {failures}")
    return Audit(frame, shells.table, tuple(warnings), spent, sample=shells.sample)


@contextmanager
def counted(spent: dict[str, int], purpose: str, evaluator: Evaluator) -> Iterator[None]:
    """Add how many evaluations the block asked for, however it ends.

    Args:
        spent: Purpose -> evaluations, which is added to.
        purpose: What they are for.
        evaluator: Whose evaluations are counted.

    """
    before = evaluator.meter
    try:
        yield
    finally:
        spent[purpose] = spent.get(purpose, 0) + (evaluator.meter - before).asked


def least_budget(groups: Any, *, parts: Sequence[int] = PARTS, classes: Any = None) -> int:
    """Return the smallest budget for `audit`.

    Args:
        groups: The group of each player, as for `fgsv.value`.
        parts: Numbers of companies to split into.
        classes: (n,) a class for each player. Default: none.

    Returns:
        Evaluations for the usual group values and for shell companies.

    """
    return FEWEST_OF_GSV + least_of_shells(groups, parts=parts, classes=classes)
