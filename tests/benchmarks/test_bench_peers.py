"""Peers are measured once a cell, counted as we are, and compared with intervals that hold."""

import sys

import numpy as np
import pytest

import fgsv
from benchmarks import explain, few_games, few_table, peers


def right(make, game, budget, seed):
    game(np.ones((1, game.game.n_players), dtype=bool))
    return few_games.load("gloves10")[1] + make


def broken(make, game, budget, seed):
    raise ValueError("too few\nevaluations")


def greedy(make, game, budget, seed):
    game(np.ones((budget, game.game.n_players), dtype=bool))
    return np.zeros(game.game.n_players)


@pytest.fixture
def estimators(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.few_games.CACHE", tmp_path / "truth")
    monkeypatch.setattr(
        peers,
        "PEERS",
        {
            "shapiq off by one": peers.Peer(right, 1.0),
            "shapiq few players": peers.Peer(right, 0.0, most_players=5),
            "shapiq broken": peers.Peer(broken, None, 0.1),
            "shapiq greedy": peers.Peer(greedy, None, 0.1),
        },
    )
    few_games.load.cache_clear()
    yield
    few_games.load.cache_clear()


def campaign(monkeypatch, capsys, out, *arguments):
    monkeypatch.setattr(sys, "argv", ["peers", "--games", "gloves10", "--jobs", "1", "--out", str(out), *arguments])
    peers.main()
    return capsys.readouterr().out.split()[0]


def test_a_campaign_keeps_what_it_measured_and_tries_failures_again(estimators, monkeypatch, capsys, tmp_path):
    out = tmp_path / "peers.json"
    all_of_them = ["--estimators", *peers.PEERS]
    assert campaign(monkeypatch, capsys, out, "--budgets", "64", *all_of_them) == "36"
    assert (
        campaign(monkeypatch, capsys, out, "--budgets", "64", "1024", *all_of_them) == "6"
    )  # failures are tried again
    cells = {cell["estimator"]: cell for cell in few_table.read(out)}
    off = cells["shapiq off by one"]
    assert off["error"] == pytest.approx(1 / few_games.load("gloves10")[1].std(), rel=1e-3)
    assert (off["runs"], off["evaluations"], off["relative"]) == (30, 2, 0)
    assert cells["shapiq broken"]["failure"] == "ValueError: too few"
    assert "65" in cells["shapiq greedy"]["failure"]
    assert "shapiq few players" not in cells


def cell(estimator, squares, budget=64):
    return {"game": "vote14", "n": 14, "budget": budget, "estimator": estimator, "runs": len(squares)} | (
        few_table.summary(squares)
    )


def test_the_interval_of_a_ratio_holds_it():
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        ours, theirs = 0.25 * rng.gamma(5, 0.2, 30), rng.gamma(5, 0.2, 10)
        found = few_table.pair(cell("fgsv", ours), [cell("shapiq", theirs)])
        held += found.low <= 0.5 <= found.high
    assert 0.92 < held / 400 < 0.985


def test_the_best_peer_of_each_cell_counts_unless_it_is_exact():
    theirs = [cell("a", [4.0, 4.1]), cell("b", [1.0, 1.1]), {"game": "vote14", "budget": 64, "failure": "no"}]
    theirs += [cell("a", [1e-20, 1e-20], 128)]
    pairs = [
        few_table.pair(cell("fgsv", [squares] * 3, budget), theirs) for squares, budget in ((4.0, 64), (1.0, 128))
    ]
    pairs.append(few_table.pair(cell("fgsv", [1.0] * 3, 256), theirs))
    assert [each.peer for each in pairs] == ["b", "a", ""]
    assert [each.counts for each in pairs] == [True, False, False]
    assert pairs[0].ratio == pytest.approx(2 / np.sqrt(1.05), rel=1e-3)
    corrected = few_table.pair(cell(few_table.UNBIASED, [9.0, 9.0]), theirs)
    table = few_table.markdown(pairs, [corrected], [cell("before", [25.0, 25.0])])
    header, _, *rows = [[each.strip() for each in line.strip("|").split("|")] for line in table.splitlines()]
    first, second, third = (dict(zip(range(len(header)), row, strict=True)) for row in rows)
    assert (first[2], first[3], first[5], first[7]) == ("5", "b", "2", "3")
    assert first[6].startswith("**1.95")
    assert first[8].startswith("**2.93")
    assert (second[6], second[7], second[8]) == ("not counted", "–", "–")
    assert (third[3], third[6]) == ("–", "–")


def test_explainers_are_compared_by_columns_and_by_features(monkeypatch):
    truth = np.arange(4.0)
    problem = fgsv.Game(lambda masks: masks @ truth, 4), ["a_x", "a_y", "a_z", "b"]
    monkeypatch.setattr(explain, "problem", lambda: problem)
    monkeypatch.setitem(explain.OTHERS, "off", lambda game, budget, seed: truth + game(np.eye(4)[:1]) + 1)
    explain.enumerated.cache_clear()
    found, ours = explain.measure(("off", 64, 0)), explain.measure((explain.OURS, 64, 0))
    explain.enumerated.cache_clear()
    assert (found["columns"], found["features"], found["evaluations"]) == (1, (3**2 + 1) / 2, 2)
    assert (ours["columns"], ours["intervals hold"]) == (pytest.approx(0, abs=1e-20), 1)


def test_summaries_are_over_the_games_that_are_known():
    before = [
        cell("before", [squares] * 2) | {"game": game} for game, squares in (("a", 4.0), ("b", 1.0), ("c", 0.0))
    ]
    before[0]["width"] = 3.0
    rows = [
        cell("gp", [1.0, 1.0]) | {"game": game, "players": held, "groups": 1.0, "width": 1.5, "ms": ms}
        for game, held, ms in (("a", 0.9, 0.2), ("b", 1.0, 0.4), ("c", 0.95, 0.6), ("d", 0.95, 0.4))
    ]
    assert few_table.summaries(rows, before).splitlines()[2:] == [
        "| 64 | 4 | 0.71 | 1.00 b | 95.0% | 90.0% a | 100.0% | 0.50 | 0.4 (0.6 c) |"
    ]
    assert np.isnan(few_table.over(rows[3], before))


def test_means_by_budget_are_shown_without_sums_of_unanimity_and_of_trained_models_too():
    pairs = [
        few_table.Pair(game, 16, budget, ours, "b", 1.0, ours, 1.1)
        for game, budget, ours in (
            ("vote14", 64, 4.0),
            ("clinics50", 64, 1.0),
            ("sou40", 64, 2.0),
            ("sou40", 128, 0.5),
        )
    ]
    found = few_table.by_budget(pairs).splitlines()
    assert found[2:] == ["| 64 | 2.00 | 2.00 | 1.00 |", "| 128 | 0.50 | – | – |"]
