"""Coalitions as lists, and drawing them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgsv.coalitions import Coalitions, draw_blocks


@given(st.integers(1, 12), st.integers(1, 20), st.integers(0, 1000))
def test_masks_survive_the_lists(n, m, seed):
    rng = np.random.default_rng(seed)
    masks = rng.random((m, n)) < rng.random((m, 1))
    coalitions = Coalitions.from_masks(masks)
    np.testing.assert_array_equal(coalitions.masks(), masks)
    np.testing.assert_array_equal(coalitions.sizes, masks.sum(axis=1))
    assert (coalitions.n_listed <= n / 2).all()
    cut = m // 2
    both = Coalitions.concatenate([coalitions[:cut], coalitions[cut:]])
    np.testing.assert_array_equal(both.masks(), masks)
    np.testing.assert_array_equal(coalitions.members(m - 1), np.flatnonzero(masks[-1]))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_of_size_is_every_set_once(size):
    from math import comb

    masks = Coalitions.of_size(7, size).masks()
    assert len({tuple(row) for row in masks}) == len(masks) == comb(7, size)
    assert (masks.sum(axis=1) == size).all()


def test_drawn_blocks_are_disjoint_and_cover_evenly():
    sizes = np.repeat([3, 9], [8, 8])
    coalitions, permutation = draw_blocks(12, sizes, np.random.default_rng(0))
    masks = coalitions.masks()
    np.testing.assert_array_equal(masks.sum(axis=1), sizes)
    np.testing.assert_array_equal(permutation, np.repeat([0, 1, 2, 3], 4))
    for number in range(4):
        assert (masks[permutation == number].sum(axis=0) == (1 if number < 2 else 3)).all()


@pytest.mark.parametrize(("n", "size"), [(5, 2), (5, 3), (6, 5), (200, 2)])
def test_every_set_is_drawn_equally_often(n, size):
    """Chi-square against the uniform distribution, over pairs of members where there are too many sets."""
    from scipy.stats import chisquare

    rng = np.random.default_rng(1)
    draws = [draw_blocks(n, np.full(3, size), rng)[0].masks() for _ in range(4000)]
    masks = np.concatenate(draws)
    for position in range(3):  # each position in a block by itself: within one they depend on each other
        rows = masks[position::3]
        if n < 10:
            _, counts = np.unique(rows, axis=0, return_counts=True)
            from math import comb

            assert len(counts) == comb(n, size)
        else:
            counts = rows.sum(axis=0)
        assert chisquare(counts).pvalue > 1e-4


def test_a_million_players_are_not_permuted_for_a_few_members():
    coalitions, _ = draw_blocks(1_000_000, np.array([2, 2, 5, 999_999]), np.random.default_rng(0))
    assert coalitions.listed.nbytes < 100
    np.testing.assert_array_equal(coalitions.sizes, [2, 2, 5, 999_999])
