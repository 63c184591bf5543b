"""Tables in the terminal: nothing is lost, however narrow it is, and the verdict comes first."""

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len

import fgsv
from fgsv.audit import Audit
from fgsv.cli import console
from fgsv.cli.console import show
from fgsv.evaluation.evaluator import Evaluator
from fgsv.results import Result
from fgsv.results.scores_without import scores_without_each
from fgsv.valuation.display import Section

NAMES = ("north", "Clinic Birch of the far north", "日本")
SECTION = Section(
    "Payments",
    ("Amount: 100.00 EUR.",),
    ("provider", "payment", "interval", "players"),
    tuple(zip(NAMES, ("99.00", "-15.00", "16.00"), ("-45.53 to 83.72", "-1.00 to 2.00", ""), "123", strict=True)),
)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_no_name_and_no_digit_is_lost_in_a_narrow_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    show(SECTION)
    shown = capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "")
    words = shown.split()
    assert all(word in words for row in (SECTION.columns, *SECTION.rows) for cell in row for word in cell.split())
    assert all(cell in shown for row in SECTION.rows for cell in row[1:])  # numbers are on one line
    if columns >= 60:
        assert max(map(cell_len, shown.splitlines())) <= columns


def test_a_result_begins_with_its_verdict_and_an_audit_names_how_a_split_was_found(capsys):
    gsv = pd.DataFrame({"group": ["a"], "share": [0.5], "gsv_share": [0.4], "gsv_half_width": [0.01]})
    gains = {"parts": [2], "gain": [0.1], "gain_low": [0.05], "gain_high": [0.15]}
    audit = Audit(gsv, pd.DataFrame({"group": ["a"], "way": ["found by search"], **gains}))
    exact = fgsv.exact(fgsv.games.Airport([1, 2]), ["a", "b"])
    console.show_result(Result(exact, audit=audit, errors=(OSError("the disk is full"),)))
    tables, notes = capsys.readouterr()
    assert notes.startswith("verdict: settled: shares are exact (Monte Carlo error only)\n")
    assert "disk" not in notes  # the command ends with it
    rows = [" ".join(line.split()) for line in tables.splitlines()]
    assert rows.index("b 75.00% 75.00% to 75.00% 1 1.5 0") < rows.index("a 25.00% 25.00% to 25.00% 1 0.5 0")
    assert "a 50.00% 40.00% ± 1.00% found by search, into 2 5.00% to 15.00%" in rows


@pytest.mark.parametrize("outputs", [None, ("red", "blue")])
def test_a_terminal_shows_both_scores_and_the_facts_of_each_provider_by_value(capsys, outputs):
    worth = np.array([1.0, 3.0, 2.0])[:, None] * [1.0, 10.0][: len(outputs or "1")]
    valuation = fgsv.exact(fgsv.Game(lambda masks: masks @ worth, 3, outputs=outputs), ["low", "high", "mid"])
    access = Evaluator(fgsv.Game(lambda masks: masks @ worth, 3, outputs=outputs))
    with access:
        scores = scores_without_each(access, valuation.partition)
    facts = {name: f"has {number} rows" for number, name in enumerate(valuation.names)}
    console.show_result(Result(valuation, without=scores, facts=facts))
    tables, notes = capsys.readouterr()
    assert "With all the data the model scores 6" in notes
    cells = [line.split() for line in tables.splitlines()]
    of = [] if outputs is None else ["red"]
    scored = [["high", *of, "1", "3", "3"], ["mid", *of, "1", "4", "2"], ["low", *of, "1", "5", "1"]]
    first = cells.index(scored[0])
    assert cells[first : first + 3] == scored
    facts = [line for line in cells if line[1:2] == ["has"]]
    assert [line[0] for line in facts] == ["high", "mid", "low"]
