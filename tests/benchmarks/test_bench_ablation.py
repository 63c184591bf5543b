"""The benchmark of the parts of the default method: each is switched off, and on again."""

import numpy as np
import pytest

import fgsv
from benchmarks import ablation


def steep(masks):
    """One player is worth nearly everything, so that a saturating trend is right."""
    return 1 - np.prod(np.where(masks, 1 - np.array([0.9, *[0.1] * 8]), 1.0), axis=1)


@pytest.fixture
def known(monkeypatch):
    game = fgsv.Game(steep, 9)
    truth = fgsv.exact(game).values
    monkeypatch.setattr(ablation, "load", lambda name: (game, truth))


@pytest.mark.parametrize("part", ablation.PARTS)
def test_without_a_part_values_are_others_and_with_it_the_same_as_before(known, part):
    budget = 14 if part == "saturating trend" else 160
    whole = ablation.measure((ablation.WHOLE, "steep", budget, 0))
    assert ablation.measure((part, "steep", budget, 0)) != whole
    assert ablation.measure((ablation.WHOLE, "steep", budget, 0)) == whole


def test_the_noise_of_a_ratio_is_that_of_repeated_measurements():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        whole = rng.gamma(5, 0.2, (6, 8))
        found.append(
            ablation.ratio(4 * whole * rng.gamma(20, 0.05, (6, 8)), whole)
        )  # runs of a seed have much in common
    means, noises = np.array(found).T
    assert np.log(means).mean() == pytest.approx(np.log(2), abs=0.01)
    assert np.sqrt((noises**2).mean()) == pytest.approx(np.log(means).std(), rel=0.15)
