"""Coalitions that a model cannot be fitted to are worth the empty one, and counted."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from small_tables import make_data

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.game import GameError
from fgsv.report import render
from fgsv.results import Result
from fgsv.results.as_json import document_of

N = 7
LABELS = np.array([0, 0, 0, 1, 1, 1, 0])
MASKS = np.array(list(product([False, True], repeat=N)))
ONE_CLASS = np.array([len(set(LABELS[mask])) == 1 for mask in MASKS])


RNG = np.random.default_rng(0)
X = RNG.integers(0, 2, size=(N, 2)).astype(float)
DATA = X, LABELS, RNG.normal(size=(30, 2)), RNG.integers(0, 2, 30)


CASES = {
    "batched": (LogisticRegression(), ONE_CLASS),
    "a scaler before it": (make_pipeline(StandardScaler(), LogisticRegression()), ONE_CLASS),
    "one by one": (SVC(), ONE_CLASS),
    "fits one class": (DecisionTreeClassifier(random_state=0), np.zeros(len(MASKS), bool)),
    "neighbours": (KNeighborsClassifier(2), np.zeros(len(MASKS), bool)),
    "no variance": (
        GaussianNB(),
        np.array([len(set(LABELS[mask])) > 1 and not np.ptp(X[mask], axis=0).any() for mask in MASKS]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_labels_say_which_coalitions_are_counted(case):
    model, expected = CASES[case]
    for scoring in ("accuracy", "roc_auc"):  # a model of one class has the worth of the empty set by the second
        game = fgsv.utility(model, *DATA, scoring=scoring)
        values = game(MASKS)[:, None]
        if game.unfitted is None:
            assert not expected.any()
        else:
            np.testing.assert_array_equal(game.unfitted(Coalitions.from_masks(MASKS), values), expected)


def test_a_model_that_needs_two_classes_says_so_in_every_form(tmp_path):
    game = fgsv.utility(LogisticRegression(), *DATA)
    result = fgsv.exact(game)
    result.save(tmp_path / "saved.json")
    assert fgsv.load(tmp_path / "saved.json").n_unfitted == result.n_unfitted == ONE_CLASS.sum()
    assert result.about_unfitted in repr(result)
    assert result.about_unfitted in result._repr_html_()
    assert result.about_unfitted in render(result)
    assert document_of(Result(result))["n_unfitted"] == result.n_unfitted
    assert replace(result, n_unfitted=1).about_unfitted.endswith(
        "one of a single class: it counts like the empty one"
    )
    assert fgsv.exact(fgsv.utility(Ridge(), *DATA, scoring="r2")).about_unfitted is None
    assert result.regroup(list("aabbccc")).n_unfitted == result.n_unfitted


def test_units_padding_and_groups_as_players():
    units = [0, 0, 1, 2, 2, 3, 3]  # classes 0, 0, 1 and both
    game = fgsv.utility(LogisticRegression(), *DATA, units=units)
    assert fgsv.exact(game).n_unfitted == 4  # the first two together or alone, and the third alone
    whole = fgsv.grouped(fgsv.utility(LogisticRegression(), *DATA), units)
    assert fgsv.exact(whole).n_unfitted == 4
    padded = fgsv.utility(LogisticRegression(), *DATA, min_size=4)
    assert 0 < fgsv.exact(padded).n_unfitted < ONE_CLASS.sum()


def test_a_run_counts_the_same_however_it_runs(tmp_path):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(20, 3)), rng.integers(0, 2, 20)
    game = fgsv.utility(SVC(), X, y, X, y)
    alone = fgsv.value(game, budget=50, ledger=tmp_path / "run.db")
    assert 0 < alone.n_unfitted < 25
    for options in ({"ledger": tmp_path / "run.db"}, {"on_error": "empty"}):
        again = fgsv.value(game, budget=50, **options)
        assert (again.n_unfitted, again.failures) == (alone.n_unfitted, None)
    assert fgsv.verify(alone, tmp_path / "run.db") == []


def test_the_fewest_rows_of_each_class_are_found_by_a_probe():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 6)), np.arange(40) % 2
    needed = {
        LinearDiscriminantAnalysis(): 2,  # more rows than classes
        QuadraticDiscriminantAnalysis(): 7,  # a covariance of full rank in each
        CalibratedClassifierCV(LogisticRegression()): 5,  # one in each fold
        make_pipeline(PCA(6, random_state=0), LogisticRegression()): 3,
        DecisionTreeClassifier(random_state=0): 1,
        LinearDiscriminantAnalysis(solver="none"): 0,  # not a matter of rows
    }
    for model, least in needed.items():
        assert fgsv.utility(model, X, y, X, y).learner.least_rows == least
    regression = fgsv.utility(make_pipeline(PCA(5, random_state=0), Ridge()), X, X[:, 0], X, X[:, 0])
    assert regression.learner.least_rows == 5
    found = fgsv.value(regression, budget=60)
    assert found.failures is None
    assert found.n_unfitted > 0


def test_an_error_on_all_rows_is_an_error_whatever_the_run_says():
    """No coalition is to blame for it; `test_utility` has fits that fail on some."""
    broken = fgsv.utility(LinearDiscriminantAnalysis(solver="none"), *make_data(2))
    for on_error in ("raise", "empty", 0.5):
        with pytest.raises(GameError, match=r"size 40 .*solver") as error:
            fgsv.value(broken, budget=60, on_error=on_error)
        assert "counts such coalitions" not in str(error.value)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_of_one_class_predicts_it_with_certainty_whatever_it_returns():
    """Some return two columns of probabilities for one class, and networks even odds."""
    scoring = ["accuracy", "neg_log_loss", "roc_auc", "average_precision"]
    values = [
        fgsv.utility(model, *DATA, scoring)(MASKS[ONE_CLASS])
        for model in (
            DecisionTreeClassifier(random_state=0),
            HistGradientBoostingClassifier(random_state=0),
            MLPClassifier(max_iter=2, random_state=0),
        )
    ]
    np.testing.assert_array_equal(values[1], values[0])
    np.testing.assert_array_equal(values[2], values[0])
