"""A cheap game beside an expensive one: it saves evaluations, and is harmless where it is wrong."""

from functools import cache

import numpy as np
import pytest

import fgsv
from fgsv.games import Airport, SumOfUnanimity
from fgsv.methods.covariance.proxy import value_proxy

pytestmark = pytest.mark.slow


class Correlated:
    """An expensive game and a cheap one that resembles it."""

    n_players = 24

    def __init__(self, scale):
        self.base = SumOfUnanimity(24, seed=4)
        self.table = np.random.default_rng(0).normal(scale=scale, size=(24, 24))

    def __call__(self, masks):
        return 0.5 * self.base(masks) + ((masks @ self.table) * masks).sum(axis=1)


@pytest.mark.parametrize("closed", [True, False])
def test_a_proxy_saves_and_stays_unbiased(closed):
    game = Correlated(scale=0.05)
    proxy = game.base if closed else fgsv.Game(game.base, 24)
    truth = 0.5 * game.base.shapley + (game.table.sum(axis=0) + game.table.sum(axis=1)) / 2
    labels = np.arange(24) % 3
    errors, stderrs, plain = [], [], []
    for seed in range(12 if closed else 4):
        result = fgsv.value(game, labels, budget=300, seed=seed, proxy=proxy, surrogate=False)
        errors.append(result.values - np.bincount(labels, truth))
        stderrs.append(result.stderr)
        plain.append(fgsv.value(game, labels, budget=300, seed=seed, surrogate=False).stderr)
    rms = np.sqrt(np.mean(np.square(errors)))
    assert rms < 0.5 * np.sqrt(np.mean(np.square(plain)))
    assert 0.6 < rms / np.sqrt(np.mean(np.square(stderrs))) < 1.5
    assert np.abs(np.mean(errors, axis=0)).max() < 4 * rms / np.sqrt(len(errors))


@pytest.mark.parametrize("surrogate", [True, False])
def test_a_proxy_is_unbiased_from_the_first_round(surrogate):
    """Its coefficients are learned from draws that they do not correct, however few there are."""
    game = Correlated(scale=0.05)
    truth = 0.5 * game.base.shapley + (game.table.sum(axis=0) + game.table.sum(axis=1)) / 2
    for budget, runs in ((34, 24), (130, 16)):
        settings = {"budget": budget, "proxy": game.base, "surrogate": surrogate, "opening": False}
        values = np.array([fgsv.value(game, seed=seed, **settings).player_values for seed in range(runs)])
        z = (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(runs))
        assert np.abs(z).max() < 4
        assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / 23)


def test_a_longer_run_with_a_proxy_continues_a_shorter_one():
    """The proxy's own run is as long as the rounds so far ask for, whatever the budget is."""
    game = Correlated(scale=0.05)
    proxy = fgsv.Game(game.base, 24)
    rounds = list(fgsv.iterate(game, budget=300, proxy=proxy, surrogate=False))
    for result in rounds[:: len(rounds) // 2]:
        alone = fgsv.value(game, budget=result.n_evaluations, proxy=proxy, surrogate=False)
        np.testing.assert_array_equal(alone.player_values, result.player_values)
        np.testing.assert_array_equal(alone.stderr, result.stderr)


W = np.random.default_rng(0).normal(size=10)


@cache
def rooted(surrogate):
    """Return a game with its values, and the errors of 8 short runs without a proxy."""
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)) + 0.1 * (masks @ W) ** 2, 10)
    truth = fgsv.exact(game).values
    alone = [fgsv.value(game, seed=seed, budget=34, surrogate=surrogate, opening=False) for seed in range(8)]
    return game, truth, [run.values - truth for run in alone]


@pytest.mark.parametrize(
    ("proxy", "most"),
    [
        (lambda masks: 0.1 * (masks @ W) ** 2 + 0.02 * masks[:, 0], 0.4),
        (lambda masks: np.sqrt(masks.sum(axis=1)), 1.4),
        (lambda masks: (masks.sum(axis=1) == 1) * (masks @ W), 2.5),
    ],
    ids=["like the game", "of the size alone", "that varies elsewhere"],
)
@pytest.mark.parametrize("surrogate", [True, False])
def test_a_proxy_helps_from_the_first_round_and_harms_little(proxy, most, surrogate):
    """It also says which sizes to draw first, and may be wrong about that."""
    game, truth, alone = rooted(surrogate)
    helped = [fgsv.value(game, seed=seed, proxy=proxy, budget=34, surrogate=surrogate) for seed in range(8)]
    assert all(np.isfinite(run.stderr).all() for run in helped)
    error = np.sqrt(np.mean([(run.values - truth) ** 2 for run in helped]))
    assert error < most * np.sqrt(np.mean(np.square(alone)))


@pytest.mark.parametrize("n", [5, 7, 30, 100])
def test_the_spread_of_a_proxy_is_known_at_every_size(n):
    weights = np.random.default_rng(0).normal(size=n)

    def evaluate(coalitions):
        return (coalitions.masks() @ weights)[:, None]

    proxy = value_proxy(evaluate, n, 1, weights[:, None], lambda ends: None, seed=0)
    sizes = np.arange(1, n)
    spread = np.sqrt(sizes * (n - sizes))
    np.testing.assert_allclose(proxy.spread[:, 0], (1 + spread / spread.mean()) / 2, rtol=0.2)


@pytest.mark.parametrize("shapley", [np.ones(7), np.full(20, np.nan), lambda: 0, np.ones((20, 2, 2))])
def test_values_that_a_proxy_claims_are_looked_at_first(shapley):
    class Claims:
        n_players = 20

        def __call__(self, masks):
            raise AssertionError("evaluated")

    proxy = Claims()
    proxy.shapley = shapley
    with pytest.raises(ValueError, match=r"proxy\.shapley must contain a finite number for each of the 20 players"):
        fgsv.value(Claims(), proxy=proxy)


def test_what_fails_in_a_proxy_is_said_to_be_its_own():
    with pytest.raises(fgsv.GameError, match=r"in the proxy: .*nan"):
        fgsv.value(SumOfUnanimity(20), proxy=lambda masks: np.full(len(masks), np.nan))


def test_a_proxy_that_raises_is_named():
    def raises(masks):
        raise ZeroDivisionError("no such model")

    with pytest.raises(fgsv.GameError, match=r"in the proxy: .*raised: ZeroDivisionError: no such model"):
        fgsv.value(SumOfUnanimity(20), proxy=raises)


def test_values_of_a_proxy_that_do_not_add_up_are_refused():
    proxy = fgsv.games.SumOfUnanimity(20)
    wrong = fgsv.Game(proxy, 20)
    object.__setattr__(wrong, "shapley", np.abs(proxy.shapley) + 1)
    with pytest.raises(ValueError, match="these are not its Shapley values"):
        fgsv.value(SumOfUnanimity(20, seed=1), proxy=wrong, budget=100)


def test_a_useless_proxy_is_harmless():
    game = SumOfUnanimity(20, seed=2)
    proxy = Airport(np.random.default_rng(0).uniform(size=20) * 1000)
    truth = game.shapley
    z = []
    for seed in range(10):
        result = fgsv.value(game, budget=500, seed=seed, proxy=proxy, surrogate=False)
        z.append((result.values - truth) / result.stderr)
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"proxy": SumOfUnanimity(9)}, "the proxy has 9 players, but the game has 20"),
        ({"round_size": 2}, "round_size must be at least 4"),
        ({"round_size": 10.5}, "round_size must be at least 4 and whole, got 10.5"),
        ({"round_size": "12"}, "round_size must be at least 4 and whole"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        fgsv.value(SumOfUnanimity(20), **arguments)


def test_a_method_without_a_proxy_takes_none():
    game = SumOfUnanimity(20)
    with pytest.raises(TypeError, match="method 'permutation' has no option proxy"):
        fgsv.value(game, proxy=game, method="permutation")
    with pytest.raises(TypeError, match="only apply to a method given by name"):
        fgsv.value(game, proxy=game, method=fgsv.METHODS["permutation"]())


@pytest.mark.parametrize("option", ["surrogate", "opening", "plug_in", "whole_rounds"])
def test_flags_are_no_texts(option):
    """Of which every one would count as True."""
    with pytest.raises(TypeError, match=f"{option} must be True or False, got 'no'"):
        fgsv.value(SumOfUnanimity(20), **{option: "no"})


def test_a_proxy_of_the_size_alone_is_ignored():
    """It has no variance within sizes but rounding, and no coefficient can be learned from that."""
    game = fgsv.Game(lambda masks: masks[:, 0] * 1.0, 30)
    result = fgsv.value(game, budget=600, proxy=lambda masks: np.sqrt(masks.sum(axis=1)))
    assert result.values[0] == pytest.approx(1, abs=0.5)
    assert result.stderr.max() < 0.3


def test_a_proxy_that_resembles_the_game_more_at_some_sizes_is_used_for_those():
    """Here it is the game up to size 12, and minus it beyond: one coefficient for all sizes would find nothing."""
    game = SumOfUnanimity(24, seed=4)

    def proxy(masks):
        return np.where(masks.sum(axis=1) <= 12, 1.0, -1.0) * game(masks)

    labels = np.arange(24) % 3
    helped, plain = (
        [fgsv.value(game, labels, budget=400, seed=seed, proxy=with_proxy, surrogate=False) for seed in range(4)]
        for with_proxy in (proxy, None)
    )
    truth = np.bincount(labels, game.shapley)
    assert np.mean([run.stderr for run in helped]) < 0.7 * np.mean([run.stderr for run in plain])
    z = np.array([(run.values - truth) / run.stderr for run in helped])
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6
