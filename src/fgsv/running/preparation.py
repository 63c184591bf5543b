"""Preparation: turn the arguments of `fgsv.value` into a run, checked before any evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fgsv.game import Game, as_game
from fgsv.methods import METHODS, Covariance, Enumeration, Method, as_method, for_budget
from fgsv.methods.covariance.proxy import check_proxy
from fgsv.partition import Partition
from fgsv.running.evaluator import Evaluator
from fgsv.running.game_access import GameAccess
from fgsv.running.loop import Run
from fgsv.running.stopping import Rule, own_rules
from fgsv.running.targets import rules_of
from fgsv.running.views import View
from fgsv.semivalue import Banzhaf, Beta, Semivalue, as_semivalue
from fgsv.types import Floats, Ints
from fgsv.valuation import RunSettings
from fgsv.valuation.settings import check_precision

DEFAULT_BUDGET = 20_000
BUDGET_BESIDE_A_RULE = 50 * DEFAULT_BUDGET
"""Default budget with another stopping rule: it only guards against targets that are out of reach."""
LEARNING = {"opening", "surrogate", "plug_in", "most_known"}
"""Options of the default method that say what it learns; if none is given, the time of an evaluation may decide."""
MOST_PLAYERS = 24
"""Largest number of players for exact values."""
LEAST_STARTED = 3
"""Evaluations, U(0) and U(N) among them, of a run that starts from enough known ones."""


def is_open(game: Any) -> bool:
    """Say whether the game given is an open evaluator, which has its own settings."""
    return isinstance(game, Evaluator | View)


def read_players(game: Any, groups: Any) -> tuple[Game, Partition]:
    """Return the game (of an open evaluator, if given one) and the partition of its players."""
    if is_open(game):
        game = game.game
    elif hasattr(game, "groups_of_players"):  # labels of rows, where players are units of several rows
        groups = game.groups_of_players(groups)
    if not callable(game) or getattr(game, "n_players", None) is not None:
        game = as_game(game)  # an error about the game comes before those about its groups
    grouped_by = getattr(game, "grouped_by", None)
    if groups is None and grouped_by is not None:
        groups = {name: [k] for k, name in enumerate(grouped_by.names)}
    partition = Partition.of(groups, getattr(game, "n_players", None))
    return as_game(game, partition.n_players), partition


def access_to(given: Any, game: Game, **options: Any) -> tuple[GameAccess, AbstractContextManager[object]]:
    """Return access to the game and the context that opens it; access that is already open stays open."""
    if not is_open(given):
        options["on_error"] = worth_of_failure(given, options.get("on_error", "raise"))
        evaluator = Evaluator(game, **options)
        return evaluator, evaluator
    if settled := sorted(name for name, option in options.items() if option not in (None, "raise")):
        raise ValueError(f"{', '.join(settled)} cannot be set here: the open evaluator has set it")
    return given, nullcontext()


def worth_of_failure(game: Any, on_error: str | float) -> str | float:
    """Return `on_error`, with "empty" as a number: the value of coalitions that the model cannot be fitted to."""
    if on_error != "empty":
        return on_error
    defaults = getattr(game, "defaults", None)
    if defaults is None:
        raise ValueError('on_error="empty" is for games made by fgsv.utility: give the number a failure counts as')
    if len(defaults) > 1:
        raise ValueError(f'on_error="empty" is for one output, but the game has {len(defaults)}: give a number')
    return float(defaults[0])


def keywords(function: Callable[..., object]) -> list[str]:
    """Return the names of the arguments that a function takes by name only."""
    return [name for name, each in signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]


def prepare(
    access: GameAccess,
    partition: Partition,
    *,
    method: str | Method = "covariance",
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
    options: Mapping[str, Any] | None = None,
) -> Run:
    """Return the run that the arguments of `fgsv.value` describe, or raise an error that says what is wrong."""
    game, known, n = access.game, access.evaluator.known, access.game.n_players
    check_precision(precision)
    asked = _asked_method(method, dict(options or {}), proxy, game, started=bool(known))
    weights = as_semivalue(semivalue, n)
    rules_given = any(rule is not None for rule in (max_seconds, stderr, precision)) or bool(own_rules(stop))
    if budget is None:
        budget = max(asked.least(n, partition), BUDGET_BESIDE_A_RULE if rules_given else DEFAULT_BUDGET)
    costs = _costs(game.cost if cost is None else cost, n)
    settings = RunSettings(
        method=asked.name,
        semivalue=str(weights),
        seed=seed,
        budget=budget,
        batch_size=access.evaluator.batch_size,
        options=_options(asked),
        max_seconds=max_seconds,
        stderr=stderr,
        precision=precision,
        confidence=confidence,
        cost=None if costs is None else tuple(costs.tolist()),
        on_error=access.evaluator.on_error,
        timeout=access.evaluator.timeout,
        fingerprint=game.fingerprint,
        groups=partition.fingerprint,
        weights=None if game.weights is None else tuple(game.weights),
        n_folds=game.n_folds,
        start=None if known is None else known.sha256,
        needs=_own_objects(asked, weights, stop),
    )
    running = for_budget(asked, n, partition, settings.budget, may_stop_early=rules_given)
    least = running.least(n, partition)
    if isinstance(running, Covariance) and known is not None and running.opens_with(n):
        least = max(min(least, LEAST_STARTED), least - len(known))
    if settings.budget < least:
        least = min(least, 2**n) if isinstance(asked, Covariance) else least
        raise ValueError(
            f"method {asked.name!r} needs a budget of at least {least} evaluations, got {settings.budget}"
        )
    by_size = None if costs is None else lambda sizes: costs[sizes - 1]
    return Run(game, partition, running, weights, by_size, rules_of(settings, stop), settings)


def _asked_method(method: str | Method, options: dict[str, Any], proxy: Any, game: Game, *, started: bool) -> Method:
    """Return the method with its options and proxy; if these do not say what the default learns, its game does."""
    if proxy is not None:
        name = method if isinstance(method, str) else method.name
        if name != Covariance.name:
            raise ValueError(f"proxy works only with the method {Covariance.name!r}, not with {name!r}")
        check_proxy(proxy, game.n_players)
        options["proxy"] = proxy
    if "backend" in options:
        raise TypeError(f"joblib chooses workers: with joblib.parallel_config(backend={options['backend']!r}): ...")
    asked = as_method(method, options, [*keywords(prepare), *keywords(Evaluator)])
    if isinstance(asked, Enumeration) and (n := game.n_players) > MOST_PLAYERS:
        raise ValueError(
            f"exact values of {n} players would take 2^{n} evaluations; the limit is {MOST_PLAYERS} players. Use "
            "fgsv.value(game, groups, budget=20_000) to estimate them, with errors; fgsv.exact also takes games that "
            "state their Shapley values as `shapley`"
        )
    if method == Covariance.name and isinstance(asked, Covariance) and not LEARNING & options.keys():
        return asked.for_seconds(game.seconds, game.n_players, started=started)
    return asked


def _options(method: Method) -> dict[str, Any]:
    """Return the options of a method, as JSON can hold them."""
    if not is_dataclass(method):
        return {}
    return {each.name: getattr(method, each.name) for each in fields(method) if each.name != "proxy"}


def _own_objects(method: Method, semivalue: Semivalue, stop: Any) -> tuple[str, ...]:
    """Return the arguments that are the user's own objects, which a re-run needs again."""
    own = {
        "method": type(method) not in (METHODS.get(method.name), Enumeration),
        "semivalue": not isinstance(semivalue, Beta | Banzhaf),
        "stop": bool(own_rules(stop)),
        "proxy": getattr(method, "proxy", None) is not None,
    }
    return tuple(name for name, is_own in own.items() if is_own)


def _costs(cost: Callable[[Ints], ArrayLike] | None, n: int) -> Floats | None:
    """Return the cost of each size from 1 to n - 1, checked; None if no cost is given."""
    if cost is None:
        return None
    if not callable(cost):
        raise TypeError(f"cost must be a function from an array of sizes to relative costs, got {cost!r:.200}")
    costs = np.asarray(cost(np.arange(1, n)))
    fits = costs.dtype.kind in "biuf" and costs.shape in ((), (n - 1,))
    if not fits or not (np.isfinite(costs) & (costs > 0)).all():
        raise ValueError(
            f"cost must give a positive number for each of the {n - 1} sizes from 1 to n - 1, got {costs!r:.200}"
        )
    return np.broadcast_to(costs.astype(float), (n - 1,))
