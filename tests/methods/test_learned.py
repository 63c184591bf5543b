"""What the default method says that it learned: predictions out of sample, and the error of independent draws."""

import math

import numpy as np
import pytest

import fgsv
from fgsv.methods.covariance.correction import Fold, correct
from fgsv.methods.covariance.design import Sampler, first_law
from fgsv.methods.covariance.gains import Predicted, learned
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import Sample
from fgsv.methods.covariance.target import Target
from fgsv.semivalue import SHAPLEY, Banzhaf, SizeWeights
from fgsv.valuation import Valuation
from fgsv.valuation.learned import Learned


def noise(masks):
    """Return utilities that no other coalition tells anything about."""
    numbers = masks @ (1 << np.arange(masks.shape[1], dtype=np.uint64))
    return np.sin(numbers.astype(float) ** 2 % 1e6) + masks.mean(axis=1)


def additive(masks):
    return masks @ np.linspace(1, 2, masks.shape[1]) ** 3


@pytest.mark.parametrize("semivalue", [SHAPLEY, Banzhaf()])
def test_the_limit_is_the_error_of_independent_draws_with_the_best_allocation(semivalue):
    n, m = 7, 200_000
    rng, sizes = np.random.default_rng(0), np.arange(1, n)
    weights, spread = SizeWeights.of(semivalue, n), np.linspace(1.0, 3.0, n - 1)
    scale = np.sqrt(weights.gain**2 * sizes * (n - sizes) / n + weights.drift**2 * n) * spread
    drawn = rng.choice(sizes, m, p=scale / scale.sum())
    masks = rng.permuted(np.tile(np.arange(n), (m, 1)), axis=1) < drawn[:, None]
    values = spread[drawn - 1] * rng.standard_normal(m)
    gain, drift, share = weights.gain[drawn - 1], weights.drift[drawn - 1], (scale / scale.sum())[drawn - 1]
    terms = (gain[:, None] * (masks - drawn[:, None] / n) + drift[:, None]) * (values / share)[:, None]
    deviations = np.sqrt((terms**2).mean(axis=0) / m)[None, :, None]
    found = learned(None, np.zeros((2, 1)), drawn, values[:, None], weights, deviations)
    assert found.error == pytest.approx(1, rel=0.01)
    assert (found.what, found.explained) == ("nothing", None)


def test_what_is_left_of_the_draws_is_predicted_without_them():
    n, rng = 6, np.random.default_rng(0)
    law, sampler = first_law(n, np.ones(n - 1), 30), Sampler(n)
    masks = np.array([[False] * n, [True] * n])
    sampler.add(masks)
    masks = np.concatenate([masks, sampler.draw(law, np.zeros(law.n_strata, dtype=int), 30, rng)])
    values, process = (masks @ rng.random((n, 2))) ** 2, Process.default(n)
    rows = np.arange(2, len(masks))
    found = correct(Target.of(SHAPLEY, n), Sample(law, 2, masks), values, [Fold(process, rows)])
    left, about, sizes = np.zeros(2), np.zeros(2), masks.sum(axis=1)
    covariance = process.covariance(masks, masks) + np.diag(process.own_variance(sizes))
    complete = np.bincount(sizes, minlength=n + 1) == [math.comb(n, s) for s in range(n + 1)]
    for row in rows[~complete[sizes[rows]]]:
        out = [row]
        if law.pairs and law.stratum_of[sizes[row]] == 0:
            out = [row, int(np.flatnonzero((masks == ~masks[row]).all(axis=1))[0])]
        rest = np.delete(np.arange(len(masks)), out)
        solved = np.linalg.solve(covariance[np.ix_(rest, rest)], values[rest])
        same = sizes == sizes[row]
        left += (values[row] - covariance[row, rest] @ solved) ** 2
        about += (values[row] - values[same].mean(axis=0)) ** 2 * same.sum() / (same.sum() - 1)
    np.testing.assert_allclose(found.squares, [about, left], rtol=1e-6)


@pytest.mark.parametrize("budget", [200, 1500])
@pytest.mark.parametrize(("game", "least", "most"), [(additive, 0.8, 1), (noise, -1, 0.1)])
def test_what_follows_from_few_players_is_explained_and_noise_is_not(game, least, most, budget):
    found = fgsv.value(game, range(16), budget=budget)
    assert least <= found.learned.explained <= most
    assert found.learned.error < 0.3 if game is additive else found.learned.error > 0.8


def test_it_is_printed_saved_and_read(tmp_path):
    found = fgsv.value(additive, ["a", "b"] * 8, budget=100)
    assert "learned a Gaussian process" in repr(found)
    assert str(found.learned) in found._repr_html_()
    found.save(tmp_path / "v.json")
    assert Valuation.load(tmp_path / "v.json").learned == found.learned
    plain = fgsv.value(additive, ["a", "b"] * 8, budget=100, surrogate=False)
    assert "learned nothing; errors are" in repr(plain)
    for other in (
        fgsv.value(additive, range(6), budget=64),
        fgsv.value(additive, range(16), budget=200, method="permutation"),
    ):
        assert other.learned is None


@pytest.mark.parametrize("surrogate", [True, False])
def test_nothing_is_compared_where_utilities_vary_within_sizes_by_rounding(surrogate):
    found = fgsv.value(lambda masks: np.sqrt(masks.sum(axis=1)), range(20), budget=100, surrogate=surrogate)
    assert found.stderr.max() > 0  # which is millions of times what independent draws would have
    assert (found.learned.explained, found.learned.error) == (None, None)
    both = fgsv.value(
        lambda masks: np.stack([np.sqrt(masks.sum(axis=1)), noise(masks)], axis=1),
        range(20),
        budget=100,
        surrogate=surrogate,
    )
    assert 0.1 < both.learned.error < 10  # the other output is compared
    assert "independent draws, best allocated to sizes in hindsight" in str(both.learned)


def test_numbers_that_are_unknown_are_left_out():
    assert str(Learned("nothing", None, None)) == "learned nothing"
    flat = learned(
        Predicted("a kernel", np.zeros((2, 1))),
        np.zeros((2, 1)),
        np.full(40, 3),
        np.zeros((40, 1)),
        SizeWeights.of(SHAPLEY, 6),
        np.zeros((2, 6, 1)),
    )
    assert (flat.explained, flat.error) in [(None, None), (None, 0.0)]
