"""The loop: draw, evaluate, update, stop."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.coalitions import Coalitions
from fgsv.enumeration import Enumeration, read_players
from fgsv.estimators import Covariance, Method, Problem, as_method
from fgsv.game import Game, evaluate
from fgsv.semivalue import Semivalue, as_semivalue
from fgsv.stopping import rules
from fgsv.valuation import Estimate, Valuation

Floats = NDArray[np.float64]
P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_BUDGET = 20_000
BATCH_SIZE = 256
BATCH_BYTES = 2**24


@dataclass(frozen=True, eq=False)
class _Progress:
    """Where a run stands after a round; the valuation is computed when it is asked for."""

    estimate: Callable[[], Estimate]
    as_valuation: Callable[..., Valuation]
    n_evaluations: int
    seconds: float
    stopped: str = "not stopped"

    @cached_property
    def valuation(self) -> Valuation:
        return self.as_valuation(self.estimate(), n_evaluations=self.n_evaluations, stopped=self.stopped)


def _rounds(
    game: Any,
    groups: Any = None,
    *,
    method: str | Method = "covariance",
    budget: int | None = None,
    max_seconds: float | None = None,
    stderr: float | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    semivalue: str | Semivalue = "shapley",
    cost: Callable[[NDArray[np.int64]], ArrayLike] | None = None,
    batch_size: int | None = None,
    **options: Any,
) -> Iterator[_Progress]:
    start = time.monotonic()
    game, partition = read_players(game, groups)
    n = game.n_players
    method = as_method(method, options)
    weights = as_semivalue(semivalue)
    stop_rules = rules(max_seconds=max_seconds, stderr=stderr, precision=precision, confidence=confidence)
    least = method.least(n, partition)
    if budget is None:
        # without any rule a run must end; with a target the budget only guards against an unreachable one
        budget = max(least, DEFAULT_BUDGET if not stop_rules else 50 * DEFAULT_BUDGET)
    if isinstance(method, Covariance) and n < 40 and 2**n <= budget:
        method = Enumeration()
    if budget < least:
        raise ValueError(f"method {method.name!r} needs a budget of at least {least} evaluations, got {budget}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")

    def evaluated(coalitions: Coalitions) -> Floats:
        return _evaluate(game, coalitions, batch_size or game.batch_size)

    ends = evaluated(Coalitions.ends(n))
    estimator = method.start(Problem(n, ends, partition, weights, cost or game.cost))

    def as_valuation(estimate: Estimate, *, n_evaluations: int, stopped: str) -> Valuation:
        return Valuation.of(
            estimate,
            partition,
            game=game,
            method=method.name,
            ends=ends,
            n_evaluations=n_evaluations,
            stopped=stopped,
            seed=seed,
        )

    progress: _Progress | None = None
    n_evaluations = 2
    for number in range(2**62):
        draws = estimator.draw(np.random.default_rng([seed, number]))
        if draws is None:
            stopped = "nothing is left to draw"
            break
        if n_evaluations + len(draws.coalitions) > budget:
            stopped = f"budget of {budget} reached"
            break
        if progress is not None:
            yield progress
        try:
            estimator.update(draws, evaluated(draws.coalitions))
        except KeyboardInterrupt:
            if progress is None:
                raise
            stopped = "interrupted"
            break
        n_evaluations += len(draws.coalitions)
        progress = _Progress(estimator.estimate, as_valuation, n_evaluations, time.monotonic() - start)
        reasons = [reason for rule in stop_rules if (reason := rule.met(progress))]
        if n_evaluations >= least and reasons:
            stopped = "; ".join(reasons)
            break
    progress = progress or _Progress(estimator.estimate, as_valuation, n_evaluations, time.monotonic() - start)
    yield replace(progress, stopped=stopped)


def _arguments_of(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the signature of another one."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        same.__signature__ = inspect.signature(source)  # type: ignore[attr-defined]
        return same

    return decorate


@_arguments_of(_rounds)
def iterate(*args: Any, **kwargs: Any) -> Iterator[Valuation]:
    """Yield the valuation after each round of a run; the arguments are those of `value`.

    >>> import fgsv
    >>> game = fgsv.games.SumOfUnanimity(32)
    >>> [v.n_evaluations for v in fgsv.iterate(game, budget=100)]
    [34, 66, 98]
    """
    for progress in _rounds(*args, **kwargs):
        yield progress.valuation


@_arguments_of(_rounds)
def value(*args: Any, **kwargs: Any) -> Valuation:
    """Estimate the faithful value of each group: the sum of its members' Shapley values (paper, Eq. 4).

    >>> import fgsv
    >>> result = fgsv.value(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"])
    >>> result.names, result.values.round(4).tolist()
    (('a', 'b'), [0.3333, 3.6667])
    """
    last = None
    for last in _rounds(*args, **kwargs):  # noqa: B007
        pass
    assert last is not None
    return last.valuation


def _evaluate(game: Game, coalitions: Coalitions, batch_size: int | None) -> Floats:
    """Evaluate a round in batches of bounded memory, cut by their number of rows alone."""
    rows = batch_size or max(1, min(BATCH_SIZE, BATCH_BYTES // game.n_players))
    return np.concatenate([evaluate(game, coalitions[i : i + rows]) for i in range(0, len(coalitions), rows)])
