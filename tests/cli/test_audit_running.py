"""How an audit runs: with a ledger, with workers, after a kill, with failures and within its time."""

import json
import subprocess
import sys
import time

import pytest
from cli_cases import undated

from fgsv.ledger import Ledger, LedgerError
from fgsv.ledger.tools import summary
from fgsv.report import Result


def test_a_second_audit_with_the_ledger_trains_nothing(fgsv_command, audited, learning, tmp_path):
    command = [*audited, "--ledger", tmp_path / "run.db", "--json"]
    code, first, notes = fgsv_command(*command)
    assert (code, learning.fits > 500) == (0, True), notes
    before = learning.fits
    code, second, _ = fgsv_command(*command)
    assert (code, learning.fits) == (0, before)
    assert json.loads(second) == json.loads(first)


@pytest.mark.parametrize("with_ledger", [True, False])
def test_workers_change_nothing_in_an_audit(fgsv_command, audited, tmp_path, with_ledger):
    found = []
    for jobs in (1, 2):
        ledger = ["--ledger", tmp_path / f"{jobs}.db"] if with_ledger else []
        code, text, notes = fgsv_command(*audited, "--jobs", jobs, *ledger, "--json")
        assert code == 0, notes
        found.append(json.loads(text))
    assert found[0] == found[1]
    assert found[0]["audit"]["attacks"]


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
    process = subprocess.Popen([sys.executable, "-m", "fgsv", *command], stdout=subprocess.DEVNULL)
    limit, at_shells = time.monotonic() + 120, None
    while True:
        runs, evaluations = recorded(ledger)
        if at_shells is None and any(run["settings"]["method"] == "shell companies" for run in runs):
            at_shells = evaluations
        if at_shells is not None and evaluations > at_shells:  # in the midst of them
            break
        assert (process.poll(), time.monotonic() < limit) == (None, True)
        time.sleep(0.1)
    process.kill()
    process.wait()
    runs, kept_evaluations = recorded(ledger)
    [killed] = [run for run in runs if not run["ended"]]
    assert killed["settings"]["method"] == "shell companies"
    kept = Result.load(out / "valuation.json")
    assert (kept.valuation.finished, kept.audit) == (False, None)
    learning.order()
    before = learning.fits
    assert fgsv_command(*command)[0] == 0
    again = learning.fits - before
    assert fgsv_command(*audited, "--ledger", tmp_path / "other.db", "--out", tmp_path / "undisturbed")[0] == 0
    whole = learning.fits - before - again
    assert 100 < kept_evaluations < whole
    assert again == whole + 2 - kept_evaluations  # the empty sets of the score and of its noise are not fitted
    assert undated(out) == undated(tmp_path / "undisturbed")


def test_a_number_for_failures_holds_in_the_audit(fgsv_command, audited, learning):
    assert fgsv_command("value", *audited[1:])[0] == 0
    of_run = learning.fits
    learning.order(fail_after=2 * of_run)
    code, text, notes = fgsv_command(*audited, "--json")
    assert (code, "no more" in notes) == (1, True), notes
    kept = json.loads(text)  # the valuation, which is not lost with the audit
    assert (kept["audit"], len(kept["groupings"]["provider"]), "no more" in kept["errors"][0]) == (None, 3, True)
    learning.order(fail_after=learning.fits + of_run)
    code, text, notes = fgsv_command(*audited, "--on-error", "-0.5", "--json")
    assert code == 0, notes
    document = json.loads(text)
    # all sets of groups but the two ends count the same, and so each group is worth a third
    assert [row["gsv_share"] for row in document["audit"]["gsv"]] == pytest.approx([1 / 3] * 3)
    assert document["failures"] is None  # of the run itself
    assert any("in the audit" in warning and "count as -0.5" in warning for warning in document["warnings"])


def test_a_time_limit_holds_for_the_audit(fgsv_command, audited, learning):
    learning.order(sleep=0.02)
    start = time.monotonic()
    code, text, notes = fgsv_command(*audited, "--max-time", "3s")
    seconds = time.monotonic() - start
    assert (code, "north" in text) == (0, True), notes
    assert seconds < 30
    assert learning.fits < 500  # an audit without the limit takes more
    [warning] = [line for line in notes.splitlines() if "time ran out before the splits of" in line]
    assert warning.startswith("warning: ")
