"""A stop at a target: values and errors are as if each replicate had been stopped by the others."""

from dataclasses import replace

import numpy as np
from scipy.stats import binom

import fgsv
from fgsv.partition import Partition
from fgsv.running.stop_bias import SKEWNESS_LEFT, stop_shares, without_stop_bias
from fgsv.valuation import End, Reason, Valuation

RUNS, REPLICATES, ENOUGH = 800, 32, 1024
STREAMS = 4  # deviations are about the means of eight replicates
LOOKS = 32 * np.ceil(480 / 32 * 1.2 ** np.arange(12)).astype(int)


def sample_mean(mean, deviations, n):
    """Return the valuation of two players, of whom one has what the other lacks."""
    both = np.array([1.0, -1.0])
    return Valuation(
        Partition.of(None, 2),
        mean * both,
        np.full(2, np.sqrt((deviations**2).sum())),
        np.float64(0.0),
        mean * both,
        (deviations[:, None] * both)[..., None],
        REPLICATES - 1,
        "sample mean",
        n,
        End(Reason.TARGET, "met"),
        efficient=True,
    )


def test_a_stop_at_a_target_leaves_the_mean_of_skewed_samples_where_it_is():
    # log-normal draws, dealt into replicates; the mean at a fixed size is the control variate
    rng = np.random.default_rng(0)
    draws = (np.exp(rng.normal(size=(RUNS, LOOKS[-1]))) - np.exp(0.5)) / np.sqrt(np.exp(2) - np.exp(1))
    sums = np.cumsum(draws.reshape(RUNS, -1, REPLICATES), axis=1)[:, LOOKS // REPLICATES - 1]
    means = sums.sum(axis=2) / LOOKS
    by_stream = sums.reshape(RUNS, len(LOOKS), STREAMS, -1)
    deviations = by_stream - by_stream.mean(axis=3, keepdims=True)
    deviations *= np.sqrt(REPLICATES / (REPLICATES - STREAMS)) / LOOKS[:, None, None]
    deviations = deviations.reshape(sums.shape)
    squares = deviations**2
    shares = squares / squares.sum(axis=2, keepdims=True)
    weights = 1 + shares / (1 - shares) / SKEWNESS_LEFT
    target = ENOUGH**-0.5

    def bias_at(met, at_stop):
        met[:, -1] = True
        look = met.argmax(axis=1)
        found = np.array([at_stop(run, k) for run, k in enumerate(look)])
        fixed = means[:, np.searchsorted(LOOKS, ENOUGH)]
        slope = np.cov(found, fixed)[0, 1] / fixed.var()
        return (found - slope * fixed).mean() / found.std(), LOOKS[look].mean()

    def corrected(run, k):
        valuation = sample_mean(means[run, k], deviations[run, k], LOOKS[k])
        return without_stop_bias(valuation, stop_shares(valuation, valuation.stderr)).values[0]

    plain, least = bias_at(squares.sum(axis=2) <= target**2, lambda run, k: means[run, k])
    stopped, most = bias_at((squares * weights).sum(axis=2) <= target**2, corrected)
    assert plain < -0.12
    assert abs(stopped) < 0.03
    assert most < 1.2 * least


def test_about_the_mean_of_eight_replicates_this_much_skewness_is_left():
    p, ones = 0.1, np.arange(9)
    mean = ones / 8
    third = (ones * (1 - mean) ** 3 - (8 - ones) * mean**3) / 8 * (8 / 7) ** 1.5  # scaled as deviations are
    left = binom.pmf(ones, 8, p) @ third / (p * (1 - p) * (1 - 2 * p))
    np.testing.assert_allclose(SKEWNESS_LEFT, left)


def test_the_error_of_a_stop_is_the_one_that_is_compared_with_the_target():
    game, groups = fgsv.games.SumOfUnanimity(16), np.arange(16) % 4
    met = fgsv.value(game, groups, stderr=0.5, budget=60_000, opening=False)  # too few to evaluate all coalitions
    assert met.end.reason is Reason.TARGET
    assert met.stderr.max() <= 0.5
    np.testing.assert_allclose(met.stop_shares.sum(), 1)
    np.testing.assert_allclose(met.values.sum(), met.total, rtol=1e-12)
    np.testing.assert_allclose((met.group_deviations**2).sum(axis=0)[:, 0], met.stderr**2)
    plain = fgsv.value(game, groups, budget=met.n_evaluations, opening=False)
    assert plain.stop_shares is None
    shares = stop_shares(plain, plain.stderr)
    np.testing.assert_array_equal(shares, met.stop_shares)
    weighted = without_stop_bias(plain, shares)
    np.testing.assert_array_equal(weighted.player_values, met.player_values)
    more = shares / (1 - shares) / SKEWNESS_LEFT
    moved = (plain.group_deviations * more[:, None, None]).sum(axis=0)[:, 0]
    np.testing.assert_allclose(met.values - plain.values, moved, atol=1e-6)


def test_a_rule_of_ones_own_gets_the_values_as_they_are():
    game, groups = fgsv.games.SumOfUnanimity(12), np.arange(12) % 3
    own = fgsv.value(game, groups, stop=lambda seen: "enough" if seen.n_evaluations >= 64 else None)
    assert own.stop_shares is None
    assert (own.player_values == fgsv.value(game, groups, budget=own.n_evaluations).player_values).all()


def test_a_stop_is_verified_also_after_regrouping_and_a_forged_one_is_not(tmp_path):
    game = fgsv.Game(fgsv.games.SumOfUnanimity(12), 12, fingerprint="twelve")
    met = fgsv.value(game, np.arange(12) % 3, precision=0.1, ledger=tmp_path / "run.db")
    met.save(tmp_path / "met.json")
    loaded = fgsv.load(tmp_path / "met.json")
    np.testing.assert_array_equal(loaded.stop_shares, met.stop_shares)
    assert fgsv.verify(loaded, tmp_path / "run.db") == []
    assert fgsv.verify(loaded.regroup(np.arange(12) % 2), tmp_path / "run.db") == []
    forged = replace(loaded, stop_shares=np.full_like(loaded.stop_shares, 1 / len(loaded.stop_shares)))
    assert fgsv.verify(forged, tmp_path / "run.db") != []
    assert fgsv.verify(replace(loaded, stop_shares=None), tmp_path / "run.db") != []


def test_an_error_that_one_replicate_has_alone_is_not_known():
    alone = np.zeros(REPLICATES)
    alone[3] = 0.01
    valuation = sample_mean(1.0, alone.astype(np.float32), 100)
    stopped = without_stop_bias(valuation, stop_shares(valuation, valuation.stderr))
    assert np.isfinite(stopped.values).all()
    np.testing.assert_allclose(stopped.stderr, 10 / np.sqrt(SKEWNESS_LEFT), rtol=1e-3)
