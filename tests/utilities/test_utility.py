"""What fgsv.utility promises whatever the model: scores, units, defaults, padding and errors."""

import pickle
import re
import subprocess
import sys
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import small_tables
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, log_loss, make_scorer, mean_squared_error
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.evaluation.batch import attempt
from fgsv.game import CoalitionError, GameError, as_game
from fgsv.testing import check_game
from fgsv.utilities.fingerprint import row_digests

make_data = partial(small_tables.make_data, ("no", "yes"))
MASKS = np.random.default_rng(1).random((12, 40)) < np.linspace(0.1, 0.9, 12)[:, None]


def test_a_pipeline_on_any_table_with_strings_is_fitted_per_coalition():
    X, y, X_test, y_test = make_data()
    frames = [pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 0, "up", None)}) for x in (X, X_test)]
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["b"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression())
    expected = [model.fit(frames[0][mask], y[mask]).score(frames[1], y_test) for mask in MASKS]
    for package, make in (("pandas", "DataFrame"), ("polars", "from_pandas"), ("pyarrow", "table")):
        read = getattr(pytest.importorskip(package), make)
        game = fgsv.utility(model, read(frames[0]), y, read(frames[1]), y_test)
        np.testing.assert_array_equal(game(MASKS), expected)
        assert game.independent_rows
    first, *_ = game.describe().splitlines()  # the notes of a report are these lines
    assert first.startswith("Pipeline(steps=[")
    assert "LogisticRegression())]): one scikit-learn fit per coalition" in first


def test_sparse_and_frames_agree_with_arrays():
    X, y, X_test, y_test = make_data()
    expected = fgsv.utility(LogisticRegression(), X, y, X_test, y_test)(MASKS)
    sparse = [scipy.sparse.coo_matrix(x) for x in (X, X_test)]
    game = fgsv.utility(LogisticRegression(tol=1e-8), sparse[0], y, sparse[1], y_test)
    assert game.independent_rows
    np.testing.assert_allclose(game(MASKS), expected, atol=1e-12)
    frames = [pd.DataFrame(x, columns=list("abc")) for x in (X, X_test)]
    game = fgsv.utility(LogisticRegression(), frames[0], pd.Series(y), frames[1], pd.Series(y_test))
    assert not game.independent_rows
    np.testing.assert_array_equal(game(MASKS), expected)


@pytest.mark.parametrize("model", [LogisticRegression(), DecisionTreeClassifier(random_state=0)])
def test_units_are_players(model):
    X, y, X_test, y_test = make_data()
    units = np.array(["ann", "bob", "cem", "dee"])[np.arange(40) % 4]
    game = fgsv.utility(model, X, y, X_test, y_test, units=units)
    assert game.n_players == 4
    masks = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=bool)
    rows = fgsv.utility(model, X, y, X_test, y_test)
    np.testing.assert_allclose(game(masks), rows(masks[:, np.arange(40) % 4]), atol=1e-12)


def test_several_scores_slices_and_test_points():
    X, y, X_test, y_test = make_data()
    old = np.arange(20) < 8
    scoring = {"all": "accuracy", "old": ("accuracy", old), "young": ("accuracy", np.flatnonzero(~old))}
    game = fgsv.utility(LogisticRegression(), X, y, X_test, y_test, scoring)
    assert game.outputs == ("all", "old", "young")
    values = game(MASKS)
    np.testing.assert_allclose(values[:, 0], 0.4 * values[:, 1] + 0.6 * values[:, 2])
    points = fgsv.utility(LogisticRegression(), X, y, X_test, y_test, "accuracy", per_test_point=True)
    assert points.outputs == tuple(map(str, range(20)))
    np.testing.assert_allclose(points(MASKS).mean(axis=1), values[:, 0])
    one = fgsv.utility(LogisticRegression(), X, y, X_test[old], y_test[old])
    np.testing.assert_allclose(one(MASKS), values[:, 1])
    assert one.outputs is None


def test_other_scorers_go_through_scikit_learn():
    X, y, X_test, y_test = make_data()
    scoring = {"f1": make_scorer(accuracy_score), "accuracy": "accuracy", "recall": "recall_macro"}
    game = fgsv.utility(LogisticRegression(), X, y, X_test, y_test, scoring, empty=0.0)
    assert "f1 is not among the batched scores" in game.describe()
    values = game(MASKS)
    np.testing.assert_array_equal(values[:, 0], values[:, 1])
    with pytest.raises(ValueError, match=r"set it with empty$"):
        fgsv.utility(LogisticRegression(), X, y, X_test, y_test, lambda model, X, y: 0.0)


def test_default_worth_is_the_best_constant():
    X, y, X_test, y_test = make_data()
    scoring = ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"]
    chance = np.mean(y_test == "yes")
    prior = -log_loss(y_test, np.full(20, chance))
    game = fgsv.utility(LogisticRegression(), X, y, X_test, y_test, scoring)
    empty, one_class = np.zeros(40, dtype=bool), y == "no"
    expected = [max(chance, 1 - chance), 0.5, prior, 0.5]
    np.testing.assert_allclose(game([empty, one_class]), [expected, expected])
    X, y, X_test, y_test = small_tables.make_data()
    scoring = ["neg_mean_squared_error", "r2"]
    values = fgsv.utility(Ridge(), X, y, X_test, y_test, scoring)([empty])
    np.testing.assert_allclose(values, [[-y_test.var(), 0]], atol=1e-15)


def test_defaults_apply_only_where_the_model_cannot_be_fitted():
    X, y, X_test, y_test = make_data()
    tree, share = DecisionTreeClassifier(random_state=0), np.mean(y_test == "no")
    for model, worth in ((tree, share), (LogisticRegression(), 0.25), (SVC(), 0.25)):
        assert fgsv.utility(model, X, y, X_test, y_test, empty=0.25)([y == "no"])[0] == worth


def test_empty_takes_one_number_for_each_output():
    X, y, X_test, y_test = make_data()
    nobody = np.zeros((1, 40), dtype=bool)
    scoring = ["accuracy", "neg_log_loss"]
    for empty in ([0.5, -1], {"neg_log_loss": -1, "accuracy": 0.5}):
        game = fgsv.utility(LogisticRegression(), X, y, X_test, y_test, scoring, empty=empty)
        assert game(nobody).tolist() == [[0.5, -1.0]]
    for empty in ([1] * 3, {"accuracy": 1}, np.nan, "x"):
        with pytest.raises(ValueError, match="empty"):
            fgsv.utility(LogisticRegression(), X, y, X_test, y_test, scoring, empty=empty)


@pytest.mark.parametrize("model", [Ridge(), make_pipeline(Ridge())], ids=["batched", "one by one"])
def test_padding_is_one_fixed_list(model):
    X, y, X_test, y_test = small_tables.make_data(n=12)
    game = fgsv.utility(model, X, y, X_test, y_test, "neg_mean_squared_error", min_size=9, null=zeros)
    for size in (0, 1, 5, 8, 9, 12):
        mask = np.arange(12) < size
        X_padded = np.concatenate([X[mask], np.zeros((max(0, 9 - size), 3))])
        y_padded = np.concatenate([y[mask], np.arange(max(0, 9 - size))])
        fitted = Ridge().fit(X_padded, y_padded)
        expected = -mean_squared_error(y_test, fitted.predict(X_test))
        np.testing.assert_allclose(game([mask])[0], expected, rtol=1e-10)


def zeros(X, y, size, rng):
    return np.zeros((size, X.shape[1])), np.arange(size, dtype=float)


def test_shuffled_padding_depends_on_the_seed_alone():
    X, y, X_test, y_test = make_data()
    masks = np.arange(40) < np.arange(12)[:, None]
    padded = partial(fgsv.utility, GaussianNB(), X, y, X_test, y_test, "neg_log_loss", min_size=10)
    games = [padded(seed=seed) for seed in (0, 0, 1)]
    values = [game(masks) for game in games]
    np.testing.assert_array_equal(values[0], values[1])
    assert (values[0][:10] != values[2][:10]).all()
    assert (values[0][10:] == values[2][10:]).all()
    assert games[0].fingerprint == games[1].fingerprint != games[2].fingerprint


def test_random_models_are_functions_of_the_coalition():
    X, y, X_test, y_test = make_data()
    with pytest.warns(UserWarning, match="random_state of RandomForestClassifier is not set.*seed 3"):
        game = fgsv.utility(RandomForestClassifier(5), X, y, X_test, y_test, "neg_log_loss", seed=3)
    np.testing.assert_array_equal(game(MASKS[:3]), game(MASKS[2::-1])[::-1])
    nested = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    with pytest.warns(UserWarning, match="randomforestclassifier__random_state of Pipeline is not set"):
        fgsv.utility(nested, X, y, X_test, y_test, "neg_log_loss", seed=3)
    with pytest.warns(UserWarning, match="is not set"):
        other = fgsv.utility(RandomForestClassifier(5), X, y, X_test, y_test, "neg_log_loss", seed=4)
    assert (game(MASKS[:3]) != other(MASKS[:3])).any()
    assert game.fingerprint != other.fingerprint


SCRIPT = """
import numpy as np, fgsv
from sklearn.linear_model import LogisticRegression
X = np.arange(24.0).reshape(12, 2) % 7
y = np.array(["a", "b"])[np.arange(12) % 2]
print(fgsv.utility(LogisticRegression(C=2.0), X, y, X, y, "neg_log_loss").fingerprint)
"""


def test_fingerprint_is_that_of_the_content():
    script = [sys.executable, "-c", SCRIPT]
    there = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    X = np.arange(24.0).reshape(12, 2) % 7
    y = np.array(["a", "b"])[np.arange(12) % 2]

    def of(model=LogisticRegression(C=2.0), X=X, y=y, X_test=X, scoring="neg_log_loss", **settings):  # noqa: B008
        return fgsv.utility(model, X, y, X_test, y, scoring, **settings).fingerprint

    here = of()
    assert here == there.strip()
    changed = [
        of(LogisticRegression(C=3.0)),
        of(X=X + 1e-12),
        of(y=np.roll(y, 1)),
        of(X_test=X[::-1]),
        of(scoring="accuracy"),
        of(empty=0.0),
        of(min_size=3),
        of(units=np.arange(12) // 2),
        of(per_test_point=True),
    ]
    assert len({here, *changed}) == 10
    assert of(X=np.asfortranarray(X)) == here
    assert of(LogisticRegression(C=2.0, tol=1e-4, max_iter=100, fit_intercept=True)) == here  # the defaults
    assert of(pickle.loads(pickle.dumps(LogisticRegression(C=2.0)))) == here
    assert of(seed=1) == here


@pytest.mark.parametrize(
    ("model", "n_jobs", "options"),
    [
        (LogisticRegression(), 2, {}),
        (DecisionTreeClassifier(random_state=0), 1, {}),
        (LogisticRegression(), 1, {"units": np.arange(40) // 4, "scoring": ["accuracy", "neg_log_loss"]}),
        (RandomForestClassifier(3), 1, {"training_seeds": "fresh"}),
    ],
    ids=["batched", "one by one", "units", "fresh seeds"],
)
def test_a_utility_is_a_game(model, n_jobs, options):
    check_game(fgsv.utility(model, *make_data(), **options), n_jobs=n_jobs)


def test_a_failing_scorer_is_named_as_such_and_the_coalition_at_fault_alone_and_once():
    def scorer(model, X, y):
        if len(model.support_) > 20:
            raise ValueError("too many")
        return 0.0

    game = fgsv.utility(SVC(C=0.1), *make_data(), scorer, empty=0.0)
    with pytest.raises(GameError, match=r"scoring SVC failed on .*: ValueError: too many") as raised:
        fgsv.value(game, budget=100)
    assert str(raised.value).count("the coalition of size 40") == 1
    masks = np.arange(40) < np.array([[6], [39]])
    [failure] = attempt(as_game(game), Coalitions.from_masks(masks)).failures
    assert re.findall(r"the coalition of size \d+", failure) == ["the coalition of size 39"]
    with pytest.raises(CoalitionError) as raised:
        game(masks)
    assert pickle.loads(pickle.dumps(raised.value)).members == tuple(range(39))


def bad(**changes):
    X, y, X_test, y_test = make_data()
    arguments = {"model": LogisticRegression(), "X": X, "y": y, "X_test": X_test, "y_test": y_test, **changes}
    return fgsv.utility(**arguments)


WITH_NAN = make_data()[0]
WITH_NAN[3, 1] = np.nan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": ["no", "yes"]}, "y has 2 labels, but X has 40 rows"),
        ({"y_test": ["no"]}, "y_test has 1 labels, but X_test has 20 rows"),
        ({"X": np.empty((0, 3)), "y": []}, "X has no rows"),
        ({"X_test": np.empty((0, 3)), "y_test": []}, "the test set is empty"),
        ({"y": ["no"] * 40}, "y has only one class"),
        ({"y": np.arange(40) % 2}, "y and y_test mix types of labels"),
        ({"y": np.linspace(0, 1, 40), "y_test": np.arange(20) % 2}, r"y has numbers such as 0.025641, which are no"),
        ({"y": np.arange(40) % 2, "y_test": np.full(20, 0.5)}, "but LogisticRegression is a classifier: use a regr"),
        ({"y": np.ma.masked_equal(np.arange(40) % 2, 0)}, "y has masked entries"),
        ({"X": np.ma.masked_greater(make_data()[0], 1)}, "X has masked entries"),
        ({"y": pd.DataFrame({"ill": ["no", pd.NA] * 20})}, r"y \(column 'ill'\) has 20 missing labels"),
        ({"y_test": ["no", np.nan] * 10}, "y_test has 10 missing labels, the first in row 1"),
        ({"X": WITH_NAN}, "X has missing or infinite values in column 1, which LogisticRegression cannot take"),
        ({"X": pd.DataFrame(WITH_NAN, columns=["age", "weight", "height"])}, "values in column 'weight'"),
        ({"X": scipy.sparse.csr_array(WITH_NAN)}, "X has missing or infinite values in column 1"),
        ({"X_test": WITH_NAN[:20], "model": make_pipeline(StandardScaler(), SVC())}, "X_test has missing or"),
        ({"X_test": np.ones((20, 2))}, "X has 3 columns, but X_test has 2"),
        ({"X": np.ones(40)}, "X must have two dimensions"),
        ({"X": [[1, 2], [1]] * 20}, "X must have as many columns in each row"),
        ({"model": SVC(), "scoring": "neg_log_loss"}, "neg_log_loss needs predict_proba, which SVC does not have"),
        ({"model": SVC(), "scoring": "neg_brier_score", "empty": 0}, "neg_brier_score needs predict_proba"),
        ({"model": Ridge()}, "y must be numbers for a regression"),
        ({"model": Ridge(), "y": np.full(40, np.inf)}, "y has infinite numbers"),
        ({"scoring": "r2"}, "r2 is for a regressor"),
        ({"scoring": []}, "scoring is empty"),
        ({"scoring": ["accuracy", "accuracy"]}, "the same score twice"),
        ({"scoring": {"old": ("accuracy", np.zeros(20, dtype=bool))}}, "the test set of 'old' is empty"),
        ({"scoring": {"old": ("accuracy", [25])}}, "indices from 0 to 19"),
        ({"scoring": "roc_auc", "y_test": ["yes"] * 20}, "every class among its test labels"),
        ({"scoring": "roc_auc", "per_test_point": True}, "mean over test points"),
        ({"units": pd.Series(["a", None] * 20, name="patient")}, r"units \(column 'patient'\) has 20 missing labels"),
        ({"units": np.full((40, 2), 0.5)}, "units must have one label for each row"),
        ({"units": pd.Series(["a"] * 3, name="patient")}, r"units \(column 'patient'\) has 3 labels"),
        ({"null": "shuffle"}, "set min_size, the number of rows to pad to"),
        ({"min_size": 0}, "min_size must be at least 1"),
        ({"min_size": 41}, "min_size must be at most the number of rows, 40"),
        ({"min_size": 2, "null": "noise"}, "null must be 'shuffle' or a callable"),
        ({"min_size": 2, "null": lambda X, y, size, rng: (X[:1], y[:1])}, "the null sampler returned X of shape"),
        ({"min_size": 2, "null": lambda X, y, size, rng: (X[:2], ["a", "b"])}, "labels that are not classes of y"),
    ],
)
def test_bad_input_is_named_before_training(changes, message):
    with pytest.raises(ValueError, match=message):
        bad(**changes)


def test_what_is_not_a_model_is_refused():
    for model in (LogisticRegression, "ridge", StandardScaler()):
        with pytest.raises(TypeError, match="model must be"):
            bad(model=model)


def test_imputers_take_missing_values():
    game = bad(X=WITH_NAN, model=make_pipeline(SimpleImputer(), LogisticRegression()))
    assert np.isfinite(game(np.ones((1, 40), dtype=bool))).all()


def test_masks_of_another_width():
    with pytest.raises(ValueError, match=r"expected an \(m, 40\) boolean array, got shape \(2, 39\)"):
        bad()(np.ones((2, 39), dtype=bool))


def test_labels_of_rows_are_those_of_their_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    units = np.repeat(np.arange(10), 4)[rng.permutation(40)]
    of_unit = np.array(list("abc"))[np.arange(10) % 3]
    game = fgsv.utility(Ridge(), X, X[:, 0], X, X[:, 0], units=units)
    by_row = fgsv.value(game, of_unit[units], budget=100)
    by_unit = fgsv.value(game, of_unit[list(dict.fromkeys(units.tolist()))], budget=100)
    assert by_row.names == by_unit.names
    np.testing.assert_array_equal(by_row.values, by_unit.values)
    crossing = of_unit[units].copy()
    crossing[np.flatnonzero(units == units[7])[-1]] = "z"
    with pytest.raises(ValueError, match="a unit is one player, so all its rows must be in one group"):
        fgsv.value(game, crossing, budget=100)
    with pytest.raises(ValueError, match="describes 39 players"):
        fgsv.value(game, crossing[:39], budget=100)


class OfFewOrAll(SVC):
    def fit(self, X, y):
        if 8 < len(X) < 40:
            raise RuntimeError("neither few rows nor all")
        return super().fit(X, y)


def test_a_fit_that_fails_counts_as_no_data_if_the_run_says_so():
    X, y, X_test, y_test = make_data()
    alone = fgsv.utility(OfFewOrAll(), X, y, X_test, y_test, units=np.repeat(np.arange(20), 2), empty=0.3)
    with pytest.raises(GameError, match="OfFewOrAll failed on the coalition of size"):
        fgsv.value(alone, budget=60)
    found = fgsv.value(alone, budget=60, on_error="empty")
    as_number = fgsv.value(alone, budget=60, on_error=0.3)
    np.testing.assert_array_equal(found.values, as_number.values)
    assert found.failures == as_number.failures
    assert found.failures.coalitions > 0
    assert (found.failures.counted_as, found.settings.on_error) == (0.3, 0.3)
    with pytest.raises(ValueError, match=r"for games made by fgsv\.utility"):
        fgsv.value(lambda masks: masks.sum(axis=1), [0, 1], on_error="empty")
    two = fgsv.utility(Ridge(), X, X[:, 0], X, X[:, 0], ["r2", "neg_mean_squared_error"])
    with pytest.raises(ValueError, match="for one output, but the game has 2"):
        fgsv.value(two, on_error="empty")


def test_players_of_sparse_tables_are_told_by_their_cells():
    """A row without any cell is a player too, and only equal rows with equal labels are equal."""
    X = scipy.sparse.csr_array([[0, 0, 0], [0, 1.5, 0], [0, 0, 0], [1.5, 0, 0], [0, 1.5, 0], [0, 1.5, 0]])
    y = np.array(["a", "a", "a", "a", "b", "a"])
    players = fgsv.utility(LogisticRegression(), X, y, X, y).players()
    digests = [players[16 * row : 16 * row + 16] for row in range(6)]
    kinds = [digests.index(each) for each in digests]
    assert kinds == [0, 1, 0, 3, 4, 1]


def test_one_long_text_does_not_widen_the_others():
    X = pd.DataFrame({"text": ["short"] * 500 + ["word " * 20_000]})
    tracemalloc.start()
    row_digests(X, np.zeros(501), None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


def test_a_utility_from_another_process_is_valued_with_the_same_bits(tmp_path):
    """A run decides by `seconds` what to learn: a worker of an experiment has to decide the same."""
    game = fgsv.utility(Ridge(), *small_tables.make_data(), scoring="r2")
    sent = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(game))))
    assert game.seconds is not None
    assert sent.seconds == game.seconds
    here, there = (fgsv.value(each, budget=300, seed=0) for each in (game, sent))
    assert there.settings.options == here.settings.options
    assert there.player_values.tobytes() == here.player_values.tobytes()
    with pytest.raises(ValueError, match="this utility was pickled, which drops the data"):
        fgsv.value(sent, budget=300, ledger=tmp_path / "run.db")


def test_a_value_that_is_zero_but_for_rounding_is_described_as_zero():
    games = [fgsv.utility(Ridge(), *small_tables.make_data(seed=seed)) for seed in range(10)]
    assert any(game.defaults != 0 for game in games)
    assert {game.describe().splitlines()[-1].split(": ")[1] for game in games} == {"0"}
