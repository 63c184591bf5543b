"""Answers, their files and their pieces."""

import json
from dataclasses import fields
from decimal import Decimal
from importlib.resources import files

import numpy as np
import pytest

import fgsv
from fgsv.answers import Answer, AnswerError, NothingToShare, Passage, Pieces, game_of, read_answers, value
from fgsv.answers.scorers import as_scorer
from fgsv.verification.replay import Records

NORTH = Passage("It rained on Monday. It was cold.", "North")
SOUTH = Passage("Tuesday was dry. The wind came from the east.", "South")


def says(query, answer, pieces):
    """Judge by how many words of the answer the sources have, each time worth half as much."""
    words = " ".join(pieces).lower().split()
    return float(sum(1 - 0.5 ** words.count(word) for word in answer.lower().rstrip(".").split()))


@pytest.mark.parametrize("fee", ["0.002", 3, Decimal("0.002")])
def test_a_fee_is_exact_money(fee):
    assert Answer("q", "a", [NORTH], fee=fee).fee == Decimal(str(fee))


@pytest.mark.parametrize(
    ("kind", "change", "error"),
    [
        (Answer, {"fee": 0.002}, "money is never a float"),
        (Answer, {"fee": -1}, "must not be negative"),
        (Answer, {"passages": []}, "no passages"),
        (Answer, {"passages": ["text"]}, "a list of fgsv.answers.Passage"),
        (Answer, {"passages": [Passage("!!!", "North")]}, "have no words"),
        (Answer, {"text": " "}, "has no text"),
        (Answer, {"id": 3}, "text as id"),
        (Passage, {"publisher": ""}, "no publisher"),
        (Passage, {"text": " \n"}, "no text"),
        (Passage, {"sha256": "0" * 64}, "it was changed"),
        (Passage, {"tokens": -1}, "at least 0"),
        (Passage, {"registered": "yesterday"}, "isoformat"),
    ],
)
def test_what_is_wrong_of_answers_and_passages_is_named(kind, change, error):
    good = {Answer: {"query": "q", "text": "a", "passages": [NORTH]}, Passage: {"text": "t", "publisher": "North"}}
    with pytest.raises((ValueError, TypeError), match=error):
        kind(**good[kind] | change)


def lines(tmp_path, *documents):
    path = tmp_path / "answers.jsonl"
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


GOOD = {"query": "q", "text": "a", "passages": [{"text": "t", "publisher": "p"}], "columns": {"market": "DE"}}


def test_a_file_is_read(tmp_path):
    read = read_answers(lines(tmp_path, GOOD, "", GOOD | {"id": "x", "fee": 0.1}), fee="0.002")
    assert [(each.id, each.fee) for each in read] == [("1", Decimal("0.002")), ("x", Decimal("0.1"))]
    assert read.answers[0].columns == {"market": "DE"}
    assert not read.left_out


BAD = [
    ("{", "line 2: Expecting"),
    ('{"query": "\udcff"}', "line 2: "),  # a byte that is not UTF-8
    ("[]", "line 2: it is not a JSON object"),
    (GOOD | {"passages": {}}, "line 2: its passages are not a list"),
    (GOOD | {"passages": []}, "line 2: an answer has no passages"),
    (GOOD | {"passages": [{"text": "t"}]}, "line 2: passage 1: it lacks 'publisher'"),
    (GOOD | {"price": 3}, "line 2: it has unknown fields 'price'"),
    (GOOD | {"id": "1"}, "line 2: its id '1' is that of line 1"),
    (GOOD | {"fee": "much"}, "line 2: fee must be a number"),
]


@pytest.mark.parametrize(("line", "error"), BAD)
def test_bad_lines_are_named_or_left_out(tmp_path, line, error):
    path = lines(tmp_path, GOOD, line, GOOD)
    with pytest.raises(AnswerError, match="1 of 3 answers") as raised:
        read_answers(path)
    assert error in str(raised.value)
    read = read_answers(path, drop=True)
    assert len(read.answers) == 2
    assert [each.startswith(error) for each in read.left_out] == [True]


def test_the_schema_and_the_reader_agree(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((files("fgsv.report") / "schemas" / "answers.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    assert set(schema["properties"]) == {field.name for field in fields(Answer)}
    assert set(schema["properties"]["passages"]["items"]["properties"]) == {field.name for field in fields(Passage)}
    assert valid(GOOD | {"id": "x", "fee": "0.002"})
    documents = [each for each, _ in BAD if isinstance(each, dict) and "id" not in each and "fee" not in each]
    assert not any(map(valid, documents))


@pytest.mark.parametrize(
    "changed",
    [
        [NORTH, Passage("Tuesday was dry.", "Shell"), Passage("The wind came from the east.", "South")],
        [Passage(f"{NORTH.text} It was cold. IT WAS COLD!", "North"), SOUTH],
    ],
    ids=["another cuts its page", "it repeats a sentence"],
)
def test_cutting_and_repeating_change_no_bit(changed):
    first, second = (
        value(Answer("When?", "It was cold on Monday.", each), says) for each in ([NORTH, SOUTH], changed)
    )
    assert first.exact
    assert (first.player_values == second.player_values).all()
    assert first.values[0] == second.values[0]


def test_equal_and_nearly_equal_pieces_are_one_player():
    long = "The minister said on Monday that the bridge over the river would be closed to all traffic for 3 weeks"
    texts = [long + ".", long.upper() + "!", long.replace("all", "most") + ".", long.replace("3", "4") + "."]
    answer = Answer("q", "a", [Passage(text, name) for text, name in zip(texts, "ABCD", strict=True)])
    shared = Pieces.of(answer)
    assert [place.player for place in shared.places] == [0, 0, 0, 1]
    assert np.allclose(shared.partition.owners, [[1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 0, 1]])


def test_the_first_registered_owns_what_others_repeat():
    days = {"A": "2026-11-02", "B": "2026-11-01T23:00:00-02:00", "C": "2026-11-01"}
    passages = [Passage("It rained.", name, registered=day) for name, day in days.items()]
    partition = Pieces.of(Answer("q", "a", passages), duplicates="first").partition
    assert [partition.names[code] for code in partition.codes] == ["C"]
    with pytest.raises(ValueError, match="1 do not say"):
        Pieces.of(Answer("q", "a", [*passages, NORTH]), duplicates="first")


def test_values_are_those_of_enumeration():
    answer = Answer("When?", "It rained on Monday.", [NORTH, SOUTH])
    result = value(answer, says)
    expected = fgsv.exact(game_of(answer, says), ["North", "North", "South", "South"])
    assert np.allclose(result.values, expected.values)
    assert result.partition.players[1:3] == ("It was cold.", "Tuesday was dry.")


def test_with_room_for_it_each_of_many_pieces_comes_first_alone():
    counts, worth = np.array([16, 8, 4, 2]), np.array([1.0, 0.5, 2.0, 4.0])
    told = np.repeat(np.arange(4), counts)
    text = " ".join(f"Line{k} tells fact{fact}." for k, fact in enumerate(told))
    answer = Answer("What?", "All.", [Passage(text, "North")])

    def judge(query, answer, pieces):
        return sum(w * (1 - 0.3 ** " ".join(pieces).count(f"fact{k}.")) for k, w in enumerate(worth))

    records = {budget: Records() for budget in (31, 32)}
    found = {budget: value(answer, judge, budget, records=each, progress=False) for budget, each in records.items()}
    assert (records[32].masks(30)[2:].sum(axis=1) == 1).all()
    assert (records[31].masks(30)[2:].sum(axis=1) > 1).any()
    truth = (worth * (1 - 0.3**counts) / counts)[told]  # players of a fact are equal, and no fact depends on another
    alone = worth[told] * truth.sum() / worth[told].sum()
    assert np.abs(found[32].player_values - truth).mean() < np.abs(alone - truth).mean()
    assert found[32].settings.options["singles_first"]


def test_a_scorer_is_known_by_its_method_and_its_properties_are_not_asked():
    class Scorer:
        logprob = staticmethod(lambda prompts, answer: np.zeros(len(prompts)))

        @property
        def frame(self):
            raise AssertionError("this would hash a model")

    scorer = Scorer()
    assert as_scorer(scorer) is scorer
    assert as_scorer(says) is None


def test_an_answer_that_its_sources_do_not_help_has_nothing_to_share():
    answer = Answer("When?", "Nobody knows.", [NORTH, SOUTH])
    calls = []

    def judge(query, answer, pieces):
        calls.append(pieces)
        return says(query, answer, pieces)

    with pytest.raises(NothingToShare, match="raise the worth of the answer by 0, which"):
        value(answer, judge)
    assert len(calls) == 2
    with pytest.raises(NothingToShare) as raised:
        value(Answer("When?", "It rained.", [NORTH]), judge, least=2.0)
    assert raised.value.rise == 1.25
