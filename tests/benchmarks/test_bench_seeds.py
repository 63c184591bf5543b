"""The benchmark of training seeds, without training: what is right is held by fresh seeds and not by one."""

import numpy as np

import fgsv
from benchmarks import seeds


def test_the_truth_is_that_of_the_expected_game():
    truth = seeds.truth_of("synthetic", 0, 1)
    np.testing.assert_allclose(truth.values, fgsv.exact(fgsv.Game(seeds.expected, seeds.N), seeds.GROUPS).values)


def test_fresh_seeds_hold_it_and_a_fixed_one_does_not():
    truth = seeds.truth_of("synthetic", 0, 1)
    fixed, fresh = (seeds.repeat("synthetic", each, 2**seeds.N, 10, truth, 1) for each in ("fixed", "fresh"))
    assert (fixed["half-width"], fixed["values held"]) == (0, 0)
    assert fresh["half-width"] > 0
    assert fresh["values held"] > 0.7
