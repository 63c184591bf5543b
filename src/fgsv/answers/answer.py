"""An answer, and the passages that it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from fgsv.checks import as_list, check_type, whole_number
from fgsv.payout.money import Money, read_money

SMALLEST_FEE = Decimal("1e-9")
"""A fee is a multiple of this."""


@dataclass(frozen=True)
class Passage:
    """A text that an answer was made from, as the model was shown it.

    >>> Passage("Rain fell on Monday.", "The Courier", document="weather.html").publisher
    'The Courier'
    """

    text: str
    publisher: str
    document: str | None = None
    """What it is a part of, by the publisher's own id."""
    url: str | None = None
    licence: str | None = None
    sha256: str | None = None
    """Of the text in UTF-8; checked if it is given."""
    tokens: int | None = None
    """Tokens of it that the model read, as telemetry reports them."""
    registered: str | None = None
    """When it was registered, a date or time in ISO 8601: decides whose a sentence is, if asked to."""

    def __post_init__(self) -> None:
        for name in ("text", "publisher"):
            given = getattr(self, name)
            check_type(given, str, f"text as {name} of a passage")
            if not given.strip():
                raise ValueError(f"a passage has no {name}")
        for name in ("document", "url", "licence", "sha256", "registered"):
            check_type(getattr(self, name), (str, type(None)), f"text as {name} of a passage")
        if self.tokens is not None:
            object.__setattr__(self, "tokens", whole_number("tokens of a passage", self.tokens, 0))
        if self.registered is not None:
            datetime.fromisoformat(self.registered)
        if self.sha256 is not None and self.sha256.lower() != (found := digest_of(self.text)):
            raise ValueError(f"the text of a passage has SHA-256 {found}, not {self.sha256:.64}: it was changed")


@dataclass(frozen=True)
class Answer:
    """A query, the text that answered it, the passages it was made from in the order of the prompt, and its fee.

    >>> passages = [Passage("Rain fell on Monday.", "The Courier"), Passage("Tuesday was dry.", "Daily Post")]
    >>> Answer("When did it rain?", "On Monday.", passages, fee="0.002").fee
    Decimal('0.002')
    """

    query: str
    text: str
    passages: tuple[Passage, ...]
    fee: Decimal = Decimal(1)
    """What is paid for it: int, text or Decimal, never a float."""
    id: str | None = None
    """Its id in a file of answers, in which ids differ."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What else is known of it, such as its market: a sample may be stratified by it."""

    def __init__(
        self,
        query: str,
        text: str,
        passages: Any,
        fee: Money = 1,
        id: str | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        for name, given in {"query": query, "text": text}.items():
            check_type(given, str, f"text as {name} of an answer")
        check_type(id, (str, type(None)), "text as id of an answer")
        if not text.strip():
            raise ValueError("an answer has no text")
        listed = tuple(as_list(passages, "passages must be a list of fgsv.answers.Passage"))
        for each in listed:
            check_type(each, Passage, "a list of fgsv.answers.Passage as passages")
        if not listed:
            raise ValueError("an answer has no passages: nothing that it was made from can be paid")
        if not any(character.isalnum() for each in listed for character in each.text):
            raise ValueError("the passages of an answer have no words")
        if read_money(fee, SMALLEST_FEE, "fee") < 0:
            raise ValueError(f"fee must not be negative, got {fee}")
        check_type(columns or {}, Mapping, "a mapping from names to texts as columns of an answer")
        vars(self).update(query=query, text=text, passages=listed, fee=Decimal(str(fee)), id=id)
        vars(self).update(columns=dict(columns or {}))

    @property
    def publishers(self) -> tuple[str, ...]:
        """The publishers of its passages, in order of first appearance."""
        return tuple(dict.fromkeys(passage.publisher for passage in self.passages))

    @property
    def digest(self) -> str:
        """A hash of query, text and passages: the same answer has the same one, whatever its id and fee."""
        parts = [self.query, self.text, *(part for each in self.passages for part in (each.text, each.publisher))]
        return digest_of("\0".join(f"{len(part)}:{part}" for part in parts))


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
