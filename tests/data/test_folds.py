"""Folds of the test rows: scores without each are those on the rest, decide nothing, and tell the rows' error."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

import fgsv
from fgsv.data.folds import folds_of
from fgsv.methods import METHODS
from fgsv.pipeline import value_data
from fgsv.results import Result
from fgsv.utilities.without_folds import FoldsError
from fgsv.valuation import t_quantile

SCORES = (
    (LogisticRegression(), ("accuracy", "neg_log_loss", "roc_auc", "balanced_accuracy"), 2),
    (LogisticRegression(), ("roc_auc_ovr",), 3),
    (Ridge(), ("r2", "neg_mean_squared_error", "neg_mean_absolute_error"), 0),
    (DecisionTreeClassifier(max_depth=2, random_state=0), ("f1_macro", "accuracy", "roc_auc"), 2),
)


def data(n_classes, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(1)  # so that some predictions are equal
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=n)
    return X, y if not n_classes else np.digitize(y, np.linspace(-0.5, 0.5, n_classes - 1))


def table(n=240, first=None, **options):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame["a"] + 0.5 * rng.normal(size=n) > 0).astype(int)
    frame["provider"] = np.array(["north", "south", "east"])[np.arange(n) % 3]
    return fgsv.open_table(frame[:first], group="provider", target="y", **options)


@pytest.mark.parametrize(("model", "scores", "n_classes"), SCORES)
def test_a_score_without_a_fold_is_the_score_on_the_other_rows(model, scores, n_classes):
    (X, y), (X_test, y_test) = data(n_classes), data(n_classes, 101, seed=1)
    folds = np.arange(101) % 10
    masks = np.random.default_rng(2).random((7, 60)) < 0.5
    game = fgsv.utility(model, X, y, X_test, y_test, scoring=scores, folds=folds)
    found = game(masks).reshape(7, 11, len(scores))
    for fold in range(10):
        kept = folds != fold
        rest = fgsv.utility(model, X, y, X_test[kept], y_test[kept], scoring=scores)
        np.testing.assert_allclose(found[:, 1 + fold], rest(masks), atol=1e-12)
        np.testing.assert_allclose(game.worth_without_folds.reshape(10, -1)[fold], rest.defaults)
    np.testing.assert_array_equal(found[:, 0], fgsv.utility(model, X, y, X_test, y_test, scoring=scores)(masks))


def test_the_weights_of_outputs_make_up_what_folds_are_of():
    (X, y), (X_test, y_test) = data(2), data(2, 50, seed=1)
    folds, masks = np.arange(50) % 10, np.random.default_rng(2).random((7, 60)) < 0.5
    given = {"scoring": ["accuracy", "neg_log_loss"], "folds": folds}
    each = fgsv.utility(LogisticRegression(), X, y, X_test, y_test, **given)(masks)
    summed = fgsv.utility(LogisticRegression(), X, y, X_test, y_test, weights=[2.0, 0.5], **given)(masks)
    np.testing.assert_allclose(summed[:, 2:], each[:, 2:].reshape(7, 10, 2) @ [2.0, 0.5])


def test_the_variance_is_that_of_the_jackknife():
    """The oracle: valuations of their own, each without a fold."""
    (X, y), (X_test, y_test) = data(2, 8), data(2, 60, seed=1)
    groups, folds = [i % 3 for i in range(8)], np.arange(60) % 10
    whole = fgsv.exact(fgsv.utility(LogisticRegression(), X, y, X_test, y_test, "neg_log_loss", folds=folds), groups)
    rest = [
        fgsv.exact(
            fgsv.utility(LogisticRegression(), X, y, X_test[folds != fold], y_test[folds != fold], "neg_log_loss"),
            groups,
        )
        for fold in range(10)
    ]
    quantile = float(t_quantile(0.9, 9))

    def half_width(values):
        return quantile * np.sqrt(0.9 * ((np.array(values) - np.mean(values, axis=0)) ** 2).sum(axis=0))

    np.testing.assert_allclose(whole.half_width(0.9), half_width([each.values for each in rest]), rtol=1e-5)
    np.testing.assert_allclose(whole.total_half_width(0.9), half_width([each.total for each in rest]), rtol=1e-5)
    other = whole.regroup([0, 0, 1, 1, 2, 2, 3, 3])
    again = [each.regroup(other.partition).values for each in rest]
    np.testing.assert_allclose(other.half_width(0.9), half_width(again), rtol=1e-5)
    # to first order a share has the error of value - share * total
    apart = [each.values - whole.shares() * each.total for each in rest]
    np.testing.assert_allclose(whole.share_half_width(0.9), half_width(apart) / whole.total, rtol=1e-5)
    np.testing.assert_array_equal(whole.stderr, 0)
    assert whole.sampling_half_width().max() == 0 < whole.share_half_width().min()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_folds_decide_neither_draws_nor_values(name):
    """Methods see the same draws with folds of any size, and state the same values but for rounding."""
    n = 9
    weights = np.random.default_rng(1).random((n, 11))

    def game(scale):
        def function(masks):
            stated = (masks @ weights[:, 0]) ** 1.5
            return np.column_stack(
                [stated, *(stated + scale * np.sin(masks @ weights[:, k] * 9) for k in range(1, 11))]
            )

        seen = []
        wrapped = lambda masks: seen.append(masks.copy()) or function(masks)  # noqa: E731
        return fgsv.Game(wrapped, n, n_folds=10), seen

    groups, options = [i % 3 for i in range(n)], {"method": name, "budget": 300, "seed": 3}
    if name == "enumeration":
        options["budget"] = 2**n
    runs = []
    for scale in (0.0, 50.0):
        played, seen = game(scale)
        runs.append((fgsv.value(played, groups, **options), np.concatenate(seen)))
    plain = fgsv.value(fgsv.Game(lambda masks: (masks @ weights[:, 0]) ** 1.5, n), groups, **options)
    (still, drawn), (wild, also_drawn) = runs
    np.testing.assert_array_equal(drawn, also_drawn)
    np.testing.assert_allclose(still.values, plain.values, rtol=1e-9)
    np.testing.assert_array_equal(still.values, wild.values)
    np.testing.assert_array_equal(still.stderr, wild.stderr)
    assert still.outputs is None
    assert still.values.shape == (3,)
    assert still.test_half_width().max() == 0 < wild.test_half_width().min()


def test_a_target_is_met_by_the_monte_carlo_error():
    opened = table()
    found = fgsv.value(opened.game, opened.partition, precision=0.05, seed=0)
    alone = fgsv.value(table(monte_carlo_only=True).game, opened.partition, precision=0.05, seed=0)
    assert found.end == alone.end
    assert found.n_evaluations == alone.n_evaluations
    assert found.sampling_half_width().max() <= 0.05 < found.share_half_width().max()


def test_what_sampling_adds_to_the_error_of_test_rows_does_not_last():
    """All of it is sampling where folds are noise of their own, on average alike for all coalitions."""
    rng, n = np.random.default_rng(0), 30
    keys = rng.random((n, 10)) * 1e4
    game = fgsv.Game(
        lambda masks: np.column_stack([masks.sum(axis=1), masks.sum(axis=1)[:, None] + np.sin(masks @ keys)]),
        n,
        n_folds=10,
    )
    found = fgsv.value(game, [i % 3 for i in range(n)], budget=500, seed=0, learn="sizes")
    assert found.test_half_width().min() > 0
    assert found.lasting_half_width().max() == 0


def test_every_row_is_in_one_fold_in_whatever_order_they_come():
    contents = [str(row % 20).encode() for row in range(33)]
    folds, order = folds_of(contents), np.random.default_rng(0).permutation(33)
    assert sorted(np.bincount(folds).tolist()) == [3] * 7 + [4] * 3
    again = folds_of([contents[row] for row in order])
    for content in set(contents):
        rows = [row for row in range(33) if contents[row] == content]
        assert sorted(folds[rows]) == sorted(again[np.isin(order, rows)])
    assert (folds_of(contents[:-1]) != folds[:-1]).any()  # nobody knows them before the last row


def test_every_run_of_data_has_folds_unless_it_says_why_not():
    words = "intervals hold the Monte Carlo error only, not that of the test rows"
    assert table().game.n_folds == 10
    without = table(monte_carlo_only=True)
    assert without.game.n_folds == 0
    assert f"{words}: that was asked for" in without.notes
    few = table(n=16, test_fraction=0.2)
    assert (few.game.n_folds, f"{words}: {few.source.test_rows} test rows are too few" in few.notes[-1]) == (0, True)
    made = value_data(without, budget=100, without=False)
    assert not made.valuation.knows_test_rows
    assert "(Monte Carlo error only)" in made.verdict.known
    assert words.split(": ")[0] in repr(made.valuation)


@pytest.mark.parametrize(
    ("n_rare", "n_folds", "note"),
    [
        (1, 0, "lacks a class"),
        (12, 10, "only 12 test rows of class 1: how much their choice matters is known only roughly"),
    ],
)
def test_a_class_that_is_too_rare_for_a_fold_leaves_the_monte_carlo_error(n_rare, n_folds, note):
    x = np.random.default_rng(0).normal(size=200)
    frame = pd.DataFrame({"x": x, "provider": ["a", "b"] * 100, "test": [0, 1] * 100, "y": 0})
    frame.loc[frame.index[1 : 2 * n_rare : 2].union(frame.index[0:40:2]), "y"] = 1
    opened = fgsv.open_table(frame, group="provider", target="y", test_by="test", metric="roc_auc")
    assert (opened.game.n_folds, note in opened.notes[-1]) == (n_folds, True)


def test_test_rows_carried_over_keep_their_folds(tmp_path):
    first = table(first=200, split_seed=7)
    value_data(first, budget=100, ledger=tmp_path / "march.db", without=False)
    later = table(start=tmp_path / "march.db")
    assert later.game.frame["folds of the test rows"] == first.game.frame["folds of the test rows"]
    made = value_data(later, budget=100, start=tmp_path / "march.db", without=False)
    assert made.valuation.n_known > 0
    assert made.valuation.knows_test_rows


def test_evaluations_without_folds_are_no_start(tmp_path):
    value_data(table(monte_carlo_only=True), budget=50, ledger=tmp_path / "march.db", without=False)
    with pytest.raises(ValueError, match="the folds of the test rows changed"):
        value_data(table(), budget=50, start=tmp_path / "march.db", without=False)


def test_a_result_keeps_the_error_of_its_test_rows(tmp_path):
    made = value_data(table(), budget=200, without=False, out=tmp_path / "o", ledger=tmp_path / "run.db")
    read = Result.load(tmp_path / "o" / "valuation.json")
    for name in ("half_width", "share_half_width", "lasting_half_width", "total_half_width"):
        np.testing.assert_array_equal(getattr(read.valuation, name)(), getattr(made.valuation, name)())
    assert read.to_document() == made.to_document()
    assert not fgsv.verify(made.valuation, tmp_path / "run.db")
    tested = made.valuation.test_rows
    forged = replace(made.valuation, test_rows=replace(tested, players=tested.players / 2))
    assert {each.where.partition(" ")[0] for each in fgsv.verify(forged, tmp_path / "run.db")} == {
        "test_rows.players"
    }
    hidden = replace(made.valuation, test_rows=None)
    assert [each.where for each in fgsv.verify(hidden, tmp_path / "run.db")] == ["test_rows"]


def test_a_valuation_of_many_players_fits_into_a_file(tmp_path):
    n = 12_060
    weights = np.random.default_rng(0).random((n, 11))
    game = fgsv.Game(lambda masks: masks @ weights / n + np.cos(masks @ weights), n, n_folds=10)
    fgsv.value(game, np.arange(n) % 5, budget=130, seed=0).save(tmp_path / "v.json")
    assert (tmp_path / "v.json").stat().st_size < 50e6
    assert fgsv.load(tmp_path / "v.json").knows_test_rows


def test_a_number_of_folds_is_drawn_by_the_test_rows():
    (X, y), (X_test, y_test) = data(2), data(2, 30, seed=1)
    models = [(X_test, y_test)] * 2 + [(X_test[::-1], y_test[::-1])]
    games = [fgsv.utility(LogisticRegression(), X, y, *tested, folds=7) for tested in models]
    kept = [np.array(game.without_folds[0].kept) for game in games]
    assert sorted((~kept[0]).sum(axis=1)) == [4] * 5 + [5] * 2
    assert ((~kept[0]).sum(axis=0) == 1).all()
    np.testing.assert_array_equal(kept[0], kept[1])
    assert (kept[0] != kept[2]).any()
    assert fgsv.value(games[0], budget=20).test_rows.n_folds == 7


@pytest.mark.parametrize(
    ("folds", "words"),
    [
        ([0, 1], "a whole number for each of the 30"),
        (np.zeros(30, dtype=int), "at least two"),
        ([0.5] * 30, "whole"),
        (31, "from 2 to 30"),
    ],
)
def test_bad_folds_are_refused(folds, words):
    (X, y), (X_test, y_test) = data(2), data(2, 30, seed=1)
    with pytest.raises(ValueError, match=words):
        fgsv.utility(LogisticRegression(), X, y, X_test, y_test, folds=folds)
    with pytest.raises(FoldsError, match="single test points"):
        fgsv.utility(LogisticRegression(), X, y, X_test, y_test, folds=np.arange(30) % 10, per_test_point=True)


@pytest.mark.parametrize("n_folds", [1, -2, 2.5])
def test_bad_numbers_of_folds_are_refused(n_folds):
    with pytest.raises(ValueError, match="n_folds must be 0, or count 1 output for each of at least two folds"):
        fgsv.Game(lambda masks: masks.sum(axis=1), 3, n_folds=n_folds)


def test_runs_with_the_same_test_rows_share_their_error():
    """The oracle: the same run twice differs by nothing, and its difference from itself has no error of test rows."""
    opened = table()
    made = fgsv.value(opened.game, opened.partition, budget=300, seed=0)
    shared, apart = (fgsv.compare(made, made, same_test_rows=same) for same in (True, False))
    alone = replace(made, test_rows=None)
    width = fgsv.compare(alone, alone)["difference_high"]
    np.testing.assert_allclose(shared["difference_high"], width)
    assert (apart["difference_high"] > width).all()
