"""What a utility depends on changes its fingerprint: code, constants, what is called; and nothing else does."""

import importlib
import os
import re
import subprocess
import sys
import threading
import types
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, mean_absolute_error, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import fgsv
from fgsv.ledger import Ledger, LedgerError
from fgsv.utilities.fingerprint import fingerprint

RNG = np.random.default_rng(0)
X, X_TEST = RNG.normal(size=(12, 2)), RNG.normal(size=(9, 2))
Y, Y_TEST = X.sum(axis=1), X_TEST.sum(axis=1)


def utility(model=None, scoring=None, **options):
    if callable(scoring):
        options["empty"] = 0.0
    return fgsv.utility(model or Ridge(), X, Y, X_TEST, Y_TEST, scoring or "r2", **options)


def module(source, name="own_code"):
    """Return a module of this source, as a user's file would be."""
    made = types.ModuleType(name)
    made.__file__ = None
    exec(compile(source, f"{name}.py", "exec"), vars(made))
    return made


CODE = """
from sklearn.base import BaseEstimator, RegressorMixin
class Model(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.mean_ = y.mean()
        return self
    def predict(self, X):
        return [self.mean_] * len(X)
FACTOR = 1
def helper(x):
    return -2 * x + (x in (7, ...))
def make():
    return lambda e: sum((lambda each: each * each)(each) for each in e)
nested = make()
def score(model, X, y):
    return FACTOR * helper(nested(model.predict(X) - y))
"""
CHANGED = {
    "the body of a model's class": ("y.mean()", "y.mean() + 1"),
    "a constant that a scorer reads": ("FACTOR = 1", "FACTOR = 2"),
    "a function that a scorer calls": ("-2 * x", "-x"),
    "a number in its code": ("-2 * x", "-3 * x"),
    "a tuple in it": ("(7, ...)", "(8, ...)"),
    "a nested lambda": ("each * each", "abs(each)"),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_code_that_changed_is_another_game(change):
    own = [module(code) for code in (CODE, CODE.replace(*change), CODE)]
    one, other, again = (utility(each.Model(), each.score).fingerprint for each in own)
    assert None not in (one, other)
    assert one == again != other


def test_a_metric_of_the_same_name_is_another_game():
    scorers = [make_scorer(metric, greater_is_better=False) for metric in (mean_squared_error, mean_absolute_error)]

    def by(metric):
        def score(model, X, y):
            return -metric(y, model.predict(X))

        return score

    made = [utility(scoring=each).fingerprint for each in (*scorers, *map(by, (np.dot, mean_absolute_error)))]
    assert len({*made}) == 4


def test_a_function_in_a_pipeline_counts_with_its_code():
    def pipeline(shift):
        return make_pipeline(FunctionTransformer(lambda X: X + shift), Ridge())

    def other():
        return make_pipeline(FunctionTransformer(lambda X: X * 1), Ridge())

    made = [utility(each).fingerprint for each in (pipeline(0), pipeline(1), other(), pipeline(0))]
    assert made[0] == made[3]
    assert len({*made}) == 3


def test_values_of_every_kind_and_fitted_models_count_with_their_content():
    def by(value):
        def score(model, X, y):
            return float(value is None)

        return fingerprint(score)

    fitted = [Ridge().fit(X, Y), Ridge().fit(X, -Y), Ridge().fit(X, Y)]
    values = [Path("a"), Path("b"), date(2024, 1, 1), Decimal("1.0"), re.compile("x"), range(3), *fitted, object()]
    made = [by(value) for value in values]
    assert None not in made
    assert made[6] == made[8] != made[7]
    assert len({*made}) == len(made) - 1


def test_a_module_of_ones_own_counts_with_its_source_and_what_it_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def made(inner):
        (tmp_path / "own_inner.py").write_text(f"def loss(a, b):\n    return {inner}\n")
        (tmp_path / "own_metrics.py").write_text(
            "import own_inner\n\ndef loss(a, b):\n    return own_inner.loss(a, b)\n"
        )
        for name in ("own_inner", "own_metrics"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        metrics = importlib.import_module("own_metrics")

        def score(model, X, y):
            return metrics.loss(model.predict(X), y)

        return utility(scoring=score).fingerprint

    one, two, again = made("-abs(a - b).mean()"), made("-((a - b) ** 2).mean()"), made("-abs(a - b).mean()")
    assert one == again != two


class Remembering(ClassifierMixin, BaseEstimator):
    """A model that refers to its own class, and has what scikit-learn adds to classes."""

    def fit(self, X, y):
        assert isinstance(self, Remembering)
        return self


def test_code_that_refers_to_itself_ends():
    def even(k):
        return k == 0 or odd(k - 1)

    def odd(k):
        return k != 0 and even(k - 1)

    assert fingerprint(even) is not None
    assert fingerprint(Remembering()) is not None


UNORDERED = """
WORDS = {'a', 'b', 'c', 'd'}
def score(x):
    return x in {'north', 'south', 'east', 'west'} or x in WORDS
"""


def test_sets_in_code_have_no_order():
    """Python orders sets of texts by a seed that differs from process to process."""
    command = f"{UNORDERED}\nfrom fgsv.utilities.fingerprint import fingerprint\nprint(fingerprint(score))"
    seeded = os.environ | {"PYTHONHASHSEED": "1"}
    there = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, env=seeded)
    assert there.stdout.strip() == fingerprint(module(UNORDERED).score)


@pytest.mark.parametrize(
    "unknown",
    [threading.Lock(), np.random.default_rng(0), sys.stdout],
    ids=["lock", "generator", "file"],
)
def test_what_cannot_be_known_needs_a_name_before_work_is_spent(tmp_path, unknown):
    asked = []

    def score(model, X, y):
        asked.append(unknown)
        return 0.0

    game = utility(scoring=score)
    assert game.fingerprint is None
    with pytest.raises(LedgerError, match="name it with"):
        fgsv.value(game, budget=50, ledger=tmp_path / "run.db")
    assert not asked


@pytest.mark.parametrize("form", ["array", "list of columns", "frame", "sparse"])
def test_data_that_changes_afterwards_changes_nothing(form):
    import pandas as pd
    import scipy.sparse

    make = {
        "array": np.array,
        "list of columns": np.asfortranarray,
        "frame": lambda x: pd.DataFrame(x.copy()),
        "sparse": lambda x: scipy.sparse.csr_matrix(x),
    }[form]
    train, test, y, y_test = make(X), make(X_TEST), Y.copy(), Y_TEST.copy()
    game = fgsv.utility(Ridge(), train, y, test, y_test)
    masks = np.eye(12, dtype=bool)
    before = game(masks)
    for table in (train, test):
        if form == "sparse":
            table.data[:] = 0
        else:
            table[:] = 0
    y[:], y_test[:] = 0, 1
    assert game(masks).tobytes() == before.tobytes()


def test_players_of_ones_own_game_have_names(tmp_path):
    def own(players, frame="march"):
        return fgsv.Game(lambda masks: masks.sum(axis=1) * 1.0, len(players), frame=frame, players=players)

    assert own("abc").fingerprint == own(["a", "b", "c"]).fingerprint
    assert len({own("abc").fingerprint, own("abd").fingerprint, own("abc", "april").fingerprint}) == 3
    with pytest.raises(ValueError, match="'a' is given twice"):
        own("aba")
    with pytest.raises(ValueError, match="'99999' is given twice"):
        own([*map(str, range(100_000)), "99999"])
    fgsv.value(own("abc"), ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        [(_, game)] = ledger.games()
    assert game.frame == "march"
    assert game.player_digests() == own("abc").player_digests()


def test_other_versions_are_checked_before_anything_new_is_evaluated(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    value = {"factor": 1.0}
    asked = []

    def worth(masks):
        asked.append(len(masks))
        return value["factor"] * masks.sum(axis=1) ** 0.5

    game = fgsv.Game(worth, 8, fingerprint="versions")
    fgsv.value(game, budget=60, batch_size=8, ledger=path)
    from fgsv.evaluation import lookup

    now = lookup.versions()
    monkeypatch.setattr(lookup, "versions", lambda: now | {"numpy": "99.0"})
    asked.clear()
    fgsv.value(game, budget=60, batch_size=8, ledger=path)
    assert not asked  # nothing new: nothing is checked
    longer = fgsv.value(game, budget=100, batch_size=8, ledger=path)
    assert asked[:2] == [2, 2]
    assert longer.n_evaluations <= 100
    value["factor"] = 1.001
    with pytest.raises(LedgerError, match=r"other values than those recorded.*numpy .* then, 99.0 now"):
        fgsv.value(game, budget=200, batch_size=8, ledger=path)
