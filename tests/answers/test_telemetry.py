"""Answers from telemetry, in the documents that the format's own text shows, with the texts of the turns."""

import hashlib
import json

import pytest

from fgsv.answers import AnswerError, Passage, read_sessions

TEXT = "The bank left its rate at 4 percent."
HASH = hashlib.sha256(TEXT.encode()).hexdigest()


def grounded(content="reuters:abc123", host="www.reuters.com", **data):
    given = {"scope": "session", "cached": True, "tokens_ingested": 3200, "media_type": "text"} | data
    about = {"content_url": f"https://{host}/markets", "content_id": content, "license_ref": "grant 7"}
    return {"type": "content_grounded", "timestamp": "2026-03-28T09:00:00Z", "data": given} | about


def turn(number, **texts):
    asked = {"privacy_level": "full", "query_text": f"query {number}"}
    replied = {"privacy_level": "full", "response_text": f"answer {number}"} | texts
    return [
        {"type": "turn_started", "turn_id": number, "turn": asked},
        {"type": "content_cited", "turn_id": number, "content_id": "reuters:abc123", "data": {}},
        {"type": "turn_completed", "turn_id": number, "turn": replied},
    ]


def session(*events, **fields):
    return {"schema_version": "0.1", "session_id": "660e", "events": events} | fields


def written(tmp_path, *documents):
    path = tmp_path / "sessions.jsonl"
    path.write_text("\n".join(json.dumps(each, ensure_ascii=False) for each in documents), encoding="utf-8")
    return path


def test_turns_are_answers_and_what_was_grounded_are_their_passages(tmp_path):
    own = grounded("bbc:1", "bbc.co.uk", scope="turn") | {"turn_id": "2", "note": "a line\u2028of two"}
    path = written(tmp_path, session(grounded(content_hash=f"sha256:{HASH}"), *turn("1"), own, *turn("2")))
    read = read_sessions(path, lambda content, sha256: TEXT, fee="0.002")
    expected = [("660e/1", "query 1", "answer 1"), ("660e/2", "query 2", "answer 2")]
    assert [(each.id, each.query, each.text) for each in read] == expected
    assert [each.publishers for each in read] == [("www.reuters.com",), ("www.reuters.com", "bbc.co.uk")]
    about = {"document": "reuters:abc123", "url": "https://www.reuters.com/markets", "licence": "grant 7"}
    expected = Passage(TEXT, "www.reuters.com", **about, sha256=HASH, tokens=3200)
    assert read.answers[0].passages == (expected,)


def test_what_comes_after_a_turn_or_for_another_is_not_its_passage(tmp_path):
    other = grounded("bbc:1", "bbc.co.uk", scope="turn") | {"turn_id": "2"}
    path = written(tmp_path, session(grounded(), other, *turn("1"), grounded("late:1", "late.example")))
    assert read_sessions(path, lambda *given: TEXT).answers[0].publishers == ("www.reuters.com",)


def test_events_that_were_sent_one_by_one_are_a_session(tmp_path):
    one = [
        {"document_type": "event", "schema_version": "0.1", "session_id": "660e", "event": event}
        for event in (grounded(), *turn("1"))
    ]
    assert read_sessions(written(tmp_path, *one), lambda *given: TEXT).answers[0].text == "answer 1"


def test_texts_are_found_in_a_folder_by_hash_and_by_id(tmp_path):
    (tmp_path / f"{HASH}.txt").write_text(TEXT)
    (tmp_path / "reuters%3Aabc123.txt").write_text("the whole article")
    for event, text in [(grounded(content_hash=f"sha256:{HASH}"), TEXT), (grounded(), "the whole article")]:
        path = written(tmp_path, session(event, *turn("1")))
        assert read_sessions(path, tmp_path).answers[0].passages[0].text == text


def test_publishers_may_be_given_by_id(tmp_path):
    path = written(tmp_path, session(grounded(), *turn("1")))
    for given in ({"reuters:abc123": "Reuters"}, lambda content: content.split(":")[0].title()):
        assert read_sessions(path, lambda *given: TEXT, publishers=given).answers[0].publishers == ("Reuters",)


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([grounded(), *turn("1", response_text=None)], "it does not have both query_text and response_text"),
        (turn("1"), "an answer has no passages"),
        ([grounded(content_hash="sha256:" + "0" * 64), *turn("1")], "it was changed"),
        ([grounded("missing:1"), *turn("1")], "no file missing%3A1.txt"),
        ([grounded("../secret"), *turn("1")], "no file ..%2Fsecret.txt"),
        ([grounded(media_type="image"), *turn("1")], "only texts can be valued"),
        ([grounded() | {"content_url": None}, *turn("1")], "nothing says who publishes"),
        ([grounded() | {"data": "text"}, *turn("1")], "expected a JSON object as data of an event"),
        ([grounded() | {"content_url": None, "content_id": None}, *turn("1")], "content_id or content_url"),
    ],
)
def test_bad_turns_are_named_or_left_out(tmp_path, events, error):
    (tmp_path / "reuters%3Aabc123.txt").write_text(TEXT)
    (tmp_path.parent / "secret.txt").write_text("secret")
    path = written(tmp_path, session(grounded(), *turn("1"), session_id="good"), session(*events))
    with pytest.raises(AnswerError) as raised:
        read_sessions(path, tmp_path)
    assert "line 2, turn 660e/1" in str(raised.value)
    assert error in str(raised.value)
    assert [each.id for each in read_sessions(path, tmp_path, drop=True)] == ["good/1"]


def test_a_turn_that_was_sent_twice_is_paid_once(tmp_path):
    path = written(tmp_path, session(grounded(), *turn("1")), session(grounded(), *turn("1")))
    read = read_sessions(path, lambda *given: TEXT, drop=True)
    assert [each.id for each in read] == ["660e/1"]
    assert read.left_out == ("line 2, turn 660e/1: line 1 has completed it",)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (session(schema_version="0.9"), "schema_version is '0.9'"),
        (session(session_id=None), "it has no session_id"),
        (session("event"), "expected events that are JSON objects"),
        (["text"], "expected a JSON object"),
        ("{", "Expecting"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, error):
    path = written(tmp_path, session(grounded(), *turn("1")))
    path.write_text(f"{path.read_text()}\n{line if isinstance(line, str) else json.dumps(line)}")
    with pytest.raises(AnswerError, match=f"1 of 2 answers .* line 2: .*{error}"):
        read_sessions(path, lambda *given: TEXT)
