"""value, iterate and exact: a run, from its arguments to its valuation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.start import Start
from fgsv.ledger import Ledger, Purpose
from fgsv.methods import DEFAULT, Enumeration, Method, Task, as_method, for_task
from fgsv.methods.enumeration import MOST_PLAYERS, check_adds_up, stated_values
from fgsv.methods.steady import Steady
from fgsv.partition import Partition
from fgsv.running.ahead import Ahead
from fgsv.running.bar import Bar, is_shown
from fgsv.running.preparation import (
    access_to,
    is_open,
    keywords,
    problem_of,
    read_players,
    same_arguments,
    settings_of,
    task_of,
)
from fgsv.running.progress import Progress, Run
from fgsv.running.stopping import Rule, met, own_rules, rules_of
from fgsv.running.training_seeds import Repeats, with_seed_noise
from fgsv.semivalue import SHAPLEY, Semivalue, as_semivalue
from fgsv.signals import held_interrupts
from fgsv.types import Ints
from fgsv.valuation import INTERRUPTED, End, Estimate, Reason, Valuation
from fgsv.valuation.settings import LIMITS

BATCH_OF_EXACT = 2**11
"""Coalitions that `exact` evaluates together by default: with so few players, more of them fit into memory."""


def value(
    game: Any,
    groups: Any = None,
    *,
    method: str | Method = DEFAULT,
    budget: int | None = None,
    max_seconds: float | None = None,
    stderr: float | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
    stop: Rule | Sequence[Rule] | None = None,
    seed: int = 0,
    semivalue: str | Semivalue = "shapley",
    cost: Callable[[Ints], ArrayLike] | None = None,
    proxy: Any = None,
    batch_size: int | None = None,
    n_jobs: int | None = None,
    max_in_flight: int | None = None,
    ledger: str | Path | Ledger | None = None,
    start: Start = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Valuation:
    """Estimate the faithful value of each group: the sum of its members' Shapley values (paper, Eq. 4).

        FGSV(G) = sum over the players i of G of SV(i)

    A run ends at `budget`, `max_seconds`, `stderr`, `precision` or `stop`, whichever comes first; an interrupt
    returns the valuation so far. Same seed and same start give the same bits, however it runs.

    A rule that looks at the errors tends to stop when they happen to look small, which biases values if tails are
    heavy. So no target is met before 66 evaluations, nor before 3 divided by the precision, nor soon after with fewer
    than 8 degrees of freedom, nor (before 20,000 evaluations) on an error of zero, unless the values are exact: this
    keeps the bias small (`python -m benchmarks coverage`), for `stderr` and `precision`, not for rules of your own.
    Standard errors cannot reflect coalitions that were never sampled: a game that has value only in rare coalitions
    may meet its target before the first of them is drawn.

    Args:
        game: A callable from an (m, n) boolean array, a coalition in each row, to (m,) or (m, q) numbers.
        groups: The group of each player: (n,) labels, a mapping name -> indices, or an (n, K) ownership matrix. None
            makes each player its own group.
        method: One of `fgsv.METHODS`, or your own. With a budget of 2^n or more, and no other rule, the default
            method evaluates every coalition.
        budget: Evaluations in total, U(0) and U(N) among them. Default: 20,000, or a million with another rule.
        max_seconds: The run ends after the first round that ends later than this.
        stderr: Largest standard error of a group's value at which the run ends.
        precision: Largest half-width of a share's interval, at `confidence`, at which the run ends; 0.01 is one
            percentage point.
        confidence: Level of the intervals that `precision` is about.
        stop: One or several rules of your own: callables that take the progress and return why to stop, or None.
        seed: Seed of everything that is drawn.
        semivalue: "shapley", "banzhaf", "beta(a, b)", or your own.
        cost: Relative cost of an evaluation by size: (k,) sizes to (k,) positive numbers. Default: the game's, or the
            same for all.
        proxy: A cheap game of the same players that resembles this one: what it explains is not sampled. Without a
            closed form, it is valued in its own run, with 128 to 256 times the evaluations, up to 200,000.
        batch_size: Coalitions that are evaluated together. Default: the game's, or at most 256.
        n_jobs: Workers; -1 for one per core. Default: those of `joblib.parallel_config`, or one.
        max_in_flight: Batches under way while further rounds are drawn, which bounds what is evaluated in vain if a
            run stops early. Default: three for each of several workers, one with one worker.
        ledger: File that records every evaluation, and answers those that it has.
        start: Ledgers of earlier runs. Evaluations of players who are still there are reused, and do not count.
        on_error: "raise", a number that a failed evaluation counts as, or "empty" for the value of a coalition that
            the model cannot be fitted to; the valuation's `failures` count them.
        timeout: Seconds that a batch may take; it needs worker processes.
        progress: Whether to show a bar with the widest interval and the time left. Default: in terminals and
            notebooks, and not in `iterate`. If True, elsewhere too: a line every half minute.
        options: Options of the method; for the default one `unbiased`, `learn`, `singles_first`.

    Returns:
        The valuation: `values` and `stderr`, (K,) or (K, q); what the run used, and how it ended.

    Raises:
        ValueError, TypeError: An argument is wrong; no evaluation was made.
        GameError: An evaluation failed, and `on_error` is "raise".

    Examples:
        >>> import fgsv
        >>> result = fgsv.value(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"])
        >>> result.names, result.values.round(4).tolist()
        (('a', 'b'), [0.3333, 3.6667])

    """
    arguments = locals()  # before anything else: all that was given, by name
    [(valuation, _)] = _rounds(every=False, **arguments)
    return valuation


_ARGUMENTS = keywords(value)


@same_arguments(value)
def iterate(**arguments: Any) -> Iterator[Valuation]:
    """Yield the valuation after each round of a run; the arguments are those of `value`.

    Examples:
        >>> import fgsv
        >>> game = fgsv.games.SumOfUnanimity(32)
        >>> [v.n_evaluations for v in fgsv.iterate(game, budget=100)]
        [16, 32, 48, 64, 80, 96, 100]

    """
    for valuation, _ in _rounds(every=True, **arguments):
        yield valuation


@same_arguments(value)
def with_estimator(**arguments: Any) -> Iterator[tuple[Valuation, Steady]]:
    """Yield what `iterate` does, each with the estimator that it is from."""
    return _rounds(every=True, **arguments)


def _rounds(
    *,
    every: bool,
    game: Any,
    groups: Any,
    method: str | Method,
    proxy: Any,
    options: Mapping[str, Any],
    semivalue: str | Semivalue,
    budget: int | None,
    stop: Rule | Sequence[Rule] | None,
    seed: int,
    confidence: float,
    cost: Callable[[Ints], ArrayLike] | None,
    progress: bool | None,
    **others: Any,
) -> Iterator[tuple[Valuation, Steady]]:
    """Yield the valuation, and its estimator, after every round and at the end, or only at the end.

    This is a run, from top to bottom. The arguments are those of `value`; `others` are its limits, and what the
    evaluator takes.
    """
    read, partition = read_players(game, groups)
    limits = {name: others.pop(name) for name in LIMITS}
    access, opened = access_to(game, read, **others)  # not open yet; an open one stays open
    evaluator = access.evaluator
    if "backend" in options:
        raise TypeError(f"joblib chooses workers: with joblib.parallel_config(backend={options['backend']!r}): ...")
    asked = as_method(method, {**options} if proxy is None else {**options, "proxy": proxy}, _ARGUMENTS)
    own = () if stop is None else own_rules(stop)
    early = bool(own) or any(limit is not None for limit in limits.values())
    task = task_of(access, partition, asked, semivalue=semivalue, budget=budget, may_stop_early=early)
    chosen = for_task(asked, task)  # the method knows what to learn, and when to enumerate
    settings = settings_of(access, task, chosen, seed=seed, confidence=confidence, stop=own, cost=cost, **limits)
    purpose = Purpose.ENUMERATION if isinstance(chosen, Enumeration) else Purpose.DRAWS
    rules = rules_of(settings, own)
    bar: Bar | nullcontext[None] = nullcontext()
    if is_shown(False if progress is None and (every or is_open(game)) else progress):
        bar = Bar(rules, settings, evaluator)
        rules = (*rules, bar)
    with (  # all is checked: now the ledger and the workers open
        opened,
        evaluator.recorded(settings, purpose, access.recorded_groups(partition)) as record,
        bar,
    ):
        started = time.monotonic()
        evaluator.submit_ends()  # the first two evaluations; a method that waits for them gets them from the problem
        estimator = Steady(chosen, problem_of(access, task, settings))
        ahead = Ahead(access, estimator, record, settings)
        ends = ahead.ends()
        for check in (rule.check for rule in rules if hasattr(rule, "check")):
            check((ends[1] - ends[0])[: ends.shape[1] - access.game.n_folds])
        least = chosen.least(replace(task, n_known=0))
        repeats = Repeats(access.game, ends, settings.on_error)
        began = evaluator.meter
        run = Run(access, task, settings, rules, estimator, ends, least, repeats, began, started)
        state = Progress(run, evaluator.spent_since(began), time.monotonic() - started)
        end: End | None = None
        try:
            while end is None:
                draws = ahead.next_draws(state)
                end = state.nothing_left(draws)
                if draws is None or end is not None:
                    break
                beyond_ends = state.spent.n_drawn > 2
                if every and beyond_ends and state.valuation.n_evaluations == state.n_evaluations:
                    yield state.valuation, estimator  # computed here: an interrupt in an estimate ends the run, too
                values = ahead.values()  # in draw order, while later rounds are drawn and evaluated
                with held_interrupts():  # the estimator and the counts change together
                    state = state.after(draws, values)
                end = met(rules, state) if state.is_estimate else None
        except KeyboardInterrupt:
            if not state.is_estimate:
                raise
            end = INTERRUPTED
        assert end is not None
        end = ahead.end(end)
        if repeats.note is not None:
            warnings.warn(repeats.note, RuntimeWarning, stacklevel=2)
            end = end.with_note(repeats.note)
        valuation = state.ended(end)
        if not every and access.game.retrain is not None and end.reason is not Reason.INTERRUPTED:
            valuation = with_seed_noise(valuation, access, task.semivalue)
        record.ended(valuation)
    yield valuation, estimator


def exact(
    game: Any,
    groups: Any = None,
    *,
    semivalue: str | Semivalue = "shapley",
    n_jobs: int | None = None,
    ledger: str | Path | Ledger | None = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
    progress: bool | None = None,
) -> Valuation:
    """Return exact faithful group values: the sums of their members' Shapley values (paper, Eq. 1 and Thm. 1).

    Costs 2^n evaluations, for at most 24 players. With more players, a game that states its Shapley values, as
    `shapley` (n numbers, as the games of `fgsv.games` do), is valued by them: they are checked against U(N) - U(0),
    at the cost of two evaluations. For the usual Group Shapley Value, where each group is one player, call it on
    `fgsv.grouped(game, groups)`.

    Args:
        game: As in `fgsv.value`.
        groups: As in `fgsv.value`.
        semivalue: As in `fgsv.value`.
        n_jobs: As in `fgsv.value`.
        ledger: As in `fgsv.value`.
        on_error: As in `fgsv.value`.
        timeout: As in `fgsv.value`.
        progress: As in `fgsv.value`.

    Returns:
        The valuation, whose `exact` is True.

    Raises:
        ValueError, TypeError: An argument is wrong, or there are more than 24 players and no stated values.
        GameError: An evaluation failed, and `on_error` is "raise".

    Examples:
        >>> import fgsv
        >>> fgsv.exact(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"]).values.round(4).tolist()
        [0.3333, 3.6667]

    """
    read, partition = read_players(game, groups)
    n = read.n_players
    if n > MOST_PLAYERS and as_semivalue(semivalue, n) == SHAPLEY and getattr(game, "shapley", None) is not None:
        access, opened = access_to(game, read, n_jobs=n_jobs, ledger=ledger, on_error=on_error, timeout=timeout)
        with opened:
            return _as_stated(game, access, partition)
    return value(
        game,
        groups,
        method=Enumeration(),
        budget=Enumeration().least(Task(n, partition)),
        semivalue=semivalue,
        batch_size=BATCH_OF_EXACT if read.batch_size is None and not is_open(game) else None,
        n_jobs=n_jobs,
        ledger=ledger,
        on_error=on_error,
        timeout=timeout,
        progress=progress,
    )


def _as_stated(game: Any, access: GameAccess, partition: Partition) -> Valuation:
    """Return the valuation by the Shapley values that a game states, checked against U(N) - U(0)."""
    values = stated_values(game, access.game.n_players, "game")
    assert values is not None
    ends = access.ends()
    total = ends[1] - ends[0]
    if values.shape[1] != len(total):
        raise ValueError(f"game.shapley has {values.shape[1]} outputs, but the game has {len(total)}")
    check_adds_up(values, total, "game")
    return Valuation.of(
        Estimate(values, exact=True, efficient=True, method="closed form"),
        partition,
        game=access.game,
        ends=ends,
        n_evaluations=2,
        end=End(Reason.EXHAUSTED, "the game states its Shapley values"),
    )
