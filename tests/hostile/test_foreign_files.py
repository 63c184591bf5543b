"""Files and names from others do no harm: not in a terminal, a spreadsheet or the import path."""

import importlib.util
import os
import subprocess
import sys

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.files import harmless, to_csv
from fgsv.ledger import tools
from fgsv.packages import load_object
from fgsv.words import printable

ESCAPES = [
    "\x1b[2J\x1b[31mred",
    "a\x9b31mb",
    "paid\r0.00",
    "two\nlines",
    "a\u202egnp",
    "\u2066x\u2069",
    "\x07bell",
    "\udcff",
]
FORMULAS = ["=cmd|'/c calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\u00a0=1", "\uff1d1", "\n=1"]
UNTOUCHED = ["north", "a=b", "1-2", "(-1)", "", 1.5, -1, None, "'quoted"]


def utility(masks):
    return np.stack([masks.sum(axis=1) ** 0.5, masks[:, 0] - 0.5], axis=1)


@pytest.fixture
def ledger(tmp_path):
    """Return a ledger whose game has an evil fingerprint, outputs and failures."""
    game = fgsv.Game(utility, 5, fingerprint="=evil\x1b[31m\u202e", outputs=("=cmd()", "@x\x1b[2J"))
    fgsv.value(game, budget=100, ledger=tmp_path / "run.db")

    def failing(masks):
        raise ValueError("=1+1\x1b]0;title\x07")

    fgsv.value(fgsv.Game(failing, 5, fingerprint="-failing"), budget=100, ledger=tmp_path / "run.db", on_error=0.0)
    return tmp_path / "run.db"


@pytest.mark.parametrize("words", ESCAPES)
def test_nothing_printed_moves_the_cursor(words):
    shown = printable(words)
    assert len(shown) == len(words)
    shown.encode()
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066\u2069" for c in shown)
    assert printable("Zoë 株式会社 می‌خواهم 👩‍🔬") == "Zoë 株式会社 می‌خواهم 👩‍🔬"


def test_a_foreign_ledger_is_shown_without_control_characters(fgsv_command, ledger):
    for command in (["ledger", "show", ledger], ["ledger", "verify", ledger]):
        text, notes = fgsv_command.done(*command)
        assert all(c == "\n" or (c.isprintable() and c != "\u202e") for c in text + notes)
    assert "evil" in fgsv_command("ledger", "show", ledger)[1]


@pytest.mark.parametrize(
    "command",
    [
        ["verify", "LEDGER", "--ledger", "LEDGER"],
        ["seal", "check", "LEDGER", "LEDGER"],
        ["payout", "LEDGER", "--amount", "1"],
        ["report", "LEDGER"],
        ["compare", "LEDGER", "LEDGER"],
        ["value", "TRAIN", "--group", "provider", "--target", "y", "--seal", "LEDGER", "--public", "1"],
    ],
)
def test_a_file_of_another_kind_is_not_quoted(fgsv_command, ledger, train, command):
    code, text, notes = fgsv_command(*({"LEDGER": ledger, "TRAIN": train}.get(word, word) for word in command))
    assert (code, text) == (2, "")
    assert "it is not JSON ('utf-8' codec can't decode byte" in notes
    assert len(notes.splitlines()[-1]) < 200 + len(str(ledger))
    assert "evil" not in notes


@pytest.mark.parametrize("cell", FORMULAS)
def test_no_text_becomes_a_formula(cell, tmp_path):
    (tmp_path / "t.csv").write_text(to_csv(pd.DataFrame({cell: [cell, "x"], "n": [-1.0, 2.0]})), newline="")
    read = pd.read_csv(tmp_path / "t.csv")
    assert read.columns[0] == read.iloc[0, 0] == "'" + cell.replace("\r", "\n")
    assert read["n"].tolist() == [-1.0, 2.0]


def test_a_name_makes_no_row_of_its_own(tmp_path):
    (tmp_path / "t.csv").write_text(to_csv(pd.DataFrame({"a": ["x\r=cmd()", "y\n=cmd()"], "n": [1, 2]})), newline="")
    assert pd.read_csv(tmp_path / "t.csv")["n"].tolist() == [1, 2]


def test_other_cells_stay_as_they_are():
    assert [harmless(cell) for cell in UNTOUCHED] == UNTOUCHED


def test_an_export_has_no_formulas_and_exact_numbers(ledger, tmp_path):
    tools.export(ledger, tmp_path / "all.csv")
    read = pd.read_csv(tmp_path / "all.csv", dtype={"players": str})
    assert set(read["game"].str[0]) == {"'"}
    assert set(read["output"].str[:2]) == {"'=", "'@", "0"}
    whole = read[read["game"].str.contains("evil") & (read["size"] == 5)]
    assert whole["value"].tolist() == [5**0.5, 0.5]
    assert (read["value"] < 0).any()


def test_an_export_that_fails_leaves_no_half_of_a_file(ledger, tmp_path, monkeypatch):
    (tmp_path / "all.csv").write_text("earlier")
    monkeypatch.setattr(tools, "CHUNK", 1)
    tables = tools._tables

    def failing(opened):
        yield next(tables(opened))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tools, "_tables", failing)
    for suffix in ("csv", "parquet"):
        with pytest.raises(OSError, match="No space left"):
            tools.export(ledger, tmp_path / f"all.{suffix}")
    assert (tmp_path / "all.csv").read_text() == "earlier"
    assert not list(tmp_path.glob("*.parquet")) + list(tmp_path.glob(".*"))


def test_a_file_that_lies_about_is_not_imported_for_a_package(tmp_path, monkeypatch):
    """A model may be named in the current folder, but nothing else there is a module before or after."""
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "extra_of_a_report.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "helper_here.py").write_text("FACTOR = 3\n")
    (tmp_path / "model_here.py").write_text("import helper_here\ndef thing():\n    return helper_here.FACTOR\n")
    (tmp_path / "colorsys.py").write_text("raise SystemExit('it ran')\n")
    before = list(sys.path)
    thing = load_object("model_here:thing")
    assert load_object("colorsys:rgb_to_hsv")(0, 0, 0) == (0.0, 0.0, 0)
    assert sys.path == before
    assert importlib.util.find_spec("extra_of_a_report") is None
    sent = cloudpickle.dumps(thing)  # workers do not have the folder either
    for name in ("model_here", "helper_here"):
        monkeypatch.delitem(sys.modules, name)
    assert cloudpickle.loads(sent)() == 3
    with pytest.raises(ValueError, match="cannot be imported"):
        load_object("nowhere_at_all:thing")


def test_python_m_fgsv_imports_nothing_from_the_current_folder(tmp_path):
    for name in ("jinja2", "rich", "typer", "vl_convert"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the folder ran')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-m", "fgsv", "version"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, fgsv.__version__), done.stderr
