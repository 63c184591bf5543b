"""The experiment with ten hospitals, in small."""

from decimal import Decimal

import numpy as np
import pytest

from experiments import federated


def test_ten_hospitals_in_small(tmp_path, monkeypatch):
    for name, number in {"ROUNDS": 2, "HIDDEN": 4, "TEST_ROWS": 1500}.items():
        monkeypatch.setattr(federated, name, number)
    monkeypatch.setattr(federated, "splitting", lambda seed: {})
    table = federated.run(tmp_path, seeds=1, budget=40).set_index("hospital")
    assert len(table) == 10
    assert table["contribution"][federated.FREE_RIDER] == 0
    assert sum(map(Decimal, table["payment"])) == federated.AMOUNT
    assert (tmp_path / "federated.png").is_file()


def test_a_stack_of_networks_is_trained_as_each_alone():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 64)).astype(np.float32), rng.integers(0, 10, 40)
    models = [federated.first_model(seed) for seed in range(3)]
    stack = {name: np.stack([model[name] for model in models]) for name in models[0]}
    together = federated.trained(stack, X, y)
    for number, model in enumerate(models):
        for name, array in federated.trained(model, X, y).items():
            np.testing.assert_allclose(together[name][number], array, atol=1e-5)


def test_a_federation_of_all_is_the_one_that_was_logged(tmp_path):
    hospitals, test = federated.ten_hospitals(0)
    consortium = federated.unsharded(dict(list(hospitals.items())[:3]))
    score = federated.score_on(test)
    model = federated.first_model(0)
    last = federated.federate(consortium, federated.RoundLog(tmp_path), model)
    again = federated.retraining(consortium, model, score)(np.array([[True] * 3, [False] * 3]))
    assert again.tolist() == pytest.approx([score(last), score(model)], abs=1e-5)
