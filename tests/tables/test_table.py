"""Files of all kinds become players, groups, features and a target; bad ones are named for what they are."""

import gzip

import numpy as np
import pandas as pd
import pytest

from fgsv.tables import reading as table
from fgsv.tables.preprocessing import recognise_columns, transformer
from fgsv.tables.reading import TableError


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
    return table.prepare(table.Table(frame, "train.csv", "0"), **options)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.gz", "a.parquet", "a.txt"])
def test_formats_read_the_same(tmp_path, name):
    frame = small()
    path = tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        text = frame.to_csv(index=False, sep="\t" if ".tsv" in name else ";" if ".txt" in name else ",")
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    read = table.read(path, text=["provider"]).frame
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)


def test_names_of_digits_stay_as_written(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\ufeffprovider,y\n007,1\n7,2\n", encoding="utf-8")
    assert table.read(path, text=["provider"]).frame["provider"].tolist() == ["007", "7"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"  \n \n", "is empty"),
        (b"provider,y\n", "header but no rows"),
        ("provider,y\nZürich,1\n".encode("latin-1"), "--encoding latin-1"),
        ("provider,y\nZürich,1\n".encode("utf-16"), "--encoding utf-16"),
        (b"SQLite format 3\x00 and pages", "is a database, not a table"),
        (b"a,a\n1,2\n", "two columns named 'a'"),
        (b"a,b\n1,2\n1,2,3,4\n", "not a table"),
        (b"\x1f\x8bnothing", "gzip"),
    ],
)
def test_bad_files(tmp_path, content, words):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=words):
        table.read(path)


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "train.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match=r"did you mean .*train\.csv"):
        table.read(tmp_path / "trian.csv")
    with pytest.raises(TableError, match="is a directory"):
        table.read(tmp_path)
    (tmp_path / "a.parquet").write_text("not parquet")
    with pytest.raises(TableError, match="not a Parquet file"):
        table.read(tmp_path / "a.parquet")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("provider,y\nZürich,1\n".encode("latin-1"))
    assert table.read(latin, encoding="latin-1").frame["provider"][0] == "Zürich"
    with pytest.raises(TableError, match="unknown encoding"):
        table.read(latin, encoding="klingon")


def test_the_task_is_recognised():
    assert table.recognise(pd.Series(["a", "b"])) == "classification"
    assert table.recognise(pd.Series([True, False])) == "classification"
    assert table.recognise(pd.Series([0, 1, 2])) == "classification"
    assert table.recognise(pd.Series([0.5, 1.0])) == "regression"
    assert table.recognise(pd.Series(range(30))) == "regression"


def test_decimal_commas_are_read_where_semicolons_part_the_cells(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("provider;a;b;c;y\n1,5;0,5;1.234,25;x,1;1\n1,5;;7;2,5;0\n")
    found = table.read(path, text=["provider"])
    assert found.frame["a"].tolist()[0] == 0.5
    assert np.isnan(found.frame["a"][1])
    assert found.frame["b"].tolist() == [1234.25, 7.0]
    assert found.frame["c"].tolist() == ["x,1", "2,5"]
    assert found.frame["provider"].tolist() == ["1,5", "1,5"]
    assert found.notes == ("read as numbers with decimal commas: a, b",)


def test_an_infinite_target_is_named():
    frame = small().assign(y=np.inf)
    with pytest.raises(TableError, match=r"row 1 has inf$"):
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
    other = table.Table(small(12, seed=1), "test.csv", "1")
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
    with pytest.raises(TableError, match="more than one group"):
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
    with pytest.raises(TableError, match=r"missing in 3 of 40 rows.*--group-missing"):
        prepared(frame)
    data = prepared(frame, group_missing="nobody")
    assert "nobody" in data.partition.names


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f, {"group": ["providr"]}, "did you mean 'provider'"),
        (lambda f: f, {"target": "Y"}, "did you mean 'y'"),
        (lambda f: f, {"group": []}, "no group column"),
        (lambda f: f, {"target": "provider"}, "both the group and the target"),
        (lambda f: f, {"target": "zzz"}, "it has provider, patient"),
        (lambda f: f.assign(y=1), {}, "one value only"),
        (lambda f: f.assign(provider="me"), {}, "one group only"),
        (lambda f: f.assign(y=f["y"].where(f.index > 3)), {}, "missing in 4 of 40"),
        (lambda f: f[["provider", "y"]], {}, "no feature columns"),
        (lambda f: f, {"test_fraction": 2.0}, "between 0 and 1"),
        (lambda f: f.assign(y="word"), {"task": "regression"}, "finite numbers"),
        (lambda f: f.assign(patient=None), {"unit": "patient"}, "missing in 40 rows"),
        (lambda f: f, {"ignore": ["agee"]}, "did you mean 'age'"),
    ],
)
def test_bad_columns(change, options, words):
    with pytest.raises(TableError, match=words):
        prepared(change(small()), **options)


def test_classes_that_only_the_test_rows_have():
    other = table.Table(small(12).assign(y=5), "test.csv", "1")
    with pytest.raises(TableError, match="no training row has"):
        prepared(small(), test=other)


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
    assert "note" in columns.describe()


def test_columns_that_cannot_be_used():
    with pytest.raises(TableError, match="infinite"):
        recognise_columns(pd.DataFrame({"x": [1.0, np.inf]}))
    with pytest.raises(TableError, match="none of the feature columns"):
        recognise_columns(pd.DataFrame({"x": [None, None]}))
