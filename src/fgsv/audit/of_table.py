"""The audit of a file: attacks, copies, policies and warnings, from one job and its valuation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fgsv.audit.auditing import Audit, audit, least_budget, policy_gains
from fgsv.audit.copies import Copies, find_copies, rows_in_both
from fgsv.audit.shells import PARTS
from fgsv.diagnosis import Diagnosis, diagnose
from fgsv.partition import Partition
from fgsv.running.run import value
from fgsv.tables.opening import Job
from fgsv.valuation import Valuation

MOST_OF_TEST = 0.5
"""A provider with a larger part of the test rows than this is warned of."""
DEFAULT_BUDGET = 4000
SPARE = 2048
"""... and beyond the least so many: then up to ten groups have their GSV exactly."""
LEAST_OF_DIAGNOSIS = 400
LEAST_OF_REMEDY = 100
FEWEST_DIAGNOSED = 6
"""Players that a diagnosis takes."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """What an audit will look at and may spend, known before the valuation is."""

    copies: Copies
    parts: tuple[int, ...]
    classes: Any
    least: int
    budget: int | None

    @classmethod
    def of(cls, job: Job, budget: int | None, parts: Sequence[int] = PARTS) -> AuditPlan:
        """Look for copies, which evaluates nothing, and check that the budget is enough."""
        dataset = job.dataset
        copies = find_copies(job.inputs.numbers, dataset.target, row_owners(job))
        classes = dataset.target if dataset.task == "classification" and dataset.units is None else None
        least = LEAST_OF_DIAGNOSIS + least_budget(dataset.partition, parts=parts, classes=classes)
        least += LEAST_OF_REMEDY if copies.n_copies else 0
        if budget is not None and budget < least:
            n_groups = dataset.partition.n_groups
            raise ValueError(
                f"an audit of {n_groups} groups needs an --audit-budget of at least {least}, got {budget}"
            )
        return cls(copies, tuple(parts), classes, least, budget)

    def of_remedy(self, valuation: Valuation) -> int:
        """Return what may be spent on the valuation without copies: no more than this one took."""
        if not self.copies.n_copies:
            return 0
        if self.budget is None:
            return max(LEAST_OF_REMEDY, valuation.n_evaluations)
        return min(valuation.n_evaluations, LEAST_OF_REMEDY + (self.budget - self.least) // 2)


def audit_file(
    job: Job,
    valuation: Valuation,
    plan: AuditPlan,
    *,
    payout: dict[str, Any] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Audit a valuation of a job: shell companies, copiers, the payout's policy, and what to be warned of.

    `payout` are the arguments of `payout.split`. Never spends more evaluations than the plan's budget; without one
    4000 (or the least that it takes), and where there are copies as many again as the valuation took.
    """
    game = job.on_all_test_rows(job.game)
    spent: dict[str, int] = {}
    tables = [copies_table(job, plan.copies)]
    left = max(DEFAULT_BUDGET, plan.least + SPARE) if plan.budget is None else plan.budget
    if plan.copies.n_copies:
        part = plan.of_remedy(valuation)
        table, taken = remedy_table(job, valuation, plan.copies, part, confidence, seed)
        tables.append(table)
        spent["the valuation without copies"] = taken
        left -= LEAST_OF_REMEDY if plan.budget is None else taken
    if payout is not None and valuation.outputs is None:
        tables += policy_tables(valuation, payout, plan.parts)
    if game.n_players >= FEWEST_DIAGNOSED:
        part = LEAST_OF_DIAGNOSIS + max(0, left - plan.least) // 4
        found = diagnose(game, job.dataset.partition, budget=part, seed=seed)
        tables.append(stability_table(found))
        spent["prudence and stability"] = found.n_evaluations
        left -= found.n_evaluations
    audited = audit(
        game,
        valuation,
        budget=left,
        parts=plan.parts,
        classes=plan.classes,
        confidence=confidence,
        seed=seed,
        extra_warnings=[*warnings_of_test(job), *plan.copies.notes],
        tables=tables,
    )
    return replace(audited, spent={**audited.spent, **spent}, budget=plan.budget)


def row_owners(job: Job) -> Partition:
    """Return the owner of each training row, also where a player is a unit of several."""
    partition, units = job.dataset.partition, job.dataset.units
    if units is None:
        return partition
    return Partition(partition.names, None, partition.codes[pd.factorize(units)[0]])


def warnings_of_test(job: Job) -> list[str]:
    """Return what to be warned of in the choice of the test rows."""
    warnings = []
    dataset = job.dataset
    column = next(iter(dataset.groupings))
    if column in dataset.test_groups and len(dataset.test_groups[column]):
        counts = pd.Series(dataset.test_groups[column]).value_counts(normalize=True)
        if counts.iloc[0] > MOST_OF_TEST:
            warnings.append(
                f"{counts.index[0]} supplies {counts.iloc[0]:.0%} of the test rows: data that resemble its own "
                "score well. Test rows of nobody's, or of everybody's alike, are fairer"
            )
    both = rows_in_both(dataset.features, dataset.target, dataset.test_features, dataset.test_target)
    if both:
        warnings.append(f"{both} of {len(dataset.test_target)} test rows stand among the training rows too")
    return warnings


def copies_table(job: Job, copies: Copies) -> dict[str, Any]:
    """Return who holds whose rows."""
    if not copies.n_copies:
        none = "No row of one provider stands, exactly or nearly, among another's."
        return {"title": "Copies", "words": [none], "columns": [], "rows": []}
    words = [
        f"{copies.n_copies} rows are also held by a provider that stands earlier in the file. The faithful "
        "value does not stop copying by itself: a copied row is a new row, and earns."
    ]
    if job.dataset.units is not None:
        whole, partly = copies.units_hit(job.dataset.units)
        words.append(f"{whole} units are copies in all their rows, {partly} in some of them.")
    return {
        "title": "Copies: who holds whose rows",
        "words": words,
        "columns": ["holder", "rows of", "equal", "nearly equal"],
        "rows": copies.table.to_numpy().tolist(),
    }


def remedy_table(
    job: Job, valuation: Valuation, copies: Copies, budget: int, confidence: float, seed: int
) -> tuple[dict[str, Any], int]:
    """Return what each would get if copies did not count, and the evaluations that took."""
    units = job.dataset.units
    game = job.on_all_test_rows(job.inputs.game(copies.kept))
    remedied = value(game, copies.remedy("first", units), budget=budget, seed=seed)
    if not remedied.total > 0:
        words = ["Without the copies the model scores no better than with no data: there is nothing to share."]
        return {"title": "Two remedies", "words": words, "columns": [], "rows": []}, remedied.n_evaluations
    columns = [valuation, remedied, remedied.regroup(copies.remedy("share", units))]
    cells = [
        [f"{share:.2%} ± {half:.2%}" for share, half in zip(each.shares(), half_widths, strict=True)]
        for each in columns
        for half_widths in [each.half_width(confidence) / each.total]
    ]
    words = [
        "Each recognised copy is left out. The row then belongs to who stands first in the file, so that "
        "copying earns nothing, or to all who hold it in equal parts. "
        f"{remedied.n_evaluations:,} evaluations without the copies."
    ]
    if units is not None:
        words.append("A unit keeps the rows that are its own; one without any is left out.")
    table = {
        "title": "What copying earns, and two remedies",
        "words": words,
        "columns": ["group", "share as it is", "first holder keeps", "holders co-own"],
        "rows": [[str(name), *row] for name, *row in zip(valuation.names, *cells, strict=True)],
    }
    return table, remedied.n_evaluations


def policy_tables(valuation: Valuation, payout: dict[str, Any], parts: Sequence[int]) -> list[dict[str, Any]]:
    """Return what splitting earns under the payout's policy, where it is not the faithful one."""
    if not payout.get("clip") and payout.get("floor") is None and payout.get("cap") is None:
        return []
    gains = policy_gains(valuation, parts=parts, **payout)
    gains = gains.loc[gains.groupby("group", sort=False)["gain"].idxmax()] if len(gains) else gains
    return [
        {
            "title": "What splitting earns under this payout policy (not faithful)",
            "words": [
                "The best split found, by the estimated values of the points. Splits into so many that the policy "
                "could not be met are left out."
                if len(gains)
                else "The policy leaves no money for one company more: no split was found under which it can be met."
            ],
            "columns": ["group", "split", f"gain, {payout.get('currency', 'EUR')}"],
            "rows": [[row.group, f"{row.way}, into {row.parts}", f"{row.gain:,}"] for row in gains.itertuples()],
        }
    ]


def stability_table(found: Diagnosis) -> dict[str, Any]:
    """Return how fast one point's effect falls with the size of a coalition, and what follows from it."""
    gains = found.split_gains
    words = (
        "The mean utility by size predicts that under GSV a group gains by splitting"
        if (gains["gain"] > 0).mean() > 0.5
        else "The mean utility by size does not predict that under GSV groups gain by splitting"
    )
    slopes = {
        "effect of one point": (found.deletion, -1.0),
        "second-order differences": (found.second_order, -1.5),
        "... their 99th percentile": (found.second_order_extreme, -1.5),
    }
    return {
        "title": "Prudence and stability",
        "words": [f"{words}. Exponents b of s^b, from {found.n_evaluations:,} evaluations:"],
        "columns": ["quantity", "exponent", "needed", "met"],
        "rows": [
            [name, f"{slope.exponent:.2f} ± {slope.stderr:.2f}", f"{needed:g} or less", slope.verdict(needed)]
            for name, (slope, needed) in slopes.items()
        ],
    }
