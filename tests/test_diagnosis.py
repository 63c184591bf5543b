"""Diagnostics against games whose behaviour by size is known."""

import time

import numpy as np
import pytest

import fgsv


def root(masks):
    return np.sqrt(masks.sum(axis=1))


@pytest.fixture(scope="module")
def square_of_a_mean():
    """U(S) is the square of the mean of s terms: deletion differences fall as 1/s, second-order ones as 1/s^2."""
    terms = np.random.default_rng(0).normal(size=400) + 1
    return fgsv.Game(lambda masks: ((masks @ terms) / np.maximum(masks.sum(axis=1), 1)) ** 2, 400)


def test_exponents_of_a_smooth_game(square_of_a_mean):
    found = fgsv.diagnose(square_of_a_mean)
    assert found.n_evaluations <= 6_000
    for slope, expected in ((found.deletion, -1), (found.second_order, -2), (found.second_order_extreme, -2)):
        assert 0 < slope.stderr < 0.15
        assert abs(slope.exponent - expected) < 4 * slope.stderr
    assert found.assumption_met == "yes"


def test_a_rough_game_does_not_meet_the_assumption():
    terms = np.random.default_rng(1).normal(size=200)
    game = fgsv.Game(lambda masks: np.sin(10 * masks @ terms) / np.maximum(masks.sum(axis=1), 1), 200)
    assert fgsv.diagnose(game).assumption_met == "no"


def test_differences_that_grow_are_not_said_to_fall():
    found = fgsv.diagnose(fgsv.games.SumOfUnanimity(12), budget=500)
    assert found.deletion.exponent > 1
    assert f"deletion differences change as s^{found.deletion.exponent:.2f}" in str(found)
    assert "second-order differences fall faster than s^-1.5, as Algorithm 1 assumes: no" in str(found)


@pytest.mark.parametrize("sizes", [[25, 25, 25, 25], [60, 30, 10]])
def test_split_gain_is_that_of_exact_gsv_where_size_is_all_that_counts(sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    found = fgsv.diagnose(fgsv.Game(root, 100), groups.tolist()).split_gains
    whole = fgsv.exact(fgsv.grouped(fgsv.Game(root, 100), groups.tolist()))
    split = groups.copy()
    split[: sizes[0] // 2] = len(sizes)
    halves = fgsv.exact(fgsv.grouped(fgsv.Game(root, 100), split.tolist()))
    values = dict(zip(halves.names, halves.values, strict=True))
    gain = values[0] + values[len(sizes)] - whole.values[0]
    assert found.players.tolist() == sizes
    # the curve is smoothed and interpolated between its nodes
    assert abs(found.gain[0] - gain) < 0.03 * gain
    assert gain > 0


def test_an_additive_game_gains_nothing_by_splitting():
    weights = np.random.default_rng(2).normal(size=80)
    game = fgsv.Game(lambda masks: masks @ weights, 80)
    (row,) = fgsv.diagnose(game, budget=20_000).split_gains.itertuples()
    assert row.group == "one of four equal groups"
    assert row.low - (row.high - row.low) < 0 < row.high + (row.high - row.low)


def test_means_by_size(square_of_a_mean):
    table = fgsv.diagnose(fgsv.Game(root, 100)).to_frame()
    np.testing.assert_allclose(table["mean"], np.sqrt(table["size"]))
    np.testing.assert_allclose(
        table["deletion_mean"], np.sqrt(table["size"] + 1) - np.sqrt(table["size"]), atol=1e-12
    )
    np.testing.assert_allclose(table["second_order_99"], 0, atol=1e-12)
    assert (table.low <= table.smoothed).all()
    again = fgsv.diagnose(square_of_a_mean, seed=5)
    np.testing.assert_array_equal(again.to_frame(), fgsv.diagnose(square_of_a_mean, seed=5).to_frame())


def test_table_and_figure(square_of_a_mean, tmp_path):
    found = fgsv.diagnose(square_of_a_mean, budget=1_000)
    assert "as Algorithm 1 assumes" in repr(found)
    found.plot(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    flat = fgsv.diagnose(fgsv.Game(lambda masks: np.zeros(len(masks)), 8), budget=1_000)
    flat.plot(tmp_path / "flat.png")  # without differences there is no logarithm to draw


def test_too_little():
    with pytest.raises(ValueError, match="at least 6 players"):
        fgsv.diagnose(fgsv.Game(root, 5))
    with pytest.raises(ValueError, match=r"budget of at most 1,000,000 evaluations, got 1,000,000,000"):
        fgsv.diagnose(fgsv.Game(root, 50), budget=1e30)
    with pytest.raises(ValueError, match="budget of at least"):
        fgsv.diagnose(fgsv.Game(root, 50), budget=50)


def test_the_budget_is_kept_and_counted_and_failures_of_the_ends_too():
    asked = []

    def fails_alone(masks):
        asked.extend(masks.sum(axis=1).tolist())
        return np.where(masks.any(axis=1), root(masks), np.nan)

    found = fgsv.diagnose(fgsv.Game(fails_alone, 30), budget=700, on_error=0.0)
    assert found.n_evaluations == len(asked) <= 700
    assert asked.count(0) == asked.count(30) == 1
    assert found.failures is not None
    assert found.failures.coalitions == 1
    for wrong in ({"budget": 700.5}, {"budget": "700"}, {"seed": 0.5}):
        with pytest.raises(ValueError, match="must be a whole number"):
            fgsv.diagnose(fgsv.Game(root, 30), **wrong)


def test_sampled_split_gains_of_many_groups_are_the_exact_ones_within_their_error(monkeypatch):
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(12), rng.integers(1, 9, size=12)).tolist()
    game = fgsv.Game(root, len(groups))
    exact = fgsv.diagnose(game, groups, budget=1_000)
    monkeypatch.setattr("fgsv.diagnosis.MOST_EXACT", 11)
    sampled = fgsv.diagnose(game, groups, budget=1_000)
    assert exact.split_gains_stderr == 0 < sampled.split_gains_stderr
    assert sampled.split_gains["group"].tolist() == exact.split_gains["group"].tolist()
    assert (np.abs(sampled.split_gains.gain - exact.split_gains.gain) < 4 * sampled.split_gains_stderr).all()
    # an error that says something: a fraction of the gains
    assert sampled.split_gains_stderr < 0.1 * exact.split_gains.gain.max()


def test_many_groups_are_diagnosed_at_once():
    groups = (np.arange(8_000) % 1_618).tolist()
    start = time.process_time()
    found = fgsv.diagnose(fgsv.Game(root, 8_000), groups, budget=400)
    assert len(found.split_gains) == 1_618
    assert time.process_time() - start < 20  # by integration it would take hours
