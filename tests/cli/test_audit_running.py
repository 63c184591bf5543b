"""How an audit runs: with a ledger, with workers, with failures and within its time."""

import json
import time

import pytest

from fgsv.cli import console

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("with_ledger", [True, False])
def test_workers_change_nothing_in_an_audit(fgsv_command, audited, tmp_path, with_ledger):
    found = []
    for jobs in (1, 2):
        ledger = ["--ledger", tmp_path / f"{jobs}.db"] if with_ledger else []
        found.append(fgsv_command.json(*audited, "--jobs", jobs, *ledger))
    assert found[0] == found[1]
    assert found[0]["audit"]["attacks"]


def test_a_number_for_failures_holds_in_the_audit(fgsv_command, audited, learning):
    assert fgsv_command("value", *audited[1:-5])[0] == 0  # without the options of the audit
    of_run = learning.fits
    learning.order(fail_after=2 * of_run)
    code, text, notes = fgsv_command(*audited, "--json")
    assert (code, "no more" in notes) == (1, True), notes
    kept = json.loads(text)  # the valuation, which is not lost with the audit
    assert (kept["audit"], len(kept["groupings"]["provider"]), "no more" in kept["errors"][0]) == (None, 3, True)
    learning.order(fail_after=learning.fits + of_run)
    document = fgsv_command.json(*audited, "--on-error", "-0.5")
    # all sets of groups but the two ends count the same, and so each group is worth a third
    assert [row["gsv_share"] for row in document["audit"]["gsv"]] == pytest.approx([1 / 3] * 3)
    assert document["failures"] is None  # of the run itself
    assert any("in the audit" in warning and "count as -0.5" in warning for warning in document["warnings"])


def test_a_time_limit_holds_for_the_audit(fgsv_command, audited, learning, monkeypatch):
    monkeypatch.setattr(console, "describe", lambda plan, limits: f"plan within {limits.max_seconds:g} s")
    learning.order(sleep=0.02)
    start = time.monotonic()
    code, text, notes = fgsv_command(*audited, "--max-time", "3s")
    seconds = time.monotonic() - start
    assert (code, "north" in text) == (0, True), notes
    assert seconds < 30
    assert learning.fits < 300  # an audit without the limit takes more
    assert "plan within 1.5 s" in notes.splitlines()  # the audit gets the other half
    [warning] = [line for line in notes.splitlines() if "time ran out before the splits of" in line]
    assert warning.startswith("warning: ")
