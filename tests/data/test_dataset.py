"""Rows become players, groups, features, a target and test rows; columns that cannot are named."""

import numpy as np
import pandas as pd
import pytest

from fgsv.data.labelled_rows import prepare, recognise
from fgsv.data.reading import TableError, TableFile
from fgsv.data.roles import Roles


def small(n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {
            "provider": np.array(["north", "south", "east"])[np.arange(n) % 3],
            "patient": np.arange(n) // 2 % 10 * 3 + np.arange(n) % 3,
            "age": rng.integers(20, 90, n),
            "x": x,
            "y": (x + rng.normal(size=n) > 0).astype(int),
        }
    )


OF_PREPARE = ("target", "target_missing", "task", "test")


def prepared(frame, **options):
    options = {"group": ["provider"], "target": "y"} | options
    roles = Roles(**{name: each for name, each in options.items() if name not in OF_PREPARE})
    given = {name: options[name] for name in OF_PREPARE if name in options}
    if "test" in given:
        given["test"] = TableFile(given["test"], "test.csv", "1")
    return prepare(TableFile(frame, "train.csv", "0"), roles, **given)


@pytest.mark.parametrize(
    ("target", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        ([0, 1, 2], "classification"),
        (["10%", "20%"], "classification"),
        ([0.5, 1.0], "regression"),
        (range(30), "regression"),
    ],
)
def test_the_task_is_recognised(target, task):
    assert recognise(pd.Series(target)) == task


@pytest.mark.parametrize("kind", ["float", "int8", "Int64", "Float64"])
def test_a_class_is_the_same_however_its_number_is_written(kind):
    classes = prepared(small().assign(y=lambda frame: frame["y"].astype(kind))).target
    assert classes.dtype == "int64"
    assert classes.tolist() == prepared(small()).target.tolist()


def test_test_rows_by_column_and_by_file():
    frame = small()
    frame["fold"] = np.where(frame.index < 10, "Test", "train")
    data = prepared(frame, test_by="fold")
    assert (len(data.test_target), "fold" in data.features) == (10, False)
    data = prepared(small(), test=small(12, seed=1))
    assert (len(data.features), len(data.test_features)) == (40, 12)


def test_units_are_players_and_stay_whole():
    frame = small(60)
    data = prepared(frame, unit="patient")
    players = data.players
    assert set(frame.loc[data.test_features.index, "patient"]).isdisjoint(players.units)
    assert players.partition.n_players == len(set(players.units))
    owner = frame.groupby("patient")["provider"].first()
    names = [owner[unit] for unit in dict.fromkeys(players.units.tolist())]
    assert [players.partition.names[code] for code in players.partition.codes] == names


def test_a_provider_of_one_row_is_fine_even_without_training_rows():
    frame = small()
    frame.loc[7, "provider"] = "alone"
    frame["fold"] = np.where(frame.index == 7, 1, np.arange(40) % 2)
    players = prepared(frame, test_by="fold").players
    assert players.partition.sizes[players.partition.names.index("alone")] == 0
    assert any("alone" in note for note in players.notes)


def test_missing_groups_are_counted_or_named():
    frame = small()
    frame.loc[[1, 5], "provider"] = None
    frame.loc[6, "provider"] = "  "
    with pytest.raises(TableError, match=r"missing values in 3 of 40 rows.*group_missing="):
        prepared(frame)
    assert "nobody" in prepared(frame, group_missing="nobody").players.partition.names


def with_test(**columns):
    return {"test": small(12, seed=1).assign(**columns)}


DATES = pd.date_range("2024-01-01", periods=40).astype(str)


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        ({}, {"group": ["providr"]}, "did you mean 'provider'"),
        ({}, {"target": "Y"}, "did you mean 'y'"),
        ({}, {"target": "zzz"}, "it has provider, patient"),
        ({}, {"ignore": ["agee"]}, "did you mean 'age'"),
        ({}, {"group": []}, "no provider column"),
        ({}, {"target": "provider"}, "both the provider and the target"),
        ({}, {"ignore": ["patient", "age", "x"]}, "no feature columns"),
        ({}, {"test_fraction": 2.0}, r"test_fraction must be between 0 and 1, got 2\.0"),
        ({}, {"test_fraction": 1e-9}, "there are no test rows.*test_by"),
        ({}, {"test_fraction": 1 - 1e-9}, "there are no training rows.*test_by"),
        ({"fold": "train"}, {"test_by": "fold"}, "there are no test rows.*test_by"),
        ({"fold": "test"}, {"test_by": "fold"}, "there are no training rows"),
        ({"fold": "Maybe"}, {"test_by": "fold"}, r"train or test \(or 0 and 1\); it has 'Maybe'"),
        ({"provider": "me"}, {}, "only one group, 'me'"),
        ({"patient": None}, {"unit": "patient"}, "missing values in 40 of 40 rows"),
        (
            {"provider": np.arange(40) % 4},
            {"unit": "patient"},
            r"unit \d+ is in more than one group of column 'provider' \(\d+ such units\): "
            "shared_units=.co-own. .* shared_units=.split.",
        ),
        ({"y": 1}, {}, "only one value in the training rows, 1"),
        (
            {"y": [None] * 4 + [0, 1] * 18},
            {},
            r"of train\.csv has .* in 4 of 40 rows.*target_missing=.drop",
        ),
        ({}, with_test(y=[None] * 3 + [0, 1, 1] * 3), r"of test\.csv has missing values in 3 of 12 rows"),
        ({}, with_test(y=5), r"no training row has: 5\. Choose"),
        ({"y": "word"}, {"task": "regression"}, "has 'word' in row 1: regression needs finite numbers"),
        ({"y": np.inf}, {}, r"'y' \(the target\) has inf in row 1: regression needs finite numbers"),
        (
            {"y": [f"€ {1000 + number},50" for number in range(40)]},
            {},
            r"'y' \(the target\) is read as text, because of cells such as '€ 1000,50'",
        ),
        (
            {"y": [0.5, 1.5] * 20},
            {"task": "classification"},
            r"'y' \(the target\) has fractional values, such as 0.5: .*task=.regression",
        ),
        ({"y": DATES}, {}, "'y' .the target. has 40 classes in 40 rows"),
        ({"y": [f"patient {number}" for number in range(40)]}, {}, "'y' .the target. has 40 classes in 40 rows"),
    ],
)
def test_rows_that_cannot_be_learned_from_or_tested_on_are_refused_by_name(changed, options, words):
    with pytest.raises(TableError, match=words):
        prepared(small().assign(**changed), **options)


def test_numbers_are_regrouped_into_three_bands_and_stay_features():
    data = prepared(small(90), regroup=["age"])
    groupings = data.players.groupings
    assert "age" in data.features
    assert list(groupings) == ["provider", "age"]
    assert groupings["age"].n_groups == 3
    assert data.players.partition is groupings["provider"]


@pytest.mark.parametrize("kind", ["Int64", "Float64"])
def test_bands_of_numbers_with_missing_ones(kind):
    frame = small(90)
    frame["age"] = frame["age"].astype(kind).mask(frame.index % 9 == 0)
    names = prepared(frame, regroup=["age"]).players.groupings["age"].names
    assert len(names) == 4
    assert "(missing)" in names


def test_notes_say_what_was_inferred_and_what_was_requested():
    assert "classification (inferred: 'y' has 2 distinct values)" in prepared(small()).notes
    assert "regression (as requested)" in prepared(small(), task="regression").notes
    assert "tested on 13 of 40 rows chosen by a hash of their content, split seed 0" in prepared(small()).notes


def test_rows_without_a_target_are_dropped_or_a_class():
    frame = small()
    frame["y"] = frame["y"].where(frame.index > 3)
    dropped = prepared(frame, test=frame.head(12), target_missing="drop")
    assert (len(dropped.target), len(dropped.test_target)) == (36, 8)
    assert dropped.target.dtype.kind == "i"  # the same players as in a table without these rows
    np.testing.assert_array_equal(dropped.target, frame["y"].dropna())
    assert "left out 4 of 40 rows of train.csv without a target" in dropped.notes
    named = prepared(frame, test=frame.head(12), target_missing="unknown")
    assert (len(named.target), set(named.target), named.task) == (40, {"0", "1", "unknown"}, "classification")
    with pytest.raises(TableError, match="regression needs finite numbers"):
        prepared(frame, target_missing="unknown", task="regression")
    ill = frame["y"].astype(object).mask(frame.index == 7, "ill")
    with pytest.raises(TableError, match="'ill' in row 8: regression"):  # numbered as in the file
        prepared(frame.assign(y=ill), target_missing="drop", task="regression")


def test_a_unit_of_several_providers_is_owned_by_rows_or_split():
    """Co-owning leaves the game as it is, so nobody gains by how units are spread over companies."""
    frame = small(60).assign(patient=np.arange(60) // 4)
    rows = prepared(frame, unit="patient", shared_units="co-own")
    owned = rows.players.partition
    training = frame.loc[rows.features.index]
    expected = pd.crosstab(training["patient"], training["provider"], normalize="index")[list(owned.names)]
    np.testing.assert_allclose(owned.ownership, expected)
    split = prepared(frame, unit="patient", shared_units="split")
    n_players = split.players.partition.n_players
    assert split.players.partition.is_disjoint
    assert n_players == len(training.groupby(["patient", "provider"]))
    pd.testing.assert_frame_equal(split.test_features, rows.test_features)
    assert len(set(zip(split.players.units, training["patient"], strict=True))) == n_players
    whole = frame.assign(provider=np.where(frame["patient"] < 8, "a", "b"))
    for choice in (None, "co-own", "split"):
        assert prepared(whole, unit="patient", shared_units=choice).players.partition.n_players == owned.n_players
