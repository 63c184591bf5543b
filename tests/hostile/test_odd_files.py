"""Odd files and folders: in the way of outputs, in place of tables and results."""

import os

import pytest

from fgsv.data.joining import read_all as read
from fgsv.pipeline import check_folder
from fgsv.results import Result

OPTIONS = ["--group", "provider", "--target", "y", "--ignore", "site", "--budget", 100]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"provider,x\rnorth,1\rsouth,2\r", 2),
        (b"provider,x\r\nnorth,1\r\n\r\nsouth,2", 2),
        (b"\n\n  \nprovider,x\nnorth,1\n", 1),
        (b"\xef\xbb\xbfprovider,x\nnorth,1\n", 1),
        (b'provider,x\n"north ""the"" first, ltd",1\n', 1),
        (b'provider,x\n"two\nlines",1\n', 1),
        (b'provider,"x\n;y"\nnorth,1\n', 1),
        (b'provider,5" pipe\n' + b"a;b;c,1\n" * 3, 3),
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
    "content", ["[" * 100_000, '{"schema": ' + "9" * 5000 + "}", "[1]", '"x"', "null", '{"schema": 1}', "\udcff", ""]
)
def test_what_is_no_result_is_refused_with_its_name(tmp_path, fgsv_command, content):
    path = tmp_path / "valuation.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    assert "valuation.json" in fgsv_command.refused("payout", path, "--amount", 100)
    with pytest.raises(FileExistsError, match="force=True"):
        check_folder(tmp_path, force=False)  # whatever it is, it is not ours to replace


@pytest.mark.parametrize("name", ["valuation.csv", "report.html"])
def test_a_file_that_was_there_before_is_not_replaced(fgsv_command, train, tmp_path, name):
    out = tmp_path / "o"
    out.mkdir()
    data = train.rename(out / name)
    before = data.read_bytes()
    assert "--force" in fgsv_command.refused("value", data, *OPTIONS, "--out", out)
    assert data.read_bytes() == before


def test_a_ledger_in_a_folder_that_the_run_creates(fgsv_command, train, tmp_path):
    out = tmp_path / "a" / "b"
    fgsv_command.done("value", train, *OPTIONS, "--out", out, "--ledger", out / "run.db")
    assert (out / "run.db").stat().st_size > 0


def test_a_ledger_that_is_the_table_leaves_it_alone(fgsv_command, train, tmp_path):
    before = train.read_bytes()
    code, _, notes = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "o", "--ledger", train)
    assert code != 0, notes
    assert train.read_bytes() == before
    assert not (tmp_path / "o").exists()


def test_files_and_folders_with_odd_names(fgsv_command, train, tmp_path):
    train = train.rename(train.with_name(os.fsdecode(b"tr\xffin.csv")))
    (tmp_path / "link").symlink_to(tmp_path)
    odd = ("with space", "-dash", "quote'\"", "new\nline", "\x1b[31mred", "%s{}", "~", "株式", "link/in it")
    for name in (*odd, os.fsdecode(b"\xfe")):
        out = tmp_path / name
        written = fgsv_command.json("value", train, *OPTIONS, "--out", out)["files"]
        assert written[0] == str(out / "valuation.json")
        assert Result.load(out / "valuation.json").source.file == train.name
    assert "\x1b" not in fgsv_command.refused("value", train, *OPTIONS, "--out", tmp_path / "\x1b[31mred")


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
    assert "north" in fgsv_command.done("value", train, *OPTIONS, "--out", out)[0]
    assert Result.load(out / "valuation.json").valuation.finished
