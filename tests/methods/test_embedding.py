"""The part of the surrogate that places players in a few dimensions, against enumeration and a game that is one."""

import numpy as np
import pytest

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.methods.covariance.embedding import Embedding, embed, size_hats, standardise


@pytest.mark.parametrize("n", [3, 8])
def test_covariances_are_those_of_enumeration(n):
    rng = np.random.default_rng(n)
    positions = rng.normal(size=(n, 2))
    embedding = Embedding(positions - positions.mean(axis=0), rng.normal(size=(8, 2, 3)), rng.normal(size=(8, 2, 3)))
    weights = rng.normal(size=(n - 1, 3))
    expected = np.zeros((n, 3))
    for size in range(1, n):
        masks = Coalitions.of_size(n, size).masks()
        sizes = np.full(len(masks), size)
        g = embedding(standardise(masks, sizes), size_hats(n, sizes)).astype(float)
        np.testing.assert_allclose(g.mean(axis=0), 0, atol=1e-5)
        expected += weights[size - 1] * ((masks - size / n)[:, :, None] * g[:, None, :]).mean(axis=0)
    np.testing.assert_allclose(embedding.covariances(weights), expected, atol=1e-5)
    np.testing.assert_allclose(embedding.covariances(weights).sum(axis=0), 0, atol=1e-12)


def test_rows_are_standardised_and_hats_add_up():
    masks = np.random.default_rng(0).random((20, 9)) < 0.5
    rows = standardise(masks, masks.sum(axis=1))
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose((rows**2).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(size_hats(9, np.arange(1, 9)).sum(axis=1), 1, rtol=1e-6)


def sampled(n, m, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, n - 1, size=m)
    masks = rng.permuted(np.arange(n) < sizes[:, None], axis=1)
    return standardise(masks, sizes), size_hats(n, sizes), rng


def test_a_utility_of_two_sums_is_learned_and_noise_is_not():
    """Half of the variance is a quadratic function of two sums, half is noise: little more than the noise is left."""
    n, m = 60, 6000
    rows, hats, rng = sampled(n, 2 * m, seed=0)
    places = rng.normal(size=(n, 2))
    signal = ((rows @ (places - places.mean(axis=0))) ** 2) @ np.array([1.0, -1.0])
    signal = (signal - signal.mean()) / signal.std()
    for share in (0.5, 0.0):
        targets = np.sqrt(share) * signal + np.sqrt(1 - share) * rng.normal(size=2 * m)
        learned = embed(rows[:m], hats[:m], targets[:m, None].astype(np.float32))
        left = np.mean((targets[m:] - learned(rows[m:], hats[m:])[:, 0]) ** 2)
        assert left < (1.04 if share == 0 else 0.6)


def test_dimensions_that_vanished_in_the_last_fit_begin_anew():
    """Nothing pulls at a dimension that is zero; one that noise alone was learned from must not stay so."""
    n, m = 30, 3000
    rows, hats, rng = sampled(n, m, seed=1)
    place = rng.normal(size=n)
    signal = (rows @ (place - place.mean())) ** 2
    targets = ((signal - signal.mean()) / signal.std())[:, None].astype(np.float32)
    fresh = embed(rows, hats, targets)
    vanished = Embedding(*(np.zeros_like(part) for part in (fresh.positions, fresh.bends, fresh.slopes)))
    for last in (vanished, fresh):
        left = np.mean((targets - embed(rows, hats, targets, last)(rows, hats)) ** 2)
        assert left < 1.1 * np.mean((targets - fresh(rows, hats)) ** 2) + 0.02


def test_a_quadratic_game_takes_a_fraction_of_the_error():
    """Without the surrogate, the same draws leave twice the error of the utility that depends on two sums."""
    n = 40
    places = np.random.default_rng(1).normal(size=(n, 2))
    game = fgsv.Game(lambda masks: -np.log1p(((masks @ places) ** 2).sum(axis=1)), n)
    groups = np.arange(n) % 4
    plain, learned = (
        np.mean([fgsv.value(game, groups, budget=3000, seed=seed, surrogate=on).stderr for seed in range(2)])
        for on in (False, True)
    )
    assert learned < 0.6 * plain


def test_a_surrogate_that_explains_nothing_is_not_believed():
    """Every coalition has a value of its own: what the surrogate adds to the error is less than a tenth."""
    n = 30
    keys = np.random.default_rng(2).normal(size=n) * 1e6

    def game(masks):
        return np.sin(masks @ keys)

    groups = np.arange(n) % 3
    runs = [
        [fgsv.value(game, groups, budget=2000, seed=seed, surrogate=on) for seed in range(4)] for on in (True, False)
    ]
    learned, plain = (np.sqrt(np.mean([run.stderr**2 for run in each])) for each in runs)
    assert learned < 1.1 * plain
