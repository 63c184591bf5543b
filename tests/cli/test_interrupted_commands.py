"""Ctrl-C: what was evaluated is kept, and the same command continues."""

import json
from dataclasses import replace

import pytest
from cli_cases import COLUMNS, undated

from fgsv.planning import value_with_plan
from fgsv.valuation import INTERRUPTED


def document(folder):
    return json.loads((folder / "valuation.json").read_text())


def test_ctrl_c_under_a_precision_ends_the_command_before_the_audit(fgsv_command, audited, learning, tmp_path):
    out = tmp_path / "o"
    command = ["value", *audited[1:], "--budget", 100_000, "--precision", 0.02, "--audit", "--out", out]
    learning.order(interrupt_at=100)
    code, text, notes = fgsv_command(*command)
    assert (code, "north" in text) == (1, True), notes
    assert learning.fits == 100  # nothing was trained after the interrupt
    kept = document(out)
    assert kept["end"]["reason"] == "interrupted"
    assert kept["info"]["history"][-1][0] == kept["n_evaluations"] < 100
    assert "audit" not in kept["info"]
    assert "The audit spent" not in notes
    assert "warning: the audit is missing: the run was interrupted first" in notes
    learning.order()
    fgsv_command.done(*command)
    done = document(out)
    assert (done["finished"], done["end"]["reason"]) == (True, "target")
    assert done["n_evaluations"] > kept["n_evaluations"]
    assert len(done["info"]["audit"]["gsv"]) == 3


def test_an_interrupted_run_says_that_its_intervals_lack_training_seeds(fgsv_command, train, monkeypatch):
    monkeypatch.setattr(
        "fgsv.pipeline.pipeline.value_with_plan", lambda *args, **more: stopped(value_with_plan(*args, **more))
    )
    options = ["--model", "sklearn.tree:ExtraTreeClassifier", "--training-seeds", "fresh", "--budget", 50]
    code, text, notes = fgsv_command("value", train, *COLUMNS, *options)
    assert (code, "north" in text) == (1, True), notes
    assert "warning: the error of training seeds is missing: the run was interrupted first" in notes


def stopped(made):
    """Return a valuation and its history, as if they were interrupted."""
    valuation, history = made
    return replace(valuation, end=INTERRUPTED), history


def test_ctrl_c_in_the_audit_leaves_an_unfinished_result_that_continues(fgsv_command, audited, learning, tmp_path):
    out = tmp_path / "o"
    assert fgsv_command("value", *audited[1:-5])[0] == 0  # without the options of the audit
    of_run, command = learning.fits, [*audited, "--out", out]
    learning.order(interrupt_at=2 * of_run + 100)
    code, text, notes = fgsv_command(*command, "--payout", 10, "--pay-anyway")
    assert (code, "north" in text, "the audit is missing: it was interrupted" in notes) == (1, True, True), notes
    assert learning.fits == 2 * of_run + 100
    kept = document(out)
    assert (kept["finished"], kept["end"]["reason"]) == (False, "budget")
    assert kept["info"]["payout"]["amount"] == "10.00"
    assert "audit" not in kept["info"]
    learning.order()
    fgsv_command.done(*command)
    done = document(out)
    assert (done["finished"], done["end"]) == (True, kept["end"])
    assert len(done["info"]["audit"]["gsv"]) == 3
    assert done["estimate"] == kept["estimate"]


def test_what_an_interrupted_audit_recorded_is_not_trained_again(fgsv_command, audited, learning, tmp_path):
    def recorded(ledger):
        games = json.loads(fgsv_command("ledger", "show", ledger, "--json")[1])["games"]
        return sum(game["coalitions"] for game in games)

    assert fgsv_command(*audited, "--ledger", tmp_path / "whole.db", "--out", tmp_path / "whole")[0] == 0
    whole, ledger, out = learning.fits, tmp_path / "run.db", tmp_path / "o"
    assert whole == recorded(tmp_path / "whole.db") - 1  # the empty set is not fitted
    learning.order(interrupt_at=whole + whole * 3 // 4)
    assert fgsv_command(*audited, "--ledger", ledger, "--out", out)[0] == 1
    assert not document(out)["finished"]
    kept, before = recorded(ledger), learning.fits
    assert 100 < kept < whole
    learning.order()
    assert fgsv_command(*audited, "--ledger", ledger, "--out", out)[0] == 0
    assert learning.fits - before == whole + 1 - kept
    assert undated(out) == undated(tmp_path / "whole")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([*COLUMNS, "--seed", 1], "with another seed"),
        ([*COLUMNS, "--metric", "neg_log_loss"], "of other data, model or score"),
        (["--group", "site", "--target", "y", "--ignore", "provider"], "of other providers"),
    ],
)
def test_an_interrupted_result_is_replaced_only_by_a_run_that_continues_it(
    fgsv_command, train, tmp_path, monkeypatch, columns, words
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    out = tmp_path / "o"
    options = ["--budget", 200, "--out", out]
    with monkeypatch.context() as patched:
        patched.setattr("fgsv.pipeline.pipeline.scores_without_each", interrupt)
        assert fgsv_command("value", train, *COLUMNS, *options)[0] == 1
    kept = (out / "valuation.json").read_bytes()
    code, _, notes = fgsv_command("value", train, *columns, *options)
    assert (code, f"an interrupted valuation {words}" in notes, "--force" in notes) == (2, True, True), notes
    assert (out / "valuation.json").read_bytes() == kept
    assert fgsv_command("value", train, *columns, *options, "--force")[0] == 0
