"""Where an evaluation takes next to nothing, more of them are cheaper than to learn from the first ones."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

import fgsv
from fgsv.game import as_game
from fgsv.methods.covariance.covariance import CHEAP, FEW_KNOWN, MOST_KNOWN, QUICK, SLOW, Covariance
from fgsv.methods.method import Task
from fgsv.running.evaluator import Evaluator
from fgsv.running.start import in_words


def options_of(game, **options):
    return fgsv.value(game, budget=100, progress=False, **options).settings.options


def opened(game, **options):
    return options_of(game, **options)["opening"]


@pytest.mark.parametrize(
    ("seconds", "opens", "learned"),
    [(None, True, True), (1.0, True, True), (QUICK / 2, False, True), (CHEAP / 2, False, False)],
)
def test_what_an_evaluation_takes_decides(seconds, opens, learned):
    game = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 24, seconds=seconds)
    assert opened(game) is opens
    assert options_of(game)["surrogate"] is learned
    assert opened(game, opening=True)
    assert options_of(game, surrogate=True)["surrogate"]
    assert opened(fgsv.grouped(game, np.arange(24) // 2), opening=not opens) is not opens


def test_batched_models_know_it_from_their_shapes():
    X, y = load_diabetes(return_X_y=True)
    halves = X[:40], y[:40], X[40:], y[40:]
    ridge = fgsv.utility(Ridge(), *halves)
    assert 0 < ridge.seconds < CHEAP
    assert not opened(ridge)
    assert fgsv.utility(Ridge(), np.tile(X, (50, 1)), np.tile(y, 50), X, y).seconds > CHEAP
    assert fgsv.utility(SVR(), *halves).seconds is None


@pytest.mark.parametrize(("n", "learned"), [(64, True), (65, False)])
def test_a_start_is_learned_from_even_if_evaluations_are_cheap_unless_players_are_many(tmp_path, n, learned):
    X, y = load_diabetes(return_X_y=True)
    march, april = (fgsv.utility(Ridge(), X[k : k + n], y[k : k + n], X[90:], y[90:]) for k in (0, 1))
    fgsv.value(march, budget=100, ledger=tmp_path / "march.db")
    assert not opened(april)
    assert opened(april, start=tmp_path / "march.db") is learned
    assert opened(april, start=tmp_path / "march.db", opening=True)
    asked = {"start": tmp_path / "march.db", "most_known": 50}
    assert options_of(april, start=tmp_path / "march.db")["most_known"] == (FEW_KNOWN if learned else MOST_KNOWN)
    assert options_of(april, **asked)["most_known"] == 50
    with Evaluator(as_game(april), start=tmp_path / "march.db") as evaluator:
        said = in_words(evaluator.known, fgsv.Partition.of(np.arange(n)), april.seconds)
    assert ("nothing is learned" in said) is not learned


@pytest.mark.parametrize(
    ("seconds", "n", "most"),
    [(None, 80, MOST_KNOWN), (SLOW, 80, MOST_KNOWN), (SLOW / 2, 80, FEW_KNOWN), (CHEAP / 2, 60, FEW_KNOWN)],
)
def test_more_of_a_start_is_learned_from_if_evaluations_are_slow(seconds, n, most):
    task = Task(n, fgsv.Partition.of(np.arange(n)), n_known=100, seconds=seconds)
    assert Covariance().for_task(task) == Covariance(True, opening=True, plug_in=False, most_known=most)
