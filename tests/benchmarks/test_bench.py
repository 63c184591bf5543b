"""The benchmarks at tiny sizes: what they compute, not what comes out."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fgsv
from benchmarks import accuracy, coverage, few, peers, problems, scale, seeds, stops
from fgsv.cli import app
from fgsv.coalitions import Coalitions
from fgsv.experiments import sou

TINY = sou.Settings(n=(12,), budget=600, repeats=2, methods=("gp", "finite_difference", "one_for_all"), jobs=1)


def test_command_writes_tables_figures_and_settings(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sou, "N_CHECKPOINTS", 5)
    arguments = ["bench", "sou", "--n", "8", "12", "--budget", "400", "--repeats", "2", "--jobs", "1"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    summary = pd.read_csv(tmp_path / "new" / "summary.csv")
    assert set(summary["n"]) == {8, 12}
    assert set(summary["method"]) == set(sou.LABELS)
    assert (summary["evaluations"] <= 400).all()
    document = json.loads((tmp_path / "new" / "run.json").read_text())
    assert document["settings"]["budget"] == 400
    assert document["settings"]["seed"] == 0
    assert document["versions"]["numpy"] == np.__version__
    for name in (
        "figure2.png",
        "figure5.png",
        "convergence.png",
        "runs.csv",
        "convergence.csv",
        "utility_seconds.csv",
    ):
        assert (tmp_path / "new" / name).stat().st_size > 0
    assert "n = 12, ARE" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--n", "4"], "at least 8"), (["--budget", "399"], "at least 400"), (["--repeats", "1"], "at least 2")],
)
def test_command_refuses_before_it_runs(tmp_path, arguments, message):
    done = CliRunner().invoke(app, ["bench", "sou", *arguments, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert message in done.output.replace("\n", " ").replace("│", " ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (coverage, ["--games", "sou64", "sou46x"]),
        (stops, ["--games", "vote of 9", "vote of 10"]),
        (seeds, ["--games", "synthetic", "networks"]),
        (few, ["--games", "tiny8", "tiny9"]),
    ],
)
def test_a_benchmark_refuses_before_its_first_run(monkeypatch, tmp_path, module, arguments):
    """Not after an hour of the games before it, and no option is dropped in silence."""
    monkeypatch.setattr("benchmarks.few_games.CACHE", tmp_path / "truth")
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    monkeypatch.setattr(module, "run_all", lambda *given, **options: pytest.fail("it has begun"))
    with pytest.raises((ValueError, SystemExit)):
        module.main()


def test_a_small_run_does_not_replace_the_tables_of_a_full_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stops, "repeat", lambda game, precision, runs, jobs: {"game": game, "runs": runs})
    for arguments in (["--jobs", "1"], ["--runs", "3"], ["--games", "vote of 9"], ["--runs", "5", "--out", "mine"]):
        monkeypatch.setattr(sys, "argv", ["stops", *arguments])
        stops.main()
    found = {str(path.parent): pd.read_csv(path) for path in Path().rglob("stops.csv")}
    assert set(found) == {"bench-out/stops", "bench-out/stops-other", "mine"}
    assert (len(found["bench-out/stops"]), set(found["bench-out/stops"]["runs"])) == (len(stops.GAMES), {200})


def test_checkpoints_are_prefixes_of_one_run():
    result = sou.converge((12, "one_for_all", 0, TINY))
    game, groups = fgsv.games.SumOfUnanimity(12), np.arange(12) % 4
    total = game.shapley.sum()
    least = 2 + 2 * 12
    for checkpoint in (6, least - 2):
        np.testing.assert_allclose(result.estimates[checkpoint // 6 - 1], total / 4)
    whole = fgsv.value(game, groups, method="one_for_all", budget=600, seed=0, round_size=6, batch_size=6)
    np.testing.assert_array_equal(result.estimates[-1], whole.values)
    assert result.n_evaluations == whole.n_evaluations <= 600
    prefix = fgsv.value(game, groups, method="one_for_all", budget=300, seed=0, round_size=6, batch_size=6)
    np.testing.assert_array_equal(result.estimates[49], prefix.values)


def test_errors_are_those_of_the_papers_definitions():
    report = sou.run(replace(TINY, methods=("finite_difference", "one_for_all")))
    run = report.runs[(report.runs.method == "one_for_all") & (report.runs.seed == 1) & (report.runs.group == 2)]
    estimates = sou.converge((12, "one_for_all", 1, TINY)).estimates[:, 2]
    truth = fgsv.games.SumOfUnanimity(12).shapley[2::4].sum()
    assert run["AUCC"].item() == pytest.approx(np.mean(np.abs(1 - estimates / truth)))
    assert run["ARE"].item() == pytest.approx(abs(1 - estimates[-1] / truth))
    both = report.runs[report.runs.method == "one_for_all"]
    assert report.summary.set_index("method").loc["one_for_all", "ARE"] == pytest.approx(both["ARE"].mean())


def test_statements_say_what_the_numbers_say():
    row = {"n": 8, "AUCC_stderr": 0.01, "ARE_stderr": 0.01}
    table = pd.DataFrame(
        [
            {**row, "method": "gp", "AUCC": 0.1, "ARE": 0.1, "seconds_per_evaluation": 1.0},
            {**row, "method": "finite_difference", "AUCC": 0.2, "ARE": 0.5, "seconds_per_evaluation": 2.0},
            {**row, "method": "kernelshap", "AUCC": 0.4, "ARE": 0.3, "seconds_per_evaluation": 3.0},
        ]
    )
    said = "\n".join(sou.statements(table))
    assert "n = 8, AUCC: as in the paper, Algorithm 1 is lowest (Algorithm 1 0.2, KernelSHAP 0.4)" in said
    assert "n = 8, ARE: not as in the paper, KernelSHAP is lower" in said
    assert "n = 8, ARE: the default method has 0.1; the best of the others, KernelSHAP, 0.3, 3 times" in said
    assert "Algorithm 1 is number 1 of 2 from the fastest" in said
    table["ARE_stderr"] = 0.2
    assert "n = 8, ARE: undecided" in "\n".join(sou.statements(table))


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


def test_random_partitions_have_four_equal_groups():
    members = accuracy.random_groups(12).reshape(200, 4, 12)
    assert (members.sum(axis=1) == 1).all()
    assert (members.sum(axis=2) == 3).all()


def test_ratio_and_its_interval():
    rng = np.random.default_rng(0)
    above, below = 9 * rng.chisquare(4, size=400), rng.chisquare(4, size=400)
    value, low, high = accuracy.ratio(above, below)
    error = (
        3 * 0.5 * np.sqrt(2 * 0.5 / 400)
    )  # a chi-squared of 4 degrees has a squared coefficient of variation of 1/2
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
    xy, xx = (column for column in game._columns)
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
