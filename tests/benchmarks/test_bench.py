"""The benchmarks at tiny sizes: what they compute, not what comes out."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fgsv
from benchmarks import accuracy, coverage, peers, problems, scale, stops
from fgsv.coalitions import Coalitions

pytestmark = pytest.mark.slow


def test_a_small_run_does_not_replace_the_tables_of_a_full_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stops, "repeat", lambda game, precision, runs, jobs: {"game": game, "runs": runs})
    for arguments in (["--jobs", "1"], ["--runs", "3"], ["--games", "vote of 9"], ["--runs", "5", "--out", "mine"]):
        monkeypatch.setattr(sys, "argv", ["stops", *arguments])
        stops.main()
    found = {str(path.parent): pd.read_csv(path) for path in Path().rglob("stops.csv")}
    assert set(found) == {"bench-out/stops", "bench-out/stops-other", "mine"}
    assert (len(found["bench-out/stops"]), set(found["bench-out/stops"]["runs"])) == (len(stops.GAMES), {200})


def test_accuracy_says_what_learning_is_worth():
    """Four times the error without it: fifteen times as many evaluations are saved, in three seconds."""
    runs = [(accuracy.OURS, 0.5, 4.0), (accuracy.PLAYERS, 2.0, 1.6), (accuracy.PLAIN, 8.0, 1.0)]
    tasks = [accuracy.Task("sou16", method, 0, 1000) for method, _, _ in runs]
    outcomes = [accuracy.Outcome({accuracy.RANDOM: square}, 1000, seconds) for _, square, seconds in runs]
    ours, players = accuracy.learnings_worth(accuracy.summarise(tasks, outcomes))
    assert ours.endswith("takes 16.0 times the evaluations: it pays where one takes more than 200 us")
    assert players.startswith("  gp, learn='players': ")
    assert players.endswith("takes 4.0 times the evaluations: it pays where one takes more than 200 us")
    assert accuracy.learnings_worth(accuracy.summarise(tasks[:2], outcomes[:2])) == []
    swapped = accuracy.learnings_worth(accuracy.summarise(tasks, outcomes[::-1]))
    assert swapped[0].endswith("it never pays")


def test_accuracy_measures_groups_and_random_partitions():
    tasks = accuracy.tasks_of("sou16", [accuracy.OURS, "finite_difference", "kernelshap, paired=True"], 2, 600)
    outcomes = [accuracy.measure(task) for task in tasks]
    table = accuracy.summarise(tasks, outcomes).set_index(["method", "groups"])
    game = fgsv.games.SumOfUnanimity(16)
    runs = [fgsv.value(game, np.arange(16) % 4, budget=600, seed=seed).values for seed in range(2)]
    errors = np.array(runs) - np.bincount(np.arange(16) % 4, game.shapley)
    assert table.loc[(accuracy.OURS, "i mod 4"), "rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert ("finite_difference", accuracy.RANDOM) not in table.index
    assert ("kernelshap, paired=True", accuracy.RANDOM) in table.index
    lines = "\n".join(accuracy.report(table.reset_index(), {"sou16": problems.case("sou16")}))
    assert "error of Algorithm 1 / default" in lines
    assert "best baseline (kernelshap, paired=True)" in lines


def test_ratio_and_its_interval():
    rng = np.random.default_rng(0)
    above, below = 9 * rng.chisquare(4, size=400), rng.chisquare(4, size=400)
    value, low, high = accuracy.ratio(above, below)
    # a chi-squared of 4 degrees has a squared coefficient of variation of 1/2
    error = 3 * 0.5 * np.sqrt(2 * 0.5 / 400)
    assert abs(value - 3) < 4 * error
    assert low < value < high
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_coverage_counts_intervals_that_hold_the_truth():
    game, truth = coverage.game_of("sou64"), coverage.truth_of("sou64")
    measured = coverage.measure(coverage.Task("sou64", 0, 3, 300, None, {}))
    assert measured.values.shape == (3, game.n_players)
    off = np.zeros((3, 64))
    off[0, 0] = 5.0  # one group of one run in three
    half_widths = np.ones((3, 4))
    outcome = coverage.Outcome(truth + off + np.arange(3)[:, None] * 1e-3, half_widths, half_widths, np.ones(3))
    row = coverage.summarise("sou64", "budget", outcome)
    assert row["coverage"] == pytest.approx(1 - 1 / 12)


def test_slope_is_the_regression_it_says():
    game = scale.Slope(30)
    rng = np.random.default_rng(1)
    masks = rng.random((20, 30)) < rng.random((20, 1))
    masks[0], masks[-1] = False, True
    xy, xx = game._columns
    expected = 1 - (1 - (masks @ xy) / (1 + masks @ xx)) ** 2
    np.testing.assert_allclose(game(masks), expected)
    reverse = Coalitions.from_masks(masks[::-1])  # an empty list at the end
    np.testing.assert_allclose(game.evaluate_lists(reverse), expected[::-1])


def test_scale_at_a_small_size(tmp_path):
    table = scale.growth([20, 40], stderr=1.0, repeats=2, budget=20_000, jobs=1)
    assert (table["evaluations"] > 2).all()
    assert scale.overhead("gp", 20, 500)["own us"] > 0
    with pytest.raises(RuntimeError, match="not reached"):
        scale.reach((20, 1e-9, 0, 300))


def test_counted_game_counts_all_but_repeated_empties():
    counted = peers.Counted(fgsv.Game(lambda masks: masks.sum(axis=1) + 7.0, 3))
    assert counted(np.array([[0, 0, 0], [1, 1, 0]])).tolist() == [0.0, 2.0]
    assert counted(np.array([1, 1, 1])).tolist() == [3.0]
    assert counted.count == 3
