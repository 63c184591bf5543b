"""Utilities of any scale: the shares and the relative errors are those of the same game in ordinary numbers."""

from functools import cache

import numpy as np
import pytest

import fgsv
from fgsv.valuation import Valuation
from fgsv.valuation.comparison import compare

N = 12
GROUPS = np.arange(N) % 3
FITTED = 1e-4
"""What the steps of a fit may make of rounding, which another scale than a power of two changes."""
SCALES = [1e-290, 1e-150, 1e-48, 1e36, 1e150, 1e290]
POWERS = [2.0**exponent for exponent in (-963, -498, -159, 119, 498, 963)]
OPTIONS = {"finite_difference": {"threshold": 3}}


class Scaled:
    """A game worth 1.4 times a scale in all, with what it is worth at both ends beside that."""

    def __init__(self, scale=1.0, n_players=N, offset=0.0):
        self.scale, self.n_players, self.offset = scale, n_players, offset
        self.weights = np.linspace(0.2, 1.7, n_players)

    def __call__(self, masks):
        part = masks @ self.weights / self.weights.sum()
        return self.scale * (np.sqrt(part) + 0.4 * masks[:, :3].all(axis=1) - self.offset * part)


@cache
def ordinary(n_outputs=1, offset=0.0, **options):
    """Return the valuation of the game in ordinary numbers, which those of other scales are compared with."""
    game = Scaled(offset=offset) if n_outputs == 1 else outputs(1.0, 1.0)
    return fgsv.value(game, None if offset else GROUPS, **options)


def relative(valuation):
    return np.stack([valuation.shares(), valuation.stderr / valuation.total])


@pytest.mark.parametrize("method", fgsv.METHODS)
def test_every_method_at_every_scale(method, repeats):
    options = {"budget": 300, "method": method, "seed": 4, **OPTIONS.get(method, {})}
    expected = relative(fgsv.value(Scaled(), GROUPS, **options))
    for scale in POWERS[:: repeats(5, 1)]:
        np.testing.assert_array_equal(relative(fgsv.value(Scaled(scale), GROUPS, **options)), expected)
    for scale in SCALES[:: repeats(3, 1)]:
        np.testing.assert_allclose(relative(fgsv.value(Scaled(scale), GROUPS, **options)), expected, rtol=FITTED)


@pytest.mark.parametrize("scale", SCALES)
def test_a_precision_takes_as_many_evaluations_at_every_scale(scale):
    expected = ordinary(precision=0.03, budget=3000)
    found = fgsv.value(Scaled(scale), GROUPS, precision=0.03, budget=3000)
    assert found.n_evaluations == expected.n_evaluations > 34
    np.testing.assert_allclose(found.share_interval(), expected.share_interval(), rtol=FITTED)


@pytest.mark.parametrize("n_players", [1, 2, 3, N])
@pytest.mark.parametrize("scale", SCALES)
def test_exact_values_of_few_players(n_players, scale):
    expected = fgsv.exact(Scaled(n_players=n_players)).shares()
    np.testing.assert_allclose(fgsv.exact(Scaled(scale, n_players)).shares(), expected, rtol=1e-12)
    sampled = fgsv.value(Scaled(scale, n_players), budget=300, precision=1e-9)
    assert np.isfinite(sampled.stderr).all()
    np.testing.assert_allclose(sampled.shares().sum(), 1)


@pytest.mark.parametrize("scale", [1e-290, 1e290])
def test_a_proxy_of_another_scale_helps_as_much(scale, repeats):
    budget = repeats(34, 300)
    for scales in ((scale, scale), (1.0, scale), (scale, 1.0)):
        np.testing.assert_allclose(with_proxy(*scales, budget), with_proxy(1.0, 1.0, budget), rtol=1e-3)


@cache
def with_proxy(scale, scale_of_proxy, budget):
    return relative(fgsv.value(Scaled(scale), GROUPS, budget=budget, proxy=Scaled(scale_of_proxy, offset=0.1)))


@pytest.mark.parametrize("scale", SCALES)
def test_a_game_worth_nothing_in_all_has_errors_too(scale):
    expected = ordinary(offset=1.4, budget=300)
    found = fgsv.value(Scaled(scale, offset=1.4), budget=300)
    assert abs(found.total) < 1e-12 * scale
    np.testing.assert_allclose(found.values / scale, expected.values, atol=3 * expected.stderr.max())
    assert (found.stderr / scale > 0.3 * expected.stderr).all()
    assert (found.stderr / scale < 3 * expected.stderr).all()


@pytest.mark.parametrize("scale", SCALES)
def test_zero_at_both_ends_and_in_the_first_round(scale):
    def late(masks):
        rare = masks[:, :4].all(axis=1) & (masks.sum(axis=1) > 4) & (masks.sum(axis=1) < N - 1)
        return scale * rare * np.sin(masks @ np.arange(1.0, N + 1))

    first = next(fgsv.iterate(fgsv.Game(late, N), budget=300))
    assert not first.values.any()
    found = fgsv.value(fgsv.Game(late, N), budget=300)
    assert (found.stderr > 0.001 * scale).all()
    assert (found.stderr < scale).all()


def outputs(first, second):
    return lambda masks: np.stack([Scaled(first)(masks), Scaled(second, offset=0.2)(masks)], axis=1)


@pytest.mark.parametrize("scale", POWERS[::2])  # others round differently, which the fit of a smooth game magnifies
def test_outputs_of_different_scales_and_their_sum(tmp_path, scale):
    together = fgsv.value(outputs(1.0, scale), GROUPS, budget=300)
    expected = ordinary(n_outputs=2, budget=300)
    np.testing.assert_allclose(relative(together), relative(expected), rtol=FITTED)
    weights = np.array([0.7, 0.3 / scale])
    combined, plain = together.combined(weights), expected.combined([0.7, 0.3])
    np.testing.assert_allclose(relative(combined), relative(plain), rtol=FITTED)
    together.save(tmp_path / "valuation.json")
    loaded = Valuation.load(tmp_path / "valuation.json")
    for again in (loaded, loaded.regroup(GROUPS)):
        np.testing.assert_array_equal(again.stderr, together.stderr)
    np.testing.assert_allclose(combined.regroup(None).stderr, plain.regroup(None).stderr, rtol=FITTED)


@pytest.mark.parametrize("scale", [POWERS[0], POWERS[-1]])
def test_comparisons_and_payouts(scale):
    seeds = (1, 2)
    pairs = [[ordinary(budget=300, seed=seed) for seed in seeds]]
    pairs.append([fgsv.value(Scaled(scale), GROUPS, budget=300, seed=seed) for seed in seeds])
    expected, found = (compare(*pair).drop(columns=["group", "clear", "status"]).to_numpy() for pair in pairs)
    np.testing.assert_allclose(found, expected, rtol=FITTED, atol=1e-15)
    paid = [fgsv.payout.split(pair[0], 1000, pay_anyway=True).payments for pair in pairs]
    assert paid[0] == paid[1]
