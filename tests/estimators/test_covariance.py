"""The default method: unbiased, honest about its error, additive, and repeatable."""

import numpy as np
import pytest
from oracles import GAMES

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.estimators.covariance import covariance
from fgsv.estimators.covariance.history import History, evenly
from fgsv.estimators.covariance.proxy import value_proxy
from fgsv.estimators.covariance.sizes import mean_and_spread
from fgsv.estimators.covariance.surrogate import SetKernel, cross_fit
from fgsv.games import Airport, SumOfUnanimity
from fgsv.semivalue import SHAPLEY, Banzhaf, Beta, SizeWeights


def noise(n, seed=0):
    """Return a game without any structure: every coalition has its own random number."""
    table = np.random.default_rng(seed).normal(size=2**n)
    return fgsv.Game(lambda masks: table[masks @ (1 << np.arange(n))], n)


SAMPLED = {
    "airport": Airport(np.linspace(1, 3, 16) ** 3),
    "unanimity": SumOfUnanimity(16, seed=3),
    "noise": noise(14),
}


@pytest.mark.parametrize("surrogate", [True, False])
@pytest.mark.parametrize("game", SAMPLED.values(), ids=SAMPLED.keys())
def test_unbiased_with_honest_intervals(game, surrogate):
    """Over 120 runs: mean errors within what chance allows, 95% intervals that hold the truth in 91.5 to 98.5%."""
    n = game.n_players
    truth = game.shapley if hasattr(game, "shapley") else fgsv.exact(game).values
    labels = np.arange(n) % 4
    true_groups = np.bincount(labels, truth)
    runs = [fgsv.value(game, labels, budget=500, seed=seed, surrogate=surrogate) for seed in range(120)]
    errors = np.array([run.player_values - truth for run in runs])
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4.2
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / (n - 1))
    covered = [(np.abs(run.values - true_groups) <= run.half_width(0.95)).mean() for run in runs]
    assert 0.915 <= np.mean(covered) <= 0.985


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())
def test_it_converges_on_every_closed_form(game):
    result = fgsv.value(game, budget=1000, seed=1)  # fewer than 2^10
    assert result.method == "covariance"
    assert (np.abs(result.values - game.shapley) <= 5 * result.stderr + 1e-9).all()


def test_the_surrogate_pays():
    """On a game of low order the learned surrogate leaves a small part of the error."""
    game = SumOfUnanimity(48, seed=1)
    labels = np.arange(48) % 4
    plain = fgsv.value(game, labels, budget=4000, surrogate=False)
    learned = fgsv.value(game, labels, budget=4000)
    assert learned.stderr.mean() < 0.6 * plain.stderr.mean()


@pytest.mark.parametrize("semivalue", ["banzhaf", "beta(4, 1)", "beta(1, 3)"])
@pytest.mark.parametrize("surrogate", [True, False])
def test_semivalues_against_enumeration(semivalue, surrogate):
    game = fgsv.Game(lambda masks: np.sqrt(masks @ np.arange(1.0, 13)) + masks[:, 0] * masks[:, 5], 12)
    truth = fgsv.exact(game, semivalue=semivalue).values
    runs = [
        fgsv.value(game, semivalue=semivalue, budget=600, seed=seed, surrogate=surrogate).values for seed in range(60)
    ]
    z = (np.mean(runs, axis=0) - truth) / (np.std(runs, axis=0, ddof=1) / np.sqrt(60))
    assert np.abs(z).max() < 4
    assert np.std(runs, axis=0).max() < 0.5


def test_only_shapley_values_add_up():
    game = SAMPLED["unanimity"]
    for semivalue, adds_up in (("shapley", True), ("banzhaf", False)):
        result = fgsv.value(game, semivalue=semivalue, budget=2000)
        assert (abs(result.values.sum() - result.total) < 1e-9 * result.total) == adds_up


def test_nothing_looks_at_the_partition():
    """Two runs with different groups ask for the same coalitions and have the same player values."""
    asked = []

    def game(masks):
        asked.append(np.packbits(masks, axis=1).tobytes())
        return np.sqrt(masks.sum(axis=1))

    one = fgsv.value(game, np.arange(30) % 2, budget=1500)
    first, asked = asked, []
    two = fgsv.value(game, np.arange(30), budget=1500)
    assert first == asked
    np.testing.assert_array_equal(one.player_values, two.player_values)


def test_kernel_moments_are_those_of_enumeration():
    """E[(1_i - s/n) k(S, T)] and E[k(S, T)] over all S of one size, for every T."""
    n = 7
    kernel = SetKernel.of(n)
    covariance_table, mean_table = kernel.moments()
    masks = np.concatenate([Coalitions.of_size(n, size).masks() for size in range(1, n)])
    sizes = masks.sum(axis=1)
    gram = kernel(kernel.features(masks, sizes, 1), kernel.features(masks, sizes, -1)).astype(float)
    np.testing.assert_allclose(np.diag(gram), 1, atol=1e-5)
    assert np.linalg.eigvalsh(gram).min() > 0
    for t, column in zip(range(len(masks)), gram.T, strict=True):
        for s in range(1, n):
            rows = sizes == s
            centred = ((masks[rows] - s / n) * column[rows, None]).mean(axis=0)
            expected = covariance_table[s - 1, sizes[t] - 1] * (masks[t] - sizes[t] / n)
            np.testing.assert_allclose(centred, expected, atol=2e-6)
            assert column[rows].mean() == pytest.approx(mean_table[s - 1, sizes[t] - 1], abs=2e-6)


@pytest.mark.parametrize("semivalue", [SHAPLEY, Beta(3, 1), Banzhaf()], ids=str)
def test_the_values_of_a_surrogate_are_those_of_enumeration(semivalue):
    n, rng = 8, np.random.default_rng(0)
    masks = rng.random((60, n)) < rng.uniform(0.2, 0.8, size=(60, 1))
    masks = masks[(masks.sum(axis=1) > 0) & (masks.sum(axis=1) < n)]
    sizes = masks.sum(axis=1)
    spread = rng.uniform(1, 2, size=(n - 1, 2))
    owners = rng.integers(-1, 2, size=len(masks))
    fitted = cross_fit(masks, sizes, rng.normal(size=(2, len(masks), 2)), owners, spread)
    weights = SizeWeights.of(semivalue, n)
    everything = np.concatenate([Coalitions.of_size(n, size).masks() for size in range(1, n)])
    counts = everything.sum(axis=1)
    streams = [fitted.explained(everything, counts, np.full(len(counts), j)) for j in range(2)]
    f = np.mean(streams, axis=0)
    expected = np.zeros((n, 2))
    for s in range(1, n):
        rows = counts == s
        inside = everything[rows] - s / n
        expected += weights.gain[s - 1] * (inside[:, :, None] * f[rows][:, None, :]).mean(axis=0)
        expected += weights.drift[s - 1] * f[rows].mean(axis=0)
    np.testing.assert_allclose(fitted.player_values(weights, np.ones(n - 1, bool)), expected, atol=2e-5)


@pytest.mark.parametrize("n", [10, 13])
def test_a_stream_is_not_corrected_by_its_own_values(n):
    """Changing the values of stream 0 changes what is predicted for the others, not for stream 0."""
    rng = np.random.default_rng(1)
    masks = np.concatenate([Coalitions.of_size(n, 4).masks(), Coalitions.of_size(n, n - 4).masks()])
    sizes, values = masks.sum(axis=1), rng.normal(size=(len(masks), 1))
    owners = rng.integers(-1, 3, size=len(masks))
    other = np.where(owners[:, None] == 0, rng.normal(size=values.shape), values)
    fits = [cross_fit(masks, sizes, np.stack([v] * 3), owners, np.ones((n - 1, 1))) for v in (values, other)]
    predictions = [[fitted.explained(masks, sizes, np.full(len(sizes), j)) for j in range(3)] for fitted in fits]
    np.testing.assert_array_equal(predictions[0][0], predictions[1][0])
    assert not np.allclose(predictions[0][1], predictions[1][1])


def test_sizes_worth_it_are_enumerated():
    """The ends of a small game become exact: each of their coalitions is asked for once as a round of its own."""
    seen = []

    def game(masks):
        seen.append(masks.sum(axis=1))
        return masks @ np.linspace(0, 1, 20)

    fgsv.value(game, np.arange(20) % 2, budget=20_000, batch_size=100_000)
    rounds = [sizes for sizes in seen if len(set(sizes.tolist())) <= 4 and len(sizes) % 20 == 0]
    assert any(set(sizes.tolist()) & {1, 19} for sizes in rounds)


def test_large_rounds_are_not_forgotten():
    """Epochs are counted in draws: with large rounds the estimate rests on as many draws as with small ones."""
    game = noise(16)
    small = fgsv.value(game, budget=1100, surrogate=False)
    large = fgsv.value(game, budget=1100, surrogate=False, round_size=256)
    assert large.stderr.mean() < 1.25 * small.stderr.mean()


def test_history_grows():
    history = History(9, 2, 1, keep_masks=True)
    rng = np.random.default_rng(0)
    masks = rng.random((100, 9)) < 0.5
    for start in range(0, 100, 7):
        rows = slice(start, start + 7)
        coalitions = Coalitions.from_masks(masks[rows])
        zeros = np.zeros((len(coalitions), 2))
        history.add(coalitions, zeros, zeros[:, None], np.arange(len(coalitions)))
    assert len(history) == 100
    np.testing.assert_array_equal(history.masks(slice(0, 100)), masks)
    again = np.concatenate([coalitions.masks() for coalitions, *_ in history.draws_since(13)])
    np.testing.assert_array_equal(again, masks[13:])


def test_evenly_takes_both_ends():
    np.testing.assert_array_equal(evenly(100, 10), np.arange(0, 100, 11))
    np.testing.assert_array_equal(evenly(5, 10), np.arange(5))


def test_mean_and_spread_follow_the_sizes():
    rng = np.random.default_rng(0)
    n = 50
    sizes = rng.integers(1, n, size=6000)
    values = (np.exp(sizes / 10) + (1 + sizes / 25) * rng.normal(size=6000))[:, None]
    mean, spread = mean_and_spread(n, sizes, values)
    s = np.arange(1, n)
    deviation = np.abs(mean[:, 0] - np.exp(s / 10)) / (1 + s / 25)
    assert deviation[4:-4].max() < 0.6  # a size has about 120 draws: one standard error is 0.09
    assert np.abs(np.log(spread[:, 0] / (1 + s / 25))).max() < 0.35


def test_many_outputs_share_the_draws():
    game = SumOfUnanimity(20)
    both = fgsv.value(
        fgsv.Game(lambda masks: np.stack([game(masks), masks.sum(axis=1) ** 1.5], axis=1), 20, outputs=("u", "size")),
        np.arange(20) % 2,
        budget=3000,
    )
    truth = np.bincount(np.arange(20) % 2, game.shapley)
    assert (np.abs(both.values[:, 0] - truth) < 5 * both.stderr[:, 0]).all()
    np.testing.assert_allclose(both.values[:, 1], 20**1.5 / 2, atol=1e-2)


def test_a_cost_moves_draws_to_cheap_sizes():
    sizes = []

    def game(masks):
        sizes.append(masks.sum(axis=1))
        return np.sqrt(masks.sum(axis=1)) + masks[:, 0]

    fgsv.value(game, np.arange(40) % 2, budget=3000, surrogate=False)
    blind, sizes = np.concatenate(sizes).mean(), []
    fgsv.value(game, np.arange(40) % 2, budget=3000, surrogate=False, cost=lambda s: s**3.0)
    assert np.concatenate(sizes).mean() < 0.6 * blind


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
    for seed in range(24 if closed else 6):
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
    for budget, runs in ((34, 400), (130, 100)):
        settings = {"budget": budget, "proxy": game.base, "surrogate": surrogate}
        values = np.array([fgsv.value(game, seed=seed, **settings).player_values for seed in range(runs)])
        z = (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(runs))
        assert np.abs(z).max() < 4


def test_a_longer_run_with_a_proxy_continues_a_shorter_one():
    """The proxy's own run is as long as the rounds so far ask for, whatever the budget is."""
    game = Correlated(scale=0.05)
    proxy = fgsv.Game(game.base, 24)
    rounds = list(fgsv.iterate(game, budget=300, proxy=proxy, surrogate=False))
    for result in rounds[:: len(rounds) // 3]:
        alone = fgsv.value(game, budget=result.n_evaluations, proxy=proxy, surrogate=False)
        np.testing.assert_array_equal(alone.player_values, result.player_values)
        np.testing.assert_array_equal(alone.stderr, result.stderr)


W = np.random.default_rng(0).normal(size=10)


@pytest.mark.parametrize(
    ("proxy", "most"),
    [
        (lambda masks: 0.1 * (masks @ W) ** 2 + 0.02 * masks[:, 0], 0.3),
        (lambda masks: np.sqrt(masks.sum(axis=1)), 1.2),
        (lambda masks: (masks.sum(axis=1) == 1) * (masks @ W), 2.5),
    ],
    ids=["like the game", "of the size alone", "that varies elsewhere"],
)
@pytest.mark.parametrize("surrogate", [True, False])
def test_a_proxy_helps_from_the_first_round_and_harms_little(proxy, most, surrogate):
    """It also says which sizes to draw first, and may be wrong about that."""

    def game(masks):
        return np.sqrt(masks.sum(axis=1)) + 0.1 * (masks @ W) ** 2

    game = fgsv.Game(game, 10)
    truth = fgsv.exact(game).values
    settings = {"budget": 34, "surrogate": surrogate}
    helped, alone = (
        [fgsv.value(game, seed=seed, proxy=given, **settings) for seed in range(60)] for given in (proxy, None)
    )
    assert all(np.isfinite(run.stderr).all() for run in helped)
    error, error_alone = (np.sqrt(np.mean([(run.values - truth) ** 2 for run in runs])) for runs in (helped, alone))
    assert error < most * error_alone


@pytest.mark.parametrize("n", [5, 7, 30, 100])
def test_the_spread_of_a_proxy_is_known_at_every_size(n):
    weights = np.random.default_rng(0).normal(size=n)
    proxy = value_proxy(fgsv.Game(lambda masks: masks @ weights, n), 1, weights[:, None], lambda ends: None, seed=0)
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
    with pytest.raises(ValueError, match=r"proxy\.shapley must hold a finite number for each of the 20 players"):
        fgsv.value(Claims(), proxy=proxy)


def test_what_fails_in_a_proxy_is_said_to_be_its_own():
    with pytest.raises(fgsv.GameError, match=r"in the proxy: .*nan"):
        fgsv.value(SumOfUnanimity(20), proxy=lambda masks: np.full(len(masks), np.nan))


def test_a_proxy_that_raises_is_named():
    def raises(masks):
        raise ZeroDivisionError("no such model")

    with pytest.raises(fgsv.GameError, match="in the proxy: it raised ZeroDivisionError: no such model"):
        fgsv.value(SumOfUnanimity(20), proxy=raises)


def test_values_of_a_proxy_that_do_not_add_up_are_refused():
    proxy = fgsv.games.SumOfUnanimity(20)
    wrong = fgsv.Game(proxy, 20)
    object.__setattr__(wrong, "shapley", np.abs(proxy.shapley) + 1)
    with pytest.raises(ValueError, match="these are not its Shapley values"):
        fgsv.value(SumOfUnanimity(20, seed=1), proxy=wrong, budget=100)


@pytest.mark.parametrize("budget", [34, 38, 54, 130, 174])
def test_a_young_epoch_does_not_hide_the_error_of_the_one_before(budget):
    result = fgsv.value(SumOfUnanimity(20), budget=budget, round_size=4)
    assert np.isfinite(result.stderr).all()


def test_a_small_difference_of_large_ends_is_kept():
    result = fgsv.value(fgsv.Game(lambda masks: 1e9 + 1e-3 * masks.sum(axis=1) ** 2, 20), budget=500)
    assert result.player_values.sum() == pytest.approx(float(result.total), rel=1e-12)


def test_spread_follows_the_shape_it_is_expected_to_have():
    rng = np.random.default_rng(0)
    n, shape = 40, 10.0 ** np.linspace(0, -3, 39)[:, None]
    sizes = rng.integers(1, n, size=24)  # one bin
    _, spread = mean_and_spread(n, sizes, 5 * shape[sizes - 1] * rng.standard_normal((24, 1)), shape=shape)
    np.testing.assert_allclose(spread / spread[0], shape, rtol=1e-12)
    assert 2 < spread[0, 0] < 10


def test_a_useless_proxy_is_harmless():
    game = SumOfUnanimity(20, seed=2)
    proxy = Airport(np.random.default_rng(0).uniform(size=20) * 1000)
    truth = game.shapley
    z = []
    for seed in range(20):
        result = fgsv.value(game, budget=500, seed=seed, proxy=proxy, surrogate=False)
        z.append((result.values - truth) / result.stderr)
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"proxy": SumOfUnanimity(9)}, "the proxy has 9 players, but the game has 20"),
        ({"proxy": SumOfUnanimity(20), "method": "permutation"}, "goes with the method 'covariance'"),
        ({"round_size": 2}, "round_size must be at least 4"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        fgsv.value(SumOfUnanimity(20), **arguments)


def test_a_million_players():
    """Sums of lists, no booleans: the estimator never makes an (m, n) array."""
    n = 200_000

    class Lists:
        n_players = n

        def __call__(self, masks):
            raise AssertionError("asked for booleans")

        def evaluate_lists(self, coalitions):
            return np.log1p(coalitions.sizes)

    result = fgsv.value(Lists(), np.arange(n) % 4, budget=300)
    assert result.values.sum() == pytest.approx(np.log1p(n), rel=1e-9)
    assert (np.abs(result.values - np.log1p(n) / 4) < 5 * result.stderr + 1e-9).all()
    assert len(result.deviations) == covariance.PARTS


def test_a_proxy_of_the_size_alone_is_ignored():
    """It has no variance within sizes but rounding, and no coefficient can be learned from that."""
    game = fgsv.Game(lambda masks: masks[:, 0] * 1.0, 30)
    result = fgsv.value(game, budget=600, proxy=lambda masks: np.sqrt(masks.sum(axis=1)))
    assert result.values[0] == pytest.approx(1, abs=0.5)
    assert result.stderr.max() < 0.3


@pytest.mark.parametrize("n", [3, 4, 20])
def test_errors_are_honest_from_the_first_round(n):
    """Replicates that got nothing do not count as replicates without error."""
    game = noise(n)
    truth = fgsv.exact(game).values if n < 20 else None
    for round_size in (4, 8, 32):
        budget = min(2 + round_size, 2**n - 1)
        if budget < 2 + round_size:
            continue
        runs = [fgsv.value(game, budget=budget, seed=seed, round_size=round_size) for seed in range(100)]
        stderrs = np.array([run.stderr for run in runs])
        assert not (stderrs == 0).any()
        if truth is not None and np.isfinite(stderrs).all():
            errors = np.array([run.values for run in runs]) - truth
            assert np.sqrt((errors**2).mean()) < 1.5 * np.sqrt((stderrs**2).mean())


def test_a_step_that_was_never_seen_is_no_overflow():
    game = fgsv.Game(lambda masks: 1e6 * masks[:, :6].all(axis=1), 40)
    result = fgsv.value(game, budget=3000)
    assert result.values.sum() == pytest.approx(1e6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_estimate_that_is_not_finite_is_an_error():
    game = fgsv.Game(lambda masks: 1e308 * np.where(masks[:, 0], 1.0, -1.0), 20)
    with pytest.raises(FloatingPointError, match="the estimate is not finite"):
        fgsv.value(game, budget=200, surrogate=False)


def test_a_cost_must_be_positive():
    for cost in (lambda sizes: 0 * sizes, lambda sizes: np.where(sizes == 3, np.nan, 1.0)):
        with pytest.raises(ValueError, match="cost must give a positive number"):
            fgsv.value(SumOfUnanimity(20), cost=cost)


def test_a_proxy_that_resembles_the_game_more_at_some_sizes_is_used_for_those():
    """Here it is the game up to size 12, and minus it beyond: one coefficient for all sizes would find nothing."""
    game = SumOfUnanimity(24, seed=4)

    def proxy(masks):
        return np.where(masks.sum(axis=1) <= 12, 1.0, -1.0) * game(masks)

    labels = np.arange(24) % 3
    helped, plain = (
        [fgsv.value(game, labels, budget=600, seed=seed, proxy=with_proxy, surrogate=False) for seed in range(6)]
        for with_proxy in (proxy, None)
    )
    truth = np.bincount(labels, game.shapley)
    assert np.mean([run.stderr for run in helped]) < 0.7 * np.mean([run.stderr for run in plain])
    z = np.array([(run.values - truth) / run.stderr for run in helped])
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6


def test_what_is_enumerated_does_not_depend_on_the_draws_it_is_weighed_against():
    """A rare large value, if drawn, makes its size worth to be enumerated, and must not count more by that."""
    n, budget = 12, 250
    noise = np.random.default_rng(0).normal(scale=0.02, size=2**n)

    def game(masks):
        index = masks @ (1 << np.arange(n))
        return noise[index] + (index == 3)

    truth = fgsv.exact(fgsv.Game(game, n)).values
    runs = np.array(
        [fgsv.value(fgsv.Game(game, n), budget=budget, seed=seed, surrogate=False).values for seed in range(500)]
    )
    error = (runs - truth)[:, :2].mean(axis=1)
    assert abs(error.mean()) < 3.5 * error.std() / np.sqrt(len(error))


def test_a_first_round_of_thousands_is_learned_from():
    """No draw is common to all streams yet; the surrogate is fitted all the same."""
    game = SumOfUnanimity(24, seed=4)
    learned, plain = (
        fgsv.value(game, np.arange(24) % 3, budget=2100, round_size=2048, surrogate=on) for on in (True, False)
    )
    assert (learned.stderr < 0.7 * plain.stderr).all()
    assert (np.abs(learned.values - np.bincount(np.arange(24) % 3, game.shapley)) < 4 * learned.stderr).all()
