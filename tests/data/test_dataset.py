"""Rows become players, groups, features, a target and test rows; columns that cannot are named."""

import numpy as np
import pandas as pd
import pytest

import fgsv
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
    return prepare(TableFile(frame, "train.csv", "0"), roles, **given)


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


def test_a_target_of_numbers_that_are_read_as_text_is_named():
    costs = small().assign(y=[f"€ {1000 + number},50" for number in range(40)])
    with pytest.raises(TableError, match=r"'y' \(the target\) is read as text, because of cells such as '€ 1000,50'"):
        prepared(costs)
    sold = costs.assign(y=np.where(costs["x"] > 0, "10%", "20%"))  # few of them: classes
    assert prepared(sold).task == "classification"


def test_fractions_are_no_classes():
    with pytest.raises(
        TableError, match=r"'y' \(the target\) has fractional values, such as 0.5: .*task=.regression"
    ):
        prepared(small().assign(y=lambda frame: frame["y"] + 0.5), task="classification")
    assert prepared(small().assign(y=lambda frame: frame["y"] * 1.0), task="classification").task == "classification"


@pytest.mark.parametrize("kind", ["float", "int8", "Int64", "Float64"])
def test_a_class_is_the_same_however_its_number_is_written(kind):
    classes = prepared(small().assign(y=lambda frame: frame["y"].astype(kind))).target
    assert classes.dtype == "int64"
    assert classes.tolist() == prepared(small()).target.tolist()


def test_test_rows_by_column_and_by_file(tmp_path):
    frame = small()
    frame["fold"] = np.where(frame.index < 10, "Test", "train")
    data = prepared(frame, test_by="fold")
    assert len(data.test_target) == 10
    assert "fold" not in data.features
    other = TableFile(small(12, seed=1), "test.csv", "1")
    data = prepared(small(), test=other)
    assert (len(data.features), len(data.test_features)) == (40, 12)
    frame["fold"] = "Maybe"
    with pytest.raises(TableError, match=r"train or test \(or 0 and 1\); it has 'Maybe'"):
        prepared(frame, test_by="fold")


def test_units_are_players_and_stay_whole():
    frame = small(60)
    data = prepared(frame, unit="patient")
    assert set(frame.loc[data.test_features.index, "patient"]).isdisjoint(data.units)
    assert data.partition.n_players == len(set(data.units))
    owner = frame.groupby("patient")["provider"].first()
    names = [owner[unit] for unit in dict.fromkeys(data.units.tolist())]
    assert [data.partition.names[code] for code in data.partition.codes] == names
    frame["provider"] = np.arange(60) % 4
    with pytest.raises(
        TableError,
        match=r"unit \d+ is in more than one group of column 'provider' \(\d+ such units\).*shared_units=",
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
    with pytest.raises(TableError, match=r"missing values in 3 of 40 rows.*group_missing="):
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


@pytest.mark.parametrize("target", ["date", "id"])
def test_a_target_of_ids_or_dates_is_called_one(target):
    """It was said that the test rows have classes that no training row has."""
    dates, ids = pd.date_range("2024-01-01", periods=60).astype(str), [f"patient {i}" for i in range(60)]
    rows = pd.DataFrame({"x": np.arange(60.0), "date": dates, "id": ids, "owner": ["a", "b"] * 30})
    with pytest.raises(TableError, match=f"'{target}' .the target. has 60 classes in 60 rows"):
        fgsv.open_table(rows, group="owner", target=target)


def test_classes_that_only_the_test_rows_have():
    other = TableFile(small(12).assign(y=5), "test.csv", "1")
    with pytest.raises(TableError, match=r"no training row has: 5\. Choose"):
        prepared(small(), test=other)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f.assign(fold="train"), {"test_by": "fold"}, "there are no test rows.*test_by"),
        (lambda f: f.assign(fold="test"), {"test_by": "fold"}, "there are no training rows"),
        (lambda f: f.head(3), {"test_fraction": 0.99}, "there are no training rows.*test_by"),
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


@pytest.mark.parametrize("kind", ["Int64", "Float64"])
def test_bands_of_numbers_with_missing_ones(kind):
    frame = small(90)
    frame["age"] = frame["age"].astype(kind).mask(frame.index % 9 == 0)
    names = prepared(frame, regroup=["age"]).groupings["age"].names
    assert len(names) == 4
    assert "(missing)" in names


def test_notes_say_what_was_inferred_and_what_was_requested():
    assert "classification (inferred: 'y' has 2 distinct values)" in prepared(small()).notes
    assert "regression (as requested)" in prepared(small(), task="regression").notes
    assert "tested on 13 of 40 rows chosen by a hash of their content, split seed 0" in prepared(small()).notes


def test_names_of_classes_that_look_alike_are_warned_of():
    frame = small()
    words = np.where(frame["y"] == 1, "yes", "no")
    mixed = np.where(frame.index % 2 == 0, np.char.upper(words), words)
    opened = [fgsv.open_table(frame.assign(y=each), group="provider", target="y") for each in (words, mixed)]
    assert not any("one class" in warning for warning in opened[0].warnings)
    [warning] = [each for each in opened[1].warnings if "may be one class" in each]
    assert all(name in warning for name in ("'YES'", "'yes'", "'NO'", "'no'"))


def test_rows_without_a_target_are_dropped_or_a_class():
    frame = small()
    frame["y"] = frame["y"].where(frame.index > 3)
    other = TableFile(frame.head(12), "test.csv", "1")
    dropped = prepared(frame, test=other, target_missing="drop")
    assert (len(dropped.target), len(dropped.test_target)) == (36, 8)
    assert dropped.target.dtype.kind == "i"  # the same players as in a table without these rows
    np.testing.assert_array_equal(dropped.target, frame["y"].dropna())
    assert "left out 4 of 40 rows of train.csv without a target" in dropped.notes
    named = prepared(frame, test=other, target_missing="unknown")
    assert (len(named.target), set(named.target)) == (40, {"0", "1", "unknown"})
    assert named.task == "classification"
    with pytest.raises(TableError, match="regression needs finite numbers"):
        prepared(frame, target_missing="unknown", task="regression")
    with pytest.raises(TableError, match="'ill' in row 8: regression"):
        prepared(
            frame.astype({"y": object}).assign(y=lambda found: found["y"].mask(found.index == 7, "ill")),
            target_missing="drop",
            task="regression",
        )
    with pytest.raises(TableError, match=r"missing values in 4 of 40 rows.*target_missing=.drop"):
        prepared(frame)


def test_a_unit_of_several_providers_is_owned_by_rows_or_split():
    """Co-owning leaves the game as it is, so nobody gains by how units are spread over companies."""
    frame = small(60).assign(patient=np.arange(60) // 4)
    with pytest.raises(TableError, match=r"shared_units=.co-own. .* shared_units=.split."):
        prepared(frame, unit="patient")
    owned = prepared(frame, unit="patient", shared_units="co-own")
    training = frame.loc[owned.features.index]
    expected = pd.crosstab(training["patient"], training["provider"], normalize="index")[list(owned.partition.names)]
    np.testing.assert_allclose(owned.partition.ownership, expected)
    split = prepared(frame, unit="patient", shared_units="split")
    assert split.partition.is_disjoint
    assert split.partition.n_players == len(training.groupby(["patient", "provider"]))
    pd.testing.assert_frame_equal(split.test_features, owned.test_features)
    assert len(set(zip(split.units, training["patient"], strict=True))) == split.partition.n_players
    whole = frame.assign(provider=np.where(frame["patient"] < 8, "a", "b"))
    for choice in (None, "co-own", "split"):
        assert prepared(whole, unit="patient", shared_units=choice).partition.n_players == owned.partition.n_players
