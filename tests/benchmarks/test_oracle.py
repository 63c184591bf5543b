"""What the oracle of sizes reaches, by simulation, and when an opening pays, by hand."""

import numpy as np
import pytest

import fgsv
from benchmarks import hand_over, oracle
from benchmarks.few_games import load
from fgsv.coalitions import Coalitions
from fgsv.methods.covariance.design import counts
from fgsv.methods.covariance.opening_epoch import filled


def test_a_size_gets_no_more_draws_than_it_has_coalitions():
    found = filled(np.array([6.0, 3.0, 1.0]), np.array([4.0, 6.0, 40.0]), 12)
    np.testing.assert_allclose(found, [4, 6, 2])


def test_the_oracle_by_simulation():
    """With utilities assigned to coalitions at random, and its division of draws, the error is the one it states."""
    name, budget = "tiny8", 66
    game, truth = load(name)
    n, rng = len(truth), np.random.default_rng(0)
    s = np.arange(1, n)
    draws = filled(oracle.spreads(name) * np.sqrt(n / (s * (n - s))), counts(n)[1:-1], budget - 2)
    whole = np.maximum(1, np.rint(draws)).astype(int)
    every = [Coalitions.of_size(n, size).masks() for size in s]
    values = [game(masks) - game(masks).mean() for masks in every]  # the oracle knows the means
    errors = []
    for _ in range(2000):
        found = np.zeros(n)
        for size, masks, value, m in zip(s, every, values, whole, strict=True):
            value, some = rng.permutation(value), rng.permutation(len(masks))[:m]
            found += n / (size * (n - size)) * (masks[some] - size / n).T @ value[some] / m
            found -= n / (size * (n - size)) * (masks - size / n).T @ value / len(masks)
        errors.append((found**2).mean())
    stated = oracle.error(truth, oracle.spreads(name), budget)
    assert np.sqrt(np.mean(errors)) / truth.std() == pytest.approx(stated, rel=0.05)


def test_misses_of_what_is_not_known():
    """Predictions that are one too small everywhere; single players are known, so nothing is missed there."""
    game, truth = load("tiny8")
    known = np.eye(len(truth), dtype=bool)
    found = oracle.misses(game, lambda masks: np.asarray(game(masks)) - 1, known)
    np.testing.assert_allclose(found, [0, 1, 1, 1, 1, 1, 1])


def test_the_oracle_that_learned_needs_less_than_the_one_of_sizes():
    game, truth = load("kernel14")
    ours, with_learned = oracle.learned(("kernel14", 64, 0))
    assert with_learned < oracle.error(truth, oracle.spreads("kernel14"), 64)
    found = fgsv.value(game, budget=64, seed=0).player_values
    assert ours == pytest.approx(np.sqrt(((found - truth) ** 2).mean()) / truth.std())


def test_when_an_opening_pays():
    """Half the error: four times the evaluations without it, three times as many saved, in two more seconds."""
    assert hand_over.pays(0.5, 4.0, 0.5, 1000) == pytest.approx(1e3 * 2 / 3000)
    assert hand_over.pays(0.5, 1.0, 0.5, 1000) == 0
    assert hand_over.pays(1.1, 4.0, 0.5, 1000) == np.inf
