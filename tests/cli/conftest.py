"""Shared by the tests of the command line: a table, and a way to run a command."""

import json

import pytest
from cli_cases import COLUMNS, providers


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.csv"
    providers().to_csv(path, index=False)
    return path


LEARNER = '''"""A model that writes down how often it is fitted, and obeys the orders beside it."""

import json
import signal
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

HERE = Path(__file__).parent


class Learner(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        with open(HERE / "fits", "a") as file:
            file.write(".")
            number = file.tell()
        orders = json.loads((HERE / "orders.json").read_text())
        time.sleep(orders.get("sleep", 0))
        if number == orders.get("interrupt_at"):
            signal.raise_signal(signal.SIGINT)
        if number > orders.get("fail_after", number):
            raise RuntimeError("no more")
        self.coef_ = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y)
        return self

    def predict(self, X):
        return X @ self.coef_
'''


class Learning:
    """The file of a model, how often it was fitted, and what it is told to do."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        (folder / "learner.py").write_text(LEARNER)
        (folder / "fits").write_text("")
        self.order()

    @property
    def model(self):
        """What --model takes."""
        return f"{self.folder / 'learner.py'}:Learner"

    @property
    def fits(self):
        """How many fits there were in all."""
        return (self.folder / "fits").stat().st_size

    def order(self, **orders):
        """Tell the model to sleep, to interrupt the process at a fit, or to fail after a number of fits."""
        (self.folder / "orders.json").write_text(json.dumps(orders))


@pytest.fixture
def learning(tmp_path):
    return Learning(tmp_path / "learning")


@pytest.fixture
def audited(tmp_path, learning):
    """Return a command that audits a small table with the counted model, which fits every set but the empty one.

    The options of the audit are the last five words.
    """
    path = tmp_path / "small.csv"
    frame = providers(40).query("provider != 'west'")
    frame.assign(y=2 * frame["a"] + frame["b"]).to_csv(path, index=False)
    options = ["--metric", "neg_mean_squared_error", "--budget", 100]
    options += ["--audit", "--parts", "2", "--audit-budget", 1200]
    return ["value", path, *COLUMNS, "--model", learning.model, *options]
