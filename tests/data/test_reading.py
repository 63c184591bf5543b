"""Files of all kinds become the same rows; bad ones are named for what they are."""

import bz2
import lzma

import numpy as np
import pandas as pd
import pytest

from fgsv.data.joining import read_all as read
from fgsv.data.reading import TableError, TableFile, _header


def test_codes_that_become_numbers_are_named(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("provider,zip,hour,x,day\n007,99999,0,0.5,2024-01-02\n008,01234,10,00.7,2024-02-01\n009,,7,1,\n")
    file = read(path, text=["provider"])
    assert file.notes == (
        "read as numbers without leading zeros: zip (01234 is 1234). If they are codes, add a letter to them",
    )
    assert file.frame["zip"].tolist()[:2] == [99999, 1234]
    assert file.frame["provider"].tolist() == ["007", "008", "009"]


def test_names_of_digits_stay_as_written(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\ufeffprovider,y\n007,1\n7,2\n", encoding="utf-8")
    assert read(path, text=["provider"]).frame["provider"].tolist() == ["007", "7"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty: expected a header"),
        (b"  \n \n", "is empty"),
        (b"provider,y\n", "header but no rows"),
        ("provider,y\nZürich,1\n".encode("latin-1"), 'encoding="latin-1"'),
        ("provider,y\nZürich,1 €\n".encode("cp1252"), 'encoding="cp1252"'),
        ("provider,y\nZürich,1\n".encode("utf-16"), 'encoding="utf-16"'),
        (b"SQLite format 3\x00 and pages", "is an SQLite database, not a table"),
        (b"ARROW1\x00\x00\xff", "is a Feather or Arrow file: save it as Parquet or CSV"),
        (bz2.compress(b"a,b\n1,2\n"), "compressed with bzip2: decompress it first"),
        (lzma.compress(b"a,b\n1,2\n"), "compressed with xz: decompress it first"),
        (b'"' + 200_000 * b"x" + b'",b\n1,2\n', "its header cannot be read"),
        (b"a,a\n1,2\n", "two columns named 'a'"),
        (b"a,b\n1,2\n1,2,3,4\n", "not a table: line 3 has 4 cells, expected 2"),
        (b'a,b\n1,2\n1,"2\n', "not a table: a quotation mark opens a cell and none closes it"),
        (b"\x1f\x8bnothing", "gzip"),
        (b"\x89PNG\r\n\x00\x00", "is not text: it has null bytes, as binary files do"),
        (b"Export of May\n\na,b,y\n1,2,0\n1,2,1\n", "the first line is not the header but a title, delete it; other"),
        (
            b"Export of May\na;b;y\n1,5;2;0\n",
            "line 3 has 2 cells, expected 1: if the first line is .* a title, delete",
        ),
    ],
)
def test_bad_files(tmp_path, content, words):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=words):
        read(path)


def test_an_encoding_that_does_not_suit_the_file_is_not_advised_again(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("provider,y\nŁódź,1\n", encoding="utf-8")
    with pytest.raises(TableError, match=r"a\.csv is utf-8 text, not cp1252: save all files in one encoding"):
        read(path, encoding="cp1252")
    path.write_bytes("provider,y\nŁódź,1\n".encode("cp1250") + b"\x81,1\n")
    with pytest.raises(TableError, match=r"is not cp1252 text .*: name the encoding it was saved in$"):
        read(path, encoding="cp1252")


def test_a_table_in_utf8_that_is_read_in_another_encoding_is_called_garbled(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("provider,y\nKöln,1\n", encoding="utf-8")
    assert read(path, encoding="latin-1").notes == (
        "read as latin-1, but also valid utf-8: a.csv. If it is utf-8, it is garbled",
    )
    assert not read(path).notes
    path.write_text("provider,y\nKöln,1\n", encoding="latin-1")
    assert not read(path, encoding="latin-1").notes
    path.write_text("provider,y\nUlm,1\n", encoding="utf-8")
    assert not read(path, encoding="latin-1").notes


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "train.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match=r"did you mean .*train\.csv"):
        read(tmp_path / "trian.csv")
    with pytest.raises(TableError, match="is a directory"):
        read(tmp_path)
    (tmp_path / "a.parquet").write_text("not parquet")
    with pytest.raises(TableError, match="not a Parquet file"):
        read(tmp_path / "a.parquet")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("provider,y\nZürich,1\n".encode("latin-1"))
    assert read(latin, encoding="latin-1").frame["provider"][0] == "Zürich"
    with pytest.raises(TableError, match="unknown encoding"):
        read(latin, encoding="klingon")


def test_decimal_commas_are_read_where_semicolons_separate_the_cells(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("provider;a;b;c;y\n1,5;0,5;1.234,25;x,1;1\n1,5;;7;2,5;0\n")
    found = read(path, text=["provider"])
    assert found.frame["a"].tolist()[0] == 0.5
    assert np.isnan(found.frame["a"][1])
    assert found.frame["b"].tolist() == [1234.25, 7.0]
    assert found.frame["c"].tolist() == ["x,1", "2,5"]
    assert found.frame["provider"].tolist() == ["1,5", "1,5"]
    assert found.notes == ("read as numbers with decimal commas: a, b",)


def cells(tmp_path, *column):
    """Read a file of two columns separated by semicolons; return the first, and whether a note names it."""
    path = tmp_path / "a.csv"
    path.write_text("a;y\n" + "".join(f"{cell};0.5\n" for cell in column))
    found = read(path)
    assert found.frame["y"].tolist() == [0.5] * len(column)  # a point elsewhere in the file stays a decimal point
    assert found.notes in ((), ("read as numbers with decimal commas: a",))
    return found.frame["a"].tolist(), bool(found.notes)


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (["0,5", "-2,25"], [0.5, -2.25]),
        (["+0,5", " 2 "], [0.5, 2.0]),
        (["1.234,5", "1.234.567,25"], [1234.5, 1234567.25]),
        (["1.234", "0,5"], [1234.0, 0.5]),
        (["1234,5", "7"], [1234.5, 7.0]),
        (["1,5e3", "2,5E-1"], [1500.0, 0.25]),
        (['"1,5"', '"2"'], [1.5, 2.0]),
        (["3,141592653589793", "1"], [3.141592653589793, 1.0]),
    ],
)
def test_decimal_commas_and_thousands(tmp_path, column, numbers):
    assert cells(tmp_path, *column) == (numbers, True)


@pytest.mark.parametrize(
    "column",
    [
        ["1.5", "2,5"],
        ["1.50,5", "2,5"],
        ["1.2345,5", "2,5"],
        ["1,5", "x"],
        ["1,5,5", "2,5"],
        ["1,234.5", "2,5"],
        [",", "2,5"],
    ],
    ids=str,
)
def test_cells_in_another_form_leave_their_column_as_text(tmp_path, column):
    assert cells(tmp_path, *column) == (column, False)


def test_points_alone_are_decimal_points(tmp_path):
    assert cells(tmp_path, "1.5", "1.234") == ([1.5, 1.234], False)


def test_missing_cells_beside_decimal_commas(tmp_path):
    numbers, named = cells(tmp_path, "1,5", "NA", "", "2")
    np.testing.assert_array_equal(numbers, [1.5, np.nan, np.nan, 2.0])
    assert named


def test_commas_between_cells_are_no_decimal_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,y\n"1,5",1\n"2,5",0\n')
    found = read(path)
    assert (found.frame["a"].tolist(), found.notes) == (["1,5", "2,5"], ())


def test_row_names_as_r_writes_them(tmp_path):
    """R gives the column of row names no header; decimal commas must not move the others."""
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1,5;2,5;x\n2,5;3,5;z\n")
    found = read(path)
    assert (found.frame["a"].tolist(), found.frame["b"].tolist()) == ([2.5, 3.5], ["x", "z"])
    assert "row's name" in found.notes[0]


def test_a_column_that_is_not_there():
    table = TableFile(pd.DataFrame({"age": [30, 41]}), "train.csv", "0")
    assert table.column("age", "a feature").tolist() == [30, 41]
    with pytest.raises(TableError, match=r"train\.csv has no column 'agee' \(a feature\); did you mean 'age'\?"):
        table.column("agee", "a feature")


def test_a_title_above_the_header_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Export of May,,\na,b,y\n1,2,0\n")
    with pytest.raises(
        TableError, match=r"'y' \(the target\); most of its columns have no name: if .* a title, delete"
    ):
        read(path).column("y", "the target")


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ('"net, in EUR";y', ["net, in EUR", "y"]),
        ('"a, b, c";"d, e"', ["a, b, c", "d, e"]),
        ('5" pipe;6" pipe', ['5" pipe', '6" pipe']),
        ('"5"" pipe, old";y', ['5" pipe, old', "y"]),
    ],
)
def test_separators_in_quoted_names_separate_nothing(tmp_path, header, names):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1,5;2\n2,5;3\n")
    found = read(path).frame
    assert found.columns.tolist() == names
    assert found.to_numpy().tolist() == [[1.5, 2.0], [2.5, 3.0]]


def test_a_quote_that_nothing_closes_does_not_make_the_file_a_header():
    assert _header('\n5" pipe,y\n' + "1,2\n" * 1000) == '5" pipe,y\n'
    assert _header('"two\nlines",y\n1,2\n') == '"two\nlines",y\n'


def test_columns_without_a_name_and_without_cells_are_empty_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,, ,\n1,2,,,\n3,4,,,\n")
    found = read(path).frame
    assert found[["a", "b"]].to_numpy().tolist() == [[1, 2], [3, 4]]
    assert found.drop(columns=["a", "b"]).isna().to_numpy().all()


@pytest.mark.parametrize("ending", ["", ";;\r\n;;\r\n", "\r\n\r\n"])
def test_rows_without_any_cell_are_left_out(tmp_path, ending):
    """Spreadsheets export rows that were cleared as lines of separators."""
    path = tmp_path / "export.csv"
    middle = ";;\r\n" if ";" in ending else ""
    path.write_text(f"provider;x;y\r\n7;1,5;1\r\n{middle}8;2,5;0\r\n{ending}", encoding="utf-8-sig", newline="")
    found = read(path, text=["provider"])
    assert found.frame.to_dict("list") == {"provider": ["7", "8"], "x": [1.5, 2.5], "y": [1, 0]}
    assert found.frame["y"].dtype.kind == "i"  # the same players as without empty rows
    assert ("left out 3 empty rows of export.csv" in found.notes) == bool(middle)


def test_a_table_of_empty_rows_has_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n,\n,\n")
    with pytest.raises(TableError, match="no rows"):
        read(tmp_path / "a.csv")
