"""Batched models against scikit-learn run to convergence, on coalitions of all sizes."""

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import small_tables
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.testing import check_game
from fgsv.utilities import row_sets
from fgsv.utilities.batched import neighbours
from fgsv.utilities.data import Given, Kind, read
from fgsv.utilities.one_by_one import OneByOne

REGRESSION = ["neg_mean_squared_error", "neg_mean_absolute_error", "r2"]
TWO_CLASSES = ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"]
MANY_CLASSES = ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc_ovr"]
CONVERGED = {"tol": 1e-12, "max_iter": 10_000, "solver": "newton-cg"}


make_data = partial(small_tables.make_data, n=60, n_test=30, scale=[1, 10, 0.1], shift=[0, 50, 3])
MASKS = small_tables.of_all_sizes(60, seed=1)


def one_at_a_time(model, data, scoring, **settings):
    """Return the same utility, with one scikit-learn fit per coalition."""
    game = fgsv.utility(model, *data, scoring, **settings)
    return replace(game, learner=OneByOne(model, read(Kind.of(model), Given(*data, scoring, **settings))))


def scaled(model, **settings):
    return make_pipeline(StandardScaler(**settings), model)


CASES = [
    (Ridge(), Ridge(), 0),
    (Ridge(alpha=0.01, fit_intercept=False), Ridge(alpha=0.01, fit_intercept=False), 0),
    (LinearRegression(), LinearRegression(), 0),
    (LinearRegression(fit_intercept=False), LinearRegression(fit_intercept=False), 0),
    (LogisticRegression(), LogisticRegression(**CONVERGED), 2),
    (LogisticRegression(C=20, fit_intercept=False), LogisticRegression(C=20, fit_intercept=False, **CONVERGED), 2),
    (LogisticRegression(), LogisticRegression(**CONVERGED), 3),
    (LogisticRegression(C=5), LogisticRegression(C=5, **CONVERGED), 4),
    (KNeighborsClassifier(), KNeighborsClassifier(), 2),
    (KNeighborsClassifier(3), KNeighborsClassifier(3), 3),
    (KNeighborsRegressor(2), KNeighborsRegressor(2), 0),
    (GaussianNB(), GaussianNB(), 2),
    (GaussianNB(), GaussianNB(), 3),
    (scaled(Ridge(alpha=3)), scaled(Ridge(alpha=3)), 0),
    (scaled(Ridge(), with_std=False), scaled(Ridge(), with_std=False), 0),
    (scaled(LogisticRegression()), scaled(LogisticRegression(**CONVERGED)), 2),
    (scaled(LogisticRegression(C=5), with_mean=False), scaled(LogisticRegression(C=5, **CONVERGED)), 3),
    *(
        (pipeline, pipeline, n_classes)
        for scaler in (StandardScaler(), StandardScaler(with_std=False), MinMaxScaler((-1, 3)), MaxAbsScaler())
        for model, n_classes in (
            (KNeighborsClassifier(4), 2),
            (KNeighborsRegressor(3), 0),
            (GaussianNB(var_smoothing=0.5), 3),
        )
        for pipeline in [make_pipeline(scaler, model)]
    ),
]


# at such a tolerance scikit-learn warns that no step improves on rounding errors
@pytest.mark.filterwarnings("ignore:.*[lL]ine [sS]earch")
@pytest.mark.parametrize(("model", "converged", "n_classes"), CASES, ids=str)
def test_twin_agrees_with_scikit_learn(model, converged, n_classes):
    data = make_data(n_classes)
    scoring = {0: REGRESSION, 2: TWO_CLASSES}.get(n_classes, MANY_CLASSES)
    masks = np.concatenate([MASKS[:10], MASKS[10::3], MASKS[-1:]])  # small ones are where models differ
    last = model[-1] if isinstance(model, Pipeline) else model
    if isinstance(last, GaussianNB):  # after one row scikit-learn divides by a variance of zero
        masks = masks[masks.sum(axis=1) != 1]
    game = fgsv.utility(model, *data, scoring)
    assert not game.independent_rows
    assert "scikit-learn fit per coalition" not in game.describe()
    # least squares near s = p has scores of a thousand and more: there the tolerance is relative
    np.testing.assert_allclose(game(masks), one_at_a_time(converged, data, scoring)(masks), rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize(("model", "converged", "n_classes"), CASES[::2], ids=str)
def test_lists_masks_and_chunks_give_the_same(model, converged, n_classes, monkeypatch):
    game = fgsv.utility(model, *make_data(n_classes))
    check_game(game, n_jobs=1)
    whole = game(MASKS)
    monkeypatch.setattr(row_sets, "CHUNK_BYTES", 10_000)
    np.testing.assert_allclose(game(MASKS), whole, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (LogisticRegression(class_weight="balanced"), "class_weight"),
        (LogisticRegression(solver="liblinear", random_state=0), "liblinear"),
        (LogisticRegression(l1_ratio=1, solver="saga", random_state=0), "not l2"),
        (LogisticRegression(C=np.inf), "C is not a positive finite number"),
        (GaussianNB(priors=[0.5, 0.5]), "priors are given"),
        (Ridge(positive=True), "positive=True has no closed form"),
        (Ridge(alpha=0), "alpha is not one positive number"),
        (KNeighborsRegressor(weights="distance"), "weights is 'distance'"),
        (KNeighborsRegressor(p=1), "the distance is not Euclidean"),
        (make_pipeline(MinMaxScaler(), Ridge()), "batched twin"),
        (make_pipeline(StandardScaler(), StandardScaler(), Ridge()), "batched twin"),
        (scaled(LinearRegression()), "batched twin"),
        (make_pipeline(MinMaxScaler(clip=True), KNeighborsRegressor()), "batched twin"),
        (make_pipeline(RobustScaler(), KNeighborsRegressor()), "batched twin"),
        (scaled(Ridge(fit_intercept=False)), "batched twin"),
    ],
    ids=str,
)
def test_what_has_no_twin_is_fitted_one_by_one_and_says_why(model, reason):
    game = fgsv.utility(model, *make_data(2 * is_classifier(model)))
    assert game.independent_rows
    assert reason in game.describe()


def test_classes_absent_from_a_coalition_have_probability_zero():
    X, _, X_test, _ = make_data(3)
    y, y_test = np.arange(60) % 3, np.arange(30) % 3
    mask = (y < 2)[None]
    model = LogisticRegression()
    alone = LogisticRegression(**CONVERGED).fit(X[mask[0]], y[mask[0]])
    game = fgsv.utility(model, X, y, X_test, y_test, "neg_log_loss", per_test_point=True)
    chance = alone.predict_proba(X_test)
    expected = [np.log(chance[i, c]) if c < 2 else np.log(np.finfo(float).eps) for i, c in enumerate(y_test)]
    np.testing.assert_allclose(game(mask)[0], expected, atol=1e-6)


def test_naive_bayes_where_nothing_varies():
    X, y, X_test, y_test = make_data(2)
    X[1] = X[0]
    y[:2] = [0, 1]
    game = fgsv.utility(GaussianNB(), X, y, X_test, y_test, empty=0.25)
    one, both = np.eye(60, dtype=bool)[0], np.arange(60) < 2
    assert game([one, both]).tolist() == [np.mean(y_test == 0), 0.25]


@pytest.mark.parametrize("model", [KNeighborsClassifier(4), KNeighborsRegressor(4)])
def test_neighbours_without_a_table_of_distances(model, monkeypatch):
    data = make_data(2)
    expected = fgsv.utility(model, *data)(MASKS)
    monkeypatch.setattr(neighbours, "_TABLE_BYTES", 0)
    np.testing.assert_allclose(fgsv.utility(model, *data)(MASKS), expected, atol=1e-12)
    monkeypatch.setattr(neighbours, "CHUNK_BYTES", 24 * 60 * 7)  # distances of seven test rows at a time
    np.testing.assert_allclose(fgsv.utility(model, *data)(MASKS), expected, atol=1e-12)


def test_neighbours_of_a_large_table_take_little_memory_and_say_that_they_take_time(monkeypatch):
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(10_000, 1)), rng.normal(size=(2_000, 1))
    monkeypatch.setattr(neighbours, "_TABLE_BYTES", 0)
    game = fgsv.utility(KNeighborsRegressor(5), X, X[:, 0], X_test, X_test[:, 0])
    tracemalloc.start()
    assert game(np.ones((1, 10_000), dtype=bool)) > 0.999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # all distances at once are 160 MB, and their order as much again
    assert game.learner.remark == ""
    assert "fewer test rows" in replace(game.learner, X_test=np.zeros((10**6, 1))).remark


@pytest.mark.parametrize("weights", ["uniform", "distance"])  # batched and one by one
def test_neighbours_use_all_rows_of_a_small_set(weights):
    X, y, X_test, y_test = make_data(0)
    masks = np.arange(60) < np.arange(1, 9)[:, None]
    values = fgsv.utility(KNeighborsRegressor(6, weights=weights), X, y, X_test, y_test, REGRESSION[0])(masks)
    for size in range(1, 9):
        fitted = KNeighborsRegressor(min(6, size), weights=weights).fit(X[:size], y[:size])
        np.testing.assert_allclose(values[size - 1], -((fitted.predict(X_test) - y_test) ** 2).mean())


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_least_squares_with_dependent_and_unscaled_features(fit_intercept):
    X, y, X_test, y_test = make_data(0)
    model = LinearRegression(fit_intercept=fit_intercept)
    for change in (lambda x: np.column_stack([x, x[:, 0] + x[:, 2]]), lambda x: x * [1, 1e3, 10]):
        data = change(X), y, change(X_test), y_test
        values = fgsv.utility(model, *data, "neg_mean_squared_error")(MASKS)
        expected = one_at_a_time(model, data, "neg_mean_squared_error")(MASKS)
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scale", [1e6, 1e8, 1e10, [1e-3, 1e9, 1e9]], ids=str)
def test_ridge_of_large_numbers_keeps_its_penalty(fit_intercept, scale):
    """Beside large squares the penalty is lost, but it decides between the solutions of few rows."""
    X, y, X_test, y_test = make_data(0)
    model = Ridge(fit_intercept=fit_intercept, solver="svd")
    masks = np.arange(60) < np.arange(1, 13)[:, None]
    data = (X - 3) * scale, y, (X_test - 3) * scale, y_test
    values = fgsv.utility(model, *data, "neg_mean_squared_error")(masks)
    expected = one_at_a_time(model, data, "neg_mean_squared_error")(masks)
    np.testing.assert_allclose(values, expected, rtol=1e-4)


def test_small_coalitions_do_not_pay_for_n(monkeypatch):
    n, rng = 20_000, np.random.default_rng(3)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    game = fgsv.utility(Ridge(), X, y, X[:10], y[:10])
    seen = []
    take = np.take
    monkeypatch.setattr(np, "take", lambda a, i, axis: seen.append(i.size) or take(a, i, axis=axis))
    lists = [rng.choice(n, size, replace=False) for size in (1, 5, 8, 8, 5)]
    game.evaluate_lists(Coalitions.from_lists(n, lists, [False, False, False, True, True]))
    assert sum(seen) <= 2 * sum(map(len, lists))


def test_memory_is_bounded_by_the_chunk_and_not_by_the_number_of_coalitions(monkeypatch):
    monkeypatch.setattr(row_sets, "CHUNK_BYTES", row_sets.CHUNK_BYTES // 8)
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(2_000, 3)), rng.integers(0, 2, size=2_000)
    game = fgsv.utility(LogisticRegression(), X, y, X[:50], y[:50])
    peaks = []
    for count in (1_500, 10_000):
        coalitions = Coalitions.from_lists(
            2_000, rng.integers(0, 2_000, size=(count, 150)), np.zeros(count, dtype=bool)
        )
        tracemalloc.start()
        game.evaluate_lists(coalitions)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 4e6


def test_scaled_twins_take_features_that_do_not_vary_in_a_coalition():
    X, y, X_test, y_test = make_data(0)
    X[:, 1] = 1e3
    X[:40, 2] = 7.0  # constant in many coalitions
    game = fgsv.utility(scaled(Ridge()), X, y, X_test, y_test)
    expected = one_at_a_time(scaled(Ridge()), (X, y, X_test, y_test), None)(MASKS)
    np.testing.assert_allclose(game(MASKS), expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("number", [0.1, 1e6 + 0.1, -1 / 3])
def test_a_feature_that_varies_among_the_test_rows_alone_decides_nothing(number):
    """The mean of equal numbers is not always that number: what is left must not be scaled up to one."""
    X, y, X_test, y_test = make_data(2)
    X, X_test = (np.column_stack([x, np.full(len(x), number)]) for x in (X, X_test))
    X_test[::2, -1] += 1
    data = X, y, X_test, y_test
    model = scaled(LogisticRegression(**CONVERGED))
    values = fgsv.utility(model, *data, "neg_log_loss")(MASKS)
    np.testing.assert_allclose(values, one_at_a_time(model, data, "neg_log_loss")(MASKS), rtol=1e-5)
