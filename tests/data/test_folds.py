"""Folds of the test rows add up to the whole, and their disagreement is the error of a mean."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import sem
from sklearn.linear_model import LogisticRegression, Ridge

import fgsv
from fgsv.data.folds import (
    MEANS,
    error_of_test_rows,
    folds_of,
    jackknife_half_width,
    share_errors,
    without_each_fold,
)
from fgsv.valuation import t_quantile


def data(metric, seed=0, n=130):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=n)
    if metric in ("accuracy", "neg_log_loss"):
        return LogisticRegression(), X, (y > 0).astype(int)
    return Ridge(), X, y


@pytest.mark.parametrize("metric", MEANS)
def test_folds_add_up_to_the_whole(metric):
    model, X, y = data(metric)
    folds = folds_of(metric, y[40:])
    masks = np.random.default_rng(1).random((50, 40)) < np.linspace(0, 1, 50)[:, None]
    cut = fgsv.utility(model, X[:40], y[:40], X[40:], y[40:], folds.scoring, empty=folds.empty)
    whole = fgsv.utility(model, X[:40], y[:40], X[40:], y[40:], metric)
    np.testing.assert_allclose(cut(masks) @ folds.weights, whole(masks), atol=1e-10)


def test_the_combined_valuation_is_that_of_the_whole():
    model, X, y = data("accuracy")
    folds = folds_of("accuracy", y[40:])
    cut = fgsv.utility(model, X[:40], y[:40], X[40:], y[40:], folds.scoring, empty=folds.empty)
    result = fgsv.value(cut, [i % 3 for i in range(40)], budget=600, seed=0)
    single = result.combined(folds.weights)
    np.testing.assert_allclose(single.values, result.values @ folds.weights)
    np.testing.assert_allclose(single.values.sum(), single.total)
    assert single.outputs is None
    rows = error_of_test_rows(result, folds).rows
    assert [row["group"] for row in rows] == ["0", "1", "2"]


def test_the_error_is_about_what_other_test_sets_show():
    """Shares of an exact game on many fresh test sets scatter as the folds of each of them say."""
    model, X, y = data("neg_mean_squared_error", n=9)
    shares, errors, totals, total_errors = [], [], [], []
    for seed in range(1, 31):
        _, X_test, y_test = data("neg_mean_squared_error", seed=seed, n=200)
        folds = folds_of("neg_mean_squared_error", y_test)
        game = fgsv.utility(model, X, y, X_test, y_test, folds.scoring, empty=folds.empty)
        result = fgsv.exact(game, [i % 3 for i in range(9)])
        shares.append(result.values @ folds.weights / (result.total @ folds.weights))
        errors.append(share_errors(result, folds.weights))
        totals.append(result.total @ folds.weights)
        total_errors.append(error_of_test_rows(result, folds).total / float(t_quantile(0.95, 9)))
    ratio = np.std(shares, axis=0, ddof=1) / np.sqrt(np.mean(np.square(errors), axis=0))
    assert ((ratio > 0.65) & (ratio < 1.5)).all(), ratio
    assert 0.65 < np.std(totals, ddof=1) / np.sqrt(np.mean(np.square(total_errors))) < 1.5


def test_every_test_row_is_in_one_fold_and_the_seed_decides_which():
    y = np.arange(25) % 2
    parts = [[rows.tolist() for _, rows in folds_of("accuracy", y, seed=seed).scoring.values()] for seed in (0, 0, 1)]
    assert sorted(row for part in parts[0] for row in part) == list(range(25))
    assert sorted(map(len, parts[0])) == [2] * 5 + [3] * 5
    assert parts[0] == parts[1] != parts[2]


def test_without_anything_to_share_there_are_no_errors_of_shares():
    model, X, y = data("accuracy")
    folds = folds_of("accuracy", y[40:])
    wrong = fgsv.utility(model, X[:40], 1 - y[:40], X[40:], y[40:], folds.scoring, empty=folds.empty)
    result = fgsv.value(wrong, [i % 3 for i in range(40)], budget=300, seed=0)
    assert result.combined(folds.weights).total < 0
    assert error_of_test_rows(result, folds).rows == ()


def test_other_scores_and_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="a mean over test rows, got 'r2'"):
        folds_of("r2", np.zeros(100))
    with pytest.raises(ValueError, match="at least 20 test rows, got 10"):
        folds_of("accuracy", np.zeros(10))


def test_the_noise_of_a_total_hardly_depends_on_how_the_test_rows_are_cut():
    right = np.random.default_rng(0).random(160) < 0.7
    found = [
        jackknife_half_width(np.array([right[rows].mean() for _, rows in parts.values()]))
        for parts in (without_each_fold("accuracy", len(right), seed=seed) for seed in range(50))
    ]
    assert np.mean(found) == pytest.approx(t_quantile(0.95, 39) * sem(right), rel=0.05)
    assert np.std(found) < 0.15 * np.mean(found)


@pytest.mark.parametrize("empty", [0.3, [0.3]])
def test_the_worth_of_no_data_is_that_of_every_fold_and_not_of_further_scores(empty):
    rows = pd.DataFrame({"x": range(200), "y": [i // 100 for i in range(200)], "provider": ["a", "b"] * 100})
    options = {"group": "provider", "target": "y", "metric": "accuracy", "test_error": True, "also_metric": "f1"}
    unsaid, said = (fgsv.open_table(rows, **options, empty=worth).game.defaults for worth in (None, empty))
    np.testing.assert_allclose(said[:-1], 0.3)
    assert said[-1] == unsaid[-1]
