"""Odd tables are read as what they say, or refused: never with cells in another column or names taken for nothing."""

import base64
import gzip
import json
import zlib

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.data.joining import read_all as read
from fgsv.data.reading import TableError
from fgsv.files import most_expanded


def written(tmp_path, text, name="a.csv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


@pytest.mark.parametrize("header", ["provider,x,y", "provider,x,y,"])
@pytest.mark.parametrize("end", ["", ","])
def test_commas_at_the_end_of_every_line_move_no_column(tmp_path, header, end):
    path = written(tmp_path, f"{header}\nnorth,1,2{end}\nsouth,3,4{end}\n")
    found = read(path, text=["provider"])
    assert found.frame["provider"].tolist() == ["north", "south"]
    assert (found.frame["x"].tolist(), found.frame["y"].tolist()) == ([1, 3], [2, 4])


def test_cells_beyond_the_header_are_refused(tmp_path):
    with pytest.raises(TableError, match="more cells than its header"):
        read(written(tmp_path, "provider,x\nnorth,1,2\nnorth,3,4\n"))
    with pytest.raises(TableError, match="more cells than its header"):
        read(written(tmp_path, "provider,x\nnorth,1,2,3\nsouth,3,4,5\n"))
    named = read(written(tmp_path, "provider,x\n1,north,2\nNA,,4\n"), text=["provider"])
    assert named.frame["provider"].isna().tolist() == [False, True]
    assert "row's name" in named.notes[0]


NAMES = ["NA", "None", "null", "nan", "NaN", "N/A", "n/a", "<NA>", "NULL", "-nan", "#N/A", "1.#IND"]


def test_names_that_look_like_nothing_are_names(tmp_path, fgsv_command):
    rng = np.random.default_rng(0)
    rows = [f"{NAMES[i % len(NAMES)]},{rng.normal():.3f},{rng.normal():.3f}" for i in range(48)]
    path = written(tmp_path, "provider,x,y\n" + "\n".join(rows) + "\n")
    table = fgsv.open_table(path, group="provider", target="y")
    assert table.partition.names == tuple(NAMES)
    code, text, notes = fgsv_command("value", path, "--group", "provider", "--target", "y", "--budget", 100)
    assert code == 0, notes
    assert "null" in text
    path.write_text(path.read_text() + ",1,2\n")
    with pytest.raises(TableError, match="missing values in 1 of 49 rows"):
        fgsv.open_table(path, group="provider", target="y")
    # in a feature they are missing, as usual
    assert read(written(tmp_path, "provider,x\nnull,null\nNA,3\n"), text=["provider"]).frame["x"].isna().sum() == 1


def test_units_that_look_like_nothing_are_units(tmp_path):
    lines = [
        f"{'north' if i % 2 else 'south'},{['NA', 'b', 'null', 'd'][i % 4]},{i % 5},{i % 3 + i / 7}"
        for i in range(40)
    ]
    path = written(tmp_path, "provider,patient,x,y\n" + "\n".join(lines) + "\n")
    table = fgsv.open_table(path, group="provider", target="y", unit="patient")
    assert table.partition.n_players == 3  # of four units one tests


@pytest.mark.parametrize(
    "header",
    ['"a\nb",x,"a\nb"', '"a\r\nb",x,"a\r\nb"', '\n\n"the ""a""\n",y,"the ""a""\n"', '"x,1\n2",y,"x,1\n2"'],
)
def test_a_name_that_occurs_twice_behind_a_line_break_is_found(tmp_path, header):
    with pytest.raises(TableError, match="two columns named"):
        read(written(tmp_path, f"{header}\n1,2,3\n"))


def test_a_line_break_in_the_header_is_part_of_a_name(tmp_path):
    found = read(written(tmp_path, '"a\n;b",c\n1,2\n')).frame
    assert list(found.columns) == ["a\n;b", "c"]


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.csv", "bomb.parquet"])
def test_a_file_that_expands_enormously_is_refused(tmp_path, monkeypatch, name):
    for module in ("reading", "formats"):
        monkeypatch.setattr(f"fgsv.data.{module}.most_expanded", lambda size: most_expanded(size) // 256)  # 1 MiB
    if name.endswith("parquet"):
        pd.DataFrame({"a": np.zeros(10**6)}).to_parquet(tmp_path / name)
        path = tmp_path / name
    else:
        path = written(tmp_path, gzip.compress(b"a,b\n" + b"1,2\n" * 10**6, 1), name)
    with pytest.raises(TableError, match=r"expands to more than|which take more than"):
        read(path)


def test_ordinary_files_expand_as_they_should():
    assert most_expanded(2**10) == 2**28
    assert most_expanded(2**24) == 200 * 2**24


def test_a_saved_valuation_that_expands_enormously_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "v.json"
    fgsv.value(fgsv.games.Airport([1, 2, 4]), ["a", "b", "b"]).save(path)
    document = json.loads(path.read_text())
    zeros = base64.b64encode(zlib.compress(bytes(2**24))).decode()
    document["estimate"]["values"] = {"dtype": "<f8", "zlib": zeros, "shape": [2**21]}
    path.write_text(json.dumps(document))
    monkeypatch.setattr("fgsv.files.most_expanded", lambda size: 2**20)
    with pytest.raises(ValueError, match=r"'estimate.values' cannot be read.*far more"):
        fgsv.Valuation.load(path)


def test_a_device_is_not_a_table():
    with pytest.raises(TableError, match="is a device"):
        read("/dev/zero")


@pytest.mark.parametrize(
    "column", ["share", "value", "group", "players", "x_low", "share_high", "[bold]x", "a\x1b[31m"]
)
def test_a_provider_column_with_any_name_is_shown(tmp_path, fgsv_command, column):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=24)}).assign(y=lambda f: 2 * f["a"])
    frame[column] = np.array(["north", "south"])[np.arange(24) % 2]
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["--group", column, "--target", "y", "--budget", 100]
    code, text, notes = fgsv_command("value", tmp_path / "t.csv", *options)
    assert code == 0, notes
    assert "north" in text
    assert "\x1b" not in text + notes
