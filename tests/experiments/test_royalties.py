"""Royalty shares from values: linear and clipped, what is paid to parts, and when four scenarios are known well."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from experiments import royalties
from fgsv.games import Airport


def test_clipped_and_linear_shares():
    values = np.array([[10.0, -1.0], [-4.0, -2.0], [6.0, -3.0]])
    nothing = [np.nan] * 3
    np.testing.assert_allclose(royalties.shares_of(values, clip=True), np.transpose([[0.625, 0, 0.375], nothing]))
    np.testing.assert_allclose(royalties.shares_of(values), np.transpose([[10 / 12, -4 / 12, 6 / 12], nothing]))


def two_outputs(masks):
    """Two prompts: an airport for which four players pay, and one from which nothing is gained."""
    worth = Airport([1, 2, 3, 4])(masks)
    return np.stack([worth, -worth], axis=1)


@pytest.fixture
def four(tmp_path):
    game = fgsv.Game(two_outputs, 4, outputs=("red", "blue"), fingerprint="two outputs")
    wholes, parts = ["rich", "rich", "richer", "richer"], ["richlarge", "richsmall", "richer", "richer"]
    return royalties.four_scenarios(game, wholes, parts, tmp_path, stderr=0.01, budget=16)


def test_four_scenarios_are_group_values_and_sums_of_player_values(four, tmp_path):
    red = Airport([1, 2, 3, 4])
    wholes, parts = ["rich", "rich", "richer", "richer"], ["richlarge", "richsmall", "richer", "richer"]
    for scenario, groups in (("whole", wholes), ("split", parts)):
        gsv, fgsvs = fgsv.exact(fgsv.grouped(red, groups)), fgsv.exact(red, groups)
        np.testing.assert_allclose(four["SRS", scenario].values[:, 0], gsv.values)
        np.testing.assert_allclose(four["FSRS", scenario].values[:, 0], fgsvs.values)
    assert fgsv.load(tmp_path / "valuation.json").names == ("rich", "richer")


def test_the_table_says_whose_part_a_player_is_and_who_is_paid_most(four):
    """A provider whose name begins like another's has no part in it."""
    table = royalties.table_of(four)
    red = table[table.prompt == "red"]
    np.testing.assert_allclose(red.groupby(["rule", "scenario"])["share"].sum(), 1)
    assert table[table.prompt == "blue"]["share"].isna().all()
    assert dict(zip(red.player, red.provider, strict=True)) == {
        "rich": "rich",
        "richlarge": "rich",
        "richsmall": "rich",
        "richer": "richer",
    }
    assert royalties.split_minus_whole(table) < 1e-12
    assert royalties.paid_most(table) == {"SRS": {"red": "richer"}, "FSRS": {"red": "richer"}}
    assert "FSRS, split\n" in royalties.text(table)


def test_a_report_is_written_also_where_a_prompt_has_nothing_to_share(four, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    royalties.report(tmp_path / "out", "airport", four, seed=0)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"airport.csv", "airport.json", "airport.png", "airport_clipped.png"}
    assert len(pd.read_csv(tmp_path / "out" / "airport.csv")) == 2 * (2 + 3 + 2 + 3)
    assert "stopped after 16 evaluations" in capsys.readouterr().out


def test_a_run_stops_when_the_shares_of_wholes_and_parts_are_known_well(tmp_path):
    game = fgsv.games.SumOfUnanimity(16)
    several = fgsv.Game(lambda masks: np.stack([game(masks), 2 * game(masks)], axis=1), 16, fingerprint="sums")
    wholes, parts = [f"p{i % 2}" for i in range(16)], [f"p{i % 4}" for i in range(16)]
    found = royalties.four_scenarios(several, wholes, parts, tmp_path, stderr=0.02, spared=1, budget=2000, seed=0)
    faithful = found["FSRS", "whole"]
    assert faithful.end.reason == "target"
    assert str(faithful.end) == "every share's standard error is at most 0.02, but for 1 output"
    assert faithful.n_evaluations < 2000
    assert (faithful.regroup(parts).stderr / faithful.total)[:, 0].max() <= 0.02
