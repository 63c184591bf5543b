"""Workers: the same bits wherever the batches are evaluated."""

import joblib
import numpy as np
import pytest

import fgsv
from fgsv.game import GameError


class Regression:
    """In-sample error of batched least squares: matrix products whose last bits depend on batch and threads."""

    n_players = 40
    fingerprint = "regression"

    def __init__(self):
        rng = np.random.default_rng(0)
        self.X = rng.standard_normal((40, 6))
        self.y = self.X.sum(axis=1) + rng.standard_normal(40)

    def __call__(self, masks):
        weights = masks.astype(float)
        gram = np.einsum("mi,ij,ik->mjk", weights, self.X, self.X, optimize=True) + np.eye(6)
        moments = weights @ (self.X * self.y[:, None])
        fitted = np.linalg.solve(gram, moments[:, :, None])[:, :, 0] @ self.X.T
        return -((self.y - fitted) ** 2).mean(axis=1)


def bits(result):
    return result.values.tobytes(), result.stderr.tobytes()


@pytest.fixture(scope="module")
def alone():
    return bits(fgsv.value(Regression(), budget=700, batch_size=32))


def test_processes(alone):
    assert bits(fgsv.value(Regression(), budget=700, batch_size=32, n_jobs=2)) == alone


def test_threads(alone):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert bits(fgsv.value(Regression(), budget=700, batch_size=32)) == alone


def test_a_game_that_cannot_be_sent_says_what_to_do():
    class Stubborn(Regression):
        def __reduce__(self):
            raise TypeError("not me")

    with pytest.raises(GameError, match="cannot be sent to other processes"):
        fgsv.value(Stubborn(), budget=100, n_jobs=2)
