"""Ctrl-C: what was evaluated is kept, and the same command continues."""

import pytest
from cli_cases import COLUMNS

from fgsv.planning import Limits, value_with_plan
from fgsv.report import Result, check_folder, write_result
from fgsv.report.making import Silent
from fgsv.valuation import INTERRUPTED


class Interrupting:
    """A game that is interrupted by Ctrl-C at its tenth batch."""

    n_players = 12

    def __init__(self, after):
        self.left = after

    def __call__(self, masks):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return masks.sum(axis=1) ** 0.5 + masks[:, 0]


def test_ctrl_c_keeps_what_was_evaluated(tmp_path):
    valuation, history = value_with_plan(Interrupting(10), None, Limits(budget=3000), Silent())
    assert valuation.end == INTERRUPTED
    assert history[-1].n_evaluations == valuation.n_evaluations
    assert 2 < valuation.n_evaluations < 3000
    write_result(tmp_path, Result(valuation))
    check_folder(tmp_path, force=False)  # an interrupted valuation may be replaced
    with pytest.raises(KeyboardInterrupt):
        value_with_plan(Interrupting(1), None, Limits(budget=3000), Silent())


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError("killed")])
def test_an_audit_that_ends_early_keeps_the_valuation(fgsv_command, train, tmp_path, monkeypatch, end):
    def fail(*_, **__):
        raise end

    command = ["audit", train, *COLUMNS, "--budget", 200, "--payout", 10, "--out", tmp_path / "o"]
    with monkeypatch.context() as patched:
        patched.setattr("fgsv.audit.of_table.diagnose", fail)
        code, text, notes = fgsv_command(*command)
    assert code == 1
    kept = Result.load(tmp_path / "o" / "valuation.json")
    assert kept.valuation.n_evaluations > 100
    assert not kept.valuation.finished
    if end is KeyboardInterrupt:
        assert "north" in text
        assert "the audit was interrupted" in notes
        assert str(kept.payout.amount) == "10.00"
    else:  # as a killed run, it can be started again
        assert fgsv_command(*command)[0] == 0
        assert Result.load(tmp_path / "o" / "valuation.json").audit is not None
