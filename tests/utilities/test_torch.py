"""Copies trained at once against the same training one at a time."""

import doctest
import importlib
import pickle
from functools import partial

import numpy as np
import pytest
from examples import with_torch
from heavy import Lazy, needs
from scipy.sparse import csr_array
from small_tables import make_data, of_all_sizes

import fgsv

pytestmark = [pytest.mark.torch, needs("torch")]
torch, utilities = Lazy("torch"), Lazy("fgsv.utilities.torch")


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)


def network(n_outputs=2):
    torch.manual_seed(1)
    layers = torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, n_outputs)
    return torch.nn.Sequential(*layers).double()


MASKS = of_all_sizes(40)[::3]


@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.parametrize("classes", [True, False])
def test_copies_agree_with_plain_training(classes, name):
    optimizer = {"SGD": sgd, "Adam": partial(torch.optim.Adam, lr=0.05)}[name]
    X, y, X_test, y_test = make_data(2 * classes)
    module = network(2 if classes else 1)
    score = "neg_log_loss" if classes else "neg_mean_squared_error"
    settings = {"optimizer": optimizer, "n_steps": 30, "batch_size": 40, "n_copies": 5, "device": "cpu"}
    game = utilities.torch_utility(module, X, y, X_test, y_test, score, **settings)
    masks = MASKS[1:]
    expected = []
    loss = torch.nn.CrossEntropyLoss() if classes else torch.nn.MSELoss()
    shape = (-1,) if classes else (-1, 1)
    tensors = [torch.as_tensor(X), torch.as_tensor(y).reshape(shape), torch.as_tensor(X_test)]
    for mask in masks:
        model = pickle.loads(pickle.dumps(module))
        steps = optimizer(model.parameters())
        for _ in range(30):
            steps.zero_grad()
            loss(model(tensors[0][mask]), tensors[1][mask]).backward()
            steps.step()
        with torch.no_grad():
            expected.append(-loss(model(tensors[2]), torch.as_tensor(y_test).reshape(shape)).item())
    np.testing.assert_allclose(game(masks), expected, atol=1e-9)


def test_mini_batches_are_common_to_coalitions_and_do_not_depend_on_the_chunk():
    data = make_data(2)
    games = [
        utilities.torch_utility(
            network(), *data, "neg_log_loss", optimizer=sgd, n_steps=15, batch_size=4, n_copies=copies
        )
        for copies in (1, 7, 64)
    ]
    values = [game(MASKS) for game in games]
    np.testing.assert_allclose(values[1], values[0], atol=1e-9)
    np.testing.assert_allclose(values[2], values[0], atol=1e-9)
    learner = games[0].replicates[0].learner
    members = torch.arange(40)[None]
    batches = [learner._batch(m, [torch.Generator().manual_seed(5)]) for m in (members, members[:, 1:])]
    shared = set(batches[0].flatten().tolist()) & set(batches[1].flatten().tolist())
    assert len(shared) >= 3


def test_replicates_are_averaged():
    data = make_data(2)
    settings = {"optimizer": sgd, "n_steps": 10, "batch_size": 4}
    game = utilities.torch_utility(network, *data, "neg_log_loss", n_replicates=3, **settings)
    each = [replicate(MASKS) for replicate in game.replicates]
    assert not np.allclose(each[0][1:], each[1][1:])
    np.testing.assert_allclose(game(MASKS), np.mean(each, axis=0))
    again = utilities.torch_utility(network, *data, "neg_log_loss", n_replicates=3, **settings)
    assert again.fingerprint == game.fingerprint
    np.testing.assert_array_equal(again(MASKS), game(MASKS))
    assert utilities.torch_utility(network, *data, "neg_log_loss", seed=1, **settings).fingerprint != game.fingerprint
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(game.replicates[0]))(MASKS), each[0])


def test_it_is_a_game_and_leaves_no_trace():
    data = make_data(2)
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.get_rng_state()
    game = utilities.torch_utility(
        module, *data, ["accuracy", "roc_auc"], optimizer=sgd, n_steps=5, units=np.arange(40) // 4
    )
    with pytest.warns(RuntimeWarning, match="the game is not deterministic"):  # dropout differs from batch to batch
        result = fgsv.value(game, budget=1000, method="permutation")  # draws some coalitions twice
    assert result.values.shape == (10, 2)
    assert "torch module" in game.describe()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize("n_test", [7, 8, 15, 16, 37])
def test_test_rows_are_predicted_in_blocks(monkeypatch, n_test):
    """Whatever the number of test rows, layers see few of them at once, and the scores are those of all together."""
    X, y, X_test, y_test = make_data(2, n_test=n_test)
    module, seen = network(), []
    game = utilities.torch_utility(
        module, X, y, X_test, y_test, "neg_log_loss", optimizer=sgd, n_steps=5, device="cpu"
    )
    masks, tester = MASKS[1:], game.replicates[0].learner.tester
    together = game(masks)
    tester.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    monkeypatch.setattr("fgsv.utilities.torch.TEST_ROWS", 8)
    np.testing.assert_allclose(game(masks), together, rtol=1e-12)
    assert sum(seen) == n_test
    assert max(seen) < 16


def test_images_and_tensors():
    images = torch.rand(12, 1, 4, 4)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    labels = torch.arange(12) % 3
    game = utilities.torch_utility(module, images, labels, images, labels, optimizer=sgd, n_steps=3)
    assert game(np.eye(12, dtype=bool)).shape == (12,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: {"module": torch.nn.Linear(3, 3)}, r"module returns shape \(2, 3\) for 2 rows, expected \(2, 2\)"),
        (lambda: {"module": torch.nn.Tanh()}, "no parameters"),
        (lambda: {"module": torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))}, "BatchNorm1d"),
        (lambda: {"module": torch.nn.Linear(5, 2)}, r"cannot take X: it fails on two rows, of shape \(2, 3\)"),
        (lambda: {"optimizer": "adam"}, "optimizer must be a function of parameters.*got str"),
        (lambda: {"optimizer": torch.optim.SGD(network().parameters())}, "optimizer must be .*got SGD"),
        (lambda: {"loss": torch.nn.CrossEntropyLoss()}, "one number for each row"),
        (lambda: {"n_steps": 0}, "n_steps must be at least 1"),
        (lambda: {"X": csr_array(make_data(2)[0])}, "needs X to be a dense array of numbers"),
        (lambda: {"scoring": "r2"}, "r2 is for a regressor"),
        (lambda: {"scoring": "f1", "empty": 0}, "f1 is not among the batched scores"),
    ],
)
def test_bad_input_is_named_before_training(change, message):
    X, y, X_test, y_test = make_data(2)
    arguments = {"module": network().float(), "optimizer": sgd, "n_steps": 5, **change()}
    with pytest.raises((TypeError, ValueError), match=message):
        utilities.torch_utility(**{"X": X, "y": y, "X_test": X_test, "y_test": y_test, **arguments})


def test_divergence_is_reported():
    X, y, X_test, y_test = make_data()
    wild = partial(torch.optim.SGD, lr=1e6)
    game = utilities.torch_utility(network(1), X, y, X_test, y_test, optimizer=wild, n_steps=200)
    with pytest.raises(fgsv.GameError, match="training diverged"):
        game(np.ones((1, 40), dtype=bool))


@pytest.mark.parametrize("name", with_torch())
def test_examples_run(name):
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0
