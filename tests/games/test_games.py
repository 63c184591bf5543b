"""Closed-form games against enumeration."""

import numpy as np
import pandas as pd
import pytest
from oracles import GAMES

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.game import grouped, with_precedence
from fgsv.games import Airport, SumOfUnanimity, WeightedMajority
from fgsv.testing import check_game


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())
def test_closed_form_is_the_enumerated_value(game):
    check_game(game, n_jobs=1)
    np.testing.assert_allclose(fgsv.exact(game).values, game.shapley, atol=1e-11)


def test_sum_of_unanimity_is_its_definition():
    game = SumOfUnanimity(11, n_sets=70, seed=2)
    assert game.sets.shape == (70, 11)
    weights = np.array([np.mean(np.flatnonzero(members) % 4) / 4 for members in game.sets])
    np.testing.assert_allclose(game.weights, weights)
    masks = np.random.default_rng(0).random((200, 11)) < 0.7
    contained = np.array([[not (members & ~mask).any() for members in game.sets] for mask in masks])
    np.testing.assert_allclose(game(masks), contained @ weights, atol=1e-12)


def test_sum_of_unanimity_has_n_squared_sets_of_uniform_size():
    game = SumOfUnanimity(64)
    sizes = game.sets.sum(axis=1)
    assert len(sizes) == 64**2
    assert (sizes.min(), sizes.max()) == (1, 64)
    stderr = 64 / np.sqrt(12 * len(sizes))
    assert abs(sizes.mean() - 32.5) < 4 * stderr
    np.testing.assert_array_equal(game(np.zeros((1, 64), dtype=bool)), [0.0])


def test_majority_of_one_player_alone():
    np.testing.assert_allclose(WeightedMajority([5, 1, 1], quota=5).shapley, [1, 0, 0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Airport([-1, 2, 3]), "must not be negative"),
        (lambda: WeightedMajority([0.5, 0.5, 1.5], quota=1), "whole-number weights of at least 0"),
        (lambda: WeightedMajority([1, 2], quota=0), "whole-number quota of at least 1"),
    ],
)
def test_games_whose_closed_form_would_be_wrong_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_columns_of_a_data_frame_are_outputs_by_name():
    def frame(*names):
        return lambda masks: pd.DataFrame({name: masks @ [1.0, 2.0, 3.0] * (name == "b") for name in names})

    masks = np.ones((1, 3), dtype=bool)
    for names in (("a", "b"), ("b", "a")):
        game = fgsv.Game(frame(*names), 3, outputs=("a", "b"))
        np.testing.assert_array_equal(game(masks), [[0, 6]])
        np.testing.assert_allclose(fgsv.exact(game).total, [0, 6])
    with pytest.raises(fgsv.GameError, match=r"columns \['b', 'c'\], but its outputs are \['a', 'b'\]"):
        fgsv.exact(fgsv.Game(frame("b", "c"), 3, outputs=("a", "b")))
    np.testing.assert_array_equal(fgsv.Game(frame("x", "b"), 3, outputs=("p", "q"))(masks), [[0, 6]])  # by place


@pytest.mark.parametrize("outputs", [np.array([0, 1]), pd.Index([0, 1]), [np.int64(0), np.int64(1)], ("0", "1")])
def test_outputs_may_be_the_classes_of_a_classifier(outputs, tmp_path):
    game = fgsv.Game(lambda masks: np.c_[masks @ [1.0, 2.0, 3.0], masks.sum(axis=1)], 3, outputs=outputs)
    result = fgsv.exact(game)
    assert result.outputs == ("0", "1")
    np.testing.assert_allclose(result.values, [[1, 1], [2, 1], [3, 1]])
    result.save(tmp_path / "run.json")
    assert fgsv.load(tmp_path / "run.json").outputs == result.outputs


@pytest.mark.parametrize(
    ("outputs", "error", "words"),
    [
        ("accuracy", TypeError, "a name for each output, got the text 'accuracy'"),
        ((), ValueError, "a name for each output"),
        (("a", "a"), ValueError, "all different"),
    ],
)
def test_outputs_are_names_that_differ(outputs, error, words):
    with pytest.raises(error, match=words):
        fgsv.Game(lambda masks: masks.sum(axis=1), 3, outputs=outputs)


@pytest.mark.parametrize("name", ["cost", "evaluate_lists", "retrain", "unfitted"])
def test_what_a_game_calls_later_is_callable(name):
    with pytest.raises(TypeError, match=f"{name} of a game must be a function, got 5"):
        fgsv.Game(len, 3, **{name: 5})


def test_a_game_that_returns_nothing_is_told_so():
    with pytest.raises(fgsv.GameError, match="it returned None; is a return missing"):
        fgsv.value(lambda masks: None, ["a", "b"])


@pytest.mark.parametrize("weights", [[1.0], {"acc": 1.0, "auc": 0.0}])
def test_weights_are_a_weight_for_each_output(weights):
    with pytest.raises(ValueError, match="weights must list a weight for each of the 2 outputs"):
        fgsv.Game(len, 3, outputs=["acc", "auc"], weights=weights)


def test_weights_of_players_are_none_of_outputs():
    assert fgsv.game.as_game(fgsv.games.WeightedMajority([3, 2, 2], 4)).weights is None


def test_games_of_groups_and_of_rows_in_order_keep_what_the_game_says():
    """All but what it says about its own players."""
    stated = {
        "outputs": ("a", "b"),
        "independent_rows": True,
        "batch_size": 8,
        "seconds": 0.5,
        "weights": (1.0, 0.0),
        "unfitted": lambda asked, values: asked.masks().sum(axis=1) < 2,
    }
    game = fgsv.Game(lambda masks: np.stack([masks.sum(axis=1), -masks.sum(axis=1)], axis=1), 4, **stated)
    pairs, ordered = grouped(game, [0, 0, 1, 1]), with_precedence(game, [0, 0, 2, 2])
    for each in (pairs, ordered):
        assert {name: getattr(each, name) for name in stated if name != "unfitted"} == {
            name: value for name, value in stated.items() if name != "unfitted"
        }
    alone = Coalitions.from_masks(np.eye(2, dtype=bool))
    assert pairs.n_unfitted(alone, np.zeros((2, 2))) == 0  # a pair is two of its players
    assert ordered.n_unfitted(Coalitions.from_masks(np.eye(4, dtype=bool)), np.zeros((4, 2))) == 4
    assert fgsv.value(pairs, precision=0.1).values[:, 0].tolist() == [2.0, 2.0]
