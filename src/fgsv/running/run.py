"""The loop: draw, evaluate, update, stop."""

from __future__ import annotations

import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fgsv.coalitions import Coalitions
from fgsv.estimators import Covariance, Estimator, Method, Problem, as_method
from fgsv.estimators.covariance.proxy import closed_form_of, value_proxy
from fgsv.estimators.enumeration import Enumeration, read_players
from fgsv.game import as_game
from fgsv.ledger import Ledger
from fgsv.running.evaluator import Evaluator, default_batch_size
from fgsv.running.stopping import rules, unreached
from fgsv.semivalue import SHAPLEY, Semivalue, as_semivalue
from fgsv.types import Floats, Ints
from fgsv.valuation import Estimate, Valuation, positive_total

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
    cost: Callable[[Ints], ArrayLike] | None = None,
    proxy: Any = None,
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
        # without any rule a run must end; with one the budget only guards against what is out of reach
        budget = max(method.least(n, partition), 50 * DEFAULT_BUDGET if stop_rules else DEFAULT_BUDGET)
    budget, seed = _whole("budget", budget), _whole("seed", seed)
    asked = method
    ahead: list[tuple[Method, int]] = [(method, budget)]
    small = isinstance(method, Covariance) and n < 40
    if small and 2**n <= budget:
        ahead = [(Enumeration(), budget)]
        sampled = min(2 ** (n - 1), budget - 2**n)
        if stop_rules and sampled >= asked.least(n, partition):  # they may be met long before the last coalition
            ahead.insert(0, (asked, sampled))
    running, limit = ahead.pop(0)
    least = running.least(n, partition)
    if budget < least:
        least = min(least, 2**n) if small else least
        raise ValueError(f"method {running.name!r} needs a budget of at least {least} evaluations, got {budget}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    if proxy is not None:
        if not isinstance(asked, Covariance):
            raise ValueError(f"a proxy goes with the method 'covariance', not with {asked.name!r}")
        if getattr(proxy, "n_players", n) != n:
            raise ValueError(f"the proxy has {proxy.n_players} players, but the game has {n}")
        closed_form = closed_form_of(proxy, n) if weights == SHAPLEY else None
    cost = cost or game.cost
    if cost is not None:
        costs = np.asarray(cost(np.arange(1, n)), dtype=float)
        if costs.shape not in ((), (n - 1,)) or not (np.isfinite(costs) & (costs > 0)).all():
            raise ValueError(
                f"cost must give a positive number for each of the {n - 1} sizes from 1 to n - 1, "
                f"got an array of shape {costs.shape} from {costs.min():g} to {costs.max():g}"
            )
    if batch_size is not None and _whole("batch_size", batch_size) < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    rows = int(batch_size or game.batch_size or default_batch_size(n))
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
        "proxy": proxy is not None,
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
        if precision is not None:
            positive_total(ends[1] - ends[0])
        known = None
        if proxy is not None and running is asked:
            # without a surrogate: evaluations of a proxy are cheaper than learning from them
            def start_own(ends: Floats) -> Estimator:
                return Covariance(surrogate=False).start(Problem(n, ends, partition, weights))

            known = value_proxy(as_game(proxy, n), ends.shape[1], closed_form, start_own, seed)
        problem = Problem(n, ends, partition, weights, cost, known)
        estimator = running.start(problem)

        def progress_after(n_evaluations: int) -> Progress:
            failures, name = evaluated.summary(), running.name

            def as_valuation(estimate: Estimate, stopped: str) -> Valuation:
                return Valuation.of(
                    replace(estimate, info=estimate.info | failures),
                    partition,
                    game=game,
                    method=name,
                    ends=ends,
                    n_evaluations=n_evaluations,
                    stopped=stopped,
                    seed=seed,
                    settings=settings,
                )

            return Progress(estimator.estimate, as_valuation, n_evaluations, time.monotonic() - start)

        progress: Progress | None = None
        estimated = False
        n_evaluations = 2
        for number in range(2**62):
            try:
                with _interrupts_wait():
                    draws = estimator.draw(np.random.default_rng([seed, number]))
                if draws is None:
                    stopped = "nothing is left to draw"
                    break
                if n_evaluations + len(draws.coalitions) > limit:
                    if ahead:
                        running, limit = ahead.pop(0)
                        least = n_evaluations - 2 + running.least(n, partition)
                        estimator, known = running.start(problem), None
                        continue
                    stopped = f"budget of {budget} reached"
                    if budget - n_evaluations > budget / 8:
                        stopped += f" as far as whole rounds go: the next takes {len(draws.coalitions)}"
                    break
                if progress is not None and progress.n_evaluations == n_evaluations:
                    yield progress
                if known is not None:
                    known.keep_ahead(n_evaluations + len(draws.coalitions))
                values = evaluated(draws.coalitions)
                with _interrupts_wait():
                    estimator.update(draws, values)
                    n_evaluations += len(draws.coalitions)
                    if progress is not None and estimated and n_evaluations < least:
                        # every coalition is being evaluated: until the last one the estimate stays what it is
                        progress = replace(progress, seconds=time.monotonic() - start)
                    else:
                        progress, estimated = progress_after(n_evaluations), n_evaluations >= least
                reasons = [why for rule in stop_rules if estimated and (why := rule.met(progress))]
            except KeyboardInterrupt:
                if not estimated:
                    raise
                stopped = "interrupted"
                break
            if reasons:
                stopped = "; ".join(reasons)
                break
        if progress is not None:
            if unused := n_evaluations - progress.n_evaluations:
                stopped += f"; {unused} further evaluations, on the way to all, are not used"
            stopped += unreached(stop_rules, progress)
        evaluated.stopped = stopped
    yield replace(progress or progress_after(n_evaluations), stopped=stopped)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Have an interrupt wait until the block is done: an estimator in the middle of an update estimates nothing."""
    before = signal.getsignal(signal.SIGINT)
    # interrupts go to the main thread; what is not Python's cannot be put back
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        signal.raise_signal(signal.SIGINT)  # whoever handles it: a KeyboardInterrupt, the user's own, nobody


def _whole(name: str, number: Any) -> int:
    """Return a number as an integer, or raise an error where it is none."""
    try:
        whole = int(number)
    except (TypeError, ValueError, OverflowError):
        whole = None
    if whole is None or whole != number:
        raise ValueError(f"{name} must be a whole number, got {number!r}")
    return whole


def _plain(option: Any) -> Any:
    """Return an option as JSON has it; one that JSON has not, in words, cannot be run again from."""
    if isinstance(option, np.generic | np.ndarray):
        return option.tolist()
    return option if option is None or isinstance(option, bool | int | float | str | list | dict) else repr(option)


def _arguments_of(source: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Give a function the arguments of another one."""

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @wraps(function)
        def same(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(source).replace(return_annotation=returned)
        same.__signature__ = signature  # type: ignore[attr-defined]
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

    `game` is a callable from an (m, n) boolean array to (m,) or (m, q) numbers; `groups` are n labels, a mapping
    name -> indices, an (n, K) ownership matrix, or None for each player alone.

    What is estimated, and how: `method` (one of `fgsv.METHODS`, whose options are further arguments: `surrogate` and
    `round_size` for the default), `semivalue` ("shapley", "banzhaf", "beta(a, b)"), `cost` (sizes -> relative cost of
    an evaluation), `proxy` (a cheap game that resembles this one: what it explains is not sampled; one without
    closed form is valued beside it, with 128 to 256 times the evaluations, up to 200,000), `seed`.

    When it stops, whichever comes first: `budget` evaluations in all, the ends included (20,000 where nothing else is
    said, a million beside a target); `max_seconds`; `stderr`, the largest standard error of a group;
    `precision`, the half-width of every share's interval at `confidence`. With a budget of 2^n or more the default
    method enumerates; beside another rule it samples first, half as many coalitions at the most. A stop that looks at
    the errors ends runs whose error happens to look small; measured in 1,000 runs on each of three games
    (`python -m benchmarks coverage`), 95% intervals then hold in 94.1 to 96.3%, and where tails are heavy the values
    are off by 0.17 standard errors in the mean. What no draw has seen, no error tells: a game that is worth something
    in rare coalitions only may meet its target before the first of them.

    How it runs: `n_jobs` workers (or those of `joblib.parallel_config`), `batch_size` coalitions at a time, `ledger`,
    a file that remembers every evaluation, `on_error` ("raise", or a number for what fails), `timeout` per batch.
    Same seed, same bits, however it runs. An interrupt returns what there is.
    """
    last = None
    for last in rounds(*args, **kwargs):  # noqa: B007
        pass
    assert last is not None
    return last.valuation
