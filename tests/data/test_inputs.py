"""Files of every kind, several at once, stdin and data frames of every library give the same table."""

import io
import json
import lzma
import sys
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.data.formats import read_json
from fgsv.data.joining import read_all
from fgsv.data.reading import TableError, with_text


def small(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n).round(6)
    return pd.DataFrame(
        {
            "provider": np.array(["007", "south", "east"])[np.arange(n) % 3],
            "age": rng.integers(20, 90, n),
            "kind": rng.choice(["a", "b"], n),
            "x": x,
            "y": (x + rng.normal(size=n) > 0).astype(int),
        }
    )


def as_jsonl(frame, path):
    frame.to_json(path, orient="records", lines=True, double_precision=15)


def as_json(frame, path):
    frame.to_json(path, orient="records", double_precision=15)


def as_excel(frame, path):
    frame.to_excel(path, index=False)


def as_zip(frame, path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/rows.csv", frame.to_csv(index=False))
        archive.writestr("__MACOSX/._rows.csv", b"\0")


def as_gzip(frame, path):
    frame.to_json(path, orient="records", lines=True, double_precision=15, compression="gzip")


WRITERS = {
    "a.jsonl": as_jsonl,
    "a.json": as_json,
    "a.xlsx": as_excel,
    "a.zip": as_zip,
    "a.jsonl.gz": as_gzip,
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    **dict.fromkeys(["a.csv", "a.csv.gz"], lambda frame, path: frame.to_csv(path, index=False)),
    **dict.fromkeys(["a.tsv", "a.tsv.gz"], lambda frame, path: frame.to_csv(path, index=False, sep="\t")),
    "a.txt": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_formats_read_the_same(tmp_path, name):
    if name == "a.xlsx":
        pytest.importorskip("openpyxl")
    WRITERS[name](small(), tmp_path / name)
    found = read_all(tmp_path / name, text=["provider"]).frame
    pd.testing.assert_frame_equal(found, small(), check_dtype=False)
    assert found["provider"][0] == "007"


def test_stdin_in_a_format_that_is_not_read_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lzma.compress(b"a,b\n1,2\n"))))
    with pytest.raises(TableError, match="- is compressed with xz: decompress it first"):
        read_all("-")


def test_stdin_is_read_whatever_it_contains(monkeypatch):
    for content in (small().to_csv(index=False), small().to_json(orient="records", lines=True, double_precision=15)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        pd.testing.assert_frame_equal(read_all("-", text=["provider"]).frame, small(), check_dtype=False)


@pytest.mark.parametrize("library", ["pandas", "polars", "datasets"])
def test_a_data_frame_is_the_same_game_as_its_file(tmp_path, library):
    package = pytest.importorskip(library)
    frame = small().set_index(np.arange(60) // 2)  # labels of rows do not matter, even if they repeat
    small().to_csv(tmp_path / "a.csv", index=False)
    given = {
        "pandas": lambda: frame,
        "polars": lambda: package.from_pandas(frame),
        "datasets": lambda: package.Dataset.from_pandas(frame, preserve_index=False),
    }[library]()
    options = {"group": "provider", "target": "y"}
    of_file, of_frame = (fgsv.open_table(each, **options) for each in (tmp_path / "a.csv", given))
    assert of_frame.game.fingerprint == of_file.game.fingerprint
    assert of_frame.partition.names == ("007", "south", "east")
    assert len(of_frame.source.sha256) == 64
    assert fgsv.value(of_frame.game, of_frame.partition, budget=60).names == of_frame.partition.names
    tested = fgsv.open_table(given, **options, test=given)
    assert tested.source.test_rows == 60


def test_several_files_are_one_table_and_their_names_are_the_providers(tmp_path):
    paths = []
    for number, name in enumerate(["north.csv", "south.csv.gz", "east.jsonl"]):
        part = small().iloc[number * 20 : number * 20 + 20].drop(columns="provider")
        paths.append(tmp_path / name)
        as_jsonl(part, paths[-1]) if name.endswith("jsonl") else part.to_csv(paths[-1], index=False)
    table = fgsv.open_table(paths, target="y")
    assert table.partition.names == ("north", "south", "east")
    assert table.source.columns["group"] == ["file"]
    assert table.source.file == "north.csv, south.csv.gz, east.jsonl"
    assert "the provider is the name of the file: north, south, east" in table.notes
    whole = small().assign(provider=np.repeat(["north", "south", "east"], 20))
    assert fgsv.open_table(whole, group="provider", target="y").game.fingerprint == table.game.fingerprint
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in paths:
            packed.write(path, path.name)
    assert fgsv.open_table(archive, target="y").partition.names == table.partition.names


def test_a_file_that_lacks_the_provider_column_is_a_provider(tmp_path):
    small(30).to_csv(tmp_path / "market.csv", index=False)
    small(30, seed=1).drop(columns="provider").to_csv(tmp_path / "newcomer.csv", index=False)
    files = [tmp_path / "market.csv", tmp_path / "newcomer.csv"]
    assert fgsv.open_table(files, group="provider", target="y").partition.names[-1] == "newcomer"
    with pytest.raises(TableError, match="did you mean 'provider'"):
        fgsv.open_table(files, group="providr", target="y")
    with pytest.raises(TableError, match=r"newcomer\.csv has no column 'provider'.*ignore=\"provider\""):
        fgsv.open_table(files, target="y")


def test_files_of_one_name_are_told_apart(tmp_path):
    paths = [tmp_path / year / "rows.csv" for year in ("2023", "2024")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        small(40, number).drop(columns="provider").to_csv(path, index=False)
    assert fgsv.open_table(paths, target="y").partition.names == ("rows (1)", "rows (2)")


def test_what_cannot_be_joined_or_read_is_named(tmp_path):
    small().to_csv(tmp_path / "a.csv", index=False)
    small().assign(age="old").to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(TableError, match=r"'age' has numbers in a\.csv and text in b\.csv.*ignore=\"age\""):
        read_all([tmp_path / "a.csv", tmp_path / "b.csv"], group=["provider"], text=["provider"])
    (tmp_path / "c.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(TableError, match=r"line 2, column 7: Expecting value$"):
        read_all(tmp_path / "c.jsonl")
    (tmp_path / "d.json").write_text("[1, 2]")
    with pytest.raises(TableError, match="row 1 is not an object"):
        read_all(tmp_path / "d.json")
    with zipfile.ZipFile(tmp_path / "e.zip", "w"):
        pass
    for name, content, words in [
        ("f.xlsx", b"PK\x03\x04 not an archive", "cannot be unpacked"),
        ("g.xls", b"\xd0\xcf\x11\xe0 old", "save it as .xlsx"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TableError, match=words):
            read_all(tmp_path / name)
    with pytest.raises(TableError, match="got dict: choose one of train, test"):
        read_all({"train": small(), "test": small()})
    for cells in ({"a": [1, 2], "b": ["x", "y"]}, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]):
        with pytest.raises(TableError, match="got dict: make its cells a data frame"):
            read_all(cells)
    with pytest.raises(TableError, match="expected a path, a data frame"):
        read_all(7)


def test_objects_and_lists_in_json_become_columns_and_words(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"p": 7, "q": {"r": 1}, "t": [1, 2]}\n{"p": null, "q": {"r": 2}, "t": []}\n')
    found = read_all(tmp_path / "a.jsonl", text=["p"]).frame
    assert found["p"].tolist()[0] == "7"
    assert found["q.r"].tolist() == [1, 2]
    assert found["t"].tolist() == ["[1, 2]", "[]"]


def test_json_lines_are_searched_once_whatever_their_number(tmp_path):
    class Counted(str):
        searches = 0

        def __contains__(self, part):
            type(self).searches += 1
            return super().__contains__(part)

    text = Counted("\n".join(f'{{"x": {number}}}' for number in range(500)))
    assert len(read_json(tmp_path / "a.jsonl", text, [])) == 500
    assert Counted.searches <= 2


@pytest.mark.parametrize("cell", ["[" * 100_000, "9" * 5000, '"\\uD800"', '"\\ud800"'])
def test_json_that_python_cannot_hold_is_refused(tmp_path, cell):
    (tmp_path / "a.jsonl").write_text(f'{{"x": 1}}\n{{"x": {cell}}}\n')
    with pytest.raises(TableError, match=r"a\.jsonl"):
        read_all(tmp_path / "a.jsonl")


def test_a_provider_may_be_called_na_in_a_spreadsheet(tmp_path):
    frame = pd.DataFrame({"provider": ["NA", "None", None, "007"], "x": ["NA", 1, 2, 3]})
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    found = read_all(tmp_path / "a.xlsx", text=["provider"]).frame
    assert found["provider"].isna().tolist() == [False, False, True, False]
    assert found["provider"].dropna().tolist() == ["NA", "None", "007"]
    assert np.isnan(found["x"][0])


def test_columns_of_a_sheet_with_the_same_name_are_refused(tmp_path):
    pd.DataFrame([[1, 2, 3]], columns=["x", "y", "x"]).to_excel(tmp_path / "a.xlsx", index=False)
    with pytest.raises(TableError, match="two columns named 'x'"):
        read_all(tmp_path / "a.xlsx")


@pytest.mark.parametrize("step", [1, 10**25])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "frame"])
def test_integers_beyond_64_bits_and_those_of_object_columns_are_numbers(tmp_path, kind, step):
    whole = [step * (i * 7 % 40) for i in range(40)]
    frame = pd.DataFrame(
        {"provider": ["a", "b"] * 20, "x": np.linspace(0, 1, 40), "y": pd.Series(whole, dtype=object)}
    )
    path = tmp_path / f"whole.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, frame.to_dict("records"))))
    table = fgsv.open_table(frame if kind == "frame" else path, target="y", group="provider")
    assert table.notes[0] == "regression (inferred: 'y' has 40 distinct values)"


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 2], "i"),
        ([1, None], "f"),
        ([2**80, pd.NA], "f"),
        ([10**400, 1], "O"),
        ([1, "b"], "O"),
        ([True, None], "O"),
    ],
)
def test_objects_that_are_numbers_become_numbers(cells, kind):
    assert with_text(pd.DataFrame({"x": pd.Series(cells, dtype=object)}), [])["x"].dtype.kind == kind


def test_the_index_and_the_decimals_of_parquet_files_are_columns_and_numbers(tmp_path):
    decimals = [Decimal("1.50"), None, Decimal("3.25")]
    frame = pd.DataFrame({"provider": ["a", "b", "c"], "price": decimals})
    frame.set_index("provider").to_parquet(tmp_path / "a.parquet")
    found = read_all(tmp_path / "a.parquet", text=["provider"]).frame
    assert found["provider"].tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found["price"].to_numpy(), [1.5, np.nan, 3.25])
    np.testing.assert_array_equal(read_all(frame).frame["price"].to_numpy(), [1.5, np.nan, 3.25])
    pd.concat([frame, frame]).to_parquet(tmp_path / "b.parquet")
    assert read_all(tmp_path / "b.parquet").frame.index.tolist() == list(range(6))


def test_durations_are_numbers_of_days(tmp_path):
    hours = [36.0, None, 6.0, 12.0]
    stay = pd.to_timedelta(hours, unit="h")
    frame = pd.DataFrame({"stay": stay, "object": pd.Series(stay.to_pytimedelta(), dtype=object), "x": [1, 2, 3, 4]})
    frame.to_parquet(tmp_path / "a.parquet")
    for found in (read_all(frame).frame, read_all(tmp_path / "a.parquet").frame):
        for name in ("stay", "object"):
            np.testing.assert_allclose(found[name], np.array(hours, dtype=float) / 24)


def test_providers_and_units_may_be_the_index_of_a_data_frame():
    frame = small().assign(patient=np.arange(60) // 2 * 3 % 90)
    options = {"group": "provider", "target": "y", "unit": "patient", "shared_units": "split"}
    expected = fgsv.open_table(frame, **options)
    for index in (["provider", "patient"], ["patient"]):
        assert fgsv.open_table(frame.set_index(index), **options).game.fingerprint == expected.game.fingerprint
    kept = fgsv.open_table(frame.set_index("patient", drop=False), **options)
    assert kept.game.fingerprint == expected.game.fingerprint
    assert fgsv.open_table(small().set_index("age"), group="provider", target="y").source.features == ("x", "kind")


def test_formulas_without_results_are_refused_and_empty_results_are_not(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["provider", "x", "twice"], ["a", 1, "=B2*2"], ["b", 2, "=B3*2"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(TableError, match=r"a\.xlsx has a formula that was never calculated, in cell C2: open"):
        read_all(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as old, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as new:
        for name in old.namelist():  # as a spreadsheet program saves a number and an empty text
            content = old.read(name).replace(b"<f>B2*2</f><v></v>", b"<f>B2*2</f><v>2</v>")
            content = content.replace(b"<f>B2*2</f><v />", b"<f>B2*2</f><v>2</v>")
            new.writestr(name, content.replace(b'<c r="C3">', b'<c r="C3" t="str">'))
    np.testing.assert_array_equal(read_all(tmp_path / "b.xlsx").frame["twice"], [2, np.nan])


def test_cells_are_no_name_of_a_target():
    with pytest.raises(
        TypeError,
        match=r"expected the name of a column as target, got Series: add it to the table",
    ):
        fgsv.open_table(small().drop(columns="y"), group="provider", target=small()["y"])


def test_a_table_prints_its_warnings():
    table = fgsv.open_table(small().assign(number=range(60)), group="provider", target="y")
    assert table.warnings
    assert all(f"warning: {each}" in str(table) for each in table.warnings)


def test_true_and_false_are_joined_with_their_like_and_not_with_numbers():
    flags = pd.DataFrame({"provider": ["a", "b"], "flag": [True, False]})
    joined = read_all([flags, flags.assign(flag=[None, True])], group=["provider"]).frame
    assert joined["flag"].tolist() == [True, False, None, True]
    with pytest.raises(TableError, match="'flag' has numbers in"):
        read_all([flags, flags.assign(flag=[0.5, 1.0])], group=["provider"])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"target": 2}, "no column 2 .* did you mean '2'"),
        ({"target": None}, "no column None"),
        ({"group": 0}, "named by text, such as '5'.* got 0"),
        ({"ignore": [1]}, r"named by text, .* got \[1\]"),
    ],
)
def test_columns_of_a_data_frame_are_named_by_text(columns, words):
    frame = pd.DataFrame({0: ["a", "b"] * 20, 1: np.arange(40.0), 2: [0, 1, 1, 0] * 10})
    with pytest.raises(TableError, match=words):
        fgsv.open_table(frame, **{"target": "2", "group": "0"} | columns)


def test_what_is_opened_prints_as_words_not_as_data():
    table = fgsv.open_table(small(), target="y", group="provider")
    for shown in (table, table.game, fgsv.pipeline.value_data(table, budget=100)):
        assert "array(" not in repr(shown)
        assert not any(repr(number) in repr(shown) for number in small()["x"])
    assert repr(table).splitlines()[1:] == table.notes


def test_a_file_that_is_given_twice_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(TableError, match=r"a\.csv is given twice"):
        read_all([tmp_path / "a.csv", tmp_path / "." / "a.csv"])


@pytest.mark.parametrize("kind", ["parquet", "frame"])
def test_a_missing_provider_makes_no_fractions_of_the_others(tmp_path, kind):
    """In pandas one missing cell turns integers into floats: next month, without it, 7 must have the same name."""
    frame = pd.DataFrame({"provider": [7, None, 8], "y": [1.5, 2.5, 3.5]})
    if kind == "parquet":
        frame.to_parquet(tmp_path / "a.parquet")
    found = read_all(tmp_path / "a.parquet" if kind == "parquet" else frame, text=["provider"]).frame["provider"]
    assert found.dropna().tolist() == ["7", "8"]
    halves = read_all(frame.assign(provider=[7.5, None, 8]), text=["provider"]).frame["provider"]
    assert halves.dropna().tolist() == ["7.5", "8.0"]
