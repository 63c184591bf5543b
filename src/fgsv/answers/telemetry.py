"""Answers from SPUR Content Telemetry: sessions that say which contents an answer was grounded in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from fgsv.answers.answer import Answer, Passage
from fgsv.answers.reading import Reading, finished
from fgsv.checks import check_type
from fgsv.payout.money import Money

Texts = Callable[[str, str | None], str]
"""From a content's id, or else its URL, and the SHA-256 of what the model was shown of it, to that text."""
Publishers = Mapping[str, str] | Callable[[str], str]


def read_sessions(
    path: str | Path,
    texts: str | Path | Texts,
    *,
    publishers: Publishers | None = None,
    fee: Money = 1,
    drop: bool = False,
) -> Reading:
    r"""Read telemetry of answer engines (SPUR Content Telemetry 0.1): an answer for each turn that was completed.

    Each line of a file has a JSON document: a session, or an event that was sent by itself. Turns need the texts of
    query and response, so their `privacy_level` is "full". A turn's passages are what was grounded for it, or for the
    session before it; `license_ref`, `tokens_ingested` and `content_hash` are kept, and hashes are checked.

    Args:
        path: The file.
        texts: A folder, with a file `SHA256.txt` of what was shown, or `ID.txt` with the id as in a URL; or a
            function from the content's id (or its URL, without one) and that hash to the text.
        publishers: The publisher of each content, by its id: a mapping or a function. Default: the host of its URL.
        fee: Of every answer.
        drop: Leave out turns that cannot be read, and say which.

    Raises:
        AnswerError: Turns are bad, or none is good.

    Examples:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "courier%3A1.txt").write_text("It rained on Monday.")
        >>> turn = {"privacy_level": "full", "query_text": "When?", "response_text": "On Monday."}
        >>> ground = {"type": "content_grounded", "content_id": "courier:1", "content_url": "https://courier.example/1"}
        >>> events = [ground, {"type": "turn_completed", "turn_id": "1", "turn": turn}]
        >>> session = {"schema_version": "0.1", "session_id": "s", "events": events}
        >>> _ = (folder / "sessions.jsonl").write_text(json.dumps(session))
        >>> [answer] = read_sessions(folder / "sessions.jsonl", folder)
        >>> answer.id, answer.publishers, answer.passages[0].document
        ('s/1', ('courier.example',), 'courier:1')

    """
    find = texts if callable(texts) else partial(_in_folder, Path(texts))
    found: list[Answer] = []
    bad: list[str] = []
    lines: dict[str, int] = {}
    sessions: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8-sig", errors="replace").split("\n"), 1):
        try:
            session, events = _events(json.loads(line)) if line.strip() else ("", [])
            sessions.setdefault(session, []).extend((number, event) for event in events)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            bad.append(f"line {number}: {error}")
    for session, numbered in sessions.items():
        for place, (number, event) in enumerate(numbered):
            if event["type"] == "turn_completed":
                name = f"{session}/{event.get('turn_id') or place}"
                try:
                    if name in lines:
                        raise ValueError(f"line {lines[name]} has completed it")
                    lines[name] = number
                    found.append(_answer(name, event, [each for _, each in numbered[:place]], find, publishers, fee))
                except (ValueError, TypeError, LookupError, OSError) as error:
                    bad.append(f"line {number}, turn {name:.100}: {error}")
    return finished(path, found, bad, drop)


def _events(document: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the session and the events of a session, of a batch, or of an event that was sent by itself."""
    check_type(document, dict, "a JSON object")
    if not str(document.get("schema_version")).startswith(("0.1", "1.")):  # what is used of them is the same
        raise ValueError(f"its schema_version is {document.get('schema_version')!r:.50}, not 0.1")
    if not document.get("session_id"):
        raise ValueError("it has no session_id")
    events = [document["event"]] if "event" in document else document.get("events") or []
    for each in events:
        check_type(each, dict, "events that are JSON objects")
        check_type(each.get("type"), str, "an event with a type")
    return str(document["session_id"]), events


def _answer(
    name: str,
    completed: Mapping[str, Any],
    before: list[dict[str, Any]],
    find: Texts,
    publishers: Publishers | None,
    fee: Money,
) -> Answer:
    """Return the answer of a turn."""
    same = [each for each in before if each.get("turn_id") == completed.get("turn_id")]
    turns = [_object(each, "turn") for each in (*same, completed)]
    told = {key: turn[key] for turn in turns for key in ("query_text", "response_text") if turn.get(key)}
    if len(told) < 2:
        raise ValueError(
            "it does not have both query_text and response_text; its privacy_level is "
            f"{turns[-1].get('privacy_level')!r:.50}"
        )
    grounded = [
        each
        for each in before
        if each["type"] == "content_grounded"
        and (_object(each, "data").get("scope") != "turn" or each.get("turn_id") == completed.get("turn_id"))
    ]
    passages = [_passage(each, find, publishers) for each in grounded]
    return Answer(told["query_text"], told["response_text"], passages, fee, name)


def _passage(event: Mapping[str, Any], find: Texts, publishers: Publishers | None) -> Passage:
    """Return what was grounded."""
    data = _object(event, "data")
    url = event.get("content_url")
    content: Any = event.get("content_id") or url
    check_type(content, str, "content_id or content_url of what was grounded")
    if (kind := data.get("media_type", "text")) != "text":
        raise ValueError(f"{content!r:.200} is of type {kind!r:.50}: only texts can be valued")
    sha256 = str(data.get("content_hash") or "").removeprefix("sha256:").lower() or None
    if publishers is None:
        publisher = urlsplit(url or "").hostname
    else:
        publisher = publishers(content) if callable(publishers) else publishers.get(content)
    if not publisher:
        raise ValueError(f"nothing says who publishes {content!r:.200}")
    return Passage(
        find(content, sha256),
        publisher,
        document=content,
        url=url,
        licence=event.get("license_ref"),
        sha256=sha256,
        tokens=data.get("tokens_ingested"),
    )


def _object(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = event.get(name) or {}
    check_type(found, dict, f"a JSON object as {name} of an event")
    return dict(found)


def _in_folder(folder: Path, content: str, sha256: str | None) -> str:
    """Return a text from a folder."""
    names = [f"{quote(name, safe='')}.txt" for name in (sha256, content) if name]
    for name in names:
        if (folder / name).is_file():
            return (folder / name).read_bytes().decode("utf-8")
    raise ValueError(f"{folder} has no text of {content!r:.200}: no file {' or '.join(names):.400}")
