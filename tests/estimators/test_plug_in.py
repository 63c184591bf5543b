"""Values that are not corrected: the same draws, a smaller error, and a bias that has to be asked for."""

import numpy as np
import pytest

import fgsv
from fgsv.running.verification import verify

WEIGHTS = np.linspace(0.2, 2.0, 12)
NOISE = np.random.default_rng(0).normal(scale=0.3, size=2**12)
GROUPS = np.arange(12) % 3
GAME = fgsv.Game(
    lambda masks: np.sqrt(masks @ WEIGHTS) + NOISE[masks @ (1 << np.arange(12))], 12, fingerprint="roots and noise"
)


def test_closer_from_the_same_draws_with_the_same_errors():
    truth = fgsv.exact(GAME).values
    corrected, predicted = (
        [fgsv.value(GAME, seed=seed, budget=64, plug_in=plug_in) for seed in range(6)] for plug_in in (False, True)
    )
    error, biased = (np.sqrt(np.mean([(run.values - truth) ** 2 for run in runs])) for runs in (corrected, predicted))
    assert biased < 0.9 * error
    for plain, plugged in zip(corrected, predicted, strict=True):
        np.testing.assert_array_equal(plugged.stderr, plain.stderr)
        assert plugged.values.sum() == pytest.approx(plain.total)
        assert plugged.settings.options["plug_in"] is True


def test_additive_over_players_and_derived_from_its_ledger(tmp_path):
    found = fgsv.value(GAME, GROUPS, budget=64, plug_in=True, ledger=tmp_path / "run.db")
    np.testing.assert_allclose(found.values, np.bincount(GROUPS, found.player_values), rtol=1e-12)
    assert verify(found, tmp_path / "run.db") == []


def test_nothing_is_predicted_where_everything_is_known():
    assert fgsv.value(GAME, budget=2**12, plug_in=True).exact
