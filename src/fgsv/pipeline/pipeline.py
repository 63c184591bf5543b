"""Making a result: value a table or texts, split the money, audit and save, so that no finished work is lost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fgsv.audit import AuditPlan, audit_table
from fgsv.audit.splits import PARTS
from fgsv.audit.table_audit import n_valuations
from fgsv.checks import check_type
from fgsv.data.dataset import Dataset, check_dataset
from fgsv.data.metrics import alternatives, little_to_share
from fgsv.evaluation.calls import OutOfTime
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.start import Start, in_words
from fgsv.evaluation.views import weighted, without_folds
from fgsv.files import as_path
from fgsv.game import GameError, as_game
from fgsv.ledger import LedgerError
from fgsv.packages import versions
from fgsv.payout import Terms
from fgsv.pipeline.folder import UnwrittenError, folder_of_run, save_unfinished, write_result
from fgsv.planning import HistoryPoint, Limits, Watcher, first_cost, value_with_plan
from fgsv.results.answers import Answers
from fgsv.results.highlights import highlights
from fgsv.results.merkle import Tree
from fgsv.results.periods import check_before
from fgsv.results.result import Result
from fgsv.results.scores_without import MOST_GROUPS, scores_without_each
from fgsv.results.seals import Seal, Sealed, check_seal, described_run, policy_of
from fgsv.running.preparation import worth_of_failure
from fgsv.running.seed_noise import with_seed_noise
from fgsv.semivalue import SHAPLEY
from fgsv.valuation import Reason, Valuation
from fgsv.verification.replay import Records
from fgsv.words import now, option

INTERRUPTED_FIRST = "the run was interrupted first"
"""Why a result lacks a step after its run."""


def value_data(
    table: Dataset,
    *,
    budget: int | None = None,
    precision: float | None = None,
    max_seconds: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = 1,
    ledger: str | Path | None = None,
    start: Start = None,
    on_error: str | float = "raise",
    payout: Terms | None = None,
    without: bool = True,
    audit: bool = False,
    audit_budget: int | None = None,
    parts: Sequence[int] = PARTS,
    out: str | Path | None = None,
    force: bool = False,
    aggregate_only: bool = False,
    watcher: Watcher | None = None,
    before: Result | None = None,
    command: str | None = None,
    seal: Seal | None = None,
    public: str | None = None,
) -> Result:
    """Value a table or texts and, if asked, split money, audit the valuation and write a folder: `fgsv value`.

    Arguments and the folder are checked before the first evaluation. A finished run is never lost: the valuation is
    saved before the payout and the audit, and if one of them fails, or a file cannot be written, the result has the
    rest and the error (`Result.errors`). With an audit, half of `max_seconds` is reserved for it. An interrupt ends
    the run, or the audit, and returns the result so far. `without` computes the score without each provider, if there
    are at most 200, with one evaluation each. These do not count towards the budget; nor do the 32 to 128 that
    measure the error of training seeds, if each coalition has its own. `start` names ledgers of earlier runs (open
    the table with the same), `before` is the result of the previous period. `command` is shown in the report.

    A run that was sealed (`seal_run`) takes its `seal`, and its seed from that and from `public`, a text that was not
    known when the seal was made. It must be the run that was sealed, and has a ledger, which can answer challenges.
    """
    started = time.monotonic()
    check_dataset(table)
    folder = None if out is None else as_path(out, "out")
    limits = Limits(budget, precision, max_seconds)
    _check_fits(table, limits, payout, before)
    if seal is not None:
        check_type(seal, Seal, "a seal", "fgsv.results.Seal.load(path) opens one")
        _check_sealed({"seed": seed, "start": start, "max_seconds": max_seconds}, ledger)
        found = described_run(table, budget=budget, precision=precision, confidence=confidence, on_error=on_error)
        seed = seal.seed(public)
        if payout is not None:
            found["policy"] = policy_of(payout.clip, payout.floor, payout.cap, payout.currency)
        check_seal(seal, {"versions": versions(), **found})
    elif public is not None:
        raise ValueError(f"{option('public')} needs the seal that it belongs to: give {option('seal')}, too")
    plan = AuditPlan.of(table, audit_budget, parts) if audit else None
    on_error = worth_of_failure(table.game, on_error)
    evaluator = Evaluator(as_game(table.game), n_jobs=n_jobs, ledger=ledger, on_error=on_error, start=start or None)
    described = {"game": table.source.game, "groups": table.partition.fingerprint, "seed": seed}
    making = _Making(
        table, evaluator, limits, confidence, seed, payout, plan, watcher or Watcher(), aggregate_only, started
    )
    with folder_of_run(folder, force=force, run=described), evaluator:
        _announce(making)
        _check_something_to_share(making)
        used = Records()
        raw, history = _run(making, evaluator if seal is None else used.watch(evaluator))
        result = replace(_result(making, raw, before), history=history, command=command)
        if seal is not None:
            root = Tree(used.leaves()).root.hex()
            result = replace(result, sealed=Sealed(seal.commitment, seal, str(public), root, len(used)))
        if folder is not None:
            save_unfinished(folder, result)
        if payout is not None:
            result = result.paid_by(payout)
        if without:
            result = _with_scores_without(making, result)
        if plan is not None:
            result = _with_audit(making, result, plan)
        result = _recorded(result, evaluator)
        return result if folder is None else _written(result, folder, aggregate_only)


@dataclass(frozen=True, eq=False)
class _Making:
    """What the steps of `value_data` share, once its arguments are checked."""

    table: Dataset
    evaluator: Evaluator
    limits: Limits
    """Of the run and the audit together."""
    confidence: float
    seed: int
    payout: Terms | None
    plan: AuditPlan | None
    """Of the audit, if one is asked for."""
    watcher: Watcher
    aggregate_only: bool
    started: float

    def seconds_left(self) -> float | None:
        """Return the time that is left now; None if it is not limited."""
        spent, seconds = time.monotonic() - self.started, self.limits.max_seconds
        return None if seconds is None else max(0.0, seconds - spent)


def _check_fits(table: Dataset, limits: Limits, payout: Terms | None, before: Result | None) -> None:
    """Raise an error if the table cannot be valued by the limits, paid by the terms or compared with `before`."""
    if payout is not None:
        check_type(payout, Terms, "terms of a payout", "fgsv.payout.Terms(amount, currency) makes them")
        payout.check(table.partition.n_groups, table.outputs)
    if before is not None:
        check_before(before, names=table.partition.names, outputs=table.outputs, game=table.source.game)


def _check_sealed(given: Mapping[str, Any], ledger: str | Path | None) -> None:
    """Raise an error for an option that a sealed run cannot have, or if it has no ledger."""
    why = {
        "seed": "gets its seed from the seal and the public value",
        "start": "cannot use earlier evaluations",
        "max_seconds": "must not end by the clock",
    }
    for name, words in why.items():
        if given[name]:
            raise ValueError(f"a sealed run {words}: leave out {option(name)}")
    if ledger is None:
        needed = option("ledger", "run.db")
        raise ValueError(f"a sealed run needs a ledger ({needed}): without it, no challenge can be answered")


def _announce(making: _Making) -> None:
    """Tell the watcher what the run will cost, and what it starts from."""
    evaluator, table = making.evaluator, making.table
    cost = first_cost(evaluator, making.limits, table.cheaper())
    known, seconds = evaluator.known, evaluator.game.seconds
    start = "" if known is None else in_words(known, table.partition, seconds)
    making.watcher.measured(replace(cost, start=start))


def _check_something_to_share(making: _Making) -> None:
    """Raise an error, before a payout or an audit, if U(N) is no better than U(0) (for texts, hardly better)."""
    table, payout = making.table, making.payout
    if payout is None and making.plan is None:
        return
    anyway = payout is not None and payout.pay_anyway
    least = 0.0 if anyway else table.least_gain
    ends = without_folds(weighted(making.evaluator, table.weights)).ends()
    amounts = [None] * ends.shape[1] if payout is None else payout.check(table.partition.n_groups, table.outputs)
    for output, nobody, everybody, amount in zip(table.outputs or ("",), *ends, amounts, strict=True):
        if everybody - nobody <= least and amount != 0:
            others = alternatives(output or table.source.metric, table.source.task).capitalize()
            raise ValueError(
                f"{f'output {output}: ' if output else ''}with all the data the model scores {everybody:.4g}, with "
                f"none {nobody:.4g}: there is nothing to share. {others}. Or check the model and the test rows, or "
                f"value without {option('payout')} and {option('audit')}"
                f"{', or pay 0 for this output' if output else ''}"
            )


def _run(making: _Making, game: GameAccess) -> tuple[Valuation, tuple[HistoryPoint, ...]]:
    """Return the valuation of the table's game, and its history."""
    return value_with_plan(
        game,
        making.table.partition,
        making.limits if making.plan is None else making.limits.beside_audit(),
        making.watcher,
        confidence=making.confidence,
        shown_as=making.table.on_all_test_rows,
        seed=making.seed,
    )


def _result(making: _Making, raw: Valuation, before: Result | None) -> Result:
    """Return the result of a run: its valuation on all test rows, by every grouping, with errors and warnings."""
    table, metric = making.table, making.table.source.metric
    raw, unknown = _with_training_seeds(raw, making.evaluator)
    valuation = table.on_all_test_rows(raw)
    (_, main), *others = [(column, valuation.regroup(each)) for column, each in table.groupings.items()]
    comparable = before is None or valuation.total > 0
    uncompared = [] if comparable else ["without shares, there is no comparison with the earlier result"]
    poor = little_to_share(valuation, metric, table.source.task)
    return Result(
        main,
        table.source,
        making.confidence,
        answers=Answers.of(raw, valuation, metric, table.also) if table.also else None,
        others=dict(others),
        own_warnings=(*table.warnings, *unknown, *uncompared, *poor),
        made=now(),
        before=before if comparable else None,
        highlights=None if making.aggregate_only else highlights(table, valuation),
    )


def _with_training_seeds(raw: Valuation, evaluator: Evaluator) -> tuple[Valuation, tuple[str, ...]]:
    """Return the valuation with its error of training seeds, or with a warning that says why it lacks it."""
    missing = "the error of training seeds is missing"
    if raw.end.reason is not Reason.INTERRUPTED:
        try:
            raw = with_seed_noise(raw, evaluator, SHAPLEY)
        except GameError as error:
            return raw, (f"{missing}: {error}",)
    lost = raw.end.reason is Reason.INTERRUPTED and evaluator.game.retrain is not None
    return raw, (f"{missing}: {INTERRUPTED_FIRST}",) if lost else ()


def _with_scores_without(making: _Making, result: Result) -> Result:
    """Return the result with the score without each provider, or with a warning that says why it lacks them."""
    table, evaluator = making.table, making.evaluator
    if table.partition.n_groups > MOST_GROUPS or result.interrupted:
        return result
    before = evaluator.meter
    try:
        if not table.partition.is_disjoint:
            raise GameError("some players belong to several providers")
        with evaluator.within(making.seconds_left()):
            scores = scores_without_each(without_folds(weighted(evaluator, table.weights)), table.partition)
    except KeyboardInterrupt:
        unfinished, warning = replace(result.valuation, finished=False), INTERRUPTED_FIRST
        result = replace(result, valuation=unfinished)
    except (GameError, OutOfTime) as error:
        warning = str(error)
    else:
        failures = (evaluator.meter - before).failures
        noted = () if failures is None else (f"for the scores without each provider {failures}",)
        return replace(result, without=scores, own_warnings=(*result.own_warnings, *noted))
    warning = f"the scores without each provider are missing: {warning}"
    return replace(result, own_warnings=(*result.own_warnings, warning))


def _with_audit(making: _Making, result: Result, plan: AuditPlan) -> Result:
    """Return the result with its audit; one that is interrupted or fails leaves the result unfinished."""
    if result.interrupted:
        warning = f"the audit is missing: {INTERRUPTED_FIRST}"
        return replace(result, own_warnings=(*result.own_warnings, warning))
    left, most, spent = making.seconds_left(), plan.most(result.valuation), making.evaluator.meter
    evaluating = spent.seconds / making.evaluator.n_workers
    learning = max(0.0, time.monotonic() - making.started - evaluating)  # again in each valuation of a remedy
    expected = most * evaluating / max(1, spent.evaluated) + n_valuations(plan.copies) * learning
    making.watcher.audit_begins(most, expected if left is None else min(expected, left))
    try:
        with making.evaluator.watched(making.watcher.audited):
            audited = audit_table(
                making.table,
                result.valuation,
                plan,
                evaluator=making.evaluator,
                payout=None if result.payout is None and result.unpaid is None else making.payout,
                max_seconds=left,
                confidence=result.confidence,
                seed=making.seed,
            )
    except (Exception, KeyboardInterrupt) as error:
        errors = (error,) if isinstance(error, Exception) else ()
        words = "failed" if errors else "was interrupted"
        warning = f"the audit {words} and is missing; run the same command again to continue it"
        return replace(
            result,
            valuation=replace(result.valuation, finished=False),
            own_warnings=(*result.own_warnings, warning),
            errors=(*result.errors, *errors),
        )
    if making.aggregate_only:
        audited = replace(audited, tables=tuple(each.for_competitors() for each in audited.tables))
    return replace(result, audit=audited)


def _recorded(result: Result, evaluator: Evaluator) -> Result:
    """Record in the ledger what the result states for each grouping; return it, with the error if that fails."""
    try:
        for stated in (result, *result.of_others().values()):
            evaluator.state(stated.to_document)
    except LedgerError as error:
        return replace(result, errors=(*result.errors, error))
    return result


def _written(result: Result, folder: Path, aggregate_only: bool) -> Result:
    """Write the folder of a result; return it with its files, and with the error if some could not be written."""
    try:
        return replace(result, files=tuple(write_result(folder, result, aggregate_only=aggregate_only)))
    except UnwrittenError as error:
        return replace(result, files=error.files, errors=(*result.errors, error))
