"""Verification follows the laws that were recorded, and says where they cannot be those of the run."""

import json

import numpy as np

import fgsv
from fgsv.games import SumOfUnanimity
from fgsv.ledger import Ledger

GAME = fgsv.Game(SumOfUnanimity(12), 12, fingerprint="sum of unanimity")


def run(ledger):
    return fgsv.value(GAME, np.arange(12) % 3, budget=150, ledger=ledger, progress=False)


def alter(monkeypatch, change):
    """Let every law be found a little differently, as by another processor."""
    from fgsv.estimators.covariance.process import Process

    fitted = Process.fitted
    monkeypatch.setattr(
        Process, "fitted", lambda self, *rest: Process(self.n, fitted(self, *rest).parameters + change)
    )


def test_a_processor_that_rounds_differently_follows_the_recorded_laws(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    stated = run(path)
    alter(monkeypatch, 1e-9)
    other = fgsv.value(GAME, np.arange(12) % 3, budget=150, progress=False)
    assert not np.array_equal(other.values, stated.values)
    assert fgsv.verify(stated, path) == []


def test_a_law_that_the_utilities_do_not_lead_to_is_a_difference(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    stated = run(path)
    alter(monkeypatch, 0.5)
    [difference] = fgsv.verify(stated, path)
    assert difference.where == "law of the draws"


def test_a_resumed_run_follows_the_laws_of_the_first(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    stated = run(path)
    alter(monkeypatch, 1e-9)
    again = run(path)
    np.testing.assert_allclose(again.values, stated.values, rtol=1e-6)
    with Ledger(path, read_only=True) as ledger:
        laws = [ledger.laws(each["id"]) for each in ledger.runs()]
    assert len(laws[0]) == 3
    assert laws[0] == laws[1]


def test_an_altered_number_is_a_difference_to_the_last_bit(tmp_path):
    path = tmp_path / "run.db"
    stated = run(path)
    stated.save(tmp_path / "valuation.json")
    document = json.loads((tmp_path / "valuation.json").read_text())
    document["values"][0] = float(np.nextafter(document["values"][0], np.inf))
    (tmp_path / "valuation.json").write_text(json.dumps(document))
    altered = fgsv.load(tmp_path / "valuation.json")
    assert [each.where for each in fgsv.verify(altered, path)]
