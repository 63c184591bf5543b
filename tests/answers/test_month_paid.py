"""A month that is paid: against exact shares, conservation of money, resuming, and what is written of it."""

import csv
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

import fgsv
from fgsv.answers import Answer, Passage, game_of, royalties
from fgsv.answers.paying import AT_PRIOR, Work, worthwhile
from fgsv.game import GameError
from fgsv.report import render
from fgsv.results import Result

FACTS = [f"fact{k}" for k in range(8)]
WORTH = dict(zip(FACTS, np.random.default_rng(0).exponential(size=8), strict=True))
PUBLISHERS = ["North", "=South()", "West<b>"]
WORDS = ["rain", "sun", "wind", "snow", "hail", "fog", "frost", "storm"]


def judge(query, answer, pieces):
    """Return what the facts in the pieces are worth; each mention less than the one before."""
    judge.calls += 1
    text = " ".join(pieces)
    return sum(worth * (1 - 0.3 ** text.count(fact + ".")) for fact, worth in WORTH.items())


judge.calls = 0


def answers(count=24, sentences=2, passages=3, fee="0.50"):
    """Return answers whose pieces all differ."""
    rng = np.random.default_rng(7)
    found = []
    for number in range(count):
        shown = []
        for place in range(passages):
            text = " ".join(
                f"The {rng.choice(WORDS)} {rng.choice(WORDS)} {number} {place} {k} was {rng.choice(FACTS)}."
                for k in range(1 + place % sentences)
            )
            shown.append(Passage(text, PUBLISHERS[(number + place) % 3], document=f"{number}-{place}"))
        columns = {"market": "ab"[number % 2]}
        found.append(Answer(f"query {number}", "a text", shown, fee=fee, id=str(number), columns=columns))
    return found


def with_copies(asked):
    """Return the answers; in the first four the second publisher also says what the first says."""
    for place in range(4):
        shown = asked[place].passages
        copied = replace(shown[1], text=f"{shown[1].text} {shown[0].text}")
        asked[place] = replace(asked[place], passages=(shown[0], copied, *shown[2:]))
    return asked


def exactly(asked):
    """Return what is due to each publisher, by all coalitions of each answer."""
    due = dict.fromkeys(PUBLISHERS, 0.0)
    for answer in asked:
        game = game_of(answer, judge)
        found = fgsv.exact(game, game.function.pieces.partition)
        for name, share in zip(found.names, found.shares(), strict=True):
            due[name] += float(answer.fee) * share
    return due


def paid(asked, **options):
    return royalties(asked, judge, **{"seed_from": "1.0854", "fingerprint": "judge"} | options)


@pytest.fixture(scope="module")
def november(tmp_path_factory):
    """Return all answers, of which four have nothing to share, what they paid, and the folder of that."""
    shown = [Passage(f"Nothing {k} of it.", PUBLISHERS[k]) for k in range(3)]
    asked = with_copies(answers())
    asked += [Answer(f"other {k}", "a text", shown, fee="0.25", id=f"n{k}") for k in range(4)]
    folder = tmp_path_factory.mktemp("month") / "november"
    return asked, paid(asked, out=folder), folder


def test_a_month_of_which_all_is_valued_is_exact(november):
    asked, result, _ = november
    found = dict(zip(result.payout.names, map(float, result.payout.payments), strict=True))
    assert result.valuation.stderr.max() < 1e-9
    assert found == pytest.approx(exactly(asked[:-4]), abs=0.006)
    assert sum(result.payout.payments) == result.payout.amount == Decimal("12.00")


def test_answers_that_nothing_helps_are_not_paid(november):
    said = dict(november[1].account.sections[0].rows)
    assert said["drawn"].endswith("4 of them with nothing to share")
    assert said["fees"] == "13.00 EUR; about 12.00 of them for answers that their sources help"


def test_pieces_of_several_publishers_are_in_the_audit(november):
    rows = november[1].account.sections[1].rows
    assert sum(int(count) for _, count, _ in rows) == 8  # four sentences, each of two publishers
    assert sum(float(earned) for _, _, earned in rows) > 0.1


def test_a_publisher_finds_what_its_answers_paid_and_to_whom(november):
    asked, result, folder = november
    assert {path.name for path in result.files} == {
        *("valuation.json", "valuation.csv", "report.html", "telemetry.jsonl"),
        *("publisher-North.csv", "publisher-_South__.csv", "publisher-West_b_.csv"),
    }
    rows = list(csv.DictReader((folder / "publisher-_South__.csv").read_text().splitlines()))
    mine = [row for row in rows if row["publisher"] == "'=South()"]
    assert {row["answer"] for row in mine} == {answer.id for answer in asked if "=South()" in answer.publishers}
    total = sum(float(row["share"]) * float(row["fee"]) for row in mine)
    assert total == pytest.approx(exactly(asked[:-4])["=South()"])
    shares = [float(row["share"]) for row in rows if row["answer"] == mine[0]["answer"]]
    assert sum(shares) == pytest.approx(1)


def test_telemetry_says_what_each_passage_earned(november):
    asked, _, folder = november
    events = [json.loads(line)["event"] for line in (folder / "telemetry.jsonl").read_text().splitlines()]
    assert len(events) == sum(len(answer.passages) for answer in asked)
    due = dict.fromkeys(PUBLISHERS, 0.0)
    owner = {passage.document: passage.publisher for answer in asked for passage in answer.passages}
    for event in events:
        said = event["data"]["fgsv"]
        assert said["low"] <= said["share"] <= said["high"]
        assert said.keys() == {"share", "low", "high", "method", "evaluations"}
        if "content_id" in event:
            due[owner[event["content_id"]]] += 0.5 * said["share"]
    assert due == pytest.approx(exactly(asked[:-4]))


def test_a_saved_month_is_read_back_and_its_page_escapes_names(november):
    _, result, folder = november
    loaded = Result.load(folder)
    assert loaded.account == result.account
    assert loaded.payout.payments == result.payout.payments
    page = (folder / "report.html").read_text()
    assert "What 28 answers paid to 3 publishers" in page
    assert "West&lt;b&gt;" in page
    assert "West<b>" not in page.replace("West\\u003cb\\u003e", "")
    assert "error of the choice of answers" in repr(loaded.valuation)
    saved = (folder / "valuation.json").read_text()
    assert "test rows" not in "".join([render(loaded), repr(loaded.valuation), str(loaded.payout), saved])


def test_royalties_are_unbiased_with_few_evaluations_of_a_sample():
    asked = answers(20, sentences=3)
    due = exactly(asked)
    runs = [paid(asked, sample=10, seed_from=str(seed), pay_anyway=True).valuation for seed in range(24)]
    values = np.array([[run[name].value for name in due] for run in runs])
    assert max(run.n_evaluations for run in runs) == 160
    off = (values.mean(axis=0) - list(due.values())) / values.std(axis=0) * np.sqrt(len(runs))
    assert np.abs(off).max() < 4
    stated = np.sqrt(np.mean([run.stderr**2 for run in runs], axis=0))
    assert np.abs(stated / values.std(axis=0) - 1).max() < 4 / np.sqrt(2 * len(runs))


def test_it_goes_on_from_its_ledger_and_does_not_depend_on_workers(tmp_path):
    asked = answers(16, sentences=3)
    options = {"sample": 8, "pay_anyway": True}
    expected = paid(asked, **options)
    judge.calls = 0

    def breaks(query, answer, pieces):
        if judge.calls > 60:
            raise OSError("the server is gone")
        return judge(query, answer, pieces)

    with pytest.raises(GameError, match=r"answer '\d+': .*the server is gone"):
        royalties(asked, breaks, seed_from="1.0854", fingerprint="judge", ledger=tmp_path / "m.db", **options)
    judge.calls = 0
    again = paid(asked, ledger=tmp_path / "m.db", n_jobs=3, **options)
    assert 0 < judge.calls < expected.valuation.n_evaluations - 40
    judge.calls = 0
    once_more = paid(asked, ledger=tmp_path / "m.db", **options)
    assert judge.calls == 0
    for found in (again, once_more):
        assert found.payout.payments == expected.payout.payments
        assert (found.valuation.values == expected.valuation.values).all()
        assert (found.valuation.stderr == expected.valuation.stderr).all()


def test_parameters_are_learned_from_the_other_half():
    work = Work.of(answers(40, sentences=3), None, judge, "1.0854", {"fingerprint": "judge"})
    _, valued = work.done(20, None, None, 1)
    used = [each.valuation.settings.options["parameters"] for each in valued]
    first, second = used[0], used[-1]
    assert used == [first] * used.count(first) + [second] * used.count(second)
    assert first != second
    assert list(AT_PRIOR) not in used


def test_each_stratum_has_its_part_of_the_sample(tmp_path):
    paid(answers(24), sample=8, stratum="market", pay_anyway=True, out=tmp_path)
    drawn = set()
    for path in tmp_path.glob("publisher-*.csv"):
        drawn |= {int(row["answer"]) for row in csv.DictReader(path.read_text().splitlines())}
    assert len(drawn) == 8
    assert abs(sum(number % 2 for number in drawn) - 4) <= 1


def test_a_budget_is_spent_and_not_exceeded_by_much():
    asked = answers(200, sentences=3)
    result = paid(asked, budget=640, pay_anyway=True)
    assert 0.9 * 640 < result.valuation.n_evaluations <= 1.05 * 640


@pytest.mark.parametrize(("within", "times"), [(0.1, 1.0), (0.8, 2.0), (1.0, 4.0)])
def test_evaluations_are_spent_on_answers_unless_these_hardly_differ(within, times):
    shares = np.random.default_rng(0).normal(size=(4000, 2))  # between answers: 1 - within
    assert worthwhile(shares, [([0, 1], within * np.eye(2))] * 4000) == pytest.approx(times, rel=0.1)


def test_a_negative_royalty_is_about_publishers_and_answers():
    shown = [Passage("All of it.", "North"), Passage("It misleads.", "South")]
    asked = [Answer(f"query {k}", "a text", shown, fee="1.00", id=str(k)) for k in range(4)]

    def misled(query, answer, pieces):
        return sum({"All of it.": 2.0, "It misleads.": -0.5}[piece] for piece in pieces)

    result = royalties(asked, misled, seed_from="1", pay_anyway=True)
    assert min(result.payout.payments) == Decimal("-1.33")
    words = str(result) + render(result)
    assert "those of the publisher made the answers less likely" in words
    assert "score" not in str(result)
    assert "adding these players" not in words


def test_the_month_before_is_settled():
    october = paid(answers(12))
    november = paid(answers(), before=october)
    words = str(november)
    assert "Then and now" in words
    assert "which add up to 6.00" in words


def test_a_payout_that_is_not_known_is_refused():
    result = paid(answers(40, sentences=3), sample=6)
    assert result.payout is None
    assert "more than a tenth" in str(result.unpaid)


@pytest.mark.parametrize(
    ("asked", "change", "message"),
    [
        (answers(), {"stratum": "country"}, "answer '0' has no column 'country'"),
        (answers(), {"floor": "9.00"}, "a floor of 9.00 for each of 3 groups is 27.00, more than 12.00"),
        (answers(), {"currency": "euro"}, "three capital letters"),
        (answers(), {"confidence": 95}, "confidence must be between 0 and 1"),
        (answers(), {"sample": 2}, "sample must be at least 4"),
        (answers(), {"budget": 10}, "budget must be at least 64"),
        (answers(), {"seed_from": 7}, "a text as seed_from"),
        (answers(), {"before": "october"}, "a result"),
        ([], {}, "two answers with a fee, got 0"),
        (answers(3, fee=0), {}, "two answers with a fee, got 0"),
        (answers(3, fee="0.001"), {}, "amount must be positive, got 0.00 EUR"),
        ("answers.jsonl", {}, "answers must be a list"),
        (["answer"], {}, "a list of fgsv.answers.Answer"),
    ],
)
def test_what_is_wrong_is_found_before_anything_is_evaluated(asked, change, message):
    judge.calls = 0
    with pytest.raises((ValueError, TypeError), match=message):
        paid(asked, **change)
    assert judge.calls == 0


def test_a_month_whose_answers_nothing_helps_is_an_error():
    shown = [Passage("Nothing of it.", "North")]
    with pytest.raises(ValueError, match="none of the 6 answers drawn has anything to share"):
        paid([Answer("why", "a text", shown, id=str(k)) for k in range(6)])
