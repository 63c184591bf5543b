"""Royalty shares from values: linear and clipped, and the files that they are written to."""

import csv

import numpy as np

import fgsv
from fgsv.experiments.royalties import Royalties, shares_of, split_minus_whole, write_csv


def test_clipped_and_linear_shares():
    values = np.array([[10.0, -4.0, 6.0], [-1.0, -2.0, -3.0]])
    np.testing.assert_allclose(shares_of(values, clip=True), [[0.625, 0, 0.375], [0, 0, 0]])
    np.testing.assert_allclose(shares_of(values), [[10 / 12, -4 / 12, 6 / 12], [0, 0, 0]])


def test_nothing_to_share_is_none_in_json():
    shares = np.array([[0.25, 0.75], [np.nan, np.nan]])
    table = Royalties(("red", "blue"), ("a", "b"), shares, np.zeros((2, 2)))
    assert table.nested() == {"red": {"a": 0.25, "b": 0.75}, "blue": {"a": None, "b": None}}


def test_names_stay_one_cell_of_a_csv_file_and_run_as_no_formula(tmp_path):
    prompts, players = ("red, or blue", 'a "logo"'), ("=cmd()", "north\nsouth", "plain")
    shares = np.array([[0.25, 0.5, 0.25], [np.nan, np.nan, np.nan]])
    write_csv({"srs_whole": Royalties(prompts, players, shares, 0.1 * shares)}, tmp_path / "shares.csv")
    with (tmp_path / "shares.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["scenario", "prompt", "player", "share", "stderr"]
    assert rows[0] == ["srs_whole", "red, or blue", "'=cmd()", "0.250000", "0.025000"]
    assert rows[4] == ["srs_whole", 'a "logo"', "north\nsouth", "nan", "nan"]
    assert len(rows) == 6


def test_a_provider_whose_name_begins_like_another_has_no_part_in_it():
    """By FGSV a split changes nothing: whatever the names."""
    valuation = fgsv.exact(fgsv.games.Airport([1, 2, 3, 4]), ["rich", "rich", "richer", "richer"])
    parts = valuation.regroup(["richlarge", "richsmall", "richer", "richer"])
    assert split_minus_whole({"fsrs_whole": valuation, "fsrs_split": parts}) < 1e-12
