"""Making a result: value a table or texts, split the money, audit and save, so that no finished work is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from fgsv.audit import AuditPlan, audit_table
from fgsv.audit.table_audit import n_remedies
from fgsv.checks import check_type
from fgsv.data.dataset import Dataset, check_dataset
from fgsv.data.metrics import alternatives, little_to_share
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.recording import OutOfTime
from fgsv.evaluation.start import Start
from fgsv.evaluation.views import weighted, without_folds
from fgsv.files import as_path
from fgsv.game import GameError, as_game
from fgsv.ledger import LedgerError
from fgsv.ledger.kept_rows import keep_rows
from fgsv.packages import versions
from fgsv.payout import Terms
from fgsv.payout.refusal import WIDEST
from fgsv.pipeline.folder import UnwrittenError, folder_of_run, save_unfinished, write_result
from fgsv.planning import Limits, Watcher, offer_of_units, start_in_words, value_with_plan
from fgsv.results.highlights import highlights
from fgsv.results.periods import check_before
from fgsv.results.questions import SharesByQuestion
from fgsv.results.result import Result
from fgsv.results.scores_without import MOST_GROUPS, scores_without_each
from fgsv.results.seals import Seal, Sealed, check_seal, described_run, policy_of
from fgsv.running.first_cost import first_cost
from fgsv.running.training_seeds import with_seed_noise
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats
from fgsv.valuation import Reason, Valuation
from fgsv.verification.merkle import Tree
from fgsv.verification.replay import Records
from fgsv.words import now, option


def value_data(
    data: Dataset,
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
    parts: Sequence[int] = (2, 3, 5),
    out: str | Path | None = None,
    force: bool = False,
    aggregate_only: bool = False,
    seal: Seal | None = None,
    public: str | None = None,
    before: Result | None = None,
    watcher: Watcher | None = None,
    command: str | None = None,
) -> Result:
    """Value a table or texts and, if asked, split money, audit the valuation and write a folder: `fgsv value`.

    Arguments and the folder are checked before the first evaluation. A finished run is never lost: the valuation is
    saved before the payout and the audit, and if one of them fails, or a file cannot be written, the result has the
    rest and the error (`Result.errors`). An interrupt ends the run, or the audit, and returns the result so far.

    A sealed run (`fgsv.results.seal_run`) must be the run that was sealed, and has a ledger, which can answer
    challenges.

    Args:
        data: What `fgsv.open_table` or `fgsv.open_text` returns.
        budget: Evaluations in total. Default: 20,000, or a million with another limit. Those of the scores without
            each provider, of the audit and of the error of training seeds do not count.
        precision: Stop when every share is known to within this (0.01 = one percentage point).
        max_seconds: Time limit, such as 90s, 10m or 2h; an audit gets half of it. In Python in seconds.
        confidence: Confidence level of all intervals.
        seed: Random seed: same seed, same result.
        n_jobs: Number of workers; -1 for one per core.
        ledger: File that records every evaluation, so that none is repeated.
        start: Ledger of an earlier run, or several, with which the data was opened, too.
        on_error: raise, or the number that a failed evaluation counts as, or empty: count it like no data.
        payout: Amount to split, such as 100000.00; with several outputs one each. In Python `fgsv.payout.Terms`.
        without: Do not compute the score without each provider, and of each alone (two evaluations each). In Python
            False leaves these scores out, as more than 200 providers do.
        audit: Audit the valuation: what splitting and copying would earn.
        audit_budget: Evaluations for the audit. Default: 4,000, or more if it needs them, plus as many as the
            valuation if copies are found, twice that with `registered`.
        parts: Numbers of companies the audit splits each provider into.
        out: Folder for valuation.json, valuation.csv and report.html.
        force: Replace a finished valuation.
        aggregate_only: Leave the values of single players out of the report.
        seal: Seal of this run, from fgsv seal make, which determines its seed. In Python a `Seal`.
        public: With a seal: the value that became public after sealing.
        before: valuation.json of the previous period, for comparison in the report. In Python a `Result`.
        watcher: What is told about the cost, the plan and every round. Default: nothing is shown.
        command: How the report says that the result was made.

    Returns:
        The result: the valuation by every grouping, its source, and what was asked for beside it.

    Raises:
        ValueError, TypeError, FileExistsError: An argument is wrong; the run was not begun.
        GameError: An evaluation of the run failed, and `on_error` is "raise".

    Examples:
        >>> import fgsv, pandas as pd
        >>> rows = pd.DataFrame({"x": range(40), "y": [i // 20 for i in range(40)], "provider": ["n", "s"] * 20})
        >>> result = value_data(fgsv.open_table(rows, group="provider", target="y"), budget=40)
        >>> result.valuation.names
        ('n', 's')

    """
    started = time.monotonic()
    check_dataset(data)
    limits = Limits(budget, precision, max_seconds)
    facts = data.facts()
    cheaper = data.cheaper()
    drawn = None if ledger is None else data.own_test_rows()
    folder = None if out is None else as_path(out, "out")
    amounts: Sequence[Decimal | None] = [None] * len(data.outputs or ("",))
    if payout is not None:
        check_type(payout, Terms, "terms of a payout", "fgsv.payout.Terms(amount, currency) makes them")
        amounts = payout.check(data.partition.n_groups, data.outputs)
    if before is not None:
        check_before(before, names=data.partition.names, outputs=data.outputs, game=data.source.game)
    if seal is not None:
        check_type(seal, Seal, "a seal", "fgsv.results.Seal.load(path) opens one")
        _check_sealed({"seed": seed, "start": start, "max_seconds": max_seconds}, ledger)
        described = described_run(data, limits, confidence=confidence, on_error=on_error)
        seed = _seed_of(seal, public, described, payout)
    elif public is not None:
        raise ValueError(f"{option('public')} needs the seal that it belongs to: give {option('seal')}, too")
    plan = AuditPlan.of(data, audit_budget, parts) if audit else None
    watcher = Watcher() if watcher is None else watcher
    check_type(watcher, Watcher, "a watcher", "derive it from fgsv.planning.Watcher")
    evaluator = Evaluator(as_game(data.game), n_jobs=n_jobs, ledger=ledger, on_error=on_error, start=start or None)
    run = {"game": data.source.game, "groups": data.partition.fingerprint, "seed": seed}
    # all that can be refused without an evaluation was refused: now the folder, the ledger and the workers open
    with folder_of_run(folder, force=force, run=run), evaluator:
        stated = without_folds(weighted(evaluator, data.weights))
        if ledger is not None and drawn is not None:
            keep_rows(drawn, ledger)  # for the next month, when their providers may have left
        cost = first_cost(evaluator, limits, cheaper)  # this evaluates U(0) and U(N)
        if evaluator.found is not None:
            cost = replace(cost, start=start_in_words(evaluator.found, data.partition, evaluator.game))
        watcher.measured(cost)
        if payout is not None or plan is not None:
            _check_something_to_share(data, stated.ends(), payout, amounts)
        used = None if seal is None else Records()
        raw, history = value_with_plan(
            evaluator if used is None else used.watch(evaluator),
            data.partition,
            limits if plan is None else limits.beside_audit(),
            watcher,
            confidence=confidence,
            shown_as=data.on_all_test_rows,
            payable=None if payout is None or payout.pay_anyway else WIDEST,
            offer=offer_of_units(data, limits, confidence=confidence, n_jobs=n_jobs),
            seed=seed,
        )
        result = _result(data, raw, evaluator, confidence, before, shows_players=not aggregate_only)
        result = replace(result, history=history, command=command, facts=facts)
        if seal is not None and used is not None:
            root = Tree(used.leaves()).root.hex()
            result = replace(result, sealed=Sealed(seal.commitment, seal, str(public), root, len(used)))
        if folder is not None:
            save_unfinished(folder, result)
        if payout is not None:
            result = result.paid_by(payout)
        steps = _Steps(data, evaluator, stated, watcher, started, max_seconds)
        if without and data.partition.n_groups <= MOST_GROUPS:
            result = _attempt(
                steps.scores_without, "the scores without each provider are missing", result, optional=True
            )
        if plan is not None:
            audited = partial(steps.audit, plan, payout=payout, seed=seed, shows_players=not aggregate_only)
            result = _attempt(audited, "the audit is missing", result)
        if payout is not None and result.interrupted and (result.payout or result.unpaid) is not None:
            result = result.paid_by(payout)  # nothing is called paid after a run, or an audit, that did not end
        result = _recorded(result, evaluator)
        return result if folder is None else written(result, folder, aggregate_only=aggregate_only)


def _attempt(step: Callable[[Result], Result], lacks: str, result: Result, *, optional: bool = False) -> Result:
    """Return the result with what a step adds to it; if that fails or is interrupted, without, and with a warning.

    A result is then unfinished, and has the error. Of an `optional` step, an evaluation that fails and the end of the
    time leave the warning only.
    """
    if result.interrupted:
        return _warned(result, f"{lacks}: the run was interrupted first")
    try:
        return step(result)
    except (Exception, KeyboardInterrupt) as error:
        if optional and isinstance(error, (GameError, OutOfTime)):
            return _warned(result, f"{lacks}: {error}")
        errors = (error,) if isinstance(error, Exception) else ()
        why = "this failed" if errors else "it was interrupted"
        result = _warned(result, f"{lacks}: {why}; run the same command again to continue it")
        unfinished = replace(result.valuation, finished=False)
        return replace(result, valuation=unfinished, errors=(*result.errors, *errors))


def _warned(result: Result, warning: str) -> Result:
    return replace(result, own_warnings=(*result.own_warnings, warning))


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


def _seed_of(seal: Seal, public: str | None, run: Mapping[str, Any], payout: Terms | None) -> int:
    """Return the seed of a sealed run; raise an error if another run was sealed."""
    found = {"versions": versions(), **run}
    seed = seal.seed(public)
    if payout is not None:
        found["policy"] = policy_of(**payout.policy, currency=payout.currency)
    check_seal(seal, found)
    return seed


def _check_something_to_share(
    data: Dataset, ends: Floats, payout: Terms | None, amounts: Sequence[Decimal | None]
) -> None:
    """Raise an error, before a payout or an audit, if U(N) is no better than U(0) (for texts, hardly better)."""
    anyway = payout is not None and payout.pay_anyway
    least = 0.0 if anyway else data.least_gain
    for output, nobody, everybody, amount in zip(data.outputs or ("",), *ends, amounts, strict=True):
        if everybody - nobody <= least and amount != 0:
            others = alternatives(output or data.source.metric, data.source.task).capitalize()
            raise ValueError(
                f"{f'output {output}: ' if output else ''}with all the data the model scores {everybody:.4g}, with "
                f"none {nobody:.4g}: there is nothing to share. {others}. Or check the model and the test rows, or "
                f"value without {option('payout')} and {option('audit')}"
                f"{', or pay 0 for this output' if output else ''}"
            )


def _result(
    data: Dataset,
    raw: Valuation,
    evaluator: Evaluator,
    confidence: float,
    before: Result | None,
    *,
    shows_players: bool,
) -> Result:
    """Return the result of a run: its valuation on all test rows, by every grouping, with errors and warnings."""
    metric = data.source.metric
    raw, unknown = _with_training_seeds(raw, evaluator)
    valuation = data.on_all_test_rows(raw)
    (_, main), *others = [(column, valuation.regroup(each)) for column, each in data.groupings.items()]
    comparable = before is None or valuation.total > 0
    uncompared = [] if comparable else ["without shares, there is no comparison with the earlier result"]
    poor = little_to_share(valuation, metric, data.source.task)
    return Result(
        main,
        data.source,
        confidence,
        by_question=SharesByQuestion.of(raw, valuation, metric, data.also) if data.also else None,
        others=dict(others),
        own_warnings=(*data.warnings, *unknown, *uncompared, *poor),
        made=now(),
        before=before if comparable else None,
        highlights=highlights(data, valuation) if shows_players else None,
    )


def _with_training_seeds(raw: Valuation, evaluator: Evaluator) -> tuple[Valuation, list[str]]:
    """Return the valuation with its error of training seeds, or with a warning that says why it lacks it."""
    if evaluator.game.retrain is None:
        return raw, []
    why = "the run was interrupted first"
    if raw.end.reason is not Reason.INTERRUPTED:
        try:
            return with_seed_noise(raw, evaluator, SHAPLEY), []
        except GameError as error:
            why = str(error)
    return raw, [f"the error of training seeds is missing: {why}"]


@dataclass(frozen=True)
class _Steps:
    """What may follow a valuation: each step returns the result with what it adds."""

    data: Dataset
    evaluator: Evaluator
    stated: GameAccess
    watcher: Watcher
    started: float
    """When the run began, on the clock `time.monotonic`."""
    max_seconds: float | None
    """The most that it may take, with everything after it."""

    @property
    def spent(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float | None:
        """Seconds that are left; None if they are not limited."""
        return None if self.max_seconds is None else max(0.0, self.max_seconds - self.spent)

    def scores_without(self, result: Result) -> Result:
        """Evaluate all data without each provider, and each alone."""
        if not self.data.partition.is_disjoint:
            raise GameError("some players belong to several providers")
        before = self.evaluator.meter
        with self.evaluator.within(self.left):
            scores = scores_without_each(self.stated, self.data.partition)
        failures = (self.evaluator.meter - before).failures
        result = replace(result, without=scores)
        return result if failures is None else _warned(result, f"for the scores without each provider {failures}")

    def audit(
        self, plan: AuditPlan, result: Result, *, payout: Terms | None, seed: int, shows_players: bool
    ) -> Result:
        """Audit the valuation in the time that is left."""
        left = self.left
        most = plan.most(result.valuation)
        meter = self.evaluator.meter
        evaluating = meter.seconds / self.evaluator.n_workers
        learning = max(0.0, self.spent - evaluating)  # again in each valuation of a remedy
        expected = most * evaluating / max(1, meter.evaluated) + n_remedies(plan.copies) * learning
        self.watcher.audit_begins(most, expected if left is None else min(expected, left))
        with self.evaluator.watched(self.watcher.audited):
            audited = audit_table(
                self.data,
                result.valuation,
                plan,
                evaluator=self.evaluator,
                payout=None if result.payout is None and result.unpaid is None else payout,
                max_seconds=left,
                confidence=result.confidence,
                seed=seed,
            )
        if not shows_players:
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


def written(result: Result, folder: Path, **how: Any) -> Result:
    """Write the folder of a result; return it with its files, and with the error if some could not be written."""
    try:
        return replace(result, files=tuple(write_result(folder, result, **how)))
    except UnwrittenError as error:
        return replace(result, files=error.files, errors=(*result.errors, error))
