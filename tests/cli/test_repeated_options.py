"""An option that lists things takes them separated by commas, repeated, or both: nothing is dropped."""

import json

import pytest
from cli_cases import providers

import fgsv

ONCE = ["--group", "provider,site", "--target", "y", "--ignore", "id,b", "--regroup", "a,c"]
REPEATED = ["--group", "provider", "--group", "site", "--target", "y"]
REPEATED += ["--ignore", "id", "--ignore", "b", "--regroup", "a", "--regroup", "c"]


@pytest.fixture
def with_ids(tmp_path):
    path = tmp_path / "ids.csv"
    providers().assign(id=range(60)).to_csv(path, index=False)
    return path


def test_repeating_an_option_is_the_same_as_commas(fgsv_command, with_ids):
    options = ["--budget", 100, "--pay-anyway", "--json"]
    metrics = {",": ["--metric", "accuracy,neg_log_loss"], "": ["--metric", "accuracy", "--metric", "neg_log_loss"]}
    amounts = {",": ["--payout", "10,20"], "": ["--payout", "10", "--payout", "20"]}
    documents = [
        json.loads(fgsv_command("value", with_ids, *columns, *metrics[form], *amounts[form], *options)[1])
        for columns, form in ((ONCE, ","), (REPEATED, ""))
    ]
    assert documents[0] == documents[1]
    assert list(documents[1]["groupings"]) == ["provider", "site", "a", "c"]
    assert documents[1]["payout"]["amount"] == "30.00"


def test_every_ignored_column_is_left_out(fgsv_command, with_ids, tmp_path):
    """An id that is not ignored after all would be a feature."""
    out = tmp_path / "out"
    assert fgsv_command("value", with_ids, *REPEATED, "--budget", 100, "--out", out)[0] == 0
    assert fgsv.results.Result.load(out / "valuation.json").source.columns["ignored"] == ["id", "b"]


@pytest.mark.parametrize("column", ["Name, first", "provider ", 'a "b", c'])
def test_a_column_in_double_quotes_may_have_commas_and_spaces(fgsv_command, tmp_path, column):
    path = tmp_path / "odd.csv"
    providers().rename(columns={"provider": column}).to_csv(path, index=False)
    options = ["--target", "y", "--budget", 100, "--json"]
    quoted = '"' + column.replace('"', '""') + '"'
    text, _ = fgsv_command.done("value", path, "--group", f"{quoted},site", *options)
    assert list(json.loads(text)["groupings"]) == [column, "site"]
    assert "takes it in double quotes" in fgsv_command.refused("value", path, "--group", column, *options)
