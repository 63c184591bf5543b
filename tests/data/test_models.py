"""Models by name serve their task; those of the user come from a module or a file."""

import subprocess
import sys

import cloudpickle
import numpy as np
import pytest

from fgsv.data.models import NAMES, model_of, task_of
from fgsv.data.reading import TableError

MINE = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

class Majority(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.answer_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X):
        return [self.answer_] * len(X)

def factory():
    return Ridge(alpha=3.0)

estimator = GaussianNB(var_smoothing=0.5)
number = 3
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine_of_test_models.py"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", [None, *NAMES])
def test_every_name_gives_a_model_that_fits_its_task(name, task):
    if task_of(name) not in (None, task):
        with pytest.raises(TableError, match=f"model {name!r} .* is not a .*another task"):
            model_of(name, task, seed=0)
        return
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X @ [1.0, -1.0]
    model = model_of(name, task, seed=7)
    if name == "mlp":
        model.set_params(max_iter=2000)
    score = model.fit(X, y > 0 if task == "classification" else y).score(X, y > 0 if task == "classification" else y)
    assert score > 0.6
    assert model.get_params().get("random_state") == (7 if name in ("hgb", "mlp") else None)


@pytest.mark.parametrize(
    ("name", "task", "model"),
    [
        ("MINE:factory", "regression", "Ridge(alpha=3.0)"),
        ("mine_of_test_models:factory", "regression", "Ridge(alpha=3.0)"),
        ("MINE:estimator", "classification", "GaussianNB(var_smoothing=0.5)"),
        ("MINE:Majority", "classification", "Majority()"),
        ("sklearn.svm:SVR", "regression", "SVR()"),
    ],
)
def test_a_class_a_factory_or_an_estimator_from_a_file_or_a_module(mine, monkeypatch, name, task, model):
    monkeypatch.chdir(mine.parent)
    name = name.replace("MINE", str(mine))
    assert (task_of(name), repr(model_of(name, task, seed=0))) == (None, model)


def test_a_class_from_a_file_travels_to_other_processes(mine):
    """A worker does not have the file: the class must travel by value."""
    sent = cloudpickle.dumps(model_of(f"{mine}:Majority", "classification", seed=0))
    code = (
        "import sys, cloudpickle; print(cloudpickle.load(sys.stdin.buffer).fit([[0]] * 3, [1, 2, 2]).predict([[0]]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert answer.stdout.decode().strip() in ("[2]", "[np.int64(2)]")


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        ("guess", "regression", r"unknown model 'guess': expected one of logistic, .*file\.py:object"),
        ("MINE:number", "regression", "is 3: expected an estimator, or a class or function"),
        ("MINE:nothing", "regression", r"^model: .*mine_of_test_models\.py has no 'nothing'"),
        ("MINE:factory", "classification", r"\(Ridge\) is not a classifier"),
        ("MINE:Majority", "regression", r"\(Majority\) is not a regressor"),
    ],
)
def test_names_that_give_no_model(mine, name, task, words):
    with pytest.raises(TableError, match=words):
        model_of(name.replace("MINE", str(mine)), task, seed=0)
