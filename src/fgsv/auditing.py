"""The audit of a file: attacks, copies, policies and warnings, from one job and its valuation."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fgsv.audit import Audit, audit, policy_gains
from fgsv.audit import least_budget as least_of_attacks
from fgsv.copies import Copies, find_copies, rows_in_both
from fgsv.diagnosis import Diagnosis, diagnose
from fgsv.partition import Partition
from fgsv.run import value
from fgsv.tabular import Job
from fgsv.valuation import Valuation

MOST_OF_TEST = 0.5
"""A provider with a larger part of the test rows than this is warned of."""
DEFAULT_BUDGET = 4000
LEAST_OF_DIAGNOSIS = 400


def least_budget(n_groups: int) -> int:
    """Return the least budget with which a file of so many groups can be audited."""
    return LEAST_OF_DIAGNOSIS + least_of_attacks(n_groups)


def audit_file(
    job: Job,
    valuation: Valuation,
    *,
    budget: int = DEFAULT_BUDGET,
    payout: dict[str, Any] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Audit a valuation of a job: shell companies, copiers, the payout's policy, and what to be warned of.

    `payout` are the arguments of `payout.split`. Spends about `budget` evaluations on the attacks, and as
    many as the valuation took on another one without copies, where there are any.
    """
    units = job.dataset.units
    classes = job.dataset.target if job.dataset.task == "classification" and units is None else None
    copies = find_copies(job.inputs.numbers, job.dataset.target, row_owners(job))
    tables = copy_tables(job, valuation, copies, confidence=confidence, seed=seed)
    if payout is not None and valuation.outputs is None:
        tables += policy_tables(valuation, payout)
    game = job.on_all_test_rows(job.game)
    part = max(budget // 4, LEAST_OF_DIAGNOSIS)
    tables.append(stability_table(diagnose(game, job.dataset.partition, budget=part, seed=seed)))
    return audit(
        game,
        valuation,
        budget=budget - budget // 4,
        classes=classes,
        confidence=confidence,
        seed=seed,
        extra_warnings=[*warnings_of_test(job), *copies.notes],
        tables=tables,
    )


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


def copy_tables(
    job: Job, valuation: Valuation, copies: Copies, *, confidence: float, seed: int
) -> list[dict[str, Any]]:
    """Return who holds whose rows, and what each would get if copies did not count."""
    if not copies.n_copies:
        words = "No row of one provider stands, exactly or nearly, among another's."
        return [{"title": "Copies", "words": [words], "columns": [], "rows": []}]
    found = {
        "title": "Copies: who holds whose rows",
        "words": [
            f"{copies.n_copies} rows are also held by a provider that stands earlier in the file. The faithful "
            "value does not stop copying by itself: a copied row is a new row, and earns."
        ],
        "columns": ["holder", "rows of", "equal", "nearly equal"],
        "rows": copies.table.to_numpy().tolist(),
    }
    if job.dataset.units is not None or valuation.values.ndim != 1:
        return [found]
    game = job.on_all_test_rows(job.inputs.game(copies.kept))
    remedied = value(game, copies.remedy("first"), budget=valuation.n_evaluations, seed=seed)
    columns = [valuation, remedied, remedied.regroup(copies.remedy("share"))]
    cells = [
        [f"{share:.2%} ± {half:.2%}" for share, half in zip(each.shares(), half_widths, strict=True)]
        for each in columns
        for half_widths in [each.half_width(confidence) / each.total]
    ]
    rows = [[str(name), *row] for name, *row in zip(valuation.names, *cells, strict=True)]
    remedy = {
        "title": "What copying earns, and two remedies",
        "words": [
            "Each recognised copy is left out. The row then belongs to who stands first in the file, so that "
            "copying earns nothing, or to all who hold it in equal parts. "
            f"{remedied.n_evaluations:,} evaluations without the copies."
        ],
        "columns": ["group", "share as it is", "first holder keeps", "holders co-own"],
        "rows": rows,
    }
    return [found, remedy]


def policy_tables(valuation: Valuation, payout: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what splitting in two earns under the payout's policy, where it is not the faithful one."""
    if not payout.get("clip") and payout.get("floor") is None and payout.get("cap") is None:
        return []
    gains = policy_gains(valuation, **payout)
    gains = gains.loc[gains.groupby("group", sort=False)["gain"].idxmax()] if len(gains) else gains
    return [
        {
            "title": "What splitting earns under this payout policy (not faithful)",
            "words": ["The best of three ways to split in two, by the estimated values of the points."],
            "columns": ["group", "split", f"gain, {payout.get('currency', 'EUR')}"],
            "rows": [[row.group, row.way, str(row.gain)] for row in gains.itertuples()],
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
