"""Checks of games, methods, semivalues and back ends of your own, each in one line of pytest.

    def test_my_game():
        fgsv.testing.check_game(MyGame())

Each raises an error that says what is wrong. The games, methods and back ends of fgsv pass them, too.
"""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import cloudpickle
import numpy as np

from fgsv.coalitions import Coalitions, describe
from fgsv.evaluation.evaluator import Evaluator
from fgsv.game import Game, GameError, as_game
from fgsv.games import Airport, Glove, SumOfUnanimity, WeightedMajority
from fgsv.methods import Method
from fgsv.running.run import iterate, value
from fgsv.semivalue import Semivalue, as_semivalue
from fgsv.types import Floats, Masks
from fgsv.valuation import Valuation

ROUNDING = 1e-6
"""Difference of two values of one coalition that is rounding, as a fraction of the largest value."""
GAMES: dict[str, Any] = {
    "airport": Airport([1.0, 1.5, 2.0, 2.0, 3.0, 5.0, 8.0, 8.0, 9.0, 9.5, 10.0, 12.0]),
    "glove": Glove(5, 7),
    "majority": WeightedMajority([5, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1], quota=12),
    "unanimity": SumOfUnanimity(12, seed=1),
}
"""Games of twelve players whose Shapley values have closed forms."""
GROUPS = np.arange(12) % 3
GROUPS_OF_ASKED = np.arange(20) % 3
RUNS = 12
"""Runs of each game. A t statistic with 11 degrees of freedom is beyond 6 about once in ten thousand."""
FILLER = -1.5
"""What a failed evaluation counts as."""


def _expect(holds: object, words: str) -> None:
    if not holds:
        raise AssertionError(words)


def check_game(game: Any, *, n_jobs: int = 2, n_coalitions: int = 24, seed: int = 0) -> None:
    """Raise an error unless a game has one value for each coalition, wherever and however it is evaluated.

    It is evaluated twice, in batches of several sizes, as masks and as lists, after pickling, and by other processes,
    where it must have the same fingerprint, too.

    Args:
        game: Anything that `fgsv.value` takes without groups: an object with `n_players`, or a `fgsv.Game`.
        n_jobs: Processes that evaluate it as well; 1 for a game that cannot be sent to other processes.
        n_coalitions: Random coalitions, beside the empty one and that of all players.
        seed: Seed of these.

    Raises:
        AssertionError: Two values differ that should be the same, or what the game says of itself is wrong.
        GameError: It does not return a number for each coalition.

    Examples:
        >>> import fgsv
        >>> fgsv.testing.check_game(fgsv.games.Glove(2, 3), n_jobs=1)
        >>> fgsv.testing.check_game(fgsv.Game(lambda masks: masks @ range(3) / len(masks), 3), n_jobs=1)
        Traceback (most recent call last):
        AssertionError: in batches of 1, U is 3 for the coalition of size 3 with members [0, 1, 2], not 0.115385

    """
    read = as_game(game)
    rng = np.random.default_rng(seed)
    random = rng.random((n_coalitions, read.n_players)) < rng.random((n_coalitions, 1))
    coalitions = Coalitions.concatenate([Coalitions.ends(read.n_players), Coalitions.from_masks(random)])
    values = _values(read, coalitions)
    same = partial(_expect_same, values, coalitions)
    near = same if read.independent_rows else partial(same, tolerance=ROUNDING)
    same(_values(read, coalitions), "the second time")
    for size in (1, 5):
        near(_values(read, coalitions, batch_size=size), f"in batches of {size}")
    near(read(coalitions.masks()).reshape(values.shape), "as masks and not as lists")
    _expect_facts(read, coalitions, values)
    sent = cloudpickle.loads(cloudpickle.dumps(game))
    same(_values(as_game(sent), coalitions), "after pickling")
    if n_jobs > 1:
        near(_values(read, coalitions, batch_size=5, n_jobs=n_jobs), "in other processes")
        digests = as_game(partial(_digest, cloudpickle.dumps(game)), n_players=1)
        here, there = (_values(digests, Coalitions.ends(1), n_jobs=each) for each in (1, n_jobs))
        _expect(np.array_equal(here, there), "its fingerprint is another one in other processes")


def _values(game: Game, coalitions: Coalitions, **options: Any) -> Floats:
    """Return the (m, q) values of coalitions, by default in one batch in this process."""
    with Evaluator(game, **{"batch_size": len(coalitions), "n_jobs": 1} | options) as evaluate:
        return evaluate(coalitions)


def _expect_same(expected: Floats, coalitions: Coalitions, found: Floats, where: str, tolerance: float = 0.0) -> None:
    differs = np.abs(found - expected) > tolerance * np.abs(expected).max(axis=0)
    if differs.any():
        row, output = np.argwhere(differs)[0]
        was, now = (f"{each[row, output]:.6g}" for each in (expected, found))
        raise AssertionError(f"{where}, U is {now} for {describe(coalitions, row)}, not {was}")


def _expect_facts(game: Game, coalitions: Coalitions, values: Floats) -> None:
    """Raise an error if what a game says of its players, its costs or its trainings is wrong."""
    game.player_digests()  # raises an error of its own
    if game.cost is not None:
        costs = np.asarray(game.cost(np.arange(1, game.n_players)))
        _expect(
            (costs > 0).all() and np.isfinite(costs).all(), f"cost must give positive numbers, got {costs!r:.200}"
        )
    if game.unfitted is not None:
        shape = np.shape(game.unfitted(coalitions, values))
        _expect(shape == (len(coalitions),), f"unfitted must return ({len(coalitions)},) booleans, got {shape}")
    if game.retrain is not None:
        again = [_values(Game(game.retrain(1), game.n_players), coalitions) for _ in range(2)]
        _expect_same(again[0], coalitions, again[1], "trained with the same other seed, the second time")
        _expect((again[0] != values).any(), "retrain(1) has the same values as the game: no seed is another")


def _digest(pickled: bytes, masks: Masks) -> Floats:
    """Return a number that tells the fingerprint of a pickled game."""
    fingerprint = str(as_game(cloudpickle.loads(pickled)).fingerprint)
    return np.full(len(masks), float(crc32(fingerprint.encode())))


def check_semivalue(semivalue: str | Semivalue) -> None:
    """Raise an error unless the weights of a semivalue are those of one, for every number of players.

    With n players, C(n - 1, s) p(s) sum to 1 over s. And a further player who adds nothing changes nobody's value:
    p(s; n) = p(s; n + 1) + p(s + 1; n + 1).

    Args:
        semivalue: "shapley", "banzhaf", "beta(a, b)", or an object with `log_weights(n_players)`.

    Raises:
        AssertionError: The weights for n players do not follow from those for n + 1.
        ValueError, TypeError: They are no weights.

    Examples:
        >>> import fgsv
        >>> fgsv.testing.check_semivalue("beta(4, 1)")

    """
    for n in (1, 2, 3, 10, 60):
        weights, wider = (as_semivalue(semivalue, each).log_weights(each) for each in (n, n + 1))
        _expect(
            np.allclose(np.logaddexp(wider[:-1], wider[1:]), weights, rtol=0, atol=1e-8 * n),
            f"its weights for {n} players are not those for {n + 1}, of whom one adds nothing: "
            "p(s; n) = p(s; n + 1) + p(s + 1; n + 1)",
        )


def check_method(
    method: str | Method, *, budget: int = 4000, biased: bool = False, runs: int = RUNS, **options: Any
) -> None:
    """Raise an error unless a method estimates values, counts what it spends, and repeats.

    On four games of twelve players with closed forms, the mean of several runs must be within 6 standard errors of
    the values. Runs keep their budgets, evaluate the ends once, have the same bits with the same seed, continue
    shorter ones, leave snapshots that do not change, and do not look at the groups, unless they value one group at a
    time.

    Args:
        method: One of `fgsv.METHODS`, or your own.
        budget: Evaluations of each run, fewer than the 4,096 coalitions of twelve players.
        biased: Whether errors may be systematic. Then they are compared with the standard errors that runs state.
        runs: Runs of each game.
        options: Options of the method, if it is given by name.

    Raises:
        AssertionError: A promise is broken; the words say which.

    Examples:
        >>> import fgsv
        >>> fgsv.testing.check_method("permutation", budget=2000)

    """
    valued: Any = partial(value, method=method, **options)
    for name, game in GAMES.items():
        _expect_values(name, game, [valued(game, GROUPS, budget=budget, seed=seed) for seed in range(runs)], biased)
    some = _Asked()
    first = valued(some, GROUPS_OF_ASKED, budget=budget)
    _expect_budget(some, first, budget)
    other = _Asked()
    second = valued(other, np.arange(20) % 2, budget=budget)
    if not first.estimate.of_groups:
        same = np.array_equal(some.masks, other.masks) and np.array_equal(first.player_values, second.player_values)
        _expect(same, "what is drawn, or how it is averaged, depends on the groups")
    watched = partial(iterate, _Asked(), GROUPS_OF_ASKED, method=method, budget=budget, **options)
    rounds = list(watched())
    seen = [_bits(each) for each in watched()]
    _expect([_bits(each) for each in rounds] == seen, "the estimate of a round changes with the next one")
    _expect(seen[-1] == _bits(first), "a run that is watched has other values")
    shorter = rounds[len(rounds) // 2]
    again = valued(_Asked(), GROUPS_OF_ASKED, budget=shorter.n_evaluations)
    _expect(_bits(again) == _bits(shorter), f"a budget of {budget} does not continue one of {shorter.n_evaluations}")
    other_seed = valued(_Asked(), GROUPS_OF_ASKED, budget=budget, seed=1)
    _expect(_bits(other_seed) != _bits(first), "the seed changes nothing")
    higher = valued(lambda masks: _Asked()(masks) + 100.0, GROUPS_OF_ASKED, budget=budget)
    _expect(
        np.allclose(higher.values, first.values, rtol=0, atol=1e-4), "a constant added to the game changes values"
    )


class _Asked:
    """A game of twenty players that remembers what it was asked."""

    n_players = 20

    def __init__(self) -> None:
        self._asked: list[Masks] = []

    def __call__(self, masks: Masks) -> Floats:
        self._asked.append(masks.copy())
        return np.sqrt(masks @ np.arange(1.0, 21)) + 3 * masks[:, 7]

    @property
    def masks(self) -> Masks:
        return np.concatenate(self._asked)


def _bits(valuation: Valuation) -> tuple[bytes, bytes, int]:
    return valuation.values.tobytes(), valuation.stderr.tobytes(), valuation.n_evaluations


def _expect_values(name: str, game: Any, found: list[Valuation], biased: bool) -> None:
    """Raise an error if the mean of runs is further from the closed form than chance explains."""
    players = not found[0].estimate.of_groups
    truth = game.shapley if players else np.bincount(GROUPS, game.shapley)
    values = np.array([each.player_values if players else each.values for each in found])
    spread = values.std(axis=0, ddof=1) / np.sqrt(len(found))
    if biased:
        stated = np.mean([each.regroup(None).stderr if players else each.stderr for each in found], axis=0)
    away = np.abs(values.mean(axis=0) - truth)
    allowed = 6 * (stated if biased else spread) + 1e-9 * np.ptp(truth)
    worst = int(np.argmax(away - allowed))
    _expect(
        away[worst] <= allowed[worst],
        f"{name}: the mean of {len(found)} runs is off by {away[worst]:.3g} for "
        f"{'player' if players else 'group'} {worst}, of which chance explains {allowed[worst]:.3g}",
    )
    _expect(spread.max() < 0.1 * np.ptp(np.append(truth, 0)), f"{name}: runs differ too much to tell a bias")
    for each in found:
        if each.efficient:
            _expect(
                np.isclose(each.values.sum(), each.total), f"{name}: values that are efficient sum to U(N) - U(0)"
            )


def _expect_budget(game: _Asked, valuation: Valuation, budget: int) -> None:
    """Raise an error if a run evaluates more than it may, or than it says, or the ends more than once."""
    asked, stated = len(game.masks), valuation.n_evaluations
    _expect(asked == stated, f"the game was asked for {asked} coalitions, and the valuation says {stated}")
    _expect(asked <= budget, f"{asked} evaluations were made with a budget of {budget}")
    n_ends = int((game.masks.sum(axis=1) % 20 == 0).sum())
    _expect(n_ends == 2, f"the empty coalition and that of all were evaluated {n_ends} times in all, not once each")


@dataclass
class _Products:
    """Matrix products, whose last bits depend on batch and threads; a coalition of one player does as it is told."""

    fault: str = ""
    mark: str = ""
    n_players: int = 40
    data: Floats = field(default_factory=lambda: np.random.default_rng(0).standard_normal((40, 6)))

    def __call__(self, masks: Masks) -> Floats:
        if self.fault and (masks.sum(axis=1) == 1).any():
            getattr(self, self.fault)()
        weights = masks.astype(float)
        gram = np.einsum("mi,ij,ik->mjk", weights, self.data, self.data, optimize=True) + np.eye(6)
        fitted = np.linalg.solve(gram, (weights @ self.data)[:, :, None])[:, :, 0] @ self.data.T
        return -np.square(self.data.sum(axis=1) - fitted).mean(axis=1)

    def fails(self) -> None:
        raise ZeroDivisionError("no such model")

    def hangs(self) -> None:
        time.sleep(60)

    def dies_once(self) -> None:
        with suppress(FileExistsError):
            Path(tempfile.gettempdir(), self.mark).mkdir()
            os.kill(os.getpid(), signal.SIGKILL)


class _Place:
    """Where a game is evaluated: the process, and which copy of the game it has."""

    n_players = 40
    copy = 0

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.copy = secrets.randbelow(2**40)

    def __getstate__(self) -> dict[str, int]:
        return {"copy": 0}

    def __call__(self, masks: Masks) -> Floats:
        return np.tile([float(os.getpid()), float(self.copy)], (len(masks), 1))


def check_backend(n_jobs: int | None = None) -> None:
    """Raise an error unless joblib's back end evaluates a game with the same bits as this process.

    Each worker must get the game once; an evaluation that fails must say why, or count; a worker that dies must be
    replaced, and a batch that hangs ended, where workers are processes and `timeout` is possible.

    Args:
        n_jobs: Workers; by default those of `joblib.parallel_config`.

    Raises:
        AssertionError: A promise is broken; the words say which.

    Examples:
        >>> import fgsv, joblib
        >>> with joblib.parallel_config(backend="threading", n_jobs=2):
        ...     fgsv.testing.check_backend()

    """
    runs: list[dict[str, Any]] = [
        {"method": "permutation", "budget": 700, "batch_size": 32},
        {"stderr": 0.06, "budget": 3000, "batch_size": 8},  # ends while evaluations that are not used are under way
    ]
    for run in runs:
        alone = _bits(value(_Products(), n_jobs=1, **run))
        _expect(_bits(value(_Products(), n_jobs=n_jobs, **run)) == alone, f"other bits than in this process: {run}")
    masks = np.concatenate([np.eye(40, dtype=bool)[:1], np.random.default_rng(1).random((39, 40)) < 0.5])
    coalitions = Coalitions.from_masks(masks)
    evaluate = partial(_values, coalitions=coalitions, batch_size=5, n_jobs=n_jobs)
    places = np.unique(evaluate(as_game(_Place()), batch_size=1), axis=0)
    _expect(len(places) == len(np.unique(places[:, 0])), "a worker was sent the game more than once")
    expected = _values(as_game(_Products()), coalitions, batch_size=5)
    failed = np.where(np.arange(40)[:, None] < 5, FILLER, expected)
    counted = evaluate(as_game(_Products("fails")), on_error=FILLER)
    _expect(counted[0] == FILLER, "an evaluation that fails does not count as on_error says")
    _expect(np.array_equal(counted[5:], expected[5:]), "an evaluation that fails changes the values of other batches")
    raised = ""
    try:
        evaluate(as_game(_Products("fails")))
    except GameError as error:
        raised = str(error)
    _expect("no such model" in raised, f"an evaluation that fails must raise an error that tells why, not {raised!r}")
    if os.getpid() in places[:, 0]:
        return  # workers are threads: nothing here can be killed
    mark = f"fgsv-{secrets.token_hex(8)}"
    try:
        found = evaluate(as_game(_Products("dies_once", mark)))
        _expect(Path(tempfile.gettempdir(), mark).exists(), "the evaluation that kills its worker was not made")
        _expect(np.array_equal(found, expected), "after a worker has died, values differ")
    finally:
        Path(tempfile.gettempdir(), mark).rmdir()
    try:
        late = evaluate(as_game(_Products("hangs")), on_error=FILLER, timeout=0.5)
    except ValueError:
        return  # this back end cannot end what hangs, and says so
    _expect(np.array_equal(late, failed), "a batch that hangs does not count as failed, alone")
