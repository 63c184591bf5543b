"""Players have names: groups are given by them, tables show them, files do not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, r2_score

import fgsv
from fgsv.games import Airport

USERS = np.repeat(["eva", "bob", "ann", "dan"], 6)
REGIONS = {"ann": "east", "bob": "west", "dan": "west", "eva": "east"}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(24, 2)), columns=["a", "b"], index=[f"row {k}" for k in range(24)])
    return X, X["a"] + 0.1 * rng.normal(size=24)


@pytest.fixture(scope="module")
def by_user(data):
    return fgsv.utility(LinearRegression(), *data, *data, units=USERS)


@pytest.mark.parametrize(
    "groups", [REGIONS, pd.Series(REGIONS), pd.DataFrame({"region": REGIONS})["region"].sort_index(ascending=False)]
)
def test_groups_by_the_names_of_units_in_any_order(by_user, groups):
    found = fgsv.exact(by_user, groups)
    expected = fgsv.exact(by_user, ["east", "west", "east", "west"])
    assert found.names == expected.names == ("east", "west")
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.players["name"].to_list() == ["eva", "bob", "ann", "dan"]
    assert found.players["group"].to_list() == ["east", "west", "east", "west"]
    np.testing.assert_array_equal(found.players["value"], found.player_values)
    np.testing.assert_array_equal(found.regroup({**REGIONS, "eva": "west"}).partition.codes, [0, 0, 1, 0])


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"ann": "east", "bob": "west", "dan": "west"}, "no group for player 'eva'"),
        ({**REGIONS, "zoe": "east"}, "there is no player 'zoe'"),
        (pd.Series(REGIONS).rename({"ann": "Ann"}), "no group for player 'ann', there is no player 'Ann'"),
    ],
)
def test_labels_that_do_not_match_are_refused_by_name(by_user, groups, words):
    with pytest.raises(ValueError, match=words):
        fgsv.exact(by_user, groups)


def test_a_column_is_aligned_by_the_index_of_the_rows(data):
    game = fgsv.utility(LinearRegression(), *data, *data)
    column = pd.Series(USERS, index=data[0].index, name="user")
    expected = fgsv.value(game, USERS, budget=60)
    for groups in (column, column.iloc[::-1], column.reset_index(drop=True)):  # the last has no index of its own
        np.testing.assert_array_equal(fgsv.value(game, groups, budget=60)["ann"].value, expected["ann"].value)


def test_names_of_players_stay_out_of_files(by_user, tmp_path):
    found = fgsv.exact(by_user, REGIONS)
    found.save(tmp_path / "run.json")
    assert '"eva"' not in (tmp_path / "run.json").read_text()
    loaded = fgsv.load(tmp_path / "run.json")
    assert loaded.players["name"].to_list() == [0, 1, 2, 3]
    np.testing.assert_array_equal(loaded.values, found.values)


def test_the_table_of_players_has_a_row_for_each_output():
    game = fgsv.Game(lambda masks: masks[:, :2] * [1.0, 3.0], 3, outputs=("x", "y"))
    table = fgsv.exact(game, ["a", "b", "b"]).players
    assert list(table.columns) == ["name", "group", "output", "value", "stderr"]
    assert table["group"].to_list() == ["a", "b", "b"] * 2
    owned = fgsv.exact(Airport([1, 2, 3]), np.array([[0.5, 0.5], [1, 0], [0, 1]])).players
    assert owned["group"].isna().all()
    with pytest.raises(ValueError, match="one group at a time"):
        _ = fgsv.value(Airport(range(8)), [0, 1] * 4, method="finite_difference").players


def own_score(y_true, y_pred):
    return float(np.mean(np.asarray(y_true) == np.asarray(y_pred)))


def test_a_metric_is_a_score(data):
    X, y = data[0], (data[1] > 0).astype(int)
    masks = np.random.default_rng(1).random((6, 24)) < 0.7
    expected, *found = (
        fgsv.utility(LogisticRegression(), X, y, X, y, scoring=scoring)(masks)
        for scoring in ("accuracy", accuracy_score, own_score)
    )
    for values in found:
        np.testing.assert_allclose(values, expected)
    for scoring in ("r2", r2_score):
        assert fgsv.utility(LinearRegression(), *data, *data, scoring=scoring)(masks[:1]) > 0.5
