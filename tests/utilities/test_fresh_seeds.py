"""Fresh training seeds: a seed for each coalition, from its contents alone."""

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fgsv

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.arange(30) % 2
MASKS = RNG.random((12, 10)) < 0.5


class Guess(ClassifierMixin, BaseEstimator):
    """A model that says what its seed says, whatever it is trained on."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_ = np.unique(Y)
        return self

    def predict(self, X):
        return np.random.default_rng(self.random_state).integers(2, size=len(X))


def game_of(rows=slice(0, 20), model=Guess(random_state=7), **options):  # noqa: B008
    options = {"units": np.arange(20)[rows] // 2, "training_seeds": "fresh", **options}
    return fgsv.utility(model, X[rows], Y[rows], X[20:], Y[20:], **options)


def test_a_seed_follows_from_the_run_and_from_who_is_there():
    values = game_of()(MASKS)
    assert len(set(values)) > 3  # not one seed for all
    np.testing.assert_array_equal(game_of()(MASKS[::-1])[::-1], values)
    assert (game_of(seed=1)(MASKS) != values).any()
    assert (game_of().retrain(1)(MASKS) != values).any()
    assert game_of(training_seeds="fixed").retrain is None
    # what a coalition is worth does not change where other players join, or come in another order
    fewer = game_of(rows=slice(0, 16))
    joined = MASKS[:, :8]
    np.testing.assert_array_equal(fewer(joined), game_of()(np.pad(joined, ((0, 0), (0, 2)))))
    turned = game_of(rows=np.arange(20)[::-1])
    np.testing.assert_array_equal(turned(MASKS[:, ::-1]), values)


def test_the_seed_is_part_of_the_frame():
    games = game_of(training_seeds="fixed"), game_of(), game_of(seed=1)
    said = [game.frame.get("training seeds") for game in games]
    assert said == [None, "fresh, from seed 0", "fresh, from seed 1"]
    assert len({game.fingerprint for game in games}) == 3
    assert game_of(model=Guess(random_state=8)).fingerprint == games[1].fingerprint  # its own seed is not used


def test_same_bits_with_workers():
    one = fgsv.value(game_of(), budget=60)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        two = fgsv.value(game_of(), budget=60)
    assert one.values.tobytes() == two.values.tobytes()
    np.testing.assert_array_equal(one.half_width(), two.half_width())


def test_nested_seeds_are_set():
    nested = game_of(model=make_pipeline(StandardScaler(), Guess()))
    np.testing.assert_array_equal(nested(MASKS), game_of()(MASKS))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"training_seeds": "new"}, "'fixed' or 'fresh'"),
        ({"model": Ridge()}, "Ridge has no random_state that matters"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(ValueError, match=words):
        game_of(**options)


def test_networks_have_batches_and_initial_weights_of_their_own():
    torch = pytest.importorskip("torch")
    from functools import partial

    from fgsv.utilities.torch import torch_utility

    def network():
        return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))

    def game(module=network, **options):
        return torch_utility(
            module, X[:20], Y[:20], X[20:], Y[20:], "neg_log_loss", optimizer=partial(torch.optim.SGD, lr=0.2),
            n_steps=5, batch_size=4, device="cpu", **options,
        )  # fmt: skip

    masks = RNG.random((6, 20)) < 0.5
    fixed, fresh = game(), game(training_seeds="fresh")
    values = fresh(masks)
    assert np.abs(values - fixed(masks)).min() > 1e-4
    assert np.abs(values - fresh.retrain(1)(masks)).min() > 1e-4
    np.testing.assert_allclose([fresh(row[None])[0] for row in masks], values, rtol=1e-5)
    same_start = network()
    small = np.arange(20)[None] < 3  # no larger than a mini-batch: only the initial weights could differ
    kept = game(same_start, training_seeds="fresh")
    np.testing.assert_allclose(kept(small), kept.retrain(1)(small), rtol=1e-6)
    assert abs(fresh(small) - fresh.retrain(1)(small)) > 1e-4
    assert len({fixed.fingerprint, fresh.fingerprint, game(seed=1, training_seeds="fresh").fingerprint}) == 3
