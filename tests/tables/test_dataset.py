"""Rows become players, groups, features, a target and test rows; columns that cannot are named."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import ShuffleSplit

from fgsv.tables.dataset import prepare, recognise
from fgsv.tables.reading import TableError, TableFile


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


def prepared(frame, **options):
    options = {"group": ["provider"], "target": "y"} | options
    return prepare(TableFile(frame, "train.csv", "0"), **options)


def test_the_task_is_recognised():
    assert recognise(pd.Series(["a", "b"])) == "classification"
    assert recognise(pd.Series([True, False])) == "classification"
    assert recognise(pd.Series([0, 1, 2])) == "classification"
    assert recognise(pd.Series([0.5, 1.0])) == "regression"
    assert recognise(pd.Series(range(30))) == "regression"


def test_an_infinite_target_is_named():
    frame = small().assign(y=np.inf)
    with pytest.raises(TableError, match=r"'y' \(the target\) has inf in row 1: regression needs finite numbers"):
        prepared(frame)


def test_the_test_rows_do_not_depend_on_the_groups():
    frame = small(200)
    first = prepared(frame)
    frame["provider"] = frame["provider"] + frame.index.astype(str)
    second = prepared(frame)
    pd.testing.assert_frame_equal(first.test_features, second.test_features)
    assert abs(first.test_target.mean() - frame["y"].mean()) < 0.02
    assert len(first.test_target) == 50


def test_test_rows_by_column_and_by_file(tmp_path):
    frame = small()
    frame["fold"] = np.where(frame.index < 10, "Test", "train")
    data = prepared(frame, test_by="fold")
    assert len(data.test_target) == 10
    assert "fold" not in data.features
    other = TableFile(small(12, seed=1), "test.csv", "1")
    data = prepared(small(), test=other)
    assert (len(data.features), len(data.test_features)) == (40, 12)
    frame["fold"] = "maybe"
    with pytest.raises(TableError, match="train or test"):
        prepared(frame, test_by="fold")


def test_units_are_players_and_stay_whole():
    frame = small(60)
    data = prepared(frame, unit="patient")
    assert set(frame.loc[data.test_features.index, "patient"]).isdisjoint(data.units)
    assert data.partition.n_players == len(set(data.units))
    owner = frame.groupby("patient")["provider"].first()
    names = [owner[unit] for unit in dict.fromkeys(data.units.tolist())]
    assert [data.partition.names[code] for code in data.partition.codes] == names
    frame["provider"] = np.arange(60)
    with pytest.raises(
        TableError, match=r"unit \d+ is in more than one group of column 'provider' \(22 such units\)"
    ):
        prepared(frame, unit="patient")


def test_a_provider_of_one_row_is_fine_even_without_training_rows():
    frame = small()
    frame.loc[7, "provider"] = "alone"
    frame["fold"] = np.where(frame.index == 7, 1, np.arange(40) % 2)
    data = prepared(frame, test_by="fold")
    assert data.partition.sizes[data.partition.names.index("alone")] == 0
    assert any("alone" in note for note in data.notes)


def test_missing_groups_are_counted_or_named():
    frame = small()
    frame.loc[[1, 5], "provider"] = None
    frame.loc[6, "provider"] = "  "
    with pytest.raises(TableError, match=r"missing values in 3 of 40 rows.*--group-missing"):
        prepared(frame)
    data = prepared(frame, group_missing="nobody")
    assert "nobody" in data.partition.names


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f, {"group": ["providr"]}, "did you mean 'provider'"),
        (lambda f: f, {"target": "Y"}, "did you mean 'y'"),
        (lambda f: f, {"group": []}, "no provider column"),
        (lambda f: f, {"target": "provider"}, "both the provider and the target"),
        (lambda f: f, {"target": "zzz"}, "it has provider, patient"),
        (lambda f: f.assign(y=1), {}, "only one value in the training rows, 1"),
        (lambda f: f.assign(provider="me"), {}, "only one group, 'me'"),
        (lambda f: f.assign(y=f["y"].where(f.index > 3)), {}, r"of train\.csv has missing values in 4 of 40 rows"),
        (lambda f: f[["provider", "y"]], {}, "no feature columns"),
        (lambda f: f, {"test_fraction": 2.0}, "between 0 and 1"),
        (
            lambda f: f.assign(y="word"),
            {"task": "regression"},
            "has 'word' in row 1: regression needs finite numbers",
        ),
        (lambda f: f.assign(patient=None), {"unit": "patient"}, "missing values in 40 of 40 rows"),
        (lambda f: f, {"ignore": ["agee"]}, "did you mean 'age'"),
    ],
)
def test_bad_columns(change, options, words):
    with pytest.raises(TableError, match=words):
        prepared(change(small()), **options)


def test_classes_that_only_the_test_rows_have():
    other = TableFile(small(12).assign(y=5), "test.csv", "1")
    with pytest.raises(TableError, match="no training row has"):
        prepared(small(), test=other)


def test_classes_keep_their_proportions_among_the_test_rows():
    frame = small(200).assign(y=np.repeat(["a", "b", "c"], [120, 60, 20]))
    data = prepared(frame, test_fraction=0.2)
    assert dict(zip(*np.unique(data.test_target, return_counts=True), strict=True)) == {"a": 24, "b": 12, "c": 4}


def test_a_class_of_one_row_is_drawn_like_any_row():
    """It cannot be on both sides: among the training rows it is kept, among the test rows it is refused."""
    frame = small(40).assign(y=["rare"] + ["a", "b", "c"] * 13)
    refused = 0
    for seed in range(12):
        rows = next(ShuffleSplit(1, test_size=10, random_state=seed).split(frame))[1]
        if 0 in rows:
            refused += 1
            with pytest.raises(TableError, match=r"classes that no training row has: \['rare'\].*--seed"):
                prepared(frame, seed=seed)
        else:
            data = prepared(frame, seed=seed)
            assert data.test_features.index.tolist() == sorted(rows)
            assert (data.target == "rare").sum() == 1
    assert 0 < refused < 12


def test_more_classes_than_test_rows():
    frame = small(40).assign(y=np.repeat([f"class {i}" for i in range(10)], 4))
    data = prepared(frame, test_fraction=0.1, task="classification")
    assert len(data.test_target) == 4


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.25, 1 / 3, 0.5, 0.9])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_number_of_test_rows_and_units_is_exact(fraction, task):
    frame = small(97).assign(y=np.arange(97) % 2)
    expected = max(1, round(fraction * 97))
    assert len(prepared(frame, test_fraction=fraction, task=task).test_target) == expected
    n_units = frame["patient"].nunique()
    data = prepared(frame, test_fraction=fraction, task=task, unit="patient")
    tested = frame.loc[data.test_features.index, "patient"]
    assert tested.nunique() == max(1, round(fraction * n_units))
    assert any(f"({tested.nunique()} units) drawn at random, seed 0" in note for note in data.notes)


def test_units_are_drawn_by_unit_and_not_by_size():
    """Every unit is equally likely to be tested, and its rows go together."""
    units = ["large"] * 40 + [f"small {i // 2}" for i in range(20)]
    frame = small(60).assign(unit=units, provider=["a"] * 40 + ["b"] * 20, y=np.arange(60) % 2)
    sizes = [
        int((frame.loc[prepared(frame, unit="unit", seed=seed).test_features.index, "unit"] == "large").sum())
        for seed in range(60)
    ]
    assert set(sizes) == {0, 40}
    assert 5 <= sizes.count(40) <= 30  # 3 of 11 units in 60 draws: 16 expected, standard deviation 3.4


def test_the_seed_decides_which_rows_are_tested():
    frame = small(80)
    rows = [prepared(frame, seed=seed).test_features.index.tolist() for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f.assign(fold="train"), {"test_by": "fold"}, "there are no test rows.*--test-by"),
        (lambda f: f.assign(fold="test"), {"test_by": "fold"}, "there are no training rows"),
        (lambda f: f.head(3), {"test_fraction": 0.9}, "leaves none of 3 rows for training"),
        (lambda f: f.assign(u=f.index % 3), {"test_fraction": 0.9, "unit": "u"}, "leaves none of 3 units"),
    ],
)
def test_nothing_to_train_or_test_on(change, options, words):
    with pytest.raises(TableError, match=words):
        prepared(change(small()), **options)


def test_missing_targets_of_the_test_file_are_counted():
    other = small(12, seed=1)
    other["y"] = other["y"].where(other.index > 2)
    with pytest.raises(TableError, match=r"of test\.csv has missing values in 3 of 12 rows"):
        prepared(small(), test=TableFile(other, "test.csv", "1"))


def test_numbers_are_regrouped_into_three_bands_and_stay_features():
    data = prepared(small(90), regroup=["age"])
    assert "age" in data.features
    assert list(data.groupings) == ["provider", "age"]
    assert data.groupings["age"].n_groups == 3
    assert data.partition is data.groupings["provider"]


def test_notes_say_what_was_inferred_and_what_was_requested():
    assert "classification (inferred: 'y' has 2 distinct values)" in prepared(small()).notes
    assert "regression (as requested)" in prepared(small(), task="regression").notes
    assert "tested on 10 rows drawn at random, seed 0" in prepared(small()).notes
