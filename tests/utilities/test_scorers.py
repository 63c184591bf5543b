"""Every scorer of scikit-learn can be used, and no data is worth what the scorer gives the best constant."""

import warnings

import numpy as np
import pytest
import small_tables
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer, get_scorer_names, mean_pinball_loss, mean_squared_error
from sklearn.tree import DecisionTreeClassifier

import fgsv
from fgsv.game import CoalitionError, GameError

OF_ONE_CLASS = {"f1", "precision", "recall", "jaccard", "average_precision", "neg_brier_score", "d2_brier_score"}
"""Scores of one class, the positive one."""
OF_SAMPLES = {name for name in get_scorer_names() if name.endswith("_samples")}
"""Scores of several labels for each row, which no table here has."""


def make_data(n_classes):
    X, y, X_test, y_test = small_tables.make_data(["no", "yes", "maybe"][:n_classes])
    return (X, y, X_test, y_test) if n_classes else (X, 9 + y, X_test, 9 + y_test)  # some errors need numbers above 0


def worth(model, name, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of scores that are undefined for some predictions
        return fgsv.utility(model, *data, name, **options)(np.array([np.zeros(40, bool), np.ones(40, bool)]))


def oracle(name, data, positive=None):
    """Return what scikit-learn gives a constant fitted to the test rows, and a model of all training rows."""
    X, y, X_test, y_test = data
    scorer = get_scorer(name)
    if positive is not None and name in OF_ONE_CLASS:
        scorer._kwargs = {**scorer._kwargs, "pos_label": positive}
    regression = y.dtype.kind == "f"
    kind = Ridge() if regression else LogisticRegression(tol=1e-8)
    constant = DummyRegressor() if regression else DummyClassifier()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scorer(constant.fit(X_test, y_test), X_test, y_test), scorer(kind.fit(X, y), X_test, y_test)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_every_scorer_of_scikit_learn(n_classes):
    data = make_data(n_classes)
    model = LogisticRegression(tol=1e-8) if n_classes else Ridge()
    used = 0
    for name in sorted(set(get_scorer_names()) - OF_SAMPLES):
        try:
            expected = oracle(name, data, "yes" if n_classes == 2 else None)
        except (ValueError, AttributeError):  # not a score of this kind of target
            with pytest.raises(ValueError, match=r"scoring|score"):
                worth(model, name, data)
            continue
        used += 1
        options = {}
        if not np.isfinite(expected[0]):
            with pytest.raises(ValueError, match=r"set it with empty$"):
                worth(model, name, data)
            expected, options = (0.0, expected[1]), {"empty": 0.0}
        found = worth(model, name, data, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=name)
    assert used > 10


def test_a_coalition_without_some_class_has_a_score():
    """A tree fitted to one class of three has probabilities of that one only."""
    data = make_data(3)
    lone = data[1] == "no"
    for name in ("roc_auc_ovo", "neg_brier_score", "f1_macro"):
        found = fgsv.utility(DecisionTreeClassifier(random_state=0), *data, name)(lone[None])
        assert np.isfinite(found).all(), name


@pytest.mark.parametrize(
    ("scoring", "words"),
    [
        ("acuracy", r"'acuracy' is not a score of scikit-learn; did you mean accuracy\?"),
        ("AUC", r"did you mean roc_auc\?"),
        (mean_squared_error, "mean_squared_error is a loss, .*use 'neg_mean_squared_error'"),
        (mean_pinball_loss, "is a loss, .*make_scorer"),
        (3, "scoring must be a name, a scorer, a list or a mapping of these, got int"),
        ([3], "must be the name of a score or a scorer, got int"),
    ],
)
def test_what_is_no_score_is_corrected(scoring, words):
    with pytest.raises((TypeError, ValueError), match=words):
        fgsv.utility(Ridge(), *make_data(0), scoring, empty=0.0)


def test_a_scorer_returns_a_number_or_an_array_of_one():
    def scored(give):
        return fgsv.utility(LogisticRegression(), *make_data(2), lambda model, X, y: give(model.score(X, y)), empty=0)

    everyone = np.ones((1, 40), dtype=bool)
    assert scored(lambda score: np.array([score]))(everyone) == scored(float)(everyone)
    with pytest.raises(GameError, match=r"scoring LogisticRegression failed on .*returned None: does it lack"):
        fgsv.value(scored(lambda score: None), budget=60)


def test_test_labels_that_no_training_row_has_are_named():
    X, y, X_test, y_test = make_data(2)
    written = np.where(y_test == "yes", "Yes", y_test)
    with pytest.warns(UserWarning, match=rf"^{(y_test == 'yes').sum()} of 20 test rows have a class .*: 'Yes'\. Are"):
        fgsv.utility(LogisticRegression(), X, y, X_test, written)


class Shifted(ClassifierMixin, BaseEstimator):
    """A classifier that returns something else than the classes it was given."""

    def __init__(self, by=0.0):
        self.by = by

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 0] > 0) * 2 + self.by


@pytest.mark.parametrize("by", [-1, 0.7, 1])
def test_a_prediction_that_is_no_class_is_not_taken_for_its_neighbour(by):
    X = make_data(0)[0]
    y = np.where(X[:, 0] > 0, 2, 0)
    assert fgsv.utility(Shifted(0), X, y, X, y)(np.ones((1, 40), bool)) == 1.0
    with pytest.raises(CoalitionError, match=rf"it predicts ({by}|{2 + by}), which is no class of y"):
        fgsv.utility(Shifted(by), X, y, X, y)(np.ones((1, 40), bool))
