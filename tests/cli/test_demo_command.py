"""The demo: ten hospitals, and the same by hand."""

import json
import shlex

import pandas as pd
import pytest

from fgsv.audit import table_audit
from fgsv.cli import hospitals as demo

pytestmark = pytest.mark.slow


def test_the_demo_has_what_it_promises():
    hospitals, test = demo.tables()
    assert hospitals["hospital"].nunique() == 10
    aurora = hospitals[hospitals["hospital"] == "Aurora"].drop(columns="hospital")
    iris = hospitals[hospitals["hospital"] == "Iris"].drop(columns="hospital")
    assert len(iris.merge(aurora.drop_duplicates())) == len(iris)
    assert set(test.columns) == set(hospitals.columns) - {"hospital"}
    pd.testing.assert_frame_equal(demo.tables()[0], hospitals)


def test_the_demo_runs(fgsv_command, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    monkeypatch.setattr(demo, "HOSPITALS", {"Aurora": 30, "Fjord": 10, "Juniper": 5})
    monkeypatch.setattr(demo, "N_COPIES", 10)
    for setting in ("DEFAULT_BUDGET", "SPARE"):  # an audit as short as can be
        monkeypatch.setattr(table_audit, setting, 0)
    code, text, notes = fgsv_command("demo", "--out", tmp_path / "d", "--budget", 300)
    assert (code, "about" in notes.split("refused:")[1]) == (3, True), notes  # the default budget is enough to pay
    for word in ("Aurora", "Iris", "players", "value", "± stderr", "share"):
        assert word in text
    written = {path.name for path in (tmp_path / "d").iterdir()}
    assert {"valuation.json", "valuation.csv", "report.html", "hospitals.csv", "test.csv"} == written
    assert "Iris" in text.split("Possible copies")[1]
    by_hand = next(line for line in notes.splitlines() if line.strip().startswith("fgsv value"))
    code, _, notes = fgsv_command(*shlex.split(by_hand)[1:])
    assert code == 3, notes
    both = [json.loads((tmp_path / folder / "valuation.json").read_text()) for folder in ("d", "d-by-hand")]
    commands = [document["info"].pop("command") for document in both]
    assert commands == [by_hand.strip().replace("d-by-hand", "d"), by_hand.strip()]
    assert json.dumps(both[0]) == json.dumps(both[1])


def test_the_demo_is_written_to_the_current_folder(fgsv_command, tmp_path, monkeypatch):
    class Written(Exception):
        """The tables are written, and the run begins."""

    def stop(*given, **options):
        raise Written("enough")

    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("fgsv.open_table", stop)
    _, _, notes = fgsv_command("demo", "--out", ".")
    assert "failed: enough" in notes
    assert f"--out {here}-by-hand\n" in notes
