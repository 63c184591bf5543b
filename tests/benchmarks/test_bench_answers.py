"""The benchmark of answers: its games' exact values, the rules beside ours, and what attacks may move."""

import numpy as np
import pytest

import fgsv
from benchmarks import answer_attacks, answers, answers_model
from experiments.answers import Sizes, definitions


@pytest.mark.parametrize("n", [8, 10])
def test_values_of_coverage_games_are_those_of_enumeration(n):
    game = answers.coverage(n, 3)
    assert np.allclose(game.shapley(), fgsv.exact(game, progress=False).values, atol=1e-12)
    assert game.shapley().sum() == pytest.approx(1)


def additive(n=6):
    """One fact for each player, mentioned once: the game is additive."""
    worth = np.arange(1.0, n + 1)
    return answers.Coverage(np.eye(n, dtype=int), worth / worth.sum() / (1 - answers.KEPT), np.arange(n))


@pytest.mark.parametrize("rule", answers.RULES)
def test_every_rule_finds_the_values_of_an_additive_game(rule):
    game = additive()
    found = answers.RULES[rule](game, 60, 0)
    atol = {"ContextCite": 0.05, "fgsv": 1e-4}.get(rule, 1e-9)  # a lasso shrinks; a process predicts
    assert np.allclose(found, game.shapley(), atol=atol)


def test_an_answer_of_the_model_is_the_game_of_all_its_coalitions():
    """The judge finds all of an answer in the one source that it needs."""
    library = definitions(Sizes())

    def judge(query, text, pieces):
        return 5.0 + 3.0 * (text in " ".join(pieces)) - 0.5 * (len(pieces) == 1)

    game = next(answers_model.enumerated(library, judge, 1, 4, "passages", 4))
    masks = np.array([[False] * 4, [True] * 4, game.values > 0.5])
    assert game(masks) == pytest.approx([0, 1, 2.5 / 3])
    assert np.sort(game.shapley()) == pytest.approx([0, 0, 0, 1], abs=1e-12)  # what all have alike pays nobody


def test_contextcites_regression_is_least_squares_but_for_its_shrinkage(monkeypatch):
    import sklearn.linear_model

    plain = sklearn.linear_model.LinearRegression
    monkeypatch.setattr(sklearn.linear_model, "Lasso", lambda **options: plain())
    game = answers.coverage(8, 1)
    masks = np.random.default_rng(5).random((62, 8)) < 0.5
    design = np.column_stack([np.ones(62), masks])
    slopes = np.linalg.lstsq(design, game(masks), rcond=None)[0][1:]
    assert np.allclose(answers.contextcite(game, 64, 5), slopes / slopes.sum())


def test_cutting_renaming_filler_and_repeats_move_nobody_where_sentences_are_players():
    table = answer_attacks.table(worlds=3).set_index("the attacker")
    stopped = table.iloc[:3]
    assert np.allclose(stopped[["sentences", "first registered", "most moved, sentences"]], 0, atol=1e-12)
    assert stopped.loc["cuts its page into eight, under eight names", "documents"] > 0
    assert abs(table.loc["copies the best sentence of A", "first registered"]) < 1e-12
    assert table.loc["adds an instruction that the model follows", "sentences"] > 5
