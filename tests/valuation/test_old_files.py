"""Files that fgsv 0.1.0 wrote still open, show, verify and continue."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fgsv
from fgsv.ledger import Ledger, WrongLedger
from fgsv.ledger.tools import merge
from fgsv.report import Result, check_folder, render
from fgsv.running.verification import verify
from fgsv.valuation import Reason

OLD = Path(__file__).parents[1] / "old" / "0.1.0"
SAVED = {
    "clock": ("few.db", Reason.TIME),
    "enumerated": ("few.db", Reason.TARGET),
    "grouped": ("few.db", Reason.EXHAUSTED),
    "interrupted": ("few.db", Reason.INTERRUPTED),
    "out_of_reach": ("few.db", Reason.BUDGET),
    "permutation": ("few.db", Reason.BUDGET),
    "paid/valuation": ("run.db", Reason.BUDGET),
    "precise/valuation": ("run.db", Reason.TARGET),
    "folds/valuation": ("folds.db", Reason.BUDGET),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_valuation_opens_with_a_typed_end_and_is_verified(name):
    ledger, reason = SAVED[name]
    valuation = fgsv.Valuation.load(OLD / f"{name}.json")
    assert valuation.end.reason is reason
    assert valuation.finished
    found = fgsv.verify(valuation, OLD / ledger)
    assert found == []
    changed = fgsv.Valuation.load(OLD / f"{name}.json")
    # a processor that rounds differently from the one that made the file cannot tell a smaller change
    changed.values[0] += 1e-12 if found.to_the_bit else max(0.02 * changed.stderr[0], 2e-6 * changed.values.max())
    assert [each.where for each in fgsv.verify(changed, OLD / ledger)] == [f"values of group {changed.names[0]!r}"]


def test_the_settings_of_a_run_are_read_as_numbers():
    precise = fgsv.Valuation.load(OLD / "precise" / "valuation.json").settings
    assert (precise.precision, precise.confidence, precise.budget) == (0.2, 0.95, 2000)
    clocked = fgsv.Valuation.load(OLD / "clock.json").settings
    assert (clocked.max_seconds, clocked.needs) == (1e-9, ())
    assert fgsv.Valuation.load(OLD / "permutation.json").settings.stderr == 0.2


def test_a_result_keeps_its_payout_audit_and_test_error():
    paid = Result.load(OLD / "paid" / "valuation.json")
    assert sum(paid.payout.payments) == 1000
    assert fgsv.payout.differences(paid.payout, paid.valuation) == []
    assert paid.audit.n_evaluations == sum(paid.audit.spent.values()) == 2794
    assert paid.source.metric == "neg_log_loss"
    assert "Copies: who holds whose rows" in render(paid)
    folds = Result.load(OLD / "folds" / "valuation.json")
    assert len(folds.test_error.rows) == 4
    np.testing.assert_allclose(sum(folds.valuation.weights), 1)


def test_a_failure_of_0_1_0_is_counted():
    failures = fgsv.Valuation.load(OLD / "interrupted.json").failures
    assert (failures.coalitions, failures.kinds) == (4, {"not finite": 4})


def test_runs_of_an_old_ledger_show_their_ends_and_the_ledger_goes_on(tmp_path):
    path = shutil.copy(OLD / "few.db", tmp_path / "few.db")
    with Ledger(path, read_only=True) as ledger:
        reasons = [run.end.reason for run in ledger.runs()]
    assert reasons == [
        Reason.TARGET,
        Reason.BUDGET,
        Reason.TIME,
        Reason.EXHAUSTED,
        Reason.BUDGET,
        Reason.INTERRUPTED,
    ]
    asked = []

    def airport(masks):
        asked.append(len(masks))
        return fgsv.games.Airport(list(range(1, 9)))(masks)

    game = fgsv.Game(airport, 8, fingerprint="airport 8")
    saved = fgsv.Valuation.load(OLD / "enumerated.json")
    with pytest.raises(WrongLedger, match="is only read"):
        fgsv.value(game, saved.partition, ledger=path)
    assert merge(tmp_path / "new.db", [path]).added > 0
    assert fgsv.verify(saved, tmp_path / "new.db") == []
    options = {"precision": 1e-6, "budget": 600, "opening": False, "whole_rounds": True}
    merge(tmp_path / "trusted.db", [path], trust_old=True)
    again = fgsv.value(game, saved.partition, **options, ledger=tmp_path / "trusted.db")
    np.testing.assert_allclose(again.values, saved.values, rtol=1e-14)  # made by another processor
    assert not asked
    fgsv.value(game, saved.partition, **options, ledger=tmp_path / "new.db")
    assert sum(asked) >= 2**8


def test_a_folder_of_0_1_0_is_finished_unless_it_was_interrupted(tmp_path):
    shutil.copy(OLD / "enumerated.json", tmp_path / "valuation.json")
    with pytest.raises(FileExistsError, match="force=True"):
        check_folder(tmp_path, force=False)
    text = (OLD / "enumerated.json").read_text(encoding="utf-8")
    stopped = fgsv.Valuation.load(OLD / "enumerated.json").stopped
    (tmp_path / "valuation.json").write_text(text.replace(f'"{stopped}"', '"interrupted"'), encoding="utf-8")
    check_folder(tmp_path, force=False)


def test_draws_that_another_version_makes_otherwise_are_no_accusation(tmp_path):
    game = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 12, fingerprint="roots")
    found = fgsv.value(game, budget=1200, ledger=tmp_path / "run.db", surrogate=False)
    other = replace(found, settings=replace(found.settings, seed=1))
    assert [each.where for each in verify(other, tmp_path / "run.db")] == ["draws"]
    older = replace(other, settings=replace(other.settings, version="0.1.0"))
    with pytest.raises(ValueError, match=r"fgsv 0\.1\.0 made this result.*verify it with the version that made it"):
        verify(older, tmp_path / "run.db")
