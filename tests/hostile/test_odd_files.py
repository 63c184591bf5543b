"""Odd files and folders: in the way of outputs, in place of tables and results."""

import json
import os

import pytest

from fgsv.data.joining import read_all as read
from fgsv.data.reading import TableError
from fgsv.pipeline import check_folder
from fgsv.results import Result

OPTIONS = ["--group", "provider", "--target", "y", "--ignore", "site", "--budget", 100]


@pytest.fixture(autouse=True)
def no_charts(monkeypatch):
    monkeypatch.setattr("fgsv.pipeline.folder.render", lambda *_, **__: "<p>a page</p>")


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"provider,x\rnorth,1\rsouth,2\r", 2),
        (b"provider,x\r\nnorth,1\r\n\r\nsouth,2", 2),
        (b"\n\n  \nprovider,x\nnorth,1\n", 1),
        (b"\xef\xbb\xbfprovider,x\nnorth,1\n", 1),
        (b'provider,x\n"north ""the"" first, ltd",1\n', 1),
        (b'provider,x\n"two\nlines",1\n', 1),
        (b"provider|x\nnorth|1\n", 1),
        (b'provider,"5"" pipe"\nnorth,1\n', 1),
    ],
)
def test_tables_in_odd_forms_are_read(tmp_path, content, rows):
    (tmp_path / "a.csv").write_bytes(content)
    frame = read(tmp_path / "a.csv", text=["provider"]).frame
    assert (len(frame), frame.shape[1], frame.columns[0]) == (rows, 2, "provider")
    assert frame.iloc[0, 1] == 1


@pytest.mark.parametrize(
    "content",
    [
        b'provider,x\n"north,1\nsouth,2\n',
        b"provider,x\nnorth,1\nsouth,2,3\n",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff",
        b"PK\x03\x04 a spreadsheet or an archive \xff",
        b"\x00\x01\x02\xff",
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(TableError, match=r"a\.csv"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"schema": ' + "9" * 5000 + "}", "[1]", '"x"', "null", '{"schema": 1}', "\udcff", ""]
)
def test_what_is_no_result_is_refused_with_its_name(tmp_path, fgsv_command, content):
    path = tmp_path / "valuation.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    code, _, notes = fgsv_command("payout", path, "--amount", 100)
    assert (code, "valuation.json" in notes, "Traceback" in notes) == (2, True, False), notes
    with pytest.raises(FileExistsError, match="force=True"):
        check_folder(tmp_path, force=False)  # whatever it is, it is not ours to replace


@pytest.mark.parametrize("name", ["valuation.csv", "report.html"])
def test_a_file_that_was_there_before_is_not_replaced(fgsv_command, train, tmp_path, name):
    out = tmp_path / "o"
    out.mkdir()
    data = train.rename(out / name)
    before = data.read_bytes()
    code, _, notes = fgsv_command("value", data, *OPTIONS, "--out", out)
    assert (code, "--force" in notes) == (2, True), notes
    assert data.read_bytes() == before


def test_a_ledger_in_a_folder_that_the_run_creates(fgsv_command, train, tmp_path):
    out = tmp_path / "a" / "b"
    code, _, notes = fgsv_command("value", train, *OPTIONS, "--out", out, "--ledger", out / "run.db")
    assert code == 0, notes
    assert (out / "run.db").stat().st_size > 0


def test_a_ledger_that_is_the_table_leaves_it_alone(fgsv_command, train, tmp_path):
    before = train.read_bytes()
    code, _, notes = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "o", "--ledger", train)
    assert code != 0, notes
    assert train.read_bytes() == before
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("kind", ["link", "dangling", "loop"])
def test_an_output_folder_that_is_a_link(fgsv_command, train, tmp_path, kind):
    out, real = tmp_path / "o", tmp_path / "real"
    if kind == "link":
        real.mkdir()
    out.symlink_to(out if kind == "loop" else real)
    code, _, notes = fgsv_command("value", train, *OPTIONS, "--out", out)
    assert "Traceback" not in notes
    if kind == "link":
        assert (code, Result.load(real / "valuation.json").valuation.finished) == (0, True), notes
    else:
        assert code == 2, notes  # before the run


def test_an_output_with_odd_names(fgsv_command, train, tmp_path):
    for name in ("with space", "-dash", "quote'\"", "new\nline", "\x1b[31mred", "%s{}", "~", "株式"):
        out = tmp_path / name
        code, text, notes = fgsv_command("value", train, *OPTIONS, "--out", out, "--json")
        assert code == 0, notes
        assert json.loads(text)["files"][0] == str(out / "valuation.json")
    code, _, notes = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "\x1b[31mred")
    assert (code, "\x1b" in notes) == (2, False)


def test_an_interrupt_while_the_files_are_written_waits(fgsv_command, train, tmp_path, monkeypatch):
    """Ctrl-C, pressed again and again, still leaves a whole result."""
    import signal

    from fgsv.pipeline import folder

    whole = folder.to_csv

    def pressed(*arguments):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        return whole(*arguments)

    monkeypatch.setattr(folder, "to_csv", pressed)
    code, _, _ = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "o")
    assert code == 1
    assert Result.load(tmp_path / "o" / "valuation.json").valuation.finished
    assert (tmp_path / "o" / "valuation.csv").stat().st_size > 0


def test_a_folder_that_vanishes_during_the_run_loses_nothing(fgsv_command, train, tmp_path, monkeypatch):
    out = tmp_path / "o"
    from fgsv.pipeline import pipeline

    valued = pipeline.value_with_plan

    def and_removed(*arguments, **options):
        os.rmdir(out)
        return valued(*arguments, **options)

    monkeypatch.setattr(pipeline, "value_with_plan", and_removed)
    code, text, notes = fgsv_command("value", train, *OPTIONS, "--out", out)
    assert (code, "north" in text) == (0, True), notes
    assert Result.load(out / "valuation.json").valuation.finished
