"""The commands that open a result: plan, payout, report, compare, verify and those of ledgers."""

import json
import re
from decimal import Decimal

import pandas as pd
import pytest
from cli_cases import COLUMNS

import fgsv
from fgsv.cli import command_line


def test_plan_and_payout(fgsv_command, train, tmp_path):
    text, _ = fgsv_command.done("plan", train, *COLUMNS, "--pilot", 150)
    assert "minutes" not in text
    assert re.search(r"^ *200,000 .* (s|min|h) *$", text, re.MULTILINE)
    widths = [row["half_width"] for row in fgsv_command.json("plan", train, *COLUMNS, "--pilot", 150)["plan"]]
    assert widths == sorted(widths, reverse=True)
    found = fgsv_command.json("plan", train, *COLUMNS, "--pilot", 200)
    assert found["plan"][0]["evaluations"] == 1000  # the first budget beyond the pilot
    assert found["evaluations"] is None
    _, notes = fgsv_command.done("plan", train, *COLUMNS, "--pilot", 200, "--precision", 0.001, "--budget", 7000)
    assert "plan: about 7,000 evaluations" in notes
    fgsv_command("value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o")
    saved = tmp_path / "o" / "valuation.json"
    assert fgsv_command.json("payout", saved, "--amount", "100.00", "--pay-anyway")["faithful"] is True
    text, notes = fgsv_command.done("payout", saved, "--amount", "100.00", "--pay-anyway", "--clip")
    assert "not faithful" in text + notes
    assert "of the amount" in text  # not the share of the value, with such a policy


def test_a_saved_result_is_paid_in_its_currency(fgsv_command, train, tmp_path):
    pay = ["--pay-anyway", "--json"]
    for folder, paid in (("euro", []), ("francs", ["--payout", 100, "--currency", "CHF", "--pay-anyway"])):
        fgsv_command("value", train, *COLUMNS, "--budget", 100, *paid, "--out", tmp_path / folder)
    for folder, options, currency in (
        ("euro", [], "EUR"),
        ("francs", [], "CHF"),
        ("francs", ["--currency", "JPY"], "JPY"),
    ):
        code, text, _ = fgsv_command("payout", tmp_path / folder, "--amount", 500, *options, *pay)
        assert (code, json.loads(text)["currency"]) == (0, currency)
    page = tmp_path / "page.html"
    fgsv_command.done("report", tmp_path / "francs", "--payout", 500, "--pay-anyway", "--out", page)
    assert "500.00 CHF" in page.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written_is_said_so_before_the_work(fgsv_command, train, tmp_path):
    fgsv_command("value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o", "--ledger", tmp_path / "run.db")
    commands = {
        ".html": ["report", tmp_path / "o", "--out"],
        ".csv": ["payout", tmp_path / "o", "--amount", 100, "--pay-anyway", "--out"],
        ".json": ["seal", "make", train, *COLUMNS, "--out"],
        ".parquet": ["ledger", "export", tmp_path / "run.db"],
    }
    for suffix, command in commands.items():
        notes = fgsv_command.refused(*command, tmp_path / "nowhere" / f"x{suffix}")
        assert f"there is no folder {tmp_path / 'nowhere'}" in notes
        folder = tmp_path / f"folder{suffix}"
        folder.mkdir()
        assert "is a folder" in fgsv_command.refused(*command, folder, "--force")


def test_an_export_replaces_a_file_only_if_asked_to(fgsv_command, tmp_path):
    roots = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 8, fingerprint="roots")
    fgsv.value(roots, budget=100, ledger=tmp_path / "run.db")
    export = ["ledger", "export", tmp_path / "run.db", tmp_path / "all.CSV"]
    (tmp_path / "all.CSV").write_text("mine")
    code, _, notes = fgsv_command(*export)
    assert (code, "--force" in notes, (tmp_path / "all.CSV").read_text()) == (2, True, "mine")
    assert fgsv_command(*export, "--force")[0] == 0
    assert len(pd.read_csv(tmp_path / "all.CSV")) == 100


def test_money_after_the_fact(fgsv_command, train, tmp_path):
    pytest.importorskip("vl_convert")
    fgsv_command("value", train, *COLUMNS, "--budget", 100, "--out", tmp_path / "o")
    saved = tmp_path / "o" / "valuation.json"
    before = saved.read_bytes()
    amount = ["--amount", "100.00", "--currency", "USD"]
    code, text, notes = fgsv_command("payout", saved, *amount, "--out", tmp_path / "p.csv")
    assert (code, "refused: 100.00 USD" in notes, text, (tmp_path / "p.csv").exists()) == (3, True, "", False)
    code, text, _ = fgsv_command("payout", saved.parent, *amount, "--json")  # the folder will do
    assert (code, json.loads(text)["objections"][0]["doubt"]) == (3, "too wide")
    (saved.parent / "report.html").unlink()
    code, _, notes = fgsv_command("report", saved.parent)
    assert (code, (saved.parent / "report.html").exists()) == (0, True), notes
    for name in ("p.csv", "p.json"):
        fgsv_command.done("payout", saved, *amount, "--pay-anyway", "--out", tmp_path / name)
    document = json.loads((tmp_path / "p.json").read_text())
    table = pd.read_csv(tmp_path / "p.csv", dtype=str)
    assert [row["payout"] for row in document["payments"]] == table["payout"].tolist()
    assert sum(map(Decimal, table["payout"])) == Decimal(document["amount"]) == 100
    assert set(table["currency"]) == {"USD"}
    assert "--force" in fgsv_command.refused("payout", saved, *amount, "--pay-anyway", "--out", tmp_path / "p.csv")
    notes = fgsv_command.refused("payout", saved, *amount, "--pay-anyway", "--out", tmp_path / "p.xls")
    assert ".csv or .json" in notes
    page = tmp_path / "paid.html"
    code, _, _ = fgsv_command("report", saved, "--payout", "100.00", "--currency", "USD", "--out", page)
    assert (code, "100.00 USD was not split" in page.read_text()) == (3, True)
    fgsv_command.done("report", saved, "--payout", "777.00", "--pay-anyway", "--out", page, "--force")
    assert "777.00 EUR" in page.read_text()
    assert saved.read_bytes() == before


def test_report_and_compare(fgsv_command, train, tmp_path):
    for name, seeds in {"0": (), "1": ("--split-seed", 1), "2": ("--seed", 1)}.items():
        command = ["value", train, *COLUMNS, "--budget", 100, *seeds, "--out", tmp_path / name]
        assert fgsv_command(*command)[0] == 0
    saved = [tmp_path / name / "valuation.json" for name in "01"]
    assert "--force" in fgsv_command.refused("report", saved[0])
    page = tmp_path / "page.html"
    assert fgsv_command("report", saved[0], "--out", page, "--aggregate-only")[0] == 0
    assert "<title>" in page.read_text(encoding="utf-8")
    rows = fgsv_command.json("compare", *saved)["groups"]
    assert [row["group"] for row in rows] == ["north", "south", "east", "west"]
    assert rows[0]["difference"] == pytest.approx(rows[0]["share_b"] - rows[0]["share_a"])
    code, table, notes = fgsv_command("compare", *saved)
    assert all(words in table for words in ("share before", "share now", "moved", "within noise"))
    assert "share_a" not in table
    assert "False" not in table
    assert (code, "these results come from different games" in notes) == (0, True)  # other test rows
    _, notes = fgsv_command.done("compare", saved[0], tmp_path / "2" / "valuation.json")
    assert "these results come from different games" not in notes


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["ledger", "show", "LEDGER"], {"games", "runs"}),
        (["ledger", "verify", "LEDGER"], {"same", "checked", "differences"}),
        (["ledger", "merge", "NEW.db", "LEDGER"], {"added", "known", "different", "largest_difference"}),
        (["ledger", "export", "LEDGER", "NEW.csv"], {"lines", "file"}),
        (["report", "SAVED", "--out", "NEW.html"], {"report"}),
    ],
    ids=lambda part: " ".join(part[:2]) if isinstance(part, list) else "",
)
def test_json_is_one_document_and_nothing_else(capfd, tmp_path, arguments, keys):
    roots = fgsv.Game(lambda masks: masks.sum(axis=1) ** 0.5, 8, fingerprint="roots")
    places = {"SAVED": tmp_path / "a.json", "OTHER": tmp_path / "b.json", "LEDGER": tmp_path / "run.db"}
    fgsv.value(roots, [0, 1] * 4, budget=100, ledger=places["LEDGER"]).save(places["SAVED"])
    fgsv.exact(fgsv.games.Airport([1, 2]), [0, 1]).save(places["OTHER"])
    paths = [
        str(places.get(word, tmp_path / word if word.startswith("NEW") else word)) for word in [*arguments, "--json"]
    ]
    with pytest.raises(SystemExit) as end:
        command_line.main(paths)
    text = capfd.readouterr().out  # of the process, not only of this interpreter's stdout
    assert not end.value.code
    assert keys <= set(json.loads(text))
    assert text.count("\n") == 1


def test_json_says_what_is_not_the_same_and_which_games_differ(fgsv_command, tmp_path):
    path, ledger = tmp_path / "valuation.json", tmp_path / "run.db"
    for fingerprint, power in (("squares", 2.0), ("roots", 0.5)):
        powers = fgsv.Game(lambda masks, power=power: masks.sum(axis=1) ** power, 8, fingerprint=fingerprint)
        fgsv.value(powers, [0, 1] * 4, budget=100, ledger=ledger).save(tmp_path / f"{fingerprint}.json")
    text, _ = fgsv_command.done("compare", tmp_path / "squares.json", tmp_path / "roots.json", "--json")
    assert "these results come from different games" in json.loads(text)["notes"][0]
    document = json.loads((tmp_path / "roots.json").read_text())
    document["estimate"]["values"][0][0] += 1e-9
    path.write_text(json.dumps(document))
    code, text, _ = fgsv_command("verify", path, "--ledger", ledger, "--json")
    found = json.loads(text)
    assert (code, found["same"], found["differences"][0]["where"]) == (1, False, "values of group 0")
