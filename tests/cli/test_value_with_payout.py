"""The command `fgsv value --payout`: what cannot be paid is said before the run, and nothing is lost after it."""

import json

import numpy as np
import pytest
from cli_cases import COLUMNS, providers

import fgsv
from fgsv.files import encode
from fgsv.payout import Doubt
from fgsv.results import Decision, Result


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--payout", "12.345"], "not a multiple of the smallest unit"),
        (["--payout", "100", "--cap", "10"], "raise the cap"),
        (["--payout", "100", "--floor", "50"], "a floor of 50.00 for each of 4 groups"),
        (["--payout", "100", "--metric", "accuracy,neg_log_loss"], "give an amount for each"),
        (["--payout", "50,50"], "one amount"),
    ],
)
def test_money_that_cannot_be_split_is_refused_before_the_run(fgsv_command, train, monkeypatch, options, words):
    monkeypatch.setattr("fgsv.pipeline.pipeline.value_with_plan", lambda *_, **__: pytest.fail("the run began"))
    assert words in fgsv_command.refused("value", train, *COLUMNS, *options)


def test_a_payout_that_nobody_should_rely_on_is_refused_and_the_valuation_kept(fgsv_command, train, tmp_path):
    pytest.importorskip("vl_convert")
    out = tmp_path / "out"
    command = ["value", train, *COLUMNS, "--budget", 100, "--payout", 100, "--out", out]
    code, text, notes = fgsv_command(*command)
    assert (code, "refused: 100.00 EUR was not split" in notes, "north" in text) == (3, True, True)
    kept = Result.load(out / "valuation.json")
    assert f"verdict: {kept.verdict.sentences[0]}" in notes
    assert kept.valuation.finished
    assert kept.payout is None
    assert Doubt.TOO_WIDE in [objection.doubt for objection in kept.unpaid.objections]
    assert kept.verdict.decision is not Decision.SETTLED
    page = (out / "report.html").read_text()
    assert "was not split" in page
    assert kept.verdict.known in page
    code, text, _ = fgsv_command(*command, "--json", "--force")
    document = json.loads(text)
    assert (code, document["payout"], document["verdict"]["decision"]) == (3, None, kept.verdict.decision)
    assert document["unpaid"] == encode(kept.unpaid)
    assert "It was paid although" in fgsv_command.done(*command, "--pay-anyway", "--force")[1]
    paid = Result.load(out / "valuation.json")
    assert sum(paid.payout.payments) == 100
    assert paid.payout.objections == kept.unpaid.objections
    assert "paid although" in (out / "report.html").read_text()


def test_a_payout_that_fails_loses_no_valuation(fgsv_command, train, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("cannot be paid")

    monkeypatch.setattr("fgsv.payout.splitting.pay", fail)
    code, text, notes = fgsv_command(
        "value", train, *COLUMNS, "--budget", 100, "--payout", 100, "--out", tmp_path / "out"
    )
    assert code == 2
    assert "cannot be paid" in notes
    assert "north" in text
    assert fgsv.Valuation.load(tmp_path / "out" / "valuation.json").n_evaluations > 50


def test_nothing_to_share_names_other_scores_and_a_score_may_need_its_empty_set(fgsv_command, tmp_path):
    path = tmp_path / "noise.csv"
    frame = providers(80)
    frame.assign(y=np.where(np.arange(80) % 10 == 0, "rare", "common"), a=0.0, b=frame["b"]).to_csv(path, index=False)
    notes = fgsv_command.refused("value", path, *COLUMNS, "--metric", "accuracy", "--budget", 50, "--payout", 10)
    assert "another metric may tell more: roc_auc" in notes.lower()
    command = ["value", path, *COLUMNS, "--metric", "f1", "--budget", 20, "--json"]
    fgsv_command.done(*command)
    assert "value of a set that the model cannot be fitted to: -1" in fgsv_command.done(*command, "--empty", "-1")[0]


def test_who_pays_is_told_that_providers_know_the_split_seed(fgsv_command, train, tmp_path):
    words = "warning: providers who know the split seed (0) can choose their test rows: choose a large split seed"
    command = ["value", train, *COLUMNS, "--budget", 100]
    pay = ["--payout", 100, "--pay-anyway"]
    assert words not in fgsv_command(*command)[2]
    assert fgsv_command(*command, *pay, "--out", tmp_path / "out")[2].count(words) == 1
    assert fgsv_command("payout", tmp_path / "out", "--amount", 100, "--pay-anyway")[2].count(words) == 1
    for options in (["--split-seed", 83_726_154], ["--test", train]):
        assert words not in fgsv_command(*command, *pay, *options)[2]
