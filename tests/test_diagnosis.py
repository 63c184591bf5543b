"""Diagnostics against games whose behaviour by size is known."""

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
