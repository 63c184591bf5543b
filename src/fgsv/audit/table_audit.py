"""The audit of a table or texts: attacks, copies, policies and warnings, from open data and its valuation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fgsv.audit.auditing import DEFAULT_BUDGET, Audit, audit_through, counted, least_budget
from fgsv.audit.copies import Copies
from fgsv.audit.policies import policy_gains
from fgsv.audit.sections import Section
from fgsv.audit.shells import MOST_MEASURED, Sample, sample_groups
from fgsv.audit.splits import PARTS
from fgsv.checks import whole_number
from fgsv.data.dataset import Dataset, check_dataset
from fgsv.diagnosis import MOST_EVALUATIONS, Diagnosis, diagnose
from fgsv.evaluation.calls import OutOfTime
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.views import by_precedence, weighted
from fgsv.game import Precedence, as_game
from fgsv.payout import Policy, Terms
from fgsv.running.run import value
from fgsv.valuation import Valuation, check_valuation
from fgsv.words import option

MOST_OF_TEST = 0.5
"""Warn if a provider supplies more than this fraction of the test rows."""
SPARE = 2048
"""The default budget's evaluations beyond the minimum: enough for the exact GSV of up to ten groups."""
LEAST_OF_DIAGNOSIS = 400
LEAST_OF_REMEDY = 100
"""Minimum evaluations for each valuation that a remedy needs."""
FEWEST_DIAGNOSED = 6
"""Minimum players for a diagnosis."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """What an audit will examine and its budget, known before the valuation."""

    copies: Copies
    parts: tuple[int, ...]
    classes: Any
    least: int
    budget: int | None

    @classmethod
    def of(cls, table: Dataset, budget: int | None = None, parts: Sequence[int] = PARTS) -> AuditPlan:
        """Find copies, without evaluations, and check that the budget is enough."""
        if table.outputs is not None:
            raise ValueError(
                f"an audit needs one output: choose one metric, or leave out {option('output_by')}; or value several "
                f"without {option('audit')}"
            )
        copies, classes = table.copies(), table.classes()
        least = LEAST_OF_DIAGNOSIS + least_budget(table.partition, parts=parts, classes=classes)
        least += LEAST_OF_REMEDY * n_valuations(copies)
        if budget is not None and whole_number(option("audit_budget"), budget) < least:
            n_groups = table.partition.n_groups
            raise ValueError(
                f"an audit of {n_groups} groups needs at least {least} evaluations, got {budget}: raise "
                f"{option('audit_budget')}"
            )
        return cls(copies, tuple(parts), classes, least, budget)

    @property
    def default_budget(self) -> int:
        """The evaluations of an audit without a budget of its own, beside the valuations of remedies."""
        return max(DEFAULT_BUDGET, self.least + SPARE)

    def most(self, valuation: Valuation) -> int:
        """Return the most evaluations that the audit of a valuation takes."""
        if self.budget is not None:
            return self.budget
        return self.default_budget + n_valuations(self.copies) * self.of_remedy(valuation)

    def of_remedy(self, valuation: Valuation) -> int:
        """Return the budget for each valuation that the remedies need: at most what this one took."""
        if not self.copies.n_copies:
            return 0
        if self.budget is None:
            return max(LEAST_OF_REMEDY, valuation.n_evaluations)
        spare = (self.budget - self.least) // (2 * n_valuations(self.copies))
        return min(valuation.n_evaluations, LEAST_OF_REMEDY + spare)


def n_valuations(copies: Copies) -> int:
    """Return how many valuations the remedies need: one without copies and, with known times, one by precedence."""
    return 0 if not copies.n_copies else 1 if copies.ranks is None else 2


def audit_table(
    table: Dataset,
    valuation: Valuation,
    plan: AuditPlan | None = None,
    *,
    evaluator: Evaluator | None = None,
    payout: Terms | None = None,
    max_seconds: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Audit a valuation of a table or texts: shell companies, copies, the payout's policy, and warnings.

    Never uses more evaluations than the plan's budget; the default is 4000 (or the minimum it needs), plus as many as
    the valuation took if there are copies, twice that if registration times are known. `evaluator` is the open
    evaluator of the valuation, with its ledger, its workers and all evaluations so far; without it the table's game
    is evaluated in this process. No evaluation begins after `max_seconds`, and a warning names what is missing; the
    valuation without copies ends after half of the time.
    """
    check_dataset(table)
    check_valuation(valuation)
    plan = plan or AuditPlan.of(table)
    spent: dict[str, int] = {}
    out_of_time: list[str] = []
    sections = [copies_section(table, plan.copies), *plan.copies.sections]
    left = plan.default_budget if plan.budget is None else plan.budget

    @contextmanager
    def in_time(part: str) -> Iterator[None]:
        try:
            yield
        except OutOfTime:
            out_of_time.append(part)

    opened = Evaluator(as_game(table.game)) if evaluator is None else nullcontext(evaluator)
    with opened as evaluator, evaluator.within(max_seconds):
        access = weighted(evaluator, table.weights)
        if plan.copies.n_copies:
            with in_time("the valuation without copies"):
                part = plan.of_remedy(valuation)
                section = remedy_section(table, access, valuation, plan.copies, part, confidence, seed, spent)
                sections.append(section)
            least = LEAST_OF_REMEDY * n_valuations(plan.copies)
            left -= least if plan.budget is None else sum(spent.values())
        if payout is not None and valuation.outputs is None:
            sections += policy_sections(valuation, payout, plan.parts, seed)
        if table.game.n_players >= FEWEST_DIAGNOSED:
            with in_time("prudence and stability"), counted(spent, "prudence and stability", evaluator):
                part = min(MOST_EVALUATIONS, LEAST_OF_DIAGNOSIS + max(0, left - plan.least) // 4)
                found = diagnose(access, table.partition, budget=part, seed=seed)
                sections.append(stability_section(found))
                left -= found.n_evaluations
        audited = audit_through(
            access,
            valuation,
            budget=left,
            parts=plan.parts,
            classes=plan.classes,
            confidence=confidence,
            seed=seed,
        )
    warnings = [*warnings_of_test(table), *plan.copies.notes, *audited.warnings]
    if out_of_time:
        warnings.append(f"time ran out, so the audit lacks: {', '.join(out_of_time)}; allow more time to measure it")
    return replace(
        audited,
        warnings=tuple(warnings),
        spent={**audited.spent, **spent},
        budget=plan.budget,
        tables=tuple(sections),
    )


def warnings_of_test(table: Dataset) -> list[str]:
    """Return warnings about the choice of test rows."""
    warnings = table.source.warnings_of_payments
    labels = table.rows.test_groups.get(next(iter(table.groupings)), ())
    if len(labels):
        counts = pd.Series(labels).value_counts(normalize=True)
        if counts.iloc[0] > MOST_OF_TEST:
            warnings.append(
                f"{counts.index[0]} supplies {counts.iloc[0]:.0%} of the test rows, which favours data like its "
                "own. Test rows from no provider, or from all alike, are fairer"
            )
    return warnings


def copies_section(table: Dataset, copies: Copies) -> Section:
    """Return which providers have each other's rows or documents."""
    what = table.noun
    if not copies.n_copies:
        return Section("Copies", (f"No provider has another's {what}s, exactly or nearly.",))
    whose = f"a provider that {_came(table, copies, 'earlier')}"
    words = [
        f"{_counted(copies, what)} of {whose}. The faithful value alone does not prevent copying: a copied {what} "
        f"is a new {what} and earns a share."
    ]
    if table.by_folder:
        words.append(
            "Folders are read in the order of their names, which does not say who had a document first. If you know, "
            "value a file with a line for each document and a column of registration times; if not, equal parts are "
            "the remedy that does not depend on it."
        )
    if table.units is not None:
        whole, partly = copies.units_hit(table.units)
        words.append(f"{whole} units consist entirely of copies, {partly} in part.")
    rows = tuple(map(tuple, copies.table.to_numpy().tolist()))
    columns = ("provider", f"has copies of {what}s of", "equal", "nearly equal")
    return Section(f"Copies: who has whose {what}s", tuple(words), columns, rows)


def _came(table: Dataset, copies: Copies, when: str) -> str:
    """Return in words what makes a provider of a copied row the earlier or the first one."""
    if copies.ranks is not None:
        return f"registered it {when}"
    return f"comes {when} {'by the name of its folder' if table.by_folder else 'in the data'}"


def _counted(copies: Copies, what: str) -> str:
    """Return how many rows are copies, the equal ones apart from the nearly equal ones."""
    exact, near = copies.n_exact, copies.n_near
    first = f"1 {what} is" if (exact or near) == 1 else f"{exact or near:,} {what}s are"
    if not near:
        return f"{first} equal to a {what}"
    if not exact:
        return f"{first} nearly equal, and none is equal, to a {what}"
    return f"{first} equal, and {near:,} more nearly equal, to a {what}"


def remedy_section(
    table: Dataset,
    access: GameAccess,
    valuation: Valuation,
    copies: Copies,
    budget: int,
    confidence: float,
    seed: int,
    spent: dict[str, int],
) -> Section:
    """Return what each provider would get under each remedy, and note the evaluations used, by purpose."""
    units, what = table.units, table.noun
    other = access.evaluator.beside(as_game(table.game_of(copies.kept)))
    with other, counted(spent, "the valuation without copies", other):
        kept, players = copies.remedy("first", units), weighted(other, table.weights)
        remedied = value(players, kept, budget=budget, max_seconds=_half_of_time_left(other), seed=seed)
    if not remedied.total > 0:
        nothing = "Without the copies the model scores no better than with no data: there is nothing to share."
        return Section("Two remedies", (nothing,))
    columns = {
        "share as it is": valuation,
        "first provider keeps": remedied,
        "providers co-own": remedied.regroup(copies.remedy("share", units)),
    }
    words = [
        f"Each recognised copy is left out. The {what} then belongs either to the provider that "
        f"{_came(table, copies, 'first')}, so that copying earns nothing, or in equal parts to all providers that "
        "have it. "
        f"{remedied.n_evaluations:,} evaluations were made without the copies."
    ]
    if copies.ranks is not None:
        try:
            columns["precedence"] = _with_precedence(table, access, copies, budget, seed, spent)
            words.append(
                f"Or nothing is left out, but a copy counts only together with the {what} registered first "
                f"(precedence): it earns from what it adds to that {what}, and the first provider earns as much "
                "again."
            )
        except OutOfTime:
            words.append("Time ran out before the valuation by precedence: allow more time to see it.")
    failures = [each.failures for name, each in columns.items() if name in ("first provider keeps", "precedence")]
    words += [f"{each}." for each in failures if each is not None]
    if units is not None:
        words.append(
            f"A unit keeps its own {what}s; if copies are left out, a unit with none of its own is left out too."
        )
    cells = [
        [f"{s:.2%} ± {h:.2%}" for s, h in zip(each.shares(), each.share_half_width(confidence), strict=True)]
        for each in columns.values()
    ]
    return Section(
        f"What copying earns, and {'three' if 'precedence' in columns else 'two'} remedies",
        tuple(words),
        ("group", *columns),
        tuple((str(name), *row) for name, *row in zip(valuation.names, *cells, strict=True)),
    )


def _with_precedence(
    table: Dataset, access: GameAccess, copies: Copies, budget: int, seed: int, spent: dict[str, int]
) -> Valuation:
    """Value the providers where a row counts only beside the first of those that it is a copy of."""
    units = table.units
    order = Precedence.of(copies.origin, None if units is None else pd.factorize(units)[0])
    game = table.game if units is None else table.game_of_units(None)
    with access.evaluator.beside(as_game(game)) as rows, counted(spent, "the valuation by precedence", rows):
        preceded = by_precedence(weighted(rows, table.weights), order)
        return value(preceded, table.partition, budget=budget, max_seconds=_half_of_time_left(rows), seed=seed)


def _half_of_time_left(evaluator: Evaluator) -> float | None:
    """Return half of the time that is left, for the rest of the audit needs some; None if it is not limited."""
    left = evaluator.seconds_left
    return None if left is None else max(left / 2, 1e-3)  # if none is left, the first call says so


def policy_sections(valuation: Valuation, payout: Terms, parts: Sequence[int], seed: int) -> list[Section]:
    """Return what splitting earns under a policy that is not faithful: each group, or a sample of many."""
    if Policy(**payout.policy).is_faithful:
        return []
    groups = sample_groups(valuation.partition, MOST_MEASURED, seed)
    sample = Sample.among(valuation.partition, groups)
    split = payout.policy | {"parts": parts, "groups": groups.tolist()}
    gains = policy_gains(valuation, payout.amount, payout.currency, seed=seed, **split)
    gains = gains.loc[gains.groupby("group", sort=False)["gain"].idxmax()] if len(gains) else gains
    words = (
        "The best split found, using the estimated values of the players. Splits for which the policy could not "
        "be met are left out."
        if len(gains)
        else "The policy leaves no money for another company, so it could not be met for any split."
    )
    if sample is not None:
        words += f" {sample}."
    return [
        Section(
            "What splitting earns under this payout policy (not faithful)",
            (words,),
            ("group", "split", f"gain, {payout.currency}"),
            tuple((row.group, f"{row.way}, into {row.parts}", f"{row.gain:,}") for row in gains.itertuples()),
        )
    ]


def stability_section(found: Diagnosis) -> Section:
    """Return how fast one player's effect falls with the size of a coalition, and what that implies."""
    gains = found.split_gains
    words = (
        "The mean utility by size predicts that groups gain by splitting under GSV"
        if (gains["gain"] > 0).mean() > 0.5
        else "The mean utility by size does not predict that groups gain by splitting under GSV"
    )
    slopes = {
        "effect of one player": (found.deletion, -1.0),
        "second-order differences": (found.second_order, -1.5),
        "... their 99th percentile": (found.second_order_extreme, -1.5),
    }
    rows = tuple(
        (name, f"{slope.exponent:.2f} ± {slope.stderr:.2f}", f"{needed:g} or less", slope.verdict(needed))
        for name, (slope, needed) in slopes.items()
    )
    if found.split_gains_stderr:
        words += f" (from sampled sets of groups, with a standard error of at most {found.split_gains_stderr:.2g})"
    words = f"{words}. Exponents b of s^b, from {found.n_evaluations:,} evaluations:"
    failed = () if found.failures is None else (f"{found.failures}.",)
    columns = ("quantity", "exponent", "needed", "met")
    return Section("Prudence and stability", (*failed, words), columns, rows, technical=True)
