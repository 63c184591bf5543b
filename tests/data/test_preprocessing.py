"""Columns of all kinds become finite numbers; columns that cannot are named."""

import datetime as dt
import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import fgsv
from fgsv.data.preprocessing import Fitted, recognise_columns, transformer
from fgsv.data.reading import TableError
from fgsv.files import decode


def mixed():
    return pd.DataFrame(
        {
            "age": [30, None, 50, 70],
            "member": [True, False, True, True],
            "seen": ["2024-01-31", "2024-02-01", None, "2024-02-03"],
            "kind": ["a", "b", None, "a"],
            "note": [f"text {i}" for i in range(4)],
            "nothing": [None] * 4,
        }
    )


def test_columns_of_all_kinds_become_finite_numbers():
    frame = pd.concat([mixed()] * 20, ignore_index=True)
    frame["note"] = [f"text {i}" for i in range(80)]
    columns = recognise_columns(frame)
    assert columns.numbers == ("age", "member")
    assert columns.dates == ("seen",)
    assert columns.categories == ("kind",)
    assert columns.left_out == ("note", "nothing")
    fitted = Fitted.to(frame, columns)
    numbers = fitted.transform(frame)
    assert numbers.shape == (80, 6)
    assert np.isfinite(numbers).all()
    np.testing.assert_allclose(numbers[:, :3].mean(axis=0), 0, atol=1e-12)
    unseen = mixed().assign(kind="new", seen="not a date")
    assert np.isfinite(fitted.transform(unseen)).all()
    assert columns.describe() == (
        "2 numeric columns (missing values get the median, then scaled): age, member; dates as days: seen; "
        "one column for each category, at most 20 of each: kind; "
        "left out (empty, or different in almost every row): note, nothing"
    )


def test_columns_that_cannot_be_used():
    with pytest.raises(TableError, match=r"'x' contains infinite numbers.*ignore="):
        recognise_columns(pd.DataFrame({"x": [1.0, np.inf]}))
    with pytest.raises(TableError, match=r"'x' contains .* numbers above 1e\+150"):
        recognise_columns(pd.DataFrame({"x": [1.0, 1e200]}))
    with pytest.raises(TableError, match="none of the feature columns"):
        recognise_columns(pd.DataFrame({"x": [None, None]}))


def test_many_categories_share_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": [f"town {i}" for i in rng.integers(0, 40, 400)]})
    assert recognise_columns(frame).categories == ("town",)
    numbers = Fitted.to(frame, recognise_columns(frame)).transform(frame)
    assert numbers.shape == (400, 20)
    np.testing.assert_array_equal(numbers.sum(axis=1), 1)


def saved(frame, columns):
    """Return preprocessing that is fitted, written and read again."""
    return decode(Fitted, json.loads(json.dumps(asdict(Fitted.to(frame, columns)))))


def test_what_is_fitted_anew_with_each_model_is_the_same_and_is_described_alike_in_every_process():
    frame = mixed().drop(columns="nothing")
    columns = recognise_columns(frame)
    step = clone(transformer(columns))
    np.testing.assert_array_equal(step.fit_transform(frame), Fitted.to(frame, columns).transform(frame))
    assert " at 0x" not in repr(step)


def test_saved_preprocessing_gives_the_bits_of_scikit_learn():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 10, 400), "stay": rng.gamma(2.0, size=400)})
    frame["town"] = [f"town {i}" for i in rng.integers(0, 40, 400)]
    frame.loc[::7, "age"] = None
    oracle = make_column_transformer(
        (
            make_pipeline(
                FunctionTransformer(np.ascontiguousarray), SimpleImputer(strategy="median"), StandardScaler()
            ),
            ["age", "stay"],
        ),
        (OneHotEncoder(max_categories=20, handle_unknown="infrequent_if_exist"), ["town"]),
        sparse_threshold=0.0,
    ).fit(frame)
    found = saved(frame, recognise_columns(frame))
    for each in (frame, frame.assign(town="nowhere", age=None), frame[:1]):
        np.testing.assert_array_equal(found.transform(each), oracle.transform(each))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["01.02.2024", "13.02.2024"], ["2024-02-01", "2024-02-13"]),
        (["1.2.2024 06:00", "2.2.2024 18:00"], ["2024-02-01 06:00", "2024-02-02 18:00"]),
        (["01/02/2024", "13/02/2024"], ["2024-02-01", "2024-02-13"]),
        (["02/01/2024", "02/13/2024"], ["2024-02-01", "2024-02-13"]),
        (["02/01/2024", "02/03/2024"], ["2024-02-01", "2024-02-03"]),
        (["2024-02-01", "13/02/2024"], ["2024-02-01", "2024-02-13"]),
        ([dt.date(2024, 2, 1), dt.date(2024, 2, 13)], ["2024-02-01", "2024-02-13"]),
        ([pd.Timestamp(2024, 2, 1, 6), pd.Timestamp(2024, 2, 13)], ["2024-02-01 06:00", "2024-02-13"]),
    ],
)
def test_the_day_and_the_month_are_told_apart_by_the_column(written, expected):
    """A cell such as 01/02/2024 is read as the others of its column are, in the test rows too."""
    frame = pd.DataFrame({"seen": pd.Series(written, dtype=object).infer_objects()})
    columns = recognise_columns(frame)
    truth = (pd.to_datetime(pd.Series(expected), format="mixed") - pd.Timestamp(0)) / pd.Timedelta(days=1)
    np.testing.assert_allclose(columns.as_numbers(frame["seen"]), truth)
    fitted = saved(frame, columns)
    np.testing.assert_array_equal(fitted.transform(frame[:1]), fitted.transform(frame)[:1])
    assert ("(day/month/year)" in columns.describe()) == ("13/02/2024" in written)


@pytest.mark.parametrize(
    ("written", "tested", "words"),
    [
        (["13/02/2024", "02/13/2024"], [], r"month/day/year, but has '13/02/2024' in the rows, which is day/month/y"),
        (
            ["2024-02-13", "02.03.2024"],
            ["01/02/2024", "13/02/2024"],
            r"month/day/year, but has '13/02/2024' in the r",
        ),
        (
            ["13/02/2024", "01/02/2024"],
            ["01/02/2024", "02/13/2024"],
            r"day/month/year, but has '02/13/2024' in the r",
        ),
    ],
)
def test_a_date_that_has_the_day_where_others_have_the_month_is_refused(written, tested, words):
    """01/02/2024 beside it would be another day."""
    columns = recognise_columns(pd.DataFrame({"seen": written}))
    with pytest.raises(TableError, match=f"column 'seen' is read as {words}"):
        columns.check(pd.DataFrame({"seen": tested or written}, index=[0, 0]), "rows")


def in_cities(*cities):
    rows = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40) % 2, "provider": ["a", "b"] * 20})
    return rows.assign(city=cities * (40 // len(cities)))


OPTIONS = {"target": "y", "group": "provider", "test": in_cities("Köln", "Ulm").assign(x=np.arange(40) + 0.5)}


@pytest.mark.parametrize(
    ("cities", "names"),
    [
        (("Köln", "Ulm"), None),
        (("Ko\u0308ln", "Ulm"), r"'Ko\u0308ln' and 'K\xf6ln'"),
        (("Ulm", "ULM"), "'ULM' and 'Ulm'"),
    ],
)
def test_categories_that_are_written_in_several_ways_are_named(cities, names):
    found = [each for each in fgsv.open_table(in_cities(*cities), **OPTIONS).warnings if "category" in each]
    words = f"these names may be one category of column 'city': {names}; if so, write them alike"
    assert found == ([] if names is None else [words])


def test_categories_that_the_preprocessing_was_not_fitted_to_are_named(tmp_path):
    def warnings(*cities, **start):
        return [each for each in fgsv.open_table(in_cities(*cities), **OPTIONS, **start).warnings if "fitted" in each]

    first = fgsv.open_table(in_cities("Köln", "Ulm"), **OPTIONS)
    fgsv.value(first.game, first.partition, budget=50, ledger=tmp_path / "first.db")
    assert warnings("Köln", "Ulm", "Bonn", "Ulm", start=tmp_path / "first.db") == [
        "column 'city' has categories that the preprocessing was not fitted to, in 10 of 40 training rows: 'Bonn'; "
        "a model sees none of the known categories there"
    ]
    assert warnings("Köln", "Ulm", "Bonn", "Ulm") == warnings("Köln", "Ulm", start=tmp_path / "first.db") == []


@pytest.mark.parametrize(
    ("name", "cells", "words"),
    [
        ("age", ["1,5"] * 4, r"'age' must have numbers, but has '1,5' in the test rows.*ignore=\"age\""),
        ("age", [1.0, 2.0, np.inf, None], "'age' must have numbers, but has inf in the test rows"),
        ("seen", ["yesterday"] * 4, "'seen' must have dates, but has 'yesterday'"),
        ("seen", [45000, 45001, 45002, 45003], "'seen' must have dates, but has 45000"),
    ],
)
def test_a_column_that_is_something_else_in_the_test_rows_is_named(name, cells, words):
    columns = recognise_columns(mixed().drop(columns="note"))
    columns.check(mixed(), "test rows")
    columns.check(mixed().assign(age=None, seen=["2024-01-31", "soon", None, None]), "test rows")
    with pytest.raises(TableError, match=words):
        columns.check(mixed().assign(**{name: cells}), "test rows")


@pytest.mark.parametrize(
    ("words", "numbers"),
    [(["1", "2", "3b"], [1.0, 2.0, None]), (["250", "250.83", "V57"], [250.0, 250.83, None])],  # missing: so floats
)
def test_words_that_are_numbers_in_another_file_stay_the_same_words(words, numbers):
    frame = pd.DataFrame({"code": words * 4})
    fitted = Fitted.to(frame, recognise_columns(frame))
    np.testing.assert_array_equal(fitted.transform(pd.DataFrame({"code": numbers})), np.diag([1, 1, 0]))


@pytest.mark.parametrize("refit", [False, True])
def test_a_test_file_with_text_for_numbers_is_refused_before_the_run(refit):
    frame = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20) % 2, "provider": ["a", "b"] * 10})
    with pytest.raises(TableError, match="'x' must have numbers, but has '1,5' in the test rows"):
        fgsv.open_table(
            frame, target="y", group="provider", test=frame.assign(x="1,5"), refit_preprocessing=refit, model="knn"
        )
