"""The commands on texts: value, plan, audit, payout, report and verify, as on tables."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.results import Result
from fgsv.results.highlights import highlights

TOPICS = {
    "Court": "the judge heard an appeal and the court ruled that this contract was void under old law",
    "Field": "rain fell on wheat while farmers sowed barley in spring and cut hay in late summer sun",
    "Press": "the minister said on monday that voters in both towns would choose a new mayor soon",
}
OPTIONS = ["--text", "body", "--group", "publisher", "--test-by", "split"]


def documents(n=8, seed=0):
    rng = np.random.default_rng(seed)
    rows = [
        {
            "body": " ".join(rng.choice(words.split(), size=30)),
            "publisher": publisher,
            "split": "test" if number % 4 == 0 else "train",
            "domain": publisher.lower(),
        }
        for publisher, words in TOPICS.items()
        for number in range(n)
    ]
    return pd.DataFrame(rows)


def written(frame, path):
    path.write_text("\n".join(json.dumps(row) for row in frame.to_dict("records")), encoding="utf-8")
    return path


def in_folders(frame, path):
    """Write each text to a file, in the folder of its publisher."""
    for number, row in enumerate(frame.to_dict("records")):
        folder = path / row["publisher"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(row["body"])
    return path


@pytest.fixture
def corpus(tmp_path):
    return written(documents(), tmp_path / "corpus.jsonl")


def test_value_pays_writes_and_can_be_verified(fgsv_command, corpus, tmp_path):
    out, ledger = tmp_path / "out", tmp_path / "run.db"
    options = [*OPTIONS, "--budget", 150, "--payout", 1000, "--pay-anyway", "--ledger", ledger, "--out", out]
    found = fgsv_command.json("value", corpus, *options)
    (rows,) = found["groupings"].values()
    assert {"group", "value"} <= set(rows[0])
    assert sum(Decimal(row["payout"]) for row in found["payout"]["payments"]) == 1000
    opened = fgsv.open_text(corpus, text="body", group="publisher", test_by="split")
    expected = fgsv.value(opened.game, opened.partition, budget=150)
    assert [row["value"] for row in rows] == pytest.approx(expected.values.tolist(), rel=1e-12)
    fgsv_command.done("verify", out / "valuation.json", "--ledger", ledger, "--data", corpus, "--json")
    text = corpus.read_text().replace("barley", "oats")
    corpus.write_text(text)
    code, printed, _ = fgsv_command("verify", out / "valuation.json", "--ledger", ledger, "--data", corpus, "--json")
    assert code == 1
    assert not any("from the data" in words for words in json.loads(printed)["checked"])  # they were not evaluated
    document = fgsv_command.json("payout", out / "valuation.json", "--amount", 50, "--pay-anyway")
    assert sum(Decimal(row["payout"]) for row in document["payments"]) == 50


def test_documents_that_earned_most_are_shown_with_the_error_of_a_group_of_one(corpus):
    opened = fgsv.open_text(corpus, text="body", group="publisher", test_by="split")
    valuation = fgsv.value(opened.game, opened.partition, budget=60)
    names = [opened.describe_player(player)[0] for player in range(opened.game.n_players)]
    rows = highlights(opened, valuation).rows
    assert [row[0] for row in rows[:5]] == [names[k] for k in np.argsort(-valuation.player_values, kind="stable")[:5]]
    for name, owner, value, error, _ in rows:
        alone = valuation.regroup([name == each for each in names])[True]
        assert (value, error) == (f"{alone.value:.3g}", f"{alone.stderr:.2g}")
        assert owner == valuation.names[valuation.partition.codes[names.index(name)]]


def test_texts_of_two_months_are_compared_without_a_warning_about_their_files(fgsv_command, corpus, tmp_path):
    rows = documents()
    april = written(rows[(rows["publisher"] != "Field") | (rows["split"] == "test")], tmp_path / "april.jsonl")
    for month in (corpus, april):
        command = ["value", month, *OPTIONS, "--budget", 40, "--out", tmp_path / month.stem]
        assert fgsv_command(*command, "--no-without")[0] == 0
    printed, _ = fgsv_command.done("compare", tmp_path / "corpus", tmp_path / "april", "--json")
    assert "different games" not in printed  # other documents, but the same model and test texts


def test_a_folder_needs_no_options(fgsv_command, tmp_path):
    texts = in_folders(documents(), tmp_path / "texts")
    found = fgsv_command.json("value", texts, "--budget", 30)
    assert [row["group"] for row in found["groupings"]["provider"]] == sorted(TOPICS)


def test_every_publisher_earns_most_for_its_own_domain(fgsv_command, corpus):
    found = fgsv_command.json(
        "value", corpus, *OPTIONS, "--output-by", "domain", "--budget", 200, "--training", "order=2"
    )
    (rows,) = found["groupings"].values()
    best = pd.DataFrame(rows).sort_values("value").drop_duplicates("output", keep="last")
    assert dict(zip(best["output"], best["group"], strict=True)) == {name.lower(): name for name in TOPICS}


def test_an_audit_shows_copies_and_what_they_earn(fgsv_command, tmp_path):
    frame = documents()
    copied = frame[(frame["publisher"] == "Field") & (frame["split"] == "train")].assign(publisher="Thief")
    path = written(pd.concat([frame, copied]), tmp_path / "copied.jsonl")
    sizes = ["--budget", 100, "--audit-budget", 1700, "--parts", 2]
    found = fgsv_command.json("value", path, "--audit", *OPTIONS, *sizes)
    sections = {each["title"]: each for each in found["audit"]["tables"]}
    assert sections["Possible copies"]["rows"] == [["Field", "Thief", 6, 0]]
    assert sections["What copying earns"]["columns"] == ["group", "share as it is", "providers co-own"]
    assert "Passages in documents of two providers" in sections


def test_an_audit_of_folders_does_not_say_who_was_first(fgsv_command, tmp_path):
    frame = documents()
    copied = frame[frame["publisher"] == "Field"].assign(publisher="Aardvark")
    texts = in_folders(pd.concat([frame, copied]), tmp_path / "texts")
    tests = written(frame[frame["split"] == "test"].rename(columns={"body": "text"}), tmp_path / "tests.jsonl")
    sizes = ["--budget", 100, "--audit-budget", 1800, "--parts", 2]
    found = fgsv_command.json("value", texts, "--audit", "--test", tests, *sizes)
    sections = {each["title"]: each for each in found["audit"]["tables"]}
    copies = sections["Possible copies"]
    assert copies["columns"][:2] == ["provider", "and provider"]
    assert "Nothing says who had a document first" in copies["words"][1]


def test_passages_of_single_documents_can_be_left_out(fgsv_command, tmp_path):
    frame = documents()
    passage = " ".join(f"secret{number}" for number in range(40))
    rows = frame.index[frame["split"] == "train"]
    frame.loc[[rows[0], rows[-1]], "body"] += f" {passage}"
    path = written(frame, tmp_path / "shared.jsonl")
    command = ["value", path, "--audit", *OPTIONS, "--budget", 60, "--audit-budget", 1400, "--parts", 2, "--json"]
    assert "secret0 secret1" in fgsv_command.done(*command)[0]
    assert "secret0 secret1" not in fgsv_command.done(*command, "--aggregate-only")[0]


def test_a_report_shows_documents_escaped_and_leaves_them_out_if_asked(fgsv_command, tmp_path):
    pytest.importorskip("vl_convert")
    frame = documents()
    frame.loc[frame["split"] == "train", "body"] = "<script>alert(1)</script> " + frame["body"]
    path = written(frame, tmp_path / "odd.jsonl")
    domains = ["--output-by", "domain", "--budget", 60]
    fgsv_command.done("value", path, *OPTIONS, *domains, "--out", tmp_path / "a")
    page = (tmp_path / "a" / "report.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "Shares by provider and output" in page
    fgsv_command.done("value", path, *OPTIONS, *domains, "--out", tmp_path / "b", "--aggregate-only")
    for name in ("report.html", "valuation.json"):
        assert "alert" not in (tmp_path / "b" / name).read_text()
    whole = tmp_path / "whole.html"
    fgsv_command.done("report", tmp_path / "a" / "valuation.json", "--aggregate-only", "--out", whole)
    assert "&lt;script&gt;alert" not in whole.read_text()


def test_nothing_to_share_is_said_before_the_run(fgsv_command, tmp_path):
    frame = documents()
    frame.loc[frame["split"] == "test", "body"] = "completely different tokens nobody wrote anywhere"
    path = written(frame, tmp_path / "foreign.jsonl")
    command = ["value", path, *OPTIONS, "--budget", 100]
    assert "nothing to share" in fgsv_command.refused(*command, "--payout", 100, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert any("nothing to share" in warning for warning in fgsv_command.json(*command)["warnings"])


def test_one_output_without_anything_to_share_is_named(fgsv_command, tmp_path):
    frame = documents()
    frame.loc[(frame["split"] == "test") & (frame["domain"] == "press"), "body"] = "entirely unknown vocabulary here"
    path = written(frame, tmp_path / "foreign.jsonl")
    command = ["value", path, *OPTIONS, "--output-by", "domain", "--budget", 100, "--pay-anyway", "--payout"]
    errors = fgsv_command.refused(*command, "1,2,3")
    assert "output press" in errors
    assert "or pay 0 for this output" in errors
    found = fgsv_command.json(*command, "1,2,0")
    assert sum(Decimal(row["payout"]) for row in found["payout"]["payments"]) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--group", "publisher"], "--target"),
        ([*OPTIONS, "--target", "split"], "--text"),
        ([*OPTIONS, "--metric", "r2"], "--metric"),
        ([*OPTIONS, "--training", "order"], "--training"),
        ([*OPTIONS, "--training", "orders=2"], "orders"),
        (["--target", "split", "--group", "publisher", "--output-by", "domain"], "--output-by"),
        ([*OPTIONS, "--audit", "--output-by", "domain"], "--output-by"),
    ],
)
def test_options_that_do_not_go_together_are_named(fgsv_command, corpus, options, words):
    assert words in fgsv_command.refused("value", corpus, *options, "--budget", 50)


def test_payments_by_several_outputs_are_shown_with_the_amount_for_each(fgsv_command, corpus, tmp_path):
    pytest.importorskip("vl_convert")
    out = tmp_path / "out"
    options = [*OPTIONS, "--output-by", "domain", "--budget", 100, "--payout", "600,300,100", "--pay-anyway"]
    printed, errors = fgsv_command.done("value", corpus, *options, "--out", out)
    assert "values are predictions" in errors
    paid = Result.load(out / "valuation.json").payout
    assert "1,000.00 EUR (600.00 for court, 300.00 for field, 100.00 for press), linear" in errors
    assert all(f"{payment:,}" in printed for payment in paid.payments)
    assert sum(paid.payments) == 1000
    page = " ".join((out / "report.html").read_text(encoding="utf-8").split())
    assert "1,000.00 EUR (600.00 for court, 300.00 for field, 100.00 for press), linear" in page
    _, errors = fgsv_command.done("payout", out, "--amount", "1,2,3", "--pay-anyway")
    assert "6.00 EUR (1.00 for court, 2.00 for field, 3.00 for press)" in errors


def test_sensitivity_of_texts_names_only_options_that_texts_have(fgsv_command, corpus, tmp_path):
    by = {"one": [], "several": ["--output-by", "domain"]}
    for name, options in by.items():
        command = ["value", corpus, *OPTIONS, *options, "--budget", 64, "--no-without", "--out", tmp_path / name]
        assert fgsv_command(*command)[0] == 0
    text, notes = fgsv_command.done("sensitivity", tmp_path / "one")
    assert "spread" not in text  # where every spread and error would be 0
    assert "There is one question: add results, such as those with another model" in notes
    several = fgsv_command.refused("sensitivity", tmp_path / "several")
    assert "sensitivity needs results with one output: run without --output-by" in several
    assert "metric" not in notes + several
