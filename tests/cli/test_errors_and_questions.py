"""Commands that say where errors come from, and what depends on the question."""

import json
import shutil

import pytest
from cli_cases import COLUMNS, providers

TREE = ["--model", "sklearn.tree:ExtraTreeClassifier"]


@pytest.fixture
def more(tmp_path):
    path = tmp_path / "more.csv"
    frame = providers(100)
    lots = [f"{provider} {row // 20}" for row, provider in enumerate(frame["provider"])]
    frame.assign(area=["city", "land"] * (len(frame) // 2), lot=lots).to_csv(path, index=False)
    return path


def test_three_errors_stand_side_by_side_and_verify(fgsv_command, more, tmp_path):
    command = ["value", more, *COLUMNS, *TREE, "--ignore", "area", "--training-seeds", "fresh"]
    command += ["--unit", "lot", "--test-fraction", 0.4]
    command += ["--budget", 34, "--no-without", "--ledger", tmp_path / "run.db"]
    text, notes = fgsv_command.done(*command)
    for words in ("± evaluations", "± training seeds", "± test rows"):
        assert words in text
    assert "the test rows leave about ±" in notes
    document = json.loads(fgsv_command(*command, "--out", tmp_path / "o", "--json")[1])
    for row in document["errors_of_shares"]:
        assert all(f"{row[cause]:.2%}" in text for cause in ("monte_carlo", "training_seeds", "test_rows"))
    fgsv_command.done("verify", tmp_path / "o" / "valuation.json", "--ledger", tmp_path / "run.db")


@pytest.mark.parametrize("option", [["--also-metric", "neg_log_loss"], ["--monte-carlo-only"]], ids=["also", "only"])
def test_further_outputs_drop_no_note(fgsv_command, more, option):
    command = ["value", more, *COLUMNS, "--ignore", "area,lot", "--budget", 34, "--no-without", "--json"]
    alone, with_more = (json.loads(fgsv_command(*command, *given)[1])["notes"] for given in ([], option))
    [worth] = [note for note in alone if note.startswith("value of a set that the model cannot be fitted to: ")]
    assert worth in with_more
    assert len(with_more) >= len(alone)


def test_questions_are_declared_and_shown(fgsv_command, more, tmp_path):
    command = ["value", more, *COLUMNS, "--ignore", "area,lot", "--budget", 60, "--out", tmp_path / "o"]
    _, notes = fgsv_command.done(*command, "--also-metric", "neg_log_loss", "--also-slice", "area")
    assert "also scored (payments are by accuracy alone): neg_log_loss, area: city, area: land" in notes
    text, notes = fgsv_command.done("sensitivity", tmp_path / "o" / "valuation.json")
    assert "area: land" in text
    assert all(words in text for words in ("best rank", "worst rank", "spread by choice", "rank kept"))
    assert "of the variance over questions is due to choice" in notes
    for name in ("o.1", "o.2"):
        shutil.copytree(tmp_path / "o", tmp_path / name)
    _, text, _ = fgsv_command("sensitivity", tmp_path / "o", tmp_path / "o.1", tmp_path / "o.2" / "valuation.json")
    assert "accuracy (o.1)" in text
    assert "accuracy (o.2)" in text
