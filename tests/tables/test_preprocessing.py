"""Columns of all kinds become finite numbers; columns that cannot are named."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fgsv.tables.preprocessing import Fitted, days, recognise_columns, transformer
from fgsv.tables.reading import TableError


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
    with pytest.raises(TableError, match=r"'x' contains infinite numbers.*--ignore"):
        recognise_columns(pd.DataFrame({"x": [1.0, np.inf]}))
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
    assert columns.day_first == (("seen",) if written.startswith("%d") else ())
    assert ("seen (day first)" in columns.describe()) == written.startswith("%d")
    expected = dates.to_frame("seen")
    oracle = Fitted.to(expected, recognise_columns(expected)).transform(expected)
    fitted = Fitted.of_dict(json.loads(json.dumps(asdict(Fitted.to(frame, columns)))))
    np.testing.assert_allclose(fitted.transform(frame), oracle)
    np.testing.assert_allclose(transformer(columns).fit_transform(frame), oracle)
    np.testing.assert_allclose(fitted.transform(frame[:5]), oracle[:5])  # 4/1/2025 alone would be in April


def test_dates_in_two_ways_of_writing():
    frame = pd.DataFrame({"seen": ["04.02.2025", "2025-02-05", None, " 6.2.2025"]})
    written = days(frame["seen"], day_first=recognise_columns(frame).day_first == ("seen",))
    np.testing.assert_array_equal(written - written[0], [0, 1, np.nan, 2])
    frame = pd.DataFrame({"seen": ["1/2/2025", "1/3/2025"]})  # no number is too large for a month: month first
    np.testing.assert_array_equal(np.diff(days(frame["seen"], day_first=bool(recognise_columns(frame).day_first))), 1)


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
    saved = Fitted.of_dict(json.loads(json.dumps(asdict(Fitted.to(frame, columns)))))
    unseen = frame.assign(kind="new", town="nowhere", seen="not a date", age=None)
    for each in (frame, unseen, frame[:1]):
        np.testing.assert_array_equal(saved.transform(each), by_sklearn.transform(each))
