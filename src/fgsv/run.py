"""The loop: draw, evaluate, update, stop."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.coalitions import Coalitions
from fgsv.enumeration import Enumeration, read_players
from fgsv.estimators import Covariance, Method, Problem, as_method
from fgsv.evaluation import Evaluator, default_batch_size
from fgsv.ledger import Ledger
from fgsv.semivalue import Semivalue, as_semivalue
from fgsv.stopping import rules
from fgsv.valuation import Estimate, Valuation

Floats = NDArray[np.float64]
P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_BUDGET = 20_000


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a run stands after a round; the valuation is computed when it is asked for."""

    estimate: Callable[[], Estimate]
    as_valuation: Callable[[Estimate, str], Valuation]
    n_evaluations: int
    seconds: float
    stopped: str = "not stopped"

    @cached_property
    def valuation(self) -> Valuation:
        """The valuation so far."""
        return self.as_valuation(self.estimate(), self.stopped)


def rounds(
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
    n_jobs: int | None = None,
    ledger: str | Path | Ledger | None = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
    **options: Any,
) -> Iterator[Progress]:
    """Yield where a run stands after each round; its arguments are those of `value`."""
    start = time.monotonic()
    game, partition = read_players(game, groups)
    n = game.n_players
    method = as_method(method, options)
    weights = as_semivalue(semivalue)
    stop_rules = rules(max_seconds=max_seconds, stderr=stderr, precision=precision, confidence=confidence)
    if budget is None:
        # without any rule a run must end; with a target the budget only guards against an unreachable one
        budget = max(method.least(n, partition), DEFAULT_BUDGET if not stop_rules else 50 * DEFAULT_BUDGET)
    asked = method
    if isinstance(method, Covariance) and n < 40 and 2**n <= budget:
        method = Enumeration()
    least = method.least(n, partition)
    if budget < least:
        raise ValueError(f"method {method.name!r} needs a budget of at least {least} evaluations, got {budget}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    cost = cost or game.cost
    rows = batch_size or game.batch_size or default_batch_size(n)
    # all that the values depend on besides the game and the groups: `fgsv verify` runs again from these
    settings = {
        "method": asked.name,
        "options": {name: _plain(option) for name, option in asdict(asked).items()},  # type: ignore[call-overload]
        "semivalue": str(weights),
        "seed": int(seed),
        "batch_size": rows,
        "cost": None if cost is None else np.asarray(cost(np.arange(1, n)), float).tolist(),
        "budget": int(budget),
        "rules": [str(rule) for rule in stop_rules],
        "on_error": on_error,
        "timeout": timeout,
        "fingerprint": game.fingerprint,
    }

    with Evaluator(
        game,
        batch_size=rows,
        n_jobs=n_jobs,
        on_error=on_error,
        timeout=timeout,
        ledger=ledger,
        settings=settings,
    ) as evaluated:
        ends = evaluated(Coalitions.ends(n))
        estimator = method.start(Problem(n, ends, partition, weights, cost))

        def progress_after(n_evaluations: int) -> Progress:
            failures = evaluated.summary()

            def as_valuation(estimate: Estimate, stopped: str) -> Valuation:
                return Valuation.of(
                    replace(estimate, info=estimate.info | failures),
                    partition,
                    game=game,
                    method=method.name,
                    ends=ends,
                    n_evaluations=n_evaluations,
                    stopped=stopped,
                    seed=seed,
                    settings=settings,
                )

            return Progress(estimator.estimate, as_valuation, n_evaluations, time.monotonic() - start)

        progress: Progress | None = None
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
                values = evaluated(draws.coalitions)
            except KeyboardInterrupt:
                if progress is None:
                    raise
                stopped = "interrupted"
                break
            estimator.update(draws, values)
            n_evaluations += len(draws.coalitions)
            progress = progress_after(n_evaluations)
            reasons = [reason for rule in stop_rules if (reason := rule.met(progress))]
            if n_evaluations >= least and reasons:
                stopped = "; ".join(reasons)
                break
        evaluated.stopped = stopped
    yield replace(progress or progress_after(n_evaluations), stopped=stopped)


def _plain(option: Any) -> Any:
    """Return an option as JSON has it; one that JSON has not, in words, cannot be run again from."""
    if isinstance(option, np.generic | np.ndarray):
        return option.tolist()
    return option if option is None or isinstance(option, bool | int | float | str | list | dict) else repr(option)


def _arguments_of(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the signature of another one."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        same.__signature__ = inspect.signature(source)  # type: ignore[attr-defined]
        return same

    return decorate


@_arguments_of(rounds)
def iterate(*args: Any, **kwargs: Any) -> Iterator[Valuation]:
    """Yield the valuation after each round of a run; the arguments are those of `value`.

    >>> import fgsv
    >>> game = fgsv.games.SumOfUnanimity(32)
    >>> [v.n_evaluations for v in fgsv.iterate(game, budget=100)]
    [34, 66, 98]
    """
    for progress in rounds(*args, **kwargs):
        yield progress.valuation


@_arguments_of(rounds)
def value(*args: Any, **kwargs: Any) -> Valuation:
    """Estimate the faithful value of each group: the sum of its members' Shapley values (paper, Eq. 4).

    >>> import fgsv
    >>> result = fgsv.value(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"])
    >>> result.names, result.values.round(4).tolist()
    (('a', 'b'), [0.3333, 3.6667])
    """
    last = None
    for last in rounds(*args, **kwargs):  # noqa: B007
        pass
    assert last is not None
    return last.valuation
