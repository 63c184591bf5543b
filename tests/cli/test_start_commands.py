"""A market that moves: `--start` takes the frame of an earlier run, and evaluates only what is new."""

import json
import shutil

import pandas as pd
import pytest
from cli_cases import providers

from fgsv.cli import main
from fgsv.ledger.kept_rows import beside

COLUMNS = ["--group", "provider", "--target", "y", "--unit", "unit"]


def market(months=(0,)):
    """Return training rows in units of four, with a category, of three providers for each month."""
    frame = providers(96, seed=1).drop(columns=["site", "provider"])
    frame["unit"] = [f"u{row // 4}" for row in range(96)]
    names = ["north", "south", "east", "west", "late", "later"]
    frame["provider"] = [names[row // 16] for row in range(96)]
    frame["kind"] = [["a", "b", "c"][row % 3] for row in range(96)]
    return frame


def write(folder):
    """Write march.csv, april.csv (west left, late joined) and test.csv."""
    frame = market()
    test = providers(80, seed=2).drop(columns=["site"]).assign(unit=range(80), kind="a")
    test.to_csv(folder / "test.csv", index=False)
    groups = {"march": ["north", "south", "east", "west"], "april": ["north", "south", "east", "late"]}
    for month, names in groups.items():
        frame[frame["provider"].isin(names)].to_csv(folder / f"{month}.csv", index=False)
    return folder


@pytest.fixture
def files(tmp_path):
    return write(tmp_path)


@pytest.fixture(scope="module")
def valued(tmp_path_factory):
    """Return the folder after the valuation of March, which every test copies."""
    files = write(tmp_path_factory.mktemp("march"))
    command = ["value", files / "march.csv", *COLUMNS, "--test", files / "test.csv", "--metric", "neg_log_loss"]
    command += ["--budget", 300, "--ledger", files / "march.db", "--payout", 1000, "--pay-anyway"]
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in [*command, "--out", files / "march"]])
    assert not end.value.code
    return files


@pytest.fixture
def march(valued, tmp_path):
    return shutil.copytree(valued, tmp_path, dirs_exist_ok=True)


def test_renamed_providers_and_withdrawn_rows_are_told_from_others(fgsv_command, march):
    frame = pd.read_csv(march / "march.csv")
    names = frame["provider"].unique()
    withdrawn = frame.index[frame["provider"] == names[0]][-1:]
    unit = frame["unit"] == frame.loc[withdrawn[0], "unit"]
    changed = frame[~unit].assign(provider=frame["provider"].replace({names[1]: "another name"}))
    changed.to_csv(march / "changed.csv", index=False)
    options = ["--test", march / "test.csv", "--start", march / "march.db"]
    text, _ = fgsv_command.done("ledger", "applies", march / "changed.csv", *COLUMNS, *options)
    assert "2 of 4 providers as before, 1 renamed, 1 withdrew rows (15 players as before, 1 left, 0 joined)" in text


def test_the_next_month_starts_from_the_last(fgsv_command, march):
    april = ["value", march / "april.csv", *COLUMNS, "--test", march / "test.csv", "--budget", 100]
    start = ["--start", march / "march.db", "--ledger", march / "april.db"]
    before = ["--before", march / "march" / "valuation.json"]
    money = ["--payout", 1000, "--pay-anyway"]
    _, notes = fgsv_command.done(*april, *start, *before, *money, "--out", march / "april")
    assert "3 of 5 providers as before, 1 left, 1 joined (12 players as before, 4 left, 4 joined): " in notes
    assert "known evaluations apply" in notes
    assert "scored by" not in notes  # the metric is that of March
    assert "preprocessing is taken from the run to start from" in notes
    assert "classification (as in the run to start from)" in notes
    document = json.loads((march / "april" / "valuation.json").read_text(encoding="utf-8"))
    assert document["settings"]["metric"] == "neg_log_loss"
    assert document["n_known"] > 0
    assert "Then and now" in (march / "april" / "report.html").read_text(encoding="utf-8")
    (march / "march.db").unlink()
    saved = march / "april" / "valuation.json"
    tables = ["--data", march / "april.csv", "--test", march / "test.csv", "--tolerance", 1e-9]
    text, _ = fgsv_command.done("verify", saved, "--ledger", march / "april.db", *tables)
    assert "same: 4 values" in text
    code, text, notes = fgsv_command("compare", march / "march" / "valuation.json", saved, "--json")
    found = json.loads(text)
    assert "different games" not in text  # other players, but the same frame
    assert {row["group"]: row["status"] for row in found["groups"]}["late"] == "joined"
    assert found["settlement"]["total"] == "0.00"
    code, text, notes = fgsv_command("compare", march / "march" / "valuation.json", saved)
    assert (code, "to correct it" in text, "Left: west" in notes) == (0, True, True)


def test_the_order_of_rows_and_how_classes_are_written_do_not_matter(fgsv_command, march):
    frame = pd.read_csv(march / "march.csv").sample(frac=1, random_state=0)
    frame.assign(y=frame["y"].astype(float)).to_csv(march / "shuffled.csv", index=False)
    command = ["ledger", "applies", march / "shuffled.csv", *COLUMNS, "--test", march / "test.csv"]
    text, _ = fgsv_command.done(*command, "--start", march / "march.db")
    assert "4 of 4 providers as before (16 players as before, 0 left, 0 joined)" in text


def test_plan_knows_it_too(fgsv_command, march):
    april = ["plan", march / "april.csv", *COLUMNS, "--test", march / "test.csv", "--pilot", 100]
    code, _, notes = fgsv_command(*april, "--precision", 0.05, "--start", march / "march.db")
    assert (code, "known evaluations apply" in notes, "new evaluations" in notes) == (0, True, True), notes
    assert "3 of 5 providers" in fgsv_command.json(*april, "--start", march / "march.db")["start"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (["--metric", "accuracy"], "the score changed"),
        (["--ignore", "a"], "column 'a' is no feature here, but was one of the run to start from"),
    ],
)
def test_what_prevents_a_start_is_named(fgsv_command, march, changed, words):
    april = ["value", march / "april.csv", *COLUMNS, "--test", march / "test.csv", "--start", march / "march.db"]
    code, _, notes = fgsv_command(*april, *changed)
    assert (code, words in notes, "can be reused" in notes) == (2, True, True), notes


def test_test_rows_chosen_by_content_stay_the_test_rows(fgsv_command, files):
    frame = market()
    extra = frame.assign(a=frame["a"] + 0.01, provider="new", unit=[f"v{row // 4}" for row in range(96)])
    pd.concat([frame, extra]).to_csv(files / "more.csv", index=False)
    frame.to_csv(files / "all.csv", index=False)
    options = [*COLUMNS, "--budget", 120]
    assert fgsv_command("value", files / "all.csv", *options, "--ledger", files / "a.db")[0] == 0
    _, notes = fgsv_command.done("value", files / "more.csv", *options, "--start", files / "a.db")
    assert "test rows of the run to start from" in notes
    assert "6 of 7 providers as before, 1 joined" in notes
    frame.iloc[1:].assign(a=frame["a"] + 1).to_csv(files / "other.csv", index=False)
    _, notes = fgsv_command.done("value", files / "other.csv", *options, "--start", files / "a.db")
    assert "which are kept beside its ledger" in notes
    beside(files / "a.db").unlink()
    code, _, notes = fgsv_command("value", files / "other.csv", *options, "--start", files / "a.db")
    assert (code, "test rows of the earlier run" in notes, "nothing can be reused" in notes) == (2, True, True), notes


def test_a_reference_keeps_the_preprocessing(fgsv_command, files):
    for reference in (files / "march.csv", "test"):
        name = str(reference).split("/")[-1]
        common = [*COLUMNS, "--test", files / "test.csv", "--budget", 100, "--reference", reference]
        assert fgsv_command("value", files / "march.csv", *common, "--ledger", files / f"{name}.db")[0] == 0
        assert "without labels, on" in fgsv_command.done("value", files / "april.csv", *common)[1]
    notes = fgsv_command.refused("value", files / "april.csv", *common, "--start", files / f"{name}.db")
    assert "the preprocessing comes from --start or --reference: give only one" in notes


def test_how_much_of_a_ledger_applies_to_a_file(fgsv_command, march):
    april = [march / "april.csv", *COLUMNS, "--test", march / "test.csv", "--start", march / "march.db"]
    assert "3 of 5 providers as before" in fgsv_command.done("ledger", "applies", *april)[0]
    found = fgsv_command.json("ledger", "applies", *april)
    assert (found["players_left"], found["players_joined"]) == (4, 4)
    assert 0 < found["apply"] < found["recorded"]
    assert "--start" in fgsv_command.refused("ledger", "applies", *april[:-2])
    game = fgsv_command.json("ledger", "show", march / "march.db")["games"][-1]
    assert {"model", "score", "test rows", "preprocessing"} <= set(game["frame"])


def test_forget_those_who_are_not_there_any_more(fgsv_command, march):
    april = ["value", march / "april.csv", *COLUMNS, "--test", march / "test.csv", "--budget", 50]
    assert fgsv_command(*april, "--start", march / "march.db", "--ledger", march / "april.db")[0] == 0
    code, text, _ = fgsv_command("ledger", "forget", march / "march.db", "--keep", march / "april.db", "--json")
    assert (code, json.loads(text)["players"]) == (0, 4)
    saved = march / "march" / "valuation.json"
    code, text, notes = fgsv_command("verify", saved, "--ledger", march / "march.db")
    assert (code, "evaluations of forgotten players, which were erased" in text + notes) == (1, True)


def test_forget_says_that_the_preprocessing_stays(fgsv_command, march):
    """A category that only the withdrawn provider had can still be read."""
    frame = pd.read_csv(march / "march.csv")
    frame.loc[frame["provider"] == "west", "kind"] = "known by name"
    frame.to_csv(march / "named.csv", index=False)
    named = ["value", march / "named.csv", *COLUMNS, "--test", march / "test.csv", "--budget", 50]
    assert fgsv_command(*named, "--ledger", march / "named.db")[0] == 0
    forget = ["ledger", "forget", march / "named.db", "--provider"]
    assert "warning: the preprocessing stays" in fgsv_command(*forget, "west")[1]
    assert b"known by name" in (march / "named.db").read_bytes()
    assert "preprocessing" not in fgsv_command(*forget, "west")[1]  # nothing was erased now
    assert json.loads(fgsv_command(*forget, "east", "--json")[1])["preprocessing"]


def test_forget_withdrawn_rows(fgsv_command, march):
    """The units that hold any of them, also where the file says numbers in another way."""
    rows = pd.read_csv(march / "march.csv")
    rows.iloc[[0, 1, 9]].drop(columns=["unit", "provider"]).to_csv(march / "withdrawn.csv", index=False)
    forget = ["ledger", "forget", march / "march.db", "--rows", march / "withdrawn.csv"]
    tables = ["--data", march / "march.csv", "--test", march / "test.csv"]
    run = ["--result", march / "march" / "valuation.json", *tables]
    found = fgsv_command.json(*forget, *run)
    assert found["players"] == 2
    assert found["evaluations"] > 20
    again = json.loads(fgsv_command(*forget, *run, "--json")[1])
    assert (again["players"], again["evaluations"]) == (0, 0)
    assert "misspelt, or forgotten before" in fgsv_command(*forget, *run)[1]
    assert fgsv_command(*forget)[0] == 2
    rows.iloc[:3].assign(a=1e6).to_csv(march / "withdrawn.csv", index=False)
    assert "3 of the 3 withdrawn rows" in fgsv_command.refused(*forget, *run)
    other = [*run[:3], march / "april.csv", *run[4:]]
    assert "not the table" in fgsv_command.refused(*forget, *other)
    assert "tested on test.csv: give this file" in fgsv_command.refused(*forget, *run[:-2])
