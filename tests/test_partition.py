"""Groups in every form that users give them."""

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv import Partition


def test_groups_stand_in_order_of_first_appearance():
    assert Partition.of(["b", "a", "b"]).names == ("b", "a")
    assert Partition.of(np.array([3, 1, 3])).names == (3, 1)
    assert Partition.of(pd.Series(["x", "y"], dtype="category")).names == ("x", "y")
    assert Partition.of({"late": [2], "early": [0, 1]}).names == ("late", "early")
    assert Partition.of([("a", 1), ("a", 2)]).names == (("a", 1), ("a", 2))


def test_every_form_describes_the_same_groups():
    labels = Partition.of(["a", "b", "a"])
    mapping = Partition.of({"a": [0, 2], "b": [1]})
    matrix = Partition.of(pd.DataFrame({"a": [1, 0, 1], "b": [0, 1, 0]}))
    sets = Partition.of({"a": {2, 0}, "b": frozenset({1})})
    for other in (mapping, matrix, sets, Partition.of({7: "a", 8: "b", 9: "a"}.values())):
        assert other.names == labels.names
        np.testing.assert_array_equal(other.codes, labels.codes)


def test_a_point_can_be_owned_half_and_half(random_game):
    game = random_game(3)
    players = fgsv.exact(game, range(3)).values
    shared = fgsv.exact(game, np.array([[1, 0], [0.5, 0.5], [0, 1]])).values
    np.testing.assert_allclose(shared, [players[0] + players[1] / 2, players[2] + players[1] / 2], atol=1e-15)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "empty"),
        ({}, "empty"),
        (["a", "b"], "2 players, but the game has 3$"),
        ("provider", "8 players, but the game has 3; a text has a label in each letter: give a list of labels"),
        (["a", None, "b"], "groups has 1 missing label, the first in row 1"),
        (["a", float("nan"), "b"], "1 missing label,"),
        ({"a": [0, 1], "b": [1, 2]}, "player 1; for shared ownership pass"),
        ({"a": [0], "b": [2]}, "groups leaves out 1 player, the first is player 1"),
        ({"a": [0, 1, 2], "b": []}, "'b' has no players"),
        ({"a": [0, 1, 2, 3]}, "names player 3"),
        (np.array([[0.5, 0.4], [1, 0], [0, 1]]), "that of player 0 sums to 0.9"),
        (np.array([[1, 0], [np.nan, 1], [np.nan, 0]]), "missing shares in 2 rows, the first is row 1"),
        (np.array([[1.5, -0.5], [1, 0], [0, 1]]), "between 0 and 1"),
        (np.full((3, 3), 1 / 3, dtype=np.float32), "that of player 0 sums to 1.00000003"),
        (
            np.array([["a"], ["b"], ["c"]]),
            "must contain numbers: .*; if these are labels, give a list, or one column",
        ),
        (pd.DataFrame({"clinic": ["a", "b", "c"]}), r"if these are labels, .* such as table\[\"clinic\"\]"),
        ([[0, 1], [2]], "give a mapping from names to lists"),
        ([[0, 1], [2, 3]], "between 0 and 1; if these are lists of players, give a mapping from names to lists"),
        (pd.DataFrame([[1, 0], [0, 1], [0, 1]], columns=["a", "a"]), "two columns named 'a'"),
        ({"a", "b", "c"}, "one label per player in order.*; got set"),
        (3, "got int"),
        ([{0}, {1}, {2}], "labels such as names or numbers .unhashable type: 'set'"),
        ({"a": [0, 0], "b": [1, 2]}, "groups lists 1 player more than once, the first is player 0"),
    ],
)
def test_bad_groups_are_named_before_anything_is_evaluated(groups, message):
    def never(masks):
        raise AssertionError("evaluated")

    with pytest.raises(ValueError, match=message):
        fgsv.value(fgsv.Game(never, 3), groups)


def test_a_column_of_pyarrow_has_labels_of_python():
    table = pytest.importorskip("pyarrow").table({"clinic": ["x", "y", "x"]})
    assert [type(name) for name in Partition.of(table["clinic"]).names] == [str, str]


def test_labels_may_come_one_by_one():
    assert Partition.of(label for label in "aba").codes.tolist() == [0, 1, 0]


def test_sums_of_a_group_do_not_see_the_others():
    values = np.random.default_rng(0).normal(size=(1000, 2))
    whole = Partition.of(["a"] * 300 + ["b"] * 700).sums(values)
    split = Partition.of(["a"] * 300 + ["b"] * 350 + ["c"] * 350).sums(values)
    np.testing.assert_array_equal(whole[0], split[0])


def test_sums_of_owners_do_not_see_the_others():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 1))
    shares = rng.dirichlet([1, 1, 1], size=500)
    split = np.column_stack([shares[:, 0], shares[:, 1] / 2, shares[:, 1] / 2, shares[:, 2]])
    whole, parts = Partition.of(shares).sums(values), Partition.of(split).sums(values)
    np.testing.assert_array_equal(whole[[0, 2]], parts[[0, 3]])


def test_missing_labels_of_pandas_are_missing():
    with pytest.raises(ValueError, match="groups has 1 missing label"):
        Partition.of(pd.Series(["a", pd.NA, "b"]))
    days = pd.Series(pd.to_datetime(["2020-01-01", None, None]), name="day")
    with pytest.raises(ValueError, match=r"groups \(column 'day'\) has 2 missing labels, the first in row 1"):
        Partition.of(days)
