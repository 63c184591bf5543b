"""What a run has found is kept, whatever happens to its files, its page, its folder, its output or its process."""

import errno
import json
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest

from fgsv.cli import main
from fgsv.cli.command_line import ended_as_interrupted
from fgsv.pipeline import write_result
from fgsv.pipeline.folder import file_names, folder_of_run
from fgsv.results import Result
from fgsv.signals import held_interrupts

OPTIONS = ["--group", "provider", "--target", "y", "--ignore", "site", "--budget", 60]
FILES = ["report.html", "valuation.csv", "valuation.json"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["fgsv.valuation.file.write_whole", "fgsv.pipeline.folder.to_csv"])
def test_a_full_disk_loses_neither_the_printed_result_nor_the_other_files(
    fgsv_command, train, tmp_path, monkeypatch, step
):
    monkeypatch.setattr(step, full_disk)
    code, text, notes = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "o")
    assert code == 1
    assert "north" in text
    assert "No space left" in notes
    lost = "valuation.json" if "file" in step else "valuation.csv"
    assert names(tmp_path / "o") == [name for name in FILES if name != lost]
    code, text, _ = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "o", "--force", "--json")
    assert code == 1
    printed = json.loads(text)
    assert len(printed["groupings"]["provider"]) == 4
    assert lost in printed["errors"][0]


def test_a_page_that_fails_is_said_and_the_result_stands(fgsv_command, train, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no charts today")

    with monkeypatch.context() as patched:
        patched.setattr("fgsv.pipeline.folder.render", broken)
        code, text, notes = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "o")
    assert (code, "north" in text, "no charts today" in notes) == (1, True, True)
    assert "packages are missing" not in notes
    assert names(tmp_path / "o") == FILES[1:]
    assert Result.load(tmp_path / "o" / "valuation.json").valuation.finished
    fgsv_command.done("report", tmp_path / "o" / "valuation.json")  # as the message advises
    assert names(tmp_path / "o") == FILES


PLACES = ["a file", "in a file", "no permission", "page is a folder", "long name", "dangling link", "link to itself"]


@pytest.mark.parametrize("place", PLACES)
def test_an_output_that_cannot_be_written_is_refused_before_the_run(
    fgsv_command, train, tmp_path, monkeypatch, place
):
    def evaluated(*_):
        raise AssertionError("work was spent")

    monkeypatch.setattr("fgsv.evaluation.workers.attempt", evaluated)
    out = tmp_path / "o"
    if place == "a file":
        out.write_text("")
    elif place == "in a file":
        out = train / "below"
    elif place == "long name":
        out = tmp_path / ("x" * 300)
    elif "link" in place:
        out.symlink_to(out if "itself" in place else tmp_path / "nothing")
    elif place == "no permission":
        monkeypatch.setattr("fgsv.files.tempfile.TemporaryFile", lambda **_: full_disk())
    else:
        (out / "report.html").mkdir(parents=True)
    notes = fgsv_command.refused("value", train, *OPTIONS, "--out", out)
    assert "--out must name a folder" in notes or "choose another folder" in notes


def test_a_folder_has_the_files_of_one_run(fgsv_command, train, tmp_path, monkeypatch):
    out = tmp_path / "o"
    two = ["value", train, "--group", "provider,site", "--target", "y", "--budget", 200, "--out", out]
    fgsv_command.done(*two)
    assert names(out) == [FILES[0], "valuation-site.csv", "valuation-site.json", *FILES[1:]]
    for name in ("mine.txt", "valuation-mine.json"):
        (out / name).write_text("kept")
    (out / ".valuation.json.0123456789abcdef.part").write_text("of a run that was killed")
    monkeypatch.setattr("fgsv.pipeline.folder.PACKAGES_OF_REPORT", ("not_there",))
    assert "packages are missing" in fgsv_command.done("value", train, *OPTIONS, "--out", out, "--force")[1]
    assert names(out) == ["mine.txt", "valuation-mine.json", *FILES[1:]]
    forged = json.loads((out / "valuation.json").read_text())
    forged["files"] = ["../train.csv", "mine.txt", "/etc/hostname", 7, "valuation-../../train.csv"]
    (out / "valuation.json").write_text(json.dumps(forged))
    fgsv_command.done("value", train, *OPTIONS, "--out", out, "--force")
    assert names(out) == ["mine.txt", "valuation-mine.json", *FILES[1:]]
    assert train.exists()


def test_a_run_that_fails_leaves_the_earlier_result_whole_and_no_empty_folder(fgsv_command, train, tmp_path):
    out = tmp_path / "o"
    fgsv_command.refused("value", train, *OPTIONS, "--budget", 3, "--out", out)
    assert not out.exists()
    fgsv_command.done("value", train, *OPTIONS, "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    fgsv_command.refused("value", train, *OPTIONS, "--out", out, "--force", "--budget", 3)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_two_runs_do_not_write_into_one_folder(fgsv_command, train, tmp_path):
    out = tmp_path / "o"
    with folder_of_run(out, force=False):
        assert "another run is writing" in fgsv_command.refused("value", train, *OPTIONS, "--out", out)
    fgsv_command.done("value", train, *OPTIONS, "--out", out)  # nothing stale is left


def test_columns_whose_files_would_collide_are_kept_apart(fgsv_command, train, tmp_path):
    frame = pd.read_csv(train).rename(columns={"site": "a/b"})
    frame = frame.assign(**{"A_B": frame["a/b"], "a_b": frame["provider"], "x" * 300: frame["provider"]})
    frame.to_csv(train, index=False)
    out = tmp_path / "o"
    columns = f"provider,a/b,A_B,a_b,{'x' * 300}"
    fgsv_command.done("value", train, "--group", columns, "--target", "y", "--budget", 200, "--out", out)
    stems = [path.stem for path in out.glob("valuation-*.json")]
    assert len({stem.casefold() for stem in stems}) == 4
    assert len(Result.load(out / "valuation-a_b-3.json").valuation.names) == 4
    assert len(Result.load(out / "valuation-A_B-2.json").valuation.names) == 2
    assert len(set(file_names(["é", "e\u0301", "É", "é-2"]).values())) == 4


def test_a_link_planted_where_a_file_is_written_is_not_followed(fgsv_command, train, tmp_path):
    out, victim = tmp_path / "o", tmp_path / "victim"
    out.mkdir()
    victim.write_text("precious")
    for name in FILES:
        (out / f"{name}.part").symlink_to(victim)
        (out / name).symlink_to(victim)
    fgsv_command.done("value", train, *OPTIONS, "--out", out, "--force")
    assert victim.read_text() == "precious"
    assert Result.load(out / "valuation.json").valuation.finished


@pytest.mark.parametrize("counted_as", ["0", "0.5"])
def test_a_model_that_fails_on_all_rows_is_an_error_however_failures_count(fgsv_command, train, tmp_path, counted_as):
    (tmp_path / "own.py").write_text(
        "from sklearn.linear_model import Ridge\n"
        "class Model(Ridge):\n"
        "    def fit(self, X, y):\n"
        "        if len(y) == 40:\n"
        "            raise ValueError('too large')\n"
        "        return super().fit(X, y)\n"
    )
    model = ["--model", f"{tmp_path / 'own.py'}:Model", "--on-error", counted_as, "--test", train]
    model += ["--out", tmp_path / "o"]
    code, text, notes = fgsv_command("value", train, *OPTIONS, *model)
    assert (code, text) == (1, "")
    assert "the model fails on all the data, whose score is what is shared" in notes
    assert "too large" in notes
    assert not (tmp_path / "o").exists()


def test_a_result_reads_back_after_each_step_of_writing(train, tmp_path, fgsv_command, monkeypatch):
    """A kill between any two writes leaves files of one run, and a valuation.json that reads."""
    out = tmp_path / "o"
    fgsv_command.done("value", train, *OPTIONS, "--out", out)
    earlier = Result.load(out / "valuation.json")
    later = Result(earlier.valuation, earlier.source, confidence=0.5)
    whole = Path.replace

    class Killed(BaseException):
        pass

    for survived in range(4):
        write_result(out, earlier)
        count = iter(range(survived))

        def replaced(part, path, count=count):
            if next(count, None) is None:
                raise Killed
            return whole(part, path)

        with monkeypatch.context() as patched:
            patched.setattr("fgsv.files.Path.replace", replaced)
            with nullcontext() if survived == 3 else pytest.raises(Killed):
                write_result(out, later)
        assert Result.load(out / "valuation.json").confidence == (0.5 if survived else 0.95)
        assert len(names(out)) == max(survived, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_request_to_end_keeps_the_valuation_so_far(fgsv_command, train, tmp_path, number):
    (tmp_path / "own.py").write_text(
        "import signal\n"
        "from itertools import count\n"
        "from sklearn.linear_model import Ridge\n"
        "fits = count()\n"
        "class Model(Ridge):\n"
        "    def fit(self, X, y):\n"
        "        if next(fits) == 150:\n"
        f"            signal.raise_signal({int(number)})\n"
        "        return super().fit(X, y)\n"
    )
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)  # a shell lets what it runs in the background ignore SIGINT
    model = ["--model", f"{tmp_path / 'own.py'}:Model", "--out", tmp_path / "o"]
    try:
        code, text, notes = fgsv_command("value", train, *OPTIONS, "--budget", 200, *model)
        assert signal.getsignal(number) is usual
    finally:
        signal.signal(number, before)
    assert (code, "north" in text) == (1, True), notes
    kept = Result.load(tmp_path / "o" / "valuation.json")
    assert kept.interrupted
    assert kept.valuation.n_evaluations > 30
    assert names(tmp_path / "o") == FILES


def test_an_interrupt_before_the_first_estimate_says_so(fgsv_command, train, tmp_path, monkeypatch):
    monkeypatch.setattr("fgsv.evaluation.workers.attempt", lambda *_: signal.raise_signal(signal.SIGTERM))
    code, text, notes = fgsv_command("value", train, *OPTIONS, "--out", tmp_path / "o")
    assert (code, text, "interrupted before the first estimate" in notes) == (1, "", True), notes
    assert not (tmp_path / "o").exists()


def test_a_signal_that_is_ignored_stays_ignored(fgsv_command):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_as_interrupted(), held_interrupts():
            signal.raise_signal(signal.SIGHUP)  # under nohup, the terminal may close
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("output", ["full", "broken pipe", "ascii"])
def test_an_output_that_takes_nothing_loses_no_file(train, tmp_path, monkeypatch, capfd, output):
    train.write_text(train.read_text().replace("north", "nörd\N{SNOWMAN}"), encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    outputs = {
        "full": lambda: open("/dev/full", "w", encoding="utf-8"),  # noqa: SIM115
        "broken pipe": lambda: os.fdopen(writing, "w", encoding="utf-8"),
        "ascii": lambda: open(tmp_path / "text", "w", encoding="ascii"),  # noqa: SIM115
    }
    stdout = outputs[output]()
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as end:
        main(["value", *map(str, [train, *OPTIONS, "--out", tmp_path / "o"])])
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    assert (end.value.code or 0) == (0 if output == "ascii" else 1)
    assert names(tmp_path / "o") == FILES
    stdout.close()  # as Python does when it ends: it must not fail once more
    if output == "ascii":
        assert "n\\xf6rd\\u2603" in (tmp_path / "text").read_text()
    if output == "full":
        assert "No space left" in capfd.readouterr().err
    if output != "broken pipe":
        os.close(writing)
