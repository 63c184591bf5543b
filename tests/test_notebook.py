"""Results in a notebook: tables in which names are text, rows by name, and a bar that disturbs nothing."""

import json
import os
import pty
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv import planning
from fgsv.audit import Audit
from fgsv.audit.auditing import SPLITS
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.workers import Workers
from fgsv.results import Result, compare_results
from fgsv.running import bar, first_cost
from fgsv.running.stopping import MaxSeconds, Precision
from fgsv.valuation.display import Section

HOSTILE = "<script>alert('1 & 2')</script>"


@pytest.fixture(scope="module")
def result():
    return fgsv.value(lambda masks: masks @ [1.0, 2.0, 5.0], [HOSTILE, "north", "north"])


def test_tables_escape_names(result):
    gsv = pd.DataFrame({"group": [HOSTILE], "share": [0.5], "gsv_share": [0.5], "gsv_half_width": [0.0]})
    section = Section(HOSTILE, (HOSTILE,), ("group",), ((HOSTILE,),))
    attack = {"group": HOSTILE, "way": HOSTILE, "parts": 2, "gain": 0.1, "gain_low": 0.0, "gain_high": 0.2}
    audit = Audit(gsv, pd.DataFrame([attack]), (HOSTILE,), tables=(section,))
    plan = fgsv.plan(fgsv.games.SumOfUnanimity(20), pilot=100)
    made = Result(result, own_warnings=(HOSTILE,)).paid_by(fgsv.payout.Terms(100))
    compared = compare_results(made, made)
    diagnosis = fgsv.diagnose(fgsv.games.SumOfUnanimity(20), budget=500)
    for shown in (result, audit, fgsv.payout.split(result, 100), plan, made, compared, diagnosis):
        html = shown._repr_html_()
        assert "<table" in html
        assert "<script" not in html
    assert HOSTILE.replace("<", "&lt;")[:10] in result._repr_html_()
    assert "U(N) - U(0)" in result._repr_html_()


def test_audits_and_settlements_print_as_tables():
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 4)
    audited = fgsv.audit.audit(game, fgsv.exact(game, ["a", "a", "b", "b"]), parts=[2])
    audited = replace(audited, warnings=("look",), tables=(Section("Copies", ("None.",), ("group",), (("a",),)),))
    lines = str(audited).splitlines()
    assert audited.spent_in_words in lines
    assert any(line.split()[:2] == ["a", "evenly,"] for line in lines)
    assert lines[-5:] == ["None.", "Copies", "group", "    a", "warning: look"]
    alone = fgsv.exact(fgsv.games.Airport([1, 2]), ["a", "b"])
    assert SPLITS not in str(fgsv.audit.audit(fgsv.games.Airport([1, 2]), alone))  # nobody can split
    assert SPLITS in lines
    settled = fgsv.payout.settle(fgsv.payout.split(alone, 100), fgsv.payout.split(alone, 120))
    lines = str(settled).splitlines()
    assert (lines[0], lines[-1]) == ("Corrections of 20.00 EUR in total.", "    b 75.00 90.00      15.00")


def test_a_valuation_is_a_document(result):
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert document["groups"][1]["value"] == pytest.approx(7.0)
    assert document["end"]["reason"] == "exhausted"


def test_load_reads_a_file_or_a_folder(result, tmp_path):
    result.save(tmp_path / "valuation.json")
    for path in (tmp_path, tmp_path / "valuation.json", str(tmp_path)):
        assert fgsv.load(path).values.tobytes() == result.values.tobytes()


SCRIPT = """
import time, numpy as np, fgsv
def game(masks):
    time.sleep(0.12)
    return np.sqrt(masks.sum(axis=1))
result = fgsv.value(fgsv.Game(game, 20), [i % 3 for i in range(20)], budget=450, seed=3, learn="sizes")
print(result.values.tobytes().hex())
"""


def in_terminal(script):
    """Return what a run prints, and what its terminal shows."""
    master, slave = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"} | {"TERM": "xterm"}
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=environment, text=True)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(master)
    out = process.stdout.read()
    assert process.wait() == 0
    process.stdout.close()
    return out, shown.decode()


def test_a_terminal_has_a_bar_and_the_same_bits():
    out, shown = in_terminal(SCRIPT)
    assert "widest share ±" in shown
    assert "evaluations" in shown
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 20)
    silent = fgsv.value(game, [i % 3 for i in range(20)], budget=450, seed=3, learn="sizes", progress=False)
    assert out.strip() == silent.values.tobytes().hex()


@pytest.mark.parametrize(("rule", "told"), [({}, "this run of 450"), ({"stderr": 1e-9}, "the first 2,048")])
def test_what_a_run_costs_is_said_before_it(monkeypatch, capsys, rule, told):
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 20)
    fgsv.value(game, budget=450, progress=True, **rule)
    assert told not in capsys.readouterr().err  # an evaluation takes no time
    monkeypatch.setattr(first_cost, "WORTH_SAYING", 0.0)
    fgsv.value(game, budget=450, progress=True, **rule)
    assert told in capsys.readouterr().err


def test_the_start_of_workers_is_not_taken_for_the_cost_of_a_run(monkeypatch, capsys):
    """Processes take seconds to start; two thousand evaluations were said to take an hour."""
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 20)
    send = Workers.send
    monkeypatch.setattr(Workers, "send", lambda *given, **more: time.sleep(0.2) or send(*given, **more))
    monkeypatch.setattr(first_cost, "WORTH_SAYING", 0.1)
    fgsv.value(game, budget=20, progress=True)
    assert "one evaluation" not in capsys.readouterr().err
    with Evaluator(game) as evaluator:
        assert 0 < first_cost.first_cost(evaluator, planning.Limits(budget=100)).seconds_of_all < 0.1


def test_pipes_and_tests_have_no_bar(monkeypatch):
    assert not bar.is_shown(None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert not bar.is_shown(None)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert bar.is_shown(None)
    assert not bar.is_shown(False)


def test_a_log_has_lines_in_place_of_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(bar, "PATIENCE", 0.0)
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 20)
    fgsv.value(game, budget=450, progress=True)
    [line] = capsys.readouterr().err.strip().splitlines()  # the next one comes after half a minute
    assert line.startswith("16 of about 450 evaluations, widest share ± ")


def test_the_time_left_follows_the_rules():
    class Now:
        n_evaluations, seconds = 1000, 5.0
        valuation = fgsv.value(fgsv.games.SumOfUnanimity(30), [i % 2 for i in range(30)], budget=300, seed=0)

    assert bar.expected((), 9000, Now) == 9000
    assert bar.expected((MaxSeconds(20),), 9000, Now) == 4000
    ratio = Precision(1e-4).ratio(Now.valuation)
    assert bar.expected((Precision(1e-4),), 9000, Now) == min(9000, int(1000 * max(1, ratio) ** 2))


def test_a_bar_follows_the_weighted_sum_that_a_target_is_about(monkeypatch):
    def scores(masks):
        return np.outer(np.sqrt(masks.sum(axis=1)), [1.0, -0.2])

    monkeypatch.setattr(bar, "PATIENCE", 0.0)
    game = fgsv.Game(scores, 20, outputs=("gain", "harm"), weights=(1.0, 1.0))  # there are no shares of the harm
    found = fgsv.value(game, [i % 3 for i in range(20)], precision=0.001, budget=300, progress=True)
    assert found.combined([1.0, 1.0]).total > 0
