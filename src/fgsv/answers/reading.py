"""Files of answers: JSON lines of our own, with errors by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from fgsv.answers.answer import Answer, Passage
from fgsv.payout.money import Money
from fgsv.words import option, some


class AnswerError(ValueError):
    """A file of answers cannot be read; the message names the lines."""


@dataclass(frozen=True)
class Reading:
    """The answers of a file, and the lines that were left out."""

    answers: tuple[Answer, ...]
    left_out: tuple[str, ...] = ()
    """A sentence for each bad line: "line 3: a passage has no publisher"."""

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)


def read_answers(path: str | Path, *, fee: Money = 1, drop: bool = False) -> Reading:
    r"""Read a file of answers, one JSON object a line.

    A line has `query`, `text` and `passages`, and may have `id` (default: the number of its line), `fee` and
    `columns`, an object of texts. A passage has `text` and `publisher`, and may have the other fields of `Passage`.
    `answers.schema.json` in `fgsv/report/schemas` describes it.

    Args:
        path: The file, in UTF-8.
        fee: Of answers that do not state one.
        drop: Leave out answers that cannot be read, and say which.

    Raises:
        AnswerError: Lines are bad, or two answers have the same id; all are named. Or no line is good.

    Examples:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "answers.jsonl")
        >>> passage = {"text": "Rain fell on Monday.", "publisher": "The Courier"}
        >>> line = json.dumps({"query": "When?", "text": "On Monday.", "passages": [passage]})
        >>> _ = path.write_text(line + "\n{}\n")
        >>> read = read_answers(path, fee="0.002", drop=True)
        >>> read.answers[0].fee, read.left_out
        (Decimal('0.002'), ("line 2: it lacks 'passages', 'query', 'text'",))

    """
    found: list[Answer] = []
    bad: list[str] = []
    ids: dict[str, int] = {}
    with Path(path).open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                answer = _answer_of(line, number, fee)
                if (first := ids.setdefault(str(answer.id), number)) != number:
                    raise ValueError(f"its id {answer.id!r:.100} is that of line {first}")
            except (ValueError, TypeError, RecursionError) as error:
                bad.append(f"line {number}: {error}")
            else:
                found.append(answer)
    return finished(path, found, bad, drop)


def finished(path: str | Path, found: list[Answer], bad: list[str], drop: bool) -> Reading:
    """Return what was read, or raise an error that names the bad parts."""
    if bad and not drop:
        raise AnswerError(
            f"{len(bad)} of {len(bad) + len(found)} answers in {path} cannot be read: {'; '.join(bad[:10])}"
            f"{f'; and {len(bad) - 10} more' if len(bad) > 10 else ''}. "
            f"{option('drop', True)} goes on without them"
        )
    if not found:
        raise AnswerError(f"{path} has no answers{': ' if bad else ''}{'; '.join(bad[:10])}")
    return Reading(tuple(found), tuple(bad))


def _answer_of(line: str, number: int, fee: Money) -> Answer:
    """Return the answer of a line."""
    line.encode()  # bytes that are not UTF-8 were read as halves of characters
    document = json.loads(line, parse_float=Decimal)
    given = _fields(document, Answer, {"query", "text", "passages"})
    if not isinstance(given["passages"], list):
        raise TypeError("its passages are not a list")
    passages = []
    for place, each in enumerate(given.pop("passages"), 1):
        try:
            passages.append(Passage(**_fields(each, Passage, {"text", "publisher"})))
        except (ValueError, TypeError) as error:
            raise ValueError(f"passage {place}: {error}") from None
    return Answer(**{"id": str(number), "fee": fee} | given | {"passages": passages})


def _fields(document: Any, kind: type[Answer | Passage], needed: set[str]) -> dict[str, Any]:
    """Return the fields of an object, or raise an error that names those that it lacks, or that nobody knows."""
    if not isinstance(document, dict):
        raise TypeError("it is not a JSON object")
    if lacking := needed - document.keys():
        raise ValueError(f"it lacks {some(map(repr, sorted(lacking)))}")
    if unknown := document.keys() - {each.name for each in fields(kind)}:
        raise ValueError(f"it has unknown fields {some(map(repr, sorted(unknown)))}")
    return document
