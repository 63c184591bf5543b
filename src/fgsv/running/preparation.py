"""Preparation: turn the arguments of `fgsv.value` into a task and settings, checked before any evaluation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fgsv.checks import whole_number
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.views import View
from fgsv.game import Game, as_game
from fgsv.methods import METHODS, Enumeration, Method, Problem, Task
from fgsv.partition import Partition
from fgsv.running.stopping import Rule
from fgsv.semivalue import Banzhaf, Beta, Semivalue, as_semivalue
from fgsv.types import Ints
from fgsv.valuation import RunSettings

P = ParamSpec("P")
T = TypeVar("T")
DEFAULT_BUDGET = 20_000
BUDGET_BESIDE_A_RULE = 50 * DEFAULT_BUDGET
"""Default budget with another stopping rule: it only guards against targets that are out of reach."""


def is_open(game: Any) -> bool:
    """Say whether the game given is an open evaluator, which has its own settings."""
    return isinstance(game, Evaluator | View)


def read_players(game: Any, groups: Any) -> tuple[Game, Partition]:
    """Return the game (of an open evaluator, if given one) and the partition of its players."""
    names = getattr(game, "player_names", None)
    if is_open(game):
        game = game.game
    elif hasattr(game, "groups_of_players"):  # labels of rows, where players are units of several rows
        groups = game.groups_of_players(groups)
    if not callable(game) or getattr(game, "n_players", None) is not None:
        game = as_game(game)  # an error about the game comes before those about its groups
    grouped_by = getattr(game, "grouped_by", None)
    if groups is None and grouped_by is not None:
        groups = {name: [k] for k, name in enumerate(grouped_by.names)}
    partition = Partition.of(groups, getattr(game, "n_players", None), names)
    return as_game(game, partition.n_players), partition


def access_to(given: Any, game: Game, **options: Any) -> tuple[GameAccess, AbstractContextManager[object]]:
    """Return access to the game and the context that opens it; access that is already open stays open."""
    if not is_open(given):
        evaluator = Evaluator(game, **options)
        return evaluator, evaluator
    if settled := sorted(name for name, option in options.items() if option not in (None, "raise")):
        raise ValueError(f"{', '.join(settled)} cannot be set here: the open evaluator has set it")
    return given, given.evaluator.cleared()


def keywords(function: Callable[..., object]) -> list[str]:
    """Return the names of the arguments that a function takes by name only."""
    return [name for name, each in signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]


def same_arguments(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the signature of another one; it gets each argument by name, those that were left out too.

    Type checkers read it from the return type, `help` and notebooks from `__signature__`.
    """
    given = signature(source)

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = given.bind(*args, **kwargs)
            bound.apply_defaults()
            return function(**bound.arguments)

        returned = signature(function).return_annotation
        same.__signature__ = given.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return same

    return decorate


def task_of(
    access: GameAccess,
    partition: Partition,
    method: Method,
    *,
    semivalue: str | Semivalue,
    budget: int | None,
    may_stop_early: bool,
) -> Task:
    """Return the task of a run; without a budget, it has the default one, or what the method needs.

    Args:
        access: The game.
        partition: The groups.
        method: The method that was asked for.
        semivalue: Its name, or an object.
        budget: Evaluations; None if none was given.
        may_stop_early: Whether a rule may end the run before its budget.

    Returns:
        The task, with a budget.

    Raises:
        ValueError, TypeError: The budget is not a whole number, or there is no such semivalue.

    """
    game = access.game
    known = access.evaluator.known
    task = Task(
        n_players=game.n_players,
        partition=partition,
        semivalue=as_semivalue(semivalue, game.n_players),
        budget=None if budget is None else whole_number("budget", budget),
        may_stop_early=may_stop_early,
        n_known=0 if known is None else len(known),
        seconds=game.seconds,
        outputs=game.outputs,
    )
    if budget is not None:
        return task
    return replace(task, budget=max(method.least(task), BUDGET_BESIDE_A_RULE if may_stop_early else DEFAULT_BUDGET))


def settings_of(
    access: GameAccess,
    task: Task,
    method: Method,
    *,
    seed: int = 0,
    stop: tuple[Rule, ...] = (),
    cost: Callable[[Ints], ArrayLike] | None = None,
    **limits: Any,
) -> RunSettings:
    """Return the settings of a run, checked; raise an error if its budget is too small for its method.

    Args:
        access: The game, and what it is evaluated with.
        task: The task of the run.
        method: The method that serves it.
        seed: As in `fgsv.value`.
        stop: The user's own rules.
        cost: As in `fgsv.value`.
        limits: Those of `fgsv.valuation.settings.LIMITS`, and the confidence.

    Returns:
        The settings, which with a ledger repeat the run.

    Raises:
        ValueError, TypeError: A setting is wrong, or the budget too small.

    """
    game = access.game
    evaluator = access.evaluator
    cost = game.cost if cost is None else cost
    assert task.budget is not None
    options: list[str] = [each.name for each in fields(method)] if is_dataclass(method) else []
    own = {  # the arguments that are the user's own objects, which a re-run needs again
        "method": type(method) not in (METHODS.get(method.name), Enumeration),
        "semivalue": not isinstance(task.semivalue, Beta | Banzhaf),
        "stop": bool(stop),
        "proxy": getattr(method, "proxy", None) is not None,
    }
    settings = RunSettings(
        method=method.name,
        semivalue=str(task.semivalue),
        seed=seed,
        budget=task.budget,
        batch_size=evaluator.batch_size,
        options={name: getattr(method, name) for name in options if name != "proxy"},
        cost=None if cost is None else _costs(cost, task.n_players),
        on_error=evaluator.on_error,
        timeout=evaluator.timeout,
        fingerprint=game.fingerprint,
        groups=task.partition.fingerprint,
        weights=None if game.weights is None else tuple(game.weights),
        n_folds=game.n_folds,
        start=None if evaluator.known is None else evaluator.known.sha256,
        needs=tuple(name for name, is_own in own.items() if is_own),
        **limits,
    )
    if task.budget < (least := method.least(task)):
        raise ValueError(f"method {method.name!r} needs a budget of at least {least} evaluations, got {task.budget}")
    return settings


def problem_of(access: GameAccess, task: Task, settings: RunSettings) -> Problem:
    """Return the problem that a method works on; folds of test rows are differences in it.

    Args:
        access: The game.
        task: The task of the run.
        settings: Its settings.

    Returns:
        What a method is started with.

    """
    game = access.game
    known = access.known
    costs = None if settings.cost is None else np.array(settings.cost)

    return Problem(
        task,
        lambda: game.differences(access.ends()),
        cost=None if costs is None else lambda sizes: costs[sizes - 1],
        seed=settings.seed,
        known=None if known is None else known.with_values(game.differences),
        other_game=access.evaluator.other_game,
        n_folds=game.n_folds,
    )


def _costs(cost: Callable[[Ints], ArrayLike], n: int) -> tuple[float, ...]:
    """Return the cost of each size from 1 to n - 1, checked."""
    if not callable(cost):
        raise TypeError(f"cost must be a function from an array of sizes to relative costs, got {cost!r:.200}")
    costs = np.asarray(cost(np.arange(1, n)))
    fits = costs.dtype.kind in "biuf" and costs.shape in ((), (n - 1,))
    if not fits or not (np.isfinite(costs) & (costs > 0)).all():
        raise ValueError(
            f"cost must give a positive number for each of the {n - 1} sizes from 1 to n - 1, got {costs!r:.200}"
        )
    return tuple(np.broadcast_to(costs.astype(float), (n - 1,)).tolist())
