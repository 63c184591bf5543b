"""What is learned from the draws: the kernel, its values in closed form, means and spreads by size."""

import numpy as np
import pytest

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.games import SumOfUnanimity
from fgsv.methods.covariance.history import History, evenly
from fgsv.methods.covariance.sizes import mean_and_spread
from fgsv.methods.covariance.surrogate import Gram, SetKernel, cross_fit
from fgsv.semivalue import SHAPLEY, Banzhaf, Beta, SizeWeights


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


def some_draws(count, n=12, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, n, size=count)
    masks = rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1) < sizes[:, None]
    return masks, sizes, rng


def test_half_of_the_kernel_is_enough_and_grows_with_the_coalitions():
    masks, sizes, rng = some_draws(700)
    kernel, vectors = SetKernel.of(12), rng.normal(size=(4, 700, 2)).astype(np.float32)
    grown, new = Gram(), Gram()
    left, right = (kernel.features(masks, sizes, sign) for sign in (1, -1))
    for count in (100, 256, 600, 700):
        grown.extend(kernel, left[:count], right[:count])
    new.extend(kernel, left, right)
    whole = kernel(left, right).astype(float)
    np.testing.assert_allclose(new @ vectors, np.einsum("ab,jbq->jaq", whole, vectors), atol=1e-4)
    np.testing.assert_array_equal(grown @ vectors, new @ vectors)  # bits do not depend on the fits before


def test_a_kernel_that_grew_serves_until_there_are_too_many_coalitions(monkeypatch):
    monkeypatch.setattr(fgsv.methods.covariance.surrogate, "MOST_POINTS", 1300)
    masks, sizes, rng = some_draws(2000)
    owners, values = rng.integers(-1, 4, size=2000), np.stack([rng.normal(size=(2000, 1))] * 4)
    gram = Gram()
    for count in (600, 1200, 1600, 2000):
        given = masks[:count], sizes[:count], values[:, :count], owners[:count], np.ones((11, 1))
        found, alone = cross_fit(*given, gram), cross_fit(*given)
        np.testing.assert_array_equal(found.coefficients, alone.coefficients)


def test_what_was_fitted_need_not_be_predicted(monkeypatch):
    count = 2400
    masks, sizes, rng = some_draws(count)
    owners, spread = rng.integers(-1, 4, size=count), np.ones((11, 1))
    values = np.stack([masks[:, :1] * masks[:, 1:2] + 0.1 * rng.normal(size=(count, 1))] * 4)
    found = cross_fit(masks, sizes, values, owners, spread)
    own = owners >= 0
    assert np.isnan(found.fitted[~own]).all()
    predicted = found.explained(masks[own], sizes[own], owners[own])
    np.testing.assert_allclose(found.fitted[own], predicted, atol=1e-3)
    monkeypatch.setattr(fgsv.methods.covariance.surrogate, "MOST_POINTS", count // 2)
    some = cross_fit(masks, sizes, values, owners, spread)
    assert np.isnan(some.fitted[own]).any()
    again = some.explained(masks[own], sizes[own], owners[own], some.fitted[own])
    np.testing.assert_allclose(again, some.explained(masks[own], sizes[own], owners[own]), atol=1e-3)


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
    again = np.concatenate([coalitions.masks() for _, (coalitions, *_) in history.draws_since(13)])
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


def test_spread_follows_the_shape_it_is_expected_to_have():
    rng = np.random.default_rng(0)
    n, shape = 40, 10.0 ** np.linspace(0, -3, 39)[:, None]
    sizes = rng.integers(1, n, size=24)  # one bin
    _, spread = mean_and_spread(n, sizes, 5 * shape[sizes - 1] * rng.standard_normal((24, 1)), shape=shape)
    np.testing.assert_allclose(spread / spread[0], shape, rtol=1e-12)
    assert 2 < spread[0, 0] < 10


def test_a_step_that_was_never_seen_is_no_overflow():
    game = fgsv.Game(lambda masks: 1e6 * masks[:, :6].all(axis=1), 40)
    result = fgsv.value(game, budget=3000)
    assert result.values.sum() == pytest.approx(1e6)


def test_a_first_round_of_thousands_is_learned_from():
    """No draw is common to all streams yet; the surrogate is fitted all the same."""
    game = SumOfUnanimity(24, seed=4)
    learned, plain = (
        fgsv.value(game, np.arange(24) % 3, budget=2100, round_size=2048, surrogate=on) for on in (True, False)
    )
    assert (learned.stderr < 0.7 * plain.stderr).all()
    assert (np.abs(learned.values - np.bincount(np.arange(24) % 3, game.shapley)) < 4 * learned.stderr).all()
