"""A cheap game beside an expensive one: it saves evaluations, and is harmless where it is wrong."""

import numpy as np
import pytest

import fgsv
from fgsv.games import Airport, SumOfUnanimity

pytestmark = pytest.mark.slow


class Correlated:
    """An expensive game and a cheap one that resembles it."""

    n_players = 24

    def __init__(self, scale):
        self.base = SumOfUnanimity(24, seed=4)
        self.table = np.random.default_rng(0).normal(scale=scale, size=(24, 24))
        self.truth = 0.5 * self.base.shapley + (self.table.sum(axis=0) + self.table.sum(axis=1)) / 2

    def __call__(self, masks):
        return 0.5 * self.base(masks) + ((masks @ self.table) * masks).sum(axis=1)


def rms(runs, truth):
    return np.sqrt(np.mean([(run.player_values - truth) ** 2 for run in runs]))


@pytest.mark.parametrize("closed", [True, False])
def test_a_proxy_saves_evaluations_and_intervals_hold(closed):
    game = Correlated(scale=0.01)
    proxy = game.base if closed else fgsv.Game(game.base, 24)
    helped = [fgsv.value(game, budget=100, seed=seed, proxy=proxy) for seed in range(6)]
    plain = [fgsv.value(game, budget=100, seed=seed) for seed in range(6)]
    assert rms(helped, game.truth) < 0.6 * rms(plain, game.truth)
    held = [np.abs(run.values - game.truth) <= run.half_width() for run in helped]
    assert np.mean(held) > 0.8


def test_corrected_values_stay_unbiased_with_a_proxy():
    game = Correlated(scale=0.05)
    values = [fgsv.value(game, budget=40, seed=s, proxy=game.base, unbiased=True).player_values for s in range(60)]
    z = (np.mean(values, axis=0) - game.truth) / (np.std(values, axis=0, ddof=1) / np.sqrt(len(values)))
    assert np.abs(z).max() < 4


def test_a_longer_run_with_a_proxy_continues_a_shorter_one():
    """The proxy's own run is as long as the rounds so far ask for, whatever the budget is."""
    game = Correlated(scale=0.05)
    proxy = fgsv.Game(game.base, 24)
    rounds = list(fgsv.iterate(game, budget=200, proxy=proxy))
    for result in rounds[:: len(rounds) // 2]:
        alone = fgsv.value(game, budget=result.n_evaluations, proxy=proxy)
        np.testing.assert_array_equal(alone.player_values, result.player_values)
        np.testing.assert_array_equal(alone.stderr, result.stderr)


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


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        (lambda masks: np.full(len(masks), np.nan), "nan"),
        (lambda masks: 1 / 0, "raised: ZeroDivisionError: division"),
    ],
)
def test_what_fails_in_a_proxy_is_said_to_be_its_own(proxy, words):
    with pytest.raises(fgsv.GameError, match=rf"in the proxy: .*{words}"):
        fgsv.value(SumOfUnanimity(20), proxy=proxy)


def test_values_of_a_proxy_that_do_not_add_up_are_refused():
    proxy = fgsv.games.SumOfUnanimity(20)
    wrong = fgsv.Game(proxy, 20)
    object.__setattr__(wrong, "shapley", np.abs(proxy.shapley) + 1)
    with pytest.raises(ValueError, match="these are not its Shapley values"):
        fgsv.value(SumOfUnanimity(20, seed=1), proxy=wrong, budget=100)


@pytest.mark.parametrize(
    "proxy",
    [Airport(np.random.default_rng(0).uniform(size=20) * 1000), lambda masks: np.sqrt(masks.sum(axis=1))],
    ids=["useless", "of the size alone"],
)
def test_a_useless_proxy_is_harmless(proxy):
    game = SumOfUnanimity(20, seed=2)
    helped = [fgsv.value(game, budget=150, seed=seed, proxy=proxy) for seed in range(5)]
    plain = [fgsv.value(game, budget=150, seed=seed, learn="kernel") for seed in range(5)]
    assert rms(helped, game.shapley) < 1.3 * rms(plain, game.shapley)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"proxy": SumOfUnanimity(20), "method": "permutation"}, "method 'permutation' takes no proxy"),
        ({"proxy": SumOfUnanimity(20), "learn": "sizes"}, "a proxy is used beside the Gaussian process alone"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        fgsv.value(SumOfUnanimity(20), **arguments)
