"""The nearest-neighbour vote: its closed form against enumeration."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import fgsv
from fgsv.utilities import KNNVote


def make_game(n, k, regression, seed=0, n_test=3):
    rng = np.random.default_rng(seed)
    X, X_test = rng.normal(size=(n, 2)), rng.normal(size=(n_test, 2))
    y, y_test = rng.normal(size=n) + 2, rng.normal(size=n_test) + 2
    if not regression:
        y = np.floor(y)
        y_test = rng.choice(y, n_test)
    return KNNVote(X, y, X_test, y_test, n_neighbors=k, regression=regression)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (8, 1), (8, 2), (8, 5), (8, 8), (6, 9), (10, 3)])
def test_shapley_is_that_of_enumeration(n, k, regression):
    game = make_game(n, k, regression)
    np.testing.assert_allclose(game.shapley, fgsv.exact(game).player_values, atol=1e-12)


@pytest.mark.parametrize("regression", [False, True])
def test_worth_is_a_plain_vote(regression):
    game = make_game(30, 4, regression)
    rng = np.random.default_rng(1)
    masks = np.array([rng.permutation(30) < size for size in range(31)])
    expected = []
    for mask in masks:
        scores = []
        for row, truth in zip(game.X_test, game.y_test, strict=True):
            members = np.flatnonzero(mask)
            nearest = members[np.argsort(((game.X[members] - row) ** 2).sum(axis=1))[:4]]
            if regression:
                mean = game.y.mean()
                scores.append(-((((game.y[nearest] - mean).sum() / 4) - (truth - mean)) ** 2))
            else:
                scores.append((game.y[nearest] == truth).sum() / 4)
        expected.append(np.mean(scores))
    np.testing.assert_allclose(game(masks), expected, atol=1e-12)


def test_values_add_up_on_many_rows():
    for regression in (False, True):
        game = make_game(5_000, 7, regression)
        ends = game(np.array([np.zeros(5_000), np.ones(5_000)], dtype=bool))
        np.testing.assert_allclose(game.shapley.sum(), ends[1] - ends[0], atol=1e-12)


def test_fingerprint_and_bad_input():
    game = make_game(8, 2, False)
    assert game.fingerprint == make_game(8, 2, False).fingerprint != make_game(8, 3, False).fingerprint
    arguments = {"X": game.X, "y": game.y, "X_test": game.X_test, "y_test": game.y_test}
    for change, message in [
        ({"X": game.X[:, :1]}, "X has 1 columns, but X_test has 2"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"X": csr_array(game.X)}, "KNNVote needs X to be a dense array of numbers"),
        ({"y": game.X[:, 0]}, "which are no classes, but KNNVote"),
        ({"y": np.array(["a", "b"] * 4), "regression": True}, "y must be numbers for a regression"),
    ]:
        with pytest.raises(ValueError, match=message):
            KNNVote(**{**arguments, **change})
