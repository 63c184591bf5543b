"""An audit whose process is killed: the same command continues it."""

import subprocess
import sys
import time

import pytest
from cli_cases import undated

from fgsv.ledger import Ledger, LedgerError
from fgsv.ledger.tools import summary
from fgsv.results import Result

pytestmark = pytest.mark.slow

COMMAND = "import sys; from fgsv.cli import main; main(sys.argv[1:])"


def recorded(ledger):
    """Return the runs and the evaluations of a ledger that another process may be writing to."""
    try:
        with Ledger(ledger, read_only=True) as opened:
            return opened.runs(), int(summary(opened)["coalitions"].sum())
    except (LedgerError, ValueError):  # not there yet
        return [], 0


def test_an_audit_that_is_killed_resumes(fgsv_command, audited, learning, tmp_path):
    ledger, out = tmp_path / "run.db", tmp_path / "o"
    command = [str(word) for word in [*audited, "--ledger", ledger, "--out", out]]
    learning.order(sleep=0.003)
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *command], stdout=subprocess.DEVNULL)
    limit, at_shells = time.monotonic() + 120, None
    while True:
        runs, evaluations = recorded(ledger)
        if at_shells is None and any(run.settings["method"] == "shell companies" for run in runs):
            at_shells = evaluations
        if at_shells is not None and evaluations > at_shells:  # in the midst of them
            break
        assert (process.poll(), time.monotonic() < limit) == (None, True)
        time.sleep(0.1)
    process.kill()
    process.wait()
    runs, kept_evaluations = recorded(ledger)
    [killed] = [run for run in runs if not run.ended]
    assert killed.settings["method"] == "shell companies"
    kept = Result.load(out / "valuation.json")
    assert (kept.valuation.finished, kept.audit) == (False, None)
    learning.order()
    before = learning.fits
    assert fgsv_command(*command)[0] == 0
    again = learning.fits - before
    assert fgsv_command(*audited, "--ledger", tmp_path / "other.db", "--out", tmp_path / "undisturbed")[0] == 0
    whole = learning.fits - before - again
    assert 100 < kept_evaluations < whole
    assert again == whole + 1 - kept_evaluations  # the empty set is not fitted
    assert undated(out) == undated(tmp_path / "undisturbed")
