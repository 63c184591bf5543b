"""Tables in the terminal: nothing is lost, however narrow it is, and the verdict comes first."""

import pandas as pd
import pytest

import fgsv
from fgsv.audit import Audit
from fgsv.cli import console
from fgsv.cli.console import show
from fgsv.results import Result

NAMES = ["north", "Clinic Birch", "日本"]
NUMBERS = {
    "players": [27, 25, 16],
    "value": [0.05925, 0.1659, -0.03575],
    "stderr": [0.09791, 0.1037, 0.08184],
    "share": [0.1909, 0.5344, -0.1152],
    "share_low": [-0.4553, -0.15, -0.6554],
    "share_high": [0.8372, 1.2188, 0.425],
    "without": [0.8276, 0.7931, 0.8276],
}
CELLS = ["0.05925", "-0.03575", "0.1037", "53.44%", "-15.00% to 121.88%", "± stderr", "score without", "0.7931"]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_no_name_and_no_digit_is_lost_in_a_narrow_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    show(pd.DataFrame({"group": NAMES, **NUMBERS}))
    shown = capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "")
    lines = shown.splitlines()
    assert all(cell in shown for cell in CELLS)
    assert all(word in shown for name in NAMES for word in name.split())
    if columns >= 80:  # the usual width: one line for each of these rows, and one more for a name of two words
        assert max(map(len, lines)) <= columns


def test_large_values_are_written_without_powers_of_ten(capsys):
    show(pd.DataFrame({"group": ["a"], "value": [52345.6], "stderr": [12345.6], "without": [-1234567.8]}))
    shown = capsys.readouterr().out
    assert all(cell in shown for cell in ("52346", "12346", "-1234568"))


def test_the_verdict_stands_under_the_shares_and_an_audit_names_how_a_split_was_found(monkeypatch):
    said = []
    monkeypatch.setattr(console, "say", said.append)
    monkeypatch.setattr(console, "show", lambda frame, *_, **__: said.append(frame))
    gsv = pd.DataFrame({"group": ["a"], "share": [0.5], "gsv_share": [0.4], "gsv_half_width": [0.0]})
    gains = {"parts": [2], "gain": [0.1], "gain_low": [0.05], "gain_high": [0.15]}
    audit = Audit(gsv, pd.DataFrame({"group": ["a"], "way": ["found by search"], **gains}))
    exact = fgsv.exact(fgsv.games.Airport([1, 2]), ["a", "b"])
    console.show_result(Result(exact, audit=audit))
    shares, verdict, attacks, *_ = said
    assert list(shares["group"]) == ["a", "b"]
    assert verdict.startswith("verdict: ")
    assert list(attacks["way"]) == ["found by search"]
