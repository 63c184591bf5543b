"""Columns of all kinds become finite numbers; columns that cannot are named."""

import datetime as dt
import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import fgsv
from fgsv.data.preprocessing import Fitted, ToDays, recognise_columns, transformer
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
    fitted = transformer(columns).fit(frame)
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
    numbers = transformer(recognise_columns(frame)).fit_transform(frame)
    assert numbers.shape == (400, 20)
    np.testing.assert_array_equal(numbers.sum(axis=1), 1)


def test_dates_become_days_however_they_are_written():
    written = pd.DataFrame({"seen": ["2024-01-31", "2024-02-01", "2024-03-01"] * 2})
    typed = written.assign(seen=pd.to_datetime(written["seen"]))
    numbers = [transformer(recognise_columns(frame)).fit_transform(frame) for frame in (written, typed)]
    np.testing.assert_allclose(numbers[0], numbers[1])
    first, second, third = numbers[0][:3, 0]
    assert (third - second) / (second - first) == pytest.approx(29)


@pytest.mark.parametrize("written", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y %H:%M", "%Y-%m-%d"])
def test_the_order_of_day_and_month_is_that_of_the_column(written):
    dates = pd.Series(pd.date_range("2025-01-01", periods=90))
    frame = pd.DataFrame({"seen": dates.dt.strftime(written)})
    columns = recognise_columns(frame)
    assert columns.day_first == (("seen",) if written == "%d/%m/%Y" else ())  # with points there is no doubt
    assert ("seen (day/month/year)" in columns.describe()) == (written == "%d/%m/%Y")
    expected = dates.to_frame("seen")
    oracle = Fitted.to(expected, recognise_columns(expected)).transform(expected)
    fitted = decode(Fitted, json.loads(json.dumps(asdict(Fitted.to(frame, columns)))))
    np.testing.assert_allclose(fitted.transform(frame), oracle)
    np.testing.assert_allclose(transformer(columns).fit_transform(frame), oracle)
    np.testing.assert_allclose(fitted.transform(frame[:5]), oracle[:5])  # 4/1/2025 alone would be in April


def test_the_description_of_a_transformer_is_the_same_in_every_process():
    columns = recognise_columns(mixed().drop(columns="nothing"))
    assert " at 0x" not in repr(clone(transformer(columns)))


def test_saved_preprocessing_gives_the_same_bits():
    rng = np.random.default_rng(0)
    frame = pd.concat([mixed().drop(columns="note")] * 100, ignore_index=True)
    frame["town"] = [f"town {i}" for i in rng.integers(0, 40, 400)]
    frame["age"] = rng.normal(50, 10, 400)
    frame.loc[::7, "age"] = None
    columns = recognise_columns(frame)
    by_sklearn = transformer(columns).fit(frame)
    saved = decode(Fitted, json.loads(json.dumps(asdict(Fitted.to(frame, columns)))))
    unseen = frame.assign(kind="new", town="nowhere", seen="not a date", age=None)
    for each in (frame, unseen, frame[:1]):
        np.testing.assert_array_equal(saved.transform(each), by_sklearn.transform(each))


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
    ],
)
def test_the_day_and_the_month_are_told_apart_by_the_column(written, expected):
    """A cell such as 01/02/2024 is read as the others of its column are, in the test rows too."""
    frame = pd.DataFrame({"seen": pd.Series(written, dtype=object)})
    columns = recognise_columns(frame)
    truth = (pd.to_datetime(pd.Series(expected), format="mixed") - pd.Timestamp(0)) / pd.Timedelta(days=1)
    np.testing.assert_allclose(ToDays(columns.day_first).transform(frame)[:, 0], truth)
    fitted = decode(Fitted, json.loads(json.dumps(asdict(Fitted.to(frame, columns)))))
    np.testing.assert_array_equal(fitted.transform(frame[:1]), fitted.transform(frame)[:1])
    np.testing.assert_array_equal(fitted.transform(frame), transformer(columns).fit(frame).transform(frame))
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


def test_categories_that_are_written_in_several_ways_are_named():
    rows = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40) % 2, "provider": ["a", "b"] * 20})
    rows = rows.assign(city=["Köln", "Ulm"] * 20)
    tested = rows.assign(x=rows["x"] + 0.5)
    options = {"target": "y", "group": "provider", "ignore": ["x"]}
    assert not any("category" in each for each in fgsv.open_table(rows, test=tested, **options).warnings)
    decomposed = tested.assign(city=["Ko\u0308ln", "Ulm"] * 20)
    warnings = fgsv.open_table(rows, test=decomposed, **options).warnings
    assert r"these names may be one category of column 'city': 'K\xf6ln' and 'Ko\u0308ln'; if so, write them" in str(
        "".join(warnings)
    )
    both = rows.assign(city=["Ulm", "ULM"] * 20)
    warnings = "".join(fgsv.open_table(both, test=tested, **options).warnings)
    assert "these names may be one category of column 'city': 'ULM' and 'Ulm'" in warnings


def test_categories_that_the_preprocessing_was_not_fitted_to_are_named(tmp_path):
    rows = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40) % 2, "provider": ["a", "b"] * 20})
    rows = rows.assign(city=["Köln", "Ulm"] * 20)
    tested = rows.assign(x=rows["x"] + 0.5)
    options = {"target": "y", "group": "provider", "test": tested}
    first = fgsv.open_table(rows, **options)
    fgsv.value(first.game, first.partition, budget=50, ledger=tmp_path / "first.db")
    later = rows.assign(city=["Köln", "Ulm", "Bonn", "Ulm"] * 10)
    (warning,) = (
        each for each in fgsv.open_table(later, **options, start=tmp_path / "first.db").warnings if "fitted" in each
    )
    assert warning == (
        "column 'city' has categories that the preprocessing was not fitted to, in 10 of 40 training rows: 'Bonn'; "
        "a model sees none of the known categories there"
    )
    assert not any("fitted" in each for each in fgsv.open_table(later, **options).warnings)
    assert not any(
        "fitted" in each for each in fgsv.open_table(rows, **options, start=tmp_path / "first.db").warnings
    )


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


def test_words_that_are_numbers_in_another_file_stay_the_same_words():
    frame = pd.DataFrame({"ward": ["1", "2", "3b"] * 4})
    fitted = Fitted.to(frame, recognise_columns(frame))
    numbers = pd.DataFrame({"ward": [1.0, None, 2.0]})  # one cell is missing, so these are floats
    np.testing.assert_array_equal(fitted.transform(numbers), [[1, 0, 0], [0, 0, 0], [0, 1, 0]])
    codes = pd.DataFrame({"code": ["250", "250.83", "V57"] * 4})
    fitted = Fitted.to(codes, recognise_columns(codes))
    numbers = pd.DataFrame({"code": [250.0, 250.83, None]})  # no code with a letter, so these are floats
    np.testing.assert_array_equal(fitted.transform(numbers), [[1, 0, 0], [0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize("refit", [False, True])
def test_a_test_file_with_text_for_numbers_is_refused_before_the_run(refit):
    frame = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20) % 2, "provider": ["a", "b"] * 10})
    with pytest.raises(TableError, match="'x' must have numbers, but has '1,5' in the test rows"):
        fgsv.open_table(
            frame, target="y", group="provider", test=frame.assign(x="1,5"), refit_preprocessing=refit, model="knn"
        )
