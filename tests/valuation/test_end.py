"""How a run ended is a value, in results, files and ledgers."""

import json

import pytest

import fgsv
from fgsv.games import Airport, SumOfUnanimity
from fgsv.ledger import Ledger
from fgsv.valuation import Reason

NAMED = fgsv.Game(SumOfUnanimity(20), 20, fingerprint="unanimity 20")


def interrupting(after):
    """Return a game that is interrupted at its k-th batch."""
    asked = []

    def game(masks):
        asked.append(len(masks))
        if len(asked) == after:
            raise KeyboardInterrupt
        return SumOfUnanimity(20)(masks)

    return fgsv.Game(game, 20, fingerprint="interrupted")


RUNS = {
    Reason.BUDGET: (NAMED, {"budget": 100}),
    Reason.TARGET: (NAMED, {"precision": 0.5, "budget": 4000}),
    Reason.TIME: (NAMED, {"max_seconds": 1e-9}),
    Reason.EXHAUSTED: (fgsv.Game(Airport([1, 2, 3]), 3, fingerprint="airport 3"), {}),
    Reason.INTERRUPTED: (interrupting(6), {"budget": 1000}),
}


@pytest.mark.parametrize("reason", RUNS)
def test_the_reason_is_in_the_valuation_its_file_and_the_ledger(reason, tmp_path):
    game, options = RUNS[reason]
    result = fgsv.value(game, ledger=tmp_path / "run.db", **options)
    assert result.end.reason is reason
    result.save(tmp_path / "v.json")
    assert fgsv.Valuation.load(tmp_path / "v.json").end == result.end
    assert json.loads((tmp_path / "v.json").read_text())["end"]["reason"] == reason.value
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        assert [run.end for run in ledger.runs()] == [result.end]


def test_a_run_that_raised_has_failed_in_the_ledger(tmp_path):
    def game(masks):
        raise RuntimeError("no licence")

    with pytest.raises(fgsv.GameError):
        fgsv.value(fgsv.Game(game, 5, fingerprint="bad"), ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        [run] = ledger.runs()
    end = run.end
    assert end.reason is Reason.FAILED
    assert "no licence" in end.detail


def test_an_interrupt_beside_a_precision_is_an_interrupt_with_a_note():
    result = fgsv.value(interrupting(6), precision=1e-6, budget=5000)
    assert result.end.reason is Reason.INTERRUPTED
    assert "a precision of 1e-06 would take" in result.end.detail
