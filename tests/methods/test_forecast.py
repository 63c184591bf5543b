"""Forecasts: their player values against enumeration, what they leave out against fits without it, and their use."""

import numpy as np
import pytest

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.methods.covariance import opening
from fgsv.methods.covariance.estimator import CovarianceEstimator
from fgsv.methods.covariance.forecast import Additive, Forecast
from fgsv.methods.covariance.history import History
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import widened
from fgsv.methods.covariance.target import Target
from fgsv.semivalue import SHAPLEY, Banzhaf

N = 8


def forecast(n_left, seed=0):
    rng = np.random.default_rng(seed)
    process = Process.default(N + n_left)
    process = Process.of(process.parameters + rng.normal(size=len(process.parameters)) * 0.3)
    masks = rng.permuted(np.arange(N) < rng.integers(1, N, 50)[:, None], axis=1)
    related = np.concatenate([masks[:20], np.ones((20, n_left), dtype=bool)], axis=1) if n_left else masks[:0]
    taught = widened(np.unique(masks, axis=0), related)
    values, ends = rng.normal(size=(len(taught), 2)), rng.normal(size=(2, 2))
    return Forecast.of(process, taught, values, ends, N), values


SAMPLED = np.array([True, False, True, True, True, False, True])


def by_definition(found, target):
    """Return the players' values of a forecast, from all coalitions of the sampled sizes."""
    expected = np.zeros((N, 2))
    for size in 1 + np.flatnonzero(SAMPLED):
        masks = Coalitions.of_size(N, int(size)).masks()
        expected += target.coefficients(masks).T @ found(masks) / len(masks)
    return expected


@pytest.mark.parametrize("semivalue", [SHAPLEY, Banzhaf()], ids=["shapley", "banzhaf"])
@pytest.mark.parametrize("n_left", [0, 2])
def test_player_values_are_those_of_all_coalitions(semivalue, n_left):
    found, _ = forecast(n_left)
    target = Target.of(semivalue, N)
    np.testing.assert_allclose(found.player_values(target, SAMPLED), by_definition(found, target), atol=1e-9)


def test_what_is_left_out_is_predicted_by_the_others():
    found, values = forecast(0)
    for row in (0, 7):
        others = np.arange(len(values)) != row
        without = Forecast.of(found.process, found.taught[others], values[others], found.ends, N)
        np.testing.assert_allclose(without(found.taught[row : row + 1])[0], found.left_out[row], atol=1e-9)


def smooth(masks):
    weights = np.random.default_rng(3).normal(size=masks.shape[1])
    return np.tanh(masks @ weights / 3) + 0.2 * masks[:, 0] * masks[:, 1]


def vote(masks):
    weights = np.array([9, 8, 7, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1])
    return (masks @ weights > weights.sum() / 2).astype(float)


@pytest.fixture
def estimators(monkeypatch):
    made, begin = [], CovarianceEstimator.__init__

    def kept(self, *arguments):
        begin(self, *arguments)
        made.append(self)

    monkeypatch.setattr(CovarianceEstimator, "__init__", kept)
    return made


@pytest.mark.parametrize(("game", "stays"), [(smooth, True), (vote, False)])
def test_a_forecast_stays_where_it_predicts_better(estimators, monkeypatch, game, stays):
    monkeypatch.setattr(opening, "HAND_OVER", ((128, 256),))
    found = fgsv.value(fgsv.Game(game, 14), budget=800, seed=1)
    [estimator] = estimators
    assert estimator._foresight.weighed
    assert (estimator._foresight.forecast is not None) is stays
    assert ("a Gaussian process, then" in found.learned.what) is stays
    assert found.learned.explained > (0.95 if stays else 0.3)


def test_values_after_the_opening_are_unbiased_and_their_errors_honest(monkeypatch):
    """The opening ends after 128 evaluations here; the forecast is judged after 512."""
    monkeypatch.setattr(opening, "HAND_OVER", ((128, 128),))
    game = fgsv.Game(smooth, 12)
    truth = fgsv.exact(game).values
    runs = [fgsv.value(game, budget=600, seed=seed) for seed in range(100)]
    errors = np.array([run.values - truth for run in runs])
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4
    held = np.mean([np.abs(run.values - truth) <= run.half_width(0.95) for run in runs])
    assert 0.92 <= held <= 0.98


def told(masks, values, ends):
    history = History(masks.shape[1], values.shape[1], keep_masks=True)
    history.add(Coalitions.from_masks(masks), values, np.zeros((len(masks), 0, 2)), np.full(len(masks), -1))
    return Additive.of(history, ends)


def random_sums(n, m, noise):
    rng = np.random.default_rng(n)
    masks = rng.permuted(np.arange(n) < rng.integers(1, n, m)[:, None], axis=1)
    worth = rng.normal(size=(n, 2))
    return (
        masks,
        3 + masks @ worth + noise * rng.normal(size=(m, 2)),
        np.stack([np.full(2, 3.0), 3 + worth.sum(axis=0)]),
    )


@pytest.mark.parametrize("semivalue", [SHAPLEY, Banzhaf()], ids=["shapley", "banzhaf"])
def test_what_each_player_adds_has_its_values_in_closed_form(semivalue):
    found = told(*random_sums(N, 60, 0.5))
    target = Target.of(semivalue, N)
    np.testing.assert_allclose(found.player_values(target, SAMPLED), by_definition(found, target), atol=1e-12)


def test_sums_leave_out_each_coalition():
    masks, values, ends = random_sums(20, 120, 0.5)
    found = told(masks, values, ends)
    for row in (0, 50):
        others = np.arange(len(masks)) != row
        without = told(masks[others], values[others], ends)
        np.testing.assert_allclose(found.left_out[row], without(masks[row : row + 1])[0], rtol=0.02, atol=0.02)
    assert np.abs(found(masks) - values).std() < 0.9 * np.abs(found.left_out - values).std()


def test_a_sum_over_many_players_is_found_exactly():
    worth = np.random.default_rng(1).normal(size=150)
    found = fgsv.value(fgsv.Game(lambda masks: 1e4 + masks @ worth, 150), budget=1000, seed=0)
    np.testing.assert_allclose(found.player_values, worth, atol=1e-6)
    assert found.learned.what.startswith("a sum over players, then ")
    assert found.learned.explained > 0.999999


def test_what_a_sum_leaves_is_sampled_without_bias():
    rng = np.random.default_rng(5)
    worth, pairs = rng.normal(size=130), rng.normal(size=(130, 130)) / 130
    game = fgsv.Game(lambda masks: masks @ worth + ((masks @ pairs) * masks).sum(axis=1), 130)
    truth = worth + np.diag(pairs) + (pairs + pairs.T - 2 * np.diag(np.diag(pairs))).sum(axis=1) / 2
    groups = np.arange(130) % 5
    runs = [fgsv.value(game, groups, budget=800, seed=seed) for seed in range(60)]
    assert all("a sum over players" in run.learned.what for run in runs)
    errors = np.array([run.values - np.bincount(groups, truth) for run in runs])
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4
    held = np.mean([np.abs(error) <= run.half_width(0.95) for error, run in zip(errors, runs, strict=True)])
    assert 0.91 <= held <= 0.99


def test_outputs_that_differ_do_not_spoil_each_other():
    """A sum beside noise is not used to forecast noise; an output that never varies has no say."""
    rng = np.random.default_rng(7)
    worth, keys = rng.normal(size=130), rng.normal(size=130) * 1e3
    noise = fgsv.value(lambda masks: np.sin(masks @ keys), np.arange(130) % 4, budget=2300, seed=1)
    both = fgsv.value(
        lambda masks: np.stack([1e4 + masks @ worth, np.sin(masks @ keys), np.zeros(len(masks))], axis=1),
        np.arange(130) % 4,
        budget=2300,
        seed=1,
    )
    assert both.stderr[:, 1].mean() < 1.2 * noise.stderr.mean()
    assert not both.stderr[:, 2].any()
    np.testing.assert_allclose(both.values[:, 0], np.bincount(np.arange(130) % 4, worth), atol=1e-3)
