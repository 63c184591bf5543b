"""The first-order expansion against the models it stands for."""

from functools import partial

import numpy as np
import pytest
import small_tables
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

import fgsv
from fgsv.utilities.influence import influence

make_data = partial(small_tables.make_data, n=120, n_test=60, scale=[1, 3, 1], shift=[0, 5, 0])


CASES = [
    (Ridge(), 0, "neg_mean_squared_error"),
    (Ridge(alpha=3, fit_intercept=False), 0, "neg_mean_squared_error"),
    (LogisticRegression(), 2, "neg_log_loss"),
    (LogisticRegression(C=0.3, fit_intercept=False), 2, "neg_log_loss"),
    (LogisticRegression(), 3, "neg_log_loss"),
]


@pytest.mark.parametrize(("model", "n_classes", "score"), CASES, ids=str)
def test_first_order(model, n_classes, score):
    data = make_data(n_classes)
    exact, expanded = (make(model, *data, score) for make in (fgsv.utility, influence))
    everyone = np.ones((1, 120), dtype=bool)
    np.testing.assert_allclose(expanded(everyone), exact(everyone), atol=1e-9)
    # leaving one out: the error is of second order, far below the effect itself
    without = ~np.eye(120, dtype=bool)
    effect, predicted = exact(without) - exact(everyone), expanded(without) - exact(everyone)
    assert np.abs(predicted - effect).max() < 0.25 * np.abs(effect).max()
    assert np.corrcoef(effect, predicted)[0, 1] > 0.99
    # half of the rows: still a good proxy
    rng = np.random.default_rng(1)
    half = np.array([rng.permutation(120) < 60 for _ in range(200)])
    assert np.corrcoef(exact(half), expanded(half))[0, 1] > 0.8


def test_a_set_with_its_share_of_the_hessian_is_exact_for_ridge():
    X, y, X_test, y_test = make_data(0)
    other = np.random.default_rng(2).normal(size=120)
    data = np.concatenate([X, X, X]), np.concatenate([y, y + other, y - 2 * other]), X_test, y_test
    masks = np.arange(360) // 120 == np.arange(3)[:, None]
    for model in (Ridge(alpha=5), Ridge(alpha=5, fit_intercept=False)):
        exact, expanded = (make(model, *data, "neg_mean_squared_error") for make in (fgsv.utility, influence))
        np.testing.assert_allclose(expanded(masks), exact(masks), atol=1e-9)


def test_everything_a_utility_can_do():
    X, y, X_test, y_test = make_data(2)
    game = influence(LogisticRegression(), X, y, X_test, y_test, ["accuracy", "roc_auc"], units=np.arange(120) // 2)
    assert game.n_players == 60
    assert "first-order" in game.describe()
    assert game.fingerprint != fgsv.utility(LogisticRegression(), X, y, X_test, y_test).fingerprint
    one_class = (y == 0).reshape(60, 2).all(axis=1)[None]
    np.testing.assert_allclose(game(one_class), [game.defaults])


def test_models_without_an_expansion():
    X, y, X_test, y_test = make_data(0)
    with pytest.raises(TypeError, match="influence is for Ridge and LogisticRegression, got Lasso"):
        influence(Lasso(), X, y, X_test, y_test)
    with pytest.raises(ValueError, match="neg_median_absolute_error is not among the batched scores"):
        influence(Ridge(), X, y, X_test, y_test, "neg_median_absolute_error", empty=0)
