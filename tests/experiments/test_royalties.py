"""Royalty shares from values: linear and clipped."""

import numpy as np

from fgsv.experiments.royalties import Royalties, shares_of


def test_clipped_and_linear_shares():
    values = np.array([[10.0, -4.0, 6.0], [-1.0, -2.0, -3.0]])
    np.testing.assert_allclose(shares_of(values, clip=True), [[0.625, 0, 0.375], [0, 0, 0]])
    np.testing.assert_allclose(shares_of(values), [[10 / 12, -4 / 12, 6 / 12], [0, 0, 0]])


def test_nothing_to_share_is_none_in_json():
    shares = np.array([[0.25, 0.75], [np.nan, np.nan]])
    table = Royalties(("red", "blue"), ("a", "b"), shares, np.zeros((2, 2)))
    assert table.nested() == {"red": {"a": 0.25, "b": 0.75}, "blue": {"a": None, "b": None}}
