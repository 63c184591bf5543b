"""The audit of a valuation: the usual group values beside it, and what shell companies would earn under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fgsv.audit.sections import Section
from fgsv.audit.shells import COLUMNS as COLUMNS_OF_ATTACKS
from fgsv.audit.shells import PARTS, Shells, measure_shells
from fgsv.audit.shells import least_budget as least_of_shells
from fgsv.ledger import Ledger
from fgsv.running.calls import OutOfTime
from fgsv.running.door import Door
from fgsv.running.preparation import door_to, read_players
from fgsv.running.run import value
from fgsv.running.views import by_groups
from fgsv.valuation import Valuation, t_quantile

FEWEST_OF_GSV = 100
"""Evaluations for the usual group values, at the least."""
DEFAULT_BUDGET = 4000
COLUMNS_OF_GSV = ["group", "share", "gsv_share", "gsv_half_width"]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; every table is a data frame."""

    gsv: pd.DataFrame
    """group, share (FGSV), gsv_share, gsv_half_width."""
    attacks: pd.DataFrame
    """group, way, parts, gain, gain_low, gain_high: what splitting earns under GSV, in shares; under FGSV 0."""
    warnings: tuple[str, ...] = ()
    spent: Mapping[str, int] = field(default_factory=dict)
    """Purpose -> how many evaluations."""
    budget: int | None = None
    """The most evaluations it was allowed, where that was given."""
    tables: tuple[Section, ...] = ()
    """Further sections."""

    @property
    def n_evaluations(self) -> int:
        """How many evaluations the audit took in all."""
        return sum(self.spent.values())

    @property
    def spent_in_words(self) -> str:
        """What the audit spent, on what, and what it was allowed."""
        spent = ", ".join(f"{count:,} for {purpose}" for purpose, count in self.spent.items()) or "none"
        limit = "" if self.budget is None else f" of the {self.budget:,} it was allowed"
        return f"The audit spent {self.n_evaluations:,} evaluations of its own{limit}: {spent}."

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "gsv": self.gsv.to_dict("records"),
            "attacks": self.attacks.to_dict("records"),
            "warnings": list(self.warnings),
            "n_evaluations": self.n_evaluations,
            "budget": self.budget,
            "spent": dict(self.spent),
            "tables": [section.to_dict() for section in self.tables],
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
            tuple(map(Section.from_dict, document["tables"])),
        )


def _table(rows: Sequence[Mapping[str, Any]], columns: list[str]) -> pd.DataFrame:
    """Return a table of rows that a file holds; one that lacks a column is an error, not a missing number."""
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

    Never spends more than `budget` evaluations (by default 4000, or the least that it takes): all coalitions of
    the groups for GSV where they are no more than half of it, else a quarter, and the rest on the attacks, which
    are those of `shell_companies`. How it runs (`n_jobs`, `ledger`, `on_error`, `timeout`) is as for `fgsv.value`;
    with a ledger, what was evaluated before is not evaluated again.
    """
    partition = valuation.partition
    if not partition.is_disjoint:
        raise ValueError("the audit of shell companies needs players with one owner each; ownership is shared here")
    least = least_budget(partition, parts=parts, classes=classes)
    budget = max(DEFAULT_BUDGET, least) if budget is None else budget
    if budget < least:
        raise ValueError(f"an audit of {partition.n_groups} groups needs a budget of at least {least}, got {budget}")
    read = read_players(game, partition)[0]
    door, opened = door_to(game, read, n_jobs=n_jobs, ledger=ledger, on_error=on_error, timeout=timeout)
    with opened:
        return audit_through(door, valuation, budget, least, parts, classes, confidence, seed)


def audit_through(
    door: Door,
    valuation: Valuation,
    budget: int,
    least: int,
    parts: Sequence[int],
    classes: Any,
    confidence: float,
    seed: int,
) -> Audit:
    """Audit a valuation through an open door, within its deadline; a warning says what there was no time for."""
    partition = valuation.partition
    everything = 2**partition.n_groups if partition.n_groups < 24 else budget
    part = everything if everything <= budget // 2 else budget // 4
    part = max(FEWEST_OF_GSV, min(part, FEWEST_OF_GSV + budget - least))
    frame = pd.DataFrame(columns=COLUMNS_OF_GSV)
    spent: dict[str, int] = {}
    warnings = close_calls(valuation, confidence)
    shells = Shells.nothing()
    try:
        before = door.evaluator.n_asked  # the two ends are asked for once, whoever asks first
        gsv = value(by_groups(door, partition), budget=part, seed=seed)
        spent["group values"] = door.evaluator.n_asked - before
        frame = pd.DataFrame(
            {
                "group": [str(name) for name in valuation.names],
                "share": valuation.shares(),
                "gsv_share": gsv.shares(),
                "gsv_half_width": gsv.half_width(confidence) / gsv.total,
            }
        )
        before = door.evaluator.n_asked
        shells = measure_shells(
            door,
            partition,
            parts=parts,
            budget=budget - gsv.n_evaluations,
            classes=classes,
            player_values=valuation.player_values,
            confidence=confidence,
            seed=seed,
        )
        spent["shell companies"] = door.evaluator.n_asked - before
        missing = ", ".join(shells.not_measured)
    except OutOfTime:
        missing = "everybody"
    if missing:
        warnings.append(f"the time was up before the splits of {missing} were measured; more time measures them")
    return Audit(frame, shells.table, tuple(warnings), spent)


def least_budget(groups: Any, *, parts: Sequence[int] = PARTS, classes: Any = None) -> int:
    """Return the least budget that `audit` can keep to."""
    return FEWEST_OF_GSV + least_of_shells(groups, parts=parts, classes=classes)


def close_calls(valuation: Valuation, confidence: float = 0.95, most: int = 3) -> list[str]:
    """Warn of neighbours in the ranking whose difference is smaller than its own error."""
    if valuation.values.ndim != 1 or valuation.group_deviations is None:
        return []
    sums = valuation.group_deviations[:, :, 0]
    order = np.argsort(-valuation.values)
    quantile = float(t_quantile(confidence, valuation.degrees_of_freedom))
    pairs = []
    for upper, lower in pairwise(order):
        reach = quantile * float(np.sqrt(((sums[:, upper] - sums[:, lower]) ** 2).sum()))
        if valuation.values[upper] - valuation.values[lower] < reach:
            pairs.append(f"{valuation.names[upper]} and {valuation.names[lower]}")
    if not pairs:
        return []
    more = f", and {len(pairs) - most} more pairs" if len(pairs) > most else ""
    return [
        f"these intervals overlap, so that the order is not settled: {'; '.join(pairs[:most])}{more}. "
        "A larger budget narrows them"
    ]
