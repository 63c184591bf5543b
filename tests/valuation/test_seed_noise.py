"""Training seeds: noise has the variance that is claimed, and intervals hold the expected values."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

import fgsv
from fgsv.game import as_game, grouped
from fgsv.partition import Partition
from fgsv.payout import PayoutRefused, split
from fgsv.results import Decision, Result, verdict
from fgsv.semivalue import Banzhaf, Beta
from fgsv.valuation.seed_noise import SeedNoise

N = 7
GROUPS = np.arange(N) % 3
WEIGHTS = np.linspace(0.3, 1.5, N)


def expected(masks):
    return np.sqrt(masks @ WEIGHTS)


def noisy(seed, spread=0.1, n=N, function=expected):
    """Return the game of a closed-form expectation plus noise that a hash draws, as with fresh seeds."""

    def trained(masks, repeat=0):
        words = [f"{seed} {repeat} ".encode() + row.tobytes() for row in np.packbits(masks, axis=1)]
        numbers = np.array(
            [int.from_bytes(hashlib.sha256(word).digest()[:24], "big") for word in words], dtype=object
        )
        normal = sum(((numbers >> 12 * each) % 4096 / 4096 for each in range(12)), -6.0).astype(float)
        return function(masks) + spread * normal * masks.any(axis=1)

    def again(repeat):
        return lambda masks: trained(masks, repeat)

    return fgsv.Game(trained, n, retrain=again, fingerprint=f"noisy {seed}")


TRUTH = fgsv.exact(fgsv.Game(expected, N), GROUPS)


def sampled(result):
    """Return a result with the Monte Carlo error alone, as of a game that does not say that it is noisy."""
    return replace(result, seed_noise=None)


@pytest.mark.parametrize("budget", [66, 2**N])
def test_intervals_hold_the_expected_values_and_without_the_error_of_seeds_they_do_not(budget):
    held, alone = [], []
    for seed in range(80):
        result = fgsv.value(noisy(seed), GROUPS, budget=budget, seed=seed, learn="sizes")
        values, shares = np.abs(result.values - TRUTH.values), np.abs(result.shares() - TRUTH.shares())
        held.append([values <= result.half_width(), shares <= result.share_half_width()])
        alone.append(values <= sampled(result).half_width())
    assert 0.92 <= np.mean(held, axis=(0, 2)).min() <= np.mean(held, axis=(0, 2)).max() <= 0.985
    assert np.mean(alone) < (0.99 if budget < 2**N else 0.01)


@pytest.mark.parametrize("semivalue", ["shapley", Banzhaf(), Beta(4.0, 1.0)])
def test_the_variance_is_that_of_noise_in_every_coalition(semivalue):
    """The oracle: the variance of many enumerated games."""
    by_seed = [fgsv.exact(noisy(seed), GROUPS, semivalue=semivalue) for seed in range(60)]
    values = np.array([each.values for each in by_seed])
    totals = np.array([each.total for each in by_seed])
    claimed = [sum(each.seed_noise.variances(each.partition)) for each in by_seed]
    np.testing.assert_allclose(np.mean(claimed, axis=0)[:, 0], values.var(axis=0), rtol=0.45)
    truth = fgsv.exact(fgsv.Game(expected, N), GROUPS, semivalue=semivalue)
    shares = truth.values / truth.total
    moved = (values - shares * totals[:, None]).var(axis=0)
    claimed = [sum(each.seed_noise.variances(each.partition, shares[:, None])) for each in by_seed]
    np.testing.assert_allclose(np.mean(claimed, axis=0)[:, 0], moved, rtol=0.45)


@pytest.mark.parametrize(
    "groups", [GROUPS, None, np.full((N, 2), 0.5) + np.outer(np.linspace(-0.4, 0.4, N), [1, -1])]
)
def test_deviations_have_the_same_variances(groups):
    result = fgsv.exact(noisy(3), groups)
    shares = result.shares()[:, None]
    deviations = result.seed_noise.deviations(result.partition, shares)
    variances = sum(result.seed_noise.variances(result.partition, shares))
    if result.partition.is_disjoint:
        np.testing.assert_allclose((deviations**2).sum(axis=0), variances, rtol=1e-9)
        assert np.abs(deviations.sum(axis=1)).max() < 1e-12  # shares sum to one, whatever the seeds
    many = Partition.of(None, 200)
    noise = SeedNoise(np.ones((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), (9.0, 9.0), 1)
    bundled = noise.deviations(many, np.zeros((200, 1)))
    exact = sum(noise.variances(many))
    np.testing.assert_allclose((bundled**2).sum(axis=0), exact, rtol=0.1)


def test_a_game_without_noise_has_no_error_of_seeds():
    result = fgsv.value(noisy(0, spread=0.0), GROUPS, budget=2**N)
    assert result.seed_half_width().max() == 0
    assert result.half_width().max() == 0
    assert verdict(result).decision is Decision.SETTLED


def test_the_noise_follows_outputs_groups_and_files(tmp_path):
    def both(masks, repeat=0):
        game = noisy(1)
        one = (game.function if repeat == 0 else game.retrain(repeat))(masks)
        return np.stack([one, 2 * one + masks.sum(axis=1)], axis=1)

    game = fgsv.Game(both, N, outputs=("a", "b"), retrain=lambda k: lambda masks: both(masks, k))
    outputs, alone = fgsv.value(game, GROUPS, budget=60), fgsv.value(noisy(1), GROUPS, budget=60)
    first = outputs.combined([1.0, 0.0])
    np.testing.assert_allclose(first.seed_half_width(), alone.seed_half_width(), rtol=1e-9)
    np.testing.assert_allclose(outputs.combined([2.0, 0.0]).seed_half_width(), alone.seed_half_width(), rtol=1e-9)
    merged = alone.regroup(["all"] * N)
    assert merged.share_half_width().max() == pytest.approx(0, abs=1e-12)
    assert merged.half_width()[0] > 0  # what all are worth is not known without error
    outputs.save(tmp_path / "v.json")
    again = fgsv.load(tmp_path / "v.json")
    np.testing.assert_array_equal(again.share_interval(), outputs.share_interval())


def test_trainings_again_are_recorded_and_a_result_verifies(tmp_path):
    calls = []

    def counted(masks):
        calls.append(len(masks))
        return expected(masks)

    game = replace(noisy(5), retrain=lambda k: counted)
    first = fgsv.value(game, GROUPS, budget=60, seed=2, ledger=tmp_path / "run.db")
    assert sum(calls) == first.seed_noise.n_evaluations == 32
    second = fgsv.value(game, GROUPS, budget=60, seed=2, ledger=tmp_path / "run.db")
    assert sum(calls) == 32
    np.testing.assert_array_equal(first.half_width(), second.half_width())
    assert fgsv.verify(first, tmp_path / "run.db") == []
    forged = replace(first, seed_noise=replace(first.seed_noise, common=first.seed_noise.common / 2))
    assert [each.where for each in fgsv.verify(forged, tmp_path / "run.db")] == ["seed_noise"]


def test_failures_of_trainings_again_are_said():
    def fails(masks):
        raise ArithmeticError

    game = replace(noisy(0), retrain=lambda k: fails)
    with pytest.warns(RuntimeWarning, match="for the error of training seeds 32 evaluations failed"):
        fgsv.value(game, GROUPS, budget=60, on_error=0.0)
    with pytest.raises(fgsv.GameError, match=rf"trained again.*members from {N} on stand.*ArithmeticError"):
        fgsv.value(game, GROUPS, budget=60)


@pytest.mark.parametrize("wrong", [lambda values: values[:1], lambda values: values.astype(str)])
def test_answers_of_trainings_again_are_checked_like_all_others(wrong):
    game = noisy(0)
    game = replace(game, retrain=lambda k: lambda masks: wrong(game.function(masks)))
    with pytest.raises(fgsv.GameError, match=r"the game returned an array of shape|expected real numbers"):
        fgsv.value(game, GROUPS, budget=60)


@pytest.mark.parametrize("n", [1, 2, 3000])
def test_any_number_of_players(n):
    game = noisy(0, n=n, function=lambda masks: masks.mean(axis=1))
    result = fgsv.value(game, np.arange(n) % 2, budget=40, learn="sizes")
    # U(N) and U(0) are 1 and 0, with noise of 0.1 in the first
    assert result.half_width()[0] >= 0.1 / result.partition.n_groups
    assert np.isfinite(result.share_half_width()).all()


def test_iterate_and_grouped_games():
    rounds = list(fgsv.iterate(noisy(0), GROUPS, budget=60))
    assert all(each.seed_noise is None for each in rounds)  # trained again when the run has ended
    pairs = grouped(noisy(0), GROUPS)
    assert fgsv.exact(pairs).seed_noise is not None
    assert as_game(pairs).retrain is not None


def test_the_verdict_and_the_payout_know_what_no_evaluations_reduce():
    settled = fgsv.exact(noisy(0, spread=0.002), GROUPS)
    assert verdict(settled).decision is Decision.SETTLED
    assert verdict(settled).half_width > 0
    wide = fgsv.exact(noisy(0, spread=0.6), GROUPS)
    found = verdict(wide)
    assert (found.decision, found.evaluations) == (Decision.UNRESOLVABLE, None)
    assert "training seeds" in found.made_of
    assert verdict(sampled(wide)).decision is Decision.SETTLED  # "exact", as a fixed seed would have it
    with pytest.raises(PayoutRefused) as refused:
        split(wide, 100)
    assert refused.value.objections[0].evaluations is None
    half = wide.share_half_width() * 100
    paid = split(wide, 100, pay_anyway=True)
    np.testing.assert_allclose([float(h - p) for h, p in zip(paid.high, paid.payments, strict=True)], half, atol=0.02)
    clipped = split(wide, 100, clip=True, pay_anyway=True)
    assert all(high > low for low, high in zip(clipped.low, clipped.high, strict=True))


def test_errors_stand_side_by_side():
    result = Result(fgsv.exact(noisy(0), GROUPS))
    frame = result.errors_of_shares()
    assert list(frame) == ["group", "share", "monte_carlo", "training_seeds"]
    assert frame["monte_carlo"].max() == 0 < frame["training_seeds"].min()
    assert Result(sampled(result.valuation)).errors_of_shares() is None
