"""value, iterate and exact: the runs that users start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from fgsv.ledger import Ledger, Purpose
from fgsv.methods import DEFAULT, Enumeration, Method
from fgsv.methods.enumeration import MOST_PLAYERS
from fgsv.running.closed_form import by_closed_form
from fgsv.running.loop import rounds
from fgsv.running.preparation import access_to, is_open, prepare, read_players
from fgsv.running.progress import is_shown, watched
from fgsv.running.signatures import same_arguments
from fgsv.running.start import Start
from fgsv.running.stopping import Rule
from fgsv.semivalue import SHAPLEY, Semivalue, as_semivalue
from fgsv.types import Ints
from fgsv.valuation import Valuation
from fgsv.valuation.file import to_document

BATCH_OF_EXACT = 2**11
"""Coalitions that `exact` evaluates together by default: with so few players, more of them fit into memory."""

Rounds = Callable[..., Iterator[Valuation]]


@contextmanager
def _start(
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
    ledger: str | Path | Ledger | None = None,
    start: Start = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Iterator[Rounds]:
    """Check the arguments, open the evaluator, and yield what runs the rounds; the ledger records the end."""
    read, partition = read_players(game, groups)
    how = {"batch_size": batch_size, "n_jobs": n_jobs, "on_error": on_error, "timeout": timeout}
    access, opened = access_to(game, read, ledger=ledger, start=start, **how)
    run = prepare(
        access,
        partition,
        method=method,
        budget=budget,
        max_seconds=max_seconds,
        stderr=stderr,
        precision=precision,
        confidence=confidence,
        stop=stop,
        seed=seed,
        semivalue=semivalue,
        cost=cost,
        proxy=proxy,
        options=options,
    )
    purpose = Purpose.ENUMERATION if isinstance(run.method, Enumeration) else Purpose.DRAWS
    shown = is_shown(False if progress is None and is_open(game) else progress)  # an open evaluator's run is a part
    bar = watched(run, shown, access.evaluator)
    with opened, access.evaluator.recorded(run.settings.to_dict(), purpose) as record, bar as seen:

        def recorded_rounds(*, every: bool) -> Iterator[Valuation]:
            for valuation in rounds(seen, access, every=every):
                record.end = valuation.end
                record.document = partial(to_document, valuation)
                yield valuation

        yield recorded_rounds


@same_arguments(_start)
def iterate(*args: Any, **kwargs: Any) -> Iterator[Valuation]:
    """Yield the valuation after each round of a run; the arguments are those of `value`.

    >>> import fgsv
    >>> game = fgsv.games.SumOfUnanimity(32)
    >>> [v.n_evaluations for v in fgsv.iterate(game, budget=100)]
    [16, 32, 64, 96, 100]
    """
    with _start(*args, **{"progress": False, **kwargs}) as run_rounds:
        yield from run_rounds(every=True)


@same_arguments(_start)
def value(*args: Any, **kwargs: Any) -> Valuation:
    """Estimate the faithful value of each group: the sum of its members' Shapley values (paper, Eq. 4).

    >>> import fgsv
    >>> result = fgsv.value(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"])
    >>> result.names, result.values.round(4).tolist()
    (('a', 'b'), [0.3333, 3.6667])

    `game` is a callable from an (m, n) boolean array to (m,) or (m, q) numbers; `groups` are n labels, a mapping
    name -> indices, an (n, K) ownership matrix, or None to make each player its own group.

    What is estimated, and how: `method` (one of `fgsv.METHODS`, whose options are further arguments: `surrogate`,
    `round_size`, `opening`, `plug_in`, `most_known`, `whole_rounds` for the default; or your own method), `semivalue`
    ("shapley", "banzhaf", "beta(a, b)", or your own), `cost` (sizes -> relative cost of an evaluation), `proxy` (a
    cheap game that resembles this one: what it explains is not sampled; without a closed form, it is valued in its
    own run, with 128 to 256 times the evaluations, up to 200,000), `seed`.

    When it stops, whichever comes first: `budget` evaluations in total, including the ends (default: 20,000, or a
    million with another rule); `max_seconds`; `stderr`, the largest standard error of a group; `precision`, the
    half-width of every share's interval at `confidence`; `stop`, your own rules: callables that take the progress and
    return why to stop, or None to go on. With a budget of 2^n or more the default method enumerates; with another
    rule it first samples, at most half as many coalitions. A game that states its own Shapley values (`shapley`) is
    still estimated; `fgsv.exact` uses the stated values, for any number of players.

    A rule that looks at the errors tends to stop when they happen to look small, which biases values if tails are
    heavy. At a stop by `stderr` or `precision` this bias is corrected to first order; with your own rules it is not
    (`python -m benchmarks coverage`). Few draws may show too little, or nothing. So no target is met before 66
    evaluations, nor before 3 divided by the precision, nor soon after with fewer than 8 degrees of freedom, nor
    (before 20,000 evaluations) on an error of zero, unless the values are exact. On small games that take few values
    or a rare one (`python -m benchmarks stops`) the intervals then hold in 92 to 97% of runs. Standard errors cannot
    reflect coalitions that were never sampled: a game that has value only in rare coalitions may meet its target
    before the first of them is drawn.

    How it runs: `n_jobs` workers (or those of `joblib.parallel_config`), `batch_size` coalitions at a time, `ledger`,
    a file that records every evaluation, `start`, ledgers of earlier runs (their evaluations of players still present
    are reused), `on_error` ("raise", a number that a failure counts as, or "empty" for the value of a coalition that
    the model cannot be fitted to; `failures` counts them), `timeout` seconds a batch, `progress` (a bar with the
    widest interval and the time left: by default in terminals and notebooks; elsewhere, if True, a line every half
    minute). Same seed and start, same bits, however it runs. An interrupt returns the valuation so far.
    """
    with _start(*args, **kwargs) as run_rounds:
        [valuation] = run_rounds(every=False)
    return valuation


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

    >>> import fgsv
    >>> fgsv.exact(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"]).values.round(4).tolist()
    [0.3333, 3.6667]

    Costs 2^n evaluations, for at most 24 players; it runs with the options of `fgsv.value`. With more players, a game
    that states its Shapley values, as `shapley` (n numbers, as the games of `fgsv.games` do), is valued by them: they
    are checked against U(N) - U(0), at the cost of two evaluations. For the usual Group Shapley Value, where each
    group is one player, call it on `fgsv.grouped(game, groups)`.
    """
    read, partition = read_players(game, groups)
    n = read.n_players
    if n > MOST_PLAYERS and as_semivalue(semivalue, n) == SHAPLEY and getattr(game, "shapley", None) is not None:
        access, opened = access_to(game, read, n_jobs=n_jobs, ledger=ledger, on_error=on_error, timeout=timeout)
        with opened:
            return by_closed_form(game, access, partition)
    return value(
        game,
        groups,
        method=Enumeration(),
        budget=2**n,
        semivalue=semivalue,
        batch_size=BATCH_OF_EXACT if read.batch_size is None and not is_open(game) else None,
        n_jobs=n_jobs,
        ledger=ledger,
        on_error=on_error,
        timeout=timeout,
        progress=progress,
    )
