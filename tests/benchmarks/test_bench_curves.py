"""What it takes to reach a given error, and the two games that are timed with it."""

import numpy as np
import pytest

from benchmarks import cost, curves


def runs_of(scale, count=40, rounds=60, n=8):
    """Return runs whose squared error is `scale` over what was spent, on average."""
    rng = np.random.default_rng(int(scale))
    spent = np.geomspace(10, 1000, rounds)
    return [curves.Curve(spent, rng.normal(size=(rounds, n)) * np.sqrt(scale / spent)[:, None]) for _ in range(count)]


def test_runs_with_a_quarter_of_the_variance_need_a_quarter():
    slow, fast = runs_of(8.0), runs_of(2.0)
    both = [(curves.on_grid(runs, np.zeros(8), curves.grid_of(runs)), curves.grid_of(runs)) for runs in (slow, fast)]
    found = curves.relative(both[0], both[1], 100)
    assert found["spent"] == pytest.approx(100, rel=0.1)
    assert found["low"] < 4 < found["high"]
    assert found["needed"] == pytest.approx(found["ratio"] * found["spent"])
    assert found["reached"]
    assert not curves.relative(both[0], both[1], 1000)["reached"]


def test_the_grid_takes_the_last_round_within_it():
    run = curves.Curve(np.array([10.0, 20.0]), np.array([[1.0] * 4, [2.0] * 4]))
    np.testing.assert_allclose(curves.on_grid([run], np.zeros(4), np.array([10.0, 19.9, 20.0, 50.0])), [[1, 1, 4, 4]])
    with pytest.raises(ValueError, match="before its first estimate"):
        curves.on_grid([run], np.zeros(4), np.array([5.0]))


def test_the_truth_is_the_mean_of_two_runs():
    ends = [np.array([[0.0] * 4, [value] * 4]) for value in (1.0, 3.0)]
    truth, error = curves.truth_of([curves.Curve(np.arange(2), values) for values in ends])
    np.testing.assert_allclose(truth, 2)
    assert error == pytest.approx(1)  # half their distance


def test_a_run_notes_what_it_spent_after_each_round(monkeypatch):
    monkeypatch.setattr(cost, "N_PLAYERS", 20)
    curve = cost.measure(cost.Task(0, 70, lambda sizes: np.asarray(sizes, dtype=float) ** 2))
    assert curve.values.shape == (5, cost.N_PLAYERS)
    assert (np.diff(curve.spent, prepend=0) > 0).all()
