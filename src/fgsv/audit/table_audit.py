"""The audit of a table or texts: attacks, copies, policies and warnings, from open data and its valuation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fgsv.audit.auditing import DEFAULT_BUDGET, Audit, audit_through, counted, least_budget
from fgsv.audit.copies import Copies
from fgsv.audit.policies import policy_gains
from fgsv.audit.shells import MOST_MEASURED, Sample, sample_groups
from fgsv.audit.splits import PARTS
from fgsv.checks import whole_number
from fgsv.data.dataset import Dataset, check_dataset
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.recording import OutOfTime
from fgsv.evaluation.views import by_precedence, of_some, share_differences, weighted, without_folds
from fgsv.game import Precedence, as_game
from fgsv.partition import Partition
from fgsv.payout import Terms
from fgsv.running.run import value
from fgsv.types import Floats
from fgsv.valuation import Valuation, check_valuation, t_quantile
from fgsv.valuation.display import Section
from fgsv.words import counted as counted_things
from fgsv.words import option

MOST_OF_TEST = 0.5
"""Warn if a provider supplies more than this fraction of the test rows."""
SPARE = 2048
"""The default budget's evaluations beyond the minimum: enough for the exact GSV of up to ten groups."""
LEAST_OF_REMEDY = 50
"""Minimum coalitions by which a remedy is compared, each with and without it."""
WHAT_COPYING_EARNS = "what copying earns"


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """What an audit will examine and its budget, known before the valuation."""

    copies: Copies
    parts: tuple[int, ...]
    classes: Any
    least: int
    budget: int | None
    least_pairs: int

    @classmethod
    def of(cls, table: Dataset, budget: int | None = None, parts: Sequence[int] = PARTS) -> AuditPlan:
        """Find copies, without evaluations, and check that the budget is enough.

        Args:
            table: The data.
            budget: The most evaluations of the audit. Default: what `most` says.
            parts: Numbers of companies to split into.

        Returns:
            The plan.

        Raises:
            ValueError: The budget is too small, or the data has several outputs.

        """
        if table.outputs is not None:
            raise ValueError(
                f"an audit needs one output: choose one metric, or leave out {option('output_by')}; or value several "
                f"without {option('audit')}"
            )
        copies = table.copies()
        classes = table.classes()
        least = least_budget(table.partition, parts=parts, classes=classes)
        least += 2 * least_pairs(table) * n_remedies(copies)
        if budget is not None and whole_number(option("audit_budget"), budget) < least:
            n_groups = table.partition.n_groups
            raise ValueError(
                f"an audit of {n_groups} groups needs at least {least} evaluations, got {budget}: raise "
                f"{option('audit_budget')}"
            )
        return cls(copies, tuple(parts), classes, least, budget, least_pairs(table))

    @property
    def default_budget(self) -> int:
        """The evaluations of an audit without a budget of its own, beside the valuations of remedies."""
        return max(DEFAULT_BUDGET, self.least + SPARE)

    def most(self, valuation: Valuation) -> int:
        """Return the most evaluations that the audit of a valuation takes."""
        if self.budget is not None:
            return self.budget
        return self.default_budget + 2 * n_remedies(self.copies) * self.pairs(valuation)

    def pairs(self, valuation: Valuation) -> int:
        """Return the coalitions by which each remedy is compared: at most all, or half as many as this run had."""
        wanted = valuation.n_evaluations if valuation.exact else valuation.n_evaluations // 2
        if self.budget is not None and (n := n_remedies(self.copies)):
            wanted = min(wanted, self.least_pairs + (self.budget - self.least) // (4 * n))
        return max(self.least_pairs, wanted)


def n_remedies(copies: Copies) -> int:
    """Return how many games remedies need: one without copies and, with known times, one by precedence."""
    return 0 if not copies.n_copies else 1 if copies.ranks is None else 2


def least_pairs(table: Dataset) -> int:
    """Return the fewest coalitions by which a remedy is compared: an unbiased estimate of all players needs them."""
    return max(LEAST_OF_REMEDY, table.game.n_players + 2)


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
    the valuation took if there are copies, twice that if registration times are known.

    Args:
        table: The data.
        valuation: Its valuation.
        plan: What to examine. Default: everything, with the default budget.
        evaluator: The open evaluator of the valuation, with its ledger, its workers and all evaluations so far.
            Default: the game is evaluated in this process.
        payout: Terms under which splitting is examined, too. Default: none.
        max_seconds: No evaluation begins later, and a warning names what is missing; what copying earns is measured
            in half of the time. Default: no limit.
        confidence: Confidence level of all intervals.
        seed: Of what is drawn.

    Returns:
        The audit, with sections on copies, what they earn, and the policy.

    Raises:
        ValueError, TypeError: An argument is wrong, or the budget is too small.
        GameError: An evaluation failed.

    """
    check_dataset(table)
    check_valuation(valuation)
    plan = plan or AuditPlan.of(table)
    spent: dict[str, int] = {}
    sections = [copies_section(table, plan.copies), *plan.copies.sections]
    warnings = [*warnings_of_test(table), *plan.copies.warnings]
    left = plan.default_budget if plan.budget is None else plan.budget

    opened = Evaluator(as_game(table.game)) if evaluator is None else nullcontext(evaluator)
    with opened as evaluator, evaluator.within(max_seconds):
        access = weighted(evaluator, table.weights)
        if plan.copies.n_copies:
            pairs = plan.pairs(valuation)
            try:
                compared = compared_shares(table, access, valuation, plan.copies, pairs, seed, spent)
                sections.append(remedy_section(table, plan.copies, valuation, compared, confidence))
            except OutOfTime:
                warnings.append(f"time ran out before {WHAT_COPYING_EARNS} was measured: allow more time")
            fixed = 2 * plan.least_pairs * n_remedies(plan.copies)
            left -= fixed if plan.budget is None else sum(spent.values())
        if payout is not None and valuation.outputs is None:
            sections += policy_sections(valuation, payout, plan.parts, seed)
        audited = audit_through(
            access,
            valuation,
            budget=left,
            parts=plan.parts,
            classes=plan.classes,
            confidence=confidence,
            seed=seed,
        )
    return replace(
        audited,
        warnings=(*warnings, *audited.warnings),
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
    """Return which providers have more rows or documents in common than chance explains."""
    what = table.noun
    words = []
    if copies.n_copies:
        words.append(
            f"Possible copies of another provider's: {counted_things(copies.n_copies, what)}, {copies.n_exact:,} "
            f"equal and {copies.n_near:,} nearly equal. The faithful value alone does not prevent copying: a copied "
            f"{what} is a new {what} and earns a share."
        )
        if copies.ranks is None:
            words.append(f"Nothing says who had a {what} first: {option('registered')} names the column of times.")
    else:
        words.append(f"No two providers have more {what}s in common than chance explains.")
    if copies.chance is not None and (n_others := copies.chance.n_others):
        words.append(f"Alike in other pairs, as chance explains: {counted_things(n_others, what)}.")
    if copies.n_copies and table.units is not None:
        whole, partly = copies.units_hit(table.units)
        words.append(f"{whole} units consist entirely of copies, {partly} in part.")
    if not copies.n_copies:
        return Section("Possible copies", tuple(words))
    columns = ["provider", "and provider" if copies.ranks is None else "registered later than"]
    columns += ["equal", "nearly equal"]
    rows = copies.table.to_dict("records")
    shown = [[each["provider"], each["other"], each["exact"], each["near"]] for each in rows]
    if copies.chance is not None:
        columns.append("expected by chance")
        shown = [[*cells, f"{each['expected']:.1f}"] for cells, each in zip(shown, rows, strict=True)]
    return Section("Possible copies", tuple(words), tuple(columns), tuple(map(tuple, shown)))


@dataclass(frozen=True, eq=False)
class Compared:
    """What each provider's share is more without a remedy, with half the width of its interval."""

    shares: Floats
    stderr: Floats
    degrees_of_freedom: float

    def half_width(self, confidence: float) -> Floats:
        """Return (K,) half the width of each interval."""
        return np.asarray(self.stderr * t_quantile(confidence, self.degrees_of_freedom))


def compared_shares(
    table: Dataset,
    access: GameAccess,
    valuation: Valuation,
    copies: Copies,
    pairs: int,
    seed: int,
    spent: dict[str, int],
) -> dict[str, Compared]:
    """Return what copies earn each provider, for each remedy: its share as it is less that under the remedy.

    Every coalition is evaluated with and without the remedy, and the difference, D(S) = U(S) / (U(N) - U(0)) less the
    same of the other game, is valued as one game (unbiased): what both have in common cancels. If providers co-own
    what is left, the values of the rows that change hands, V(moved), are those of the valuation, whose draws are
    independent: Var = Var(D) + Var(V(moved)).

    Args:
        table: The data.
        access: Its game, open.
        valuation: Its valuation.
        copies: The copies in it.
        pairs: Coalitions that are evaluated with and without each remedy.
        seed: Of the valuation; the differences are drawn with the next one.
        spent: Purpose -> evaluations, which is added to.

    Returns:
        Remedy -> what it changes; empty if the model learns nothing without the copies.

    """
    evaluator = access.evaluator
    units = table.units
    players = np.arange(len(copies.kept)) if units is None else pd.factorize(units)[0]
    kept = pd.unique(players[copies.kept])
    as_it_is = without_folds(access)
    owners = table.partition

    def less(other: GameAccess, groups: Partition) -> Valuation:
        half = None if evaluator.seconds_left is None else max(evaluator.seconds_left / 2, 1e-3)
        differences = share_differences(as_it_is, other)
        return value(differences, groups, budget=pairs, max_seconds=half, seed=seed + 1, unbiased=True)

    with (
        evaluator.beside(as_game(table.game_of(copies.kept))) as inner,
        counted(spent, WHAT_COPYING_EARNS, evaluator),
        counted(spent, WHAT_COPYING_EARNS, inner),
    ):
        left_out = of_some(without_folds(weighted(inner, table.weights)), kept, owners.n_players)
        if not np.diff(left_out.ends(), axis=0) > 0:
            return {}
        without = less(left_out, owners)
    shared = _ownership(owners)
    shared[kept] = _ownership(copies.remedy("share", units))
    found = {"providers co-own": _with_moved(without.regroup(Partition(owners.names, shared)), valuation)}
    if copies.ranks is not None:
        found = {"first provider keeps": _with_moved(without, valuation), **found}
        order = Precedence.of(copies.origin, None if units is None else players)
        game = table.game if units is None else table.game_of_units(None)
        with (
            evaluator.beside(as_game(game)) as inner,
            counted(spent, WHAT_COPYING_EARNS, evaluator),
            counted(spent, WHAT_COPYING_EARNS, inner),
        ):
            preceded = by_precedence(without_folds(weighted(inner, table.weights)), order)
            found["precedence"] = _with_moved(less(preceded, owners), valuation)
    return found


def _ownership(partition: Partition) -> Floats:
    """Return the (n, K) parts of each player that each group owns."""
    return np.eye(partition.n_groups)[partition.codes] if partition.is_disjoint else partition.owners


def _with_moved(difference: Valuation, valuation: Valuation) -> Compared:
    """Add what rows are worth that have other owners in the difference than in the valuation, in shares."""
    moved = (_ownership(valuation.partition) - _ownership(difference.partition)) / float(valuation.total)
    shares = difference.values
    variance = difference.stderr**2
    if moved.any() and valuation.player_values is not None:
        shares = shares + moved.T @ valuation.player_values
        if valuation.deviations is not None and not valuation.exact:
            variance = variance + ((valuation.deviations[..., 0] @ moved) ** 2).sum(axis=0)
    freedom = min(difference.degrees_of_freedom, valuation.degrees_of_freedom)
    return Compared(shares, np.sqrt(variance), freedom)


def remedy_section(
    table: Dataset, copies: Copies, valuation: Valuation, compared: Mapping[str, Compared], confidence: float
) -> Section:
    """Return what copying earns each provider, by each remedy.

    Args:
        table: The data.
        copies: The copies in it.
        valuation: Its valuation.
        compared: Remedy -> what it changes, as `compared_shares` returns.
        confidence: Confidence level of the intervals.

    Returns:
        A section, from the largest share to the smallest.

    """
    title = "What copying earns"
    what = table.noun
    if not compared:
        return Section(title, ("Without the copies the model scores no better than with no data.",))
    words = [
        "The share as it is less the share under each remedy, from the same coalitions with and without it. The "
        f"possible copies are left out, and all providers that have a {what} own it in equal parts."
    ]
    if copies.ranks is not None:
        words.append(
            "Or the provider that registered it first keeps it. Or nothing is left out, but a copy counts only "
            f"together with the {what} registered first (precedence)."
        )
    cells = [
        [f"{share:+.2%} ± {half:.2%}" for share, half in zip(each.shares, each.half_width(confidence), strict=True)]
        for each in compared.values()
    ]
    shares = valuation.shares()
    order = np.argsort(-shares, kind="stable")
    rows = tuple((str(valuation.names[k]), f"{shares[k]:.2%}", *(column[k] for column in cells)) for k in order)
    return Section(title, tuple(words), ("group", "share as it is", *compared), rows)


def policy_sections(valuation: Valuation, payout: Terms, parts: Sequence[int], seed: int) -> list[Section]:
    """Return what splitting earns under a policy that is not faithful: each group, or a sample of many.

    Args:
        valuation: A valuation of one output.
        payout: The terms.
        parts: Numbers of companies to split into.
        seed: Of the sample and of splits at random.

    Returns:
        A section in a list; none if the terms are faithful.

    """
    if payout.is_faithful:
        return []
    groups = sample_groups(valuation.partition, MOST_MEASURED, seed)
    sample = Sample.among(valuation.partition, groups)
    split: dict[str, Any] = payout.policy | {"parts": parts, "groups": groups.tolist()}
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
