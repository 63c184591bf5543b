"""Pieces: the parts of passages that are the players, cut so that nobody can choose their number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from fgsv.answers.answer import Answer, digest_of
from fgsv.checks import check_type, whole_number
from fgsv.partition import Partition
from fgsv.utilities.language.sentences import SPLITTER, alike, sentences

if TYPE_CHECKING:
    from fgsv.answers.scorers import Scorer


@dataclass(frozen=True)
class Place:
    """A piece where it stands in its passage."""

    passage: int
    player: int
    text: str
    ids: tuple[int, ...] | None = None
    """Its tokens, if it is a window of them; otherwise it is followed by a new line."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """The players of an answer, whose they are, and where they stand.

    >>> from fgsv.answers import Answer, Passage
    >>> north, south = Passage("It rained. It was cold.", "North"), Passage("It RAINED!", "South")
    >>> pieces = Pieces.of(Answer("Did it rain?", "Yes.", [north, south]))
    >>> pieces.texts, pieces.partition.owners.tolist()
    (('It rained.', 'It was cold.'), [[0.5, 0.5], [1.0, 0.0]])

    Equal and nearly equal pieces are one player. It stands in a prompt once, in its first place: nobody gains by
    repeating it.
    """

    answer: Answer
    texts: tuple[str, ...]
    """The text of each player, as it stands first; in the order of the prompt."""
    places: tuple[Place, ...]
    """All places of all players, passage by passage."""
    partition: Partition
    """The publishers of the players, in order of first appearance; players are named by their text."""
    cut: str
    """How passages were cut, in words for a record."""
    duplicates: str
    """Whose a player is that several publishers have: "share" or "first"."""

    @classmethod
    def of(
        cls, answer: Answer, *, cut: str | int = "sentences", duplicates: str = "share", scorer: Scorer | None = None
    ) -> Pieces:
        """Cut the passages of an answer.

        Args:
            answer: The answer.
            cut: "sentences", "passages" (each is one player: publishers gain by cutting their texts in two), or a
                number of tokens: windows of so many of each passage, as the `scorer` reads it.
            duplicates: A player that several publishers have is shared equally ("share"), or belongs to the one whose
                passage was registered first ("first"); those registered at the same time share it.
            scorer: Needed for windows.

        """
        check_type(answer, Answer, "an fgsv.answers.Answer")
        if duplicates not in ("share", "first"):
            raise ValueError(f"duplicates must be 'share' or 'first', got {duplicates!r:.100}")
        if duplicates == "first" and (missing := [p for p in answer.passages if p.registered is None]):
            raise ValueError(f"duplicates='first' needs when each passage was registered; {len(missing)} do not say")
        places = _windows(answer, cut, scorer) if not isinstance(cut, str) else _texts(answer, cut)
        players = alike([place.text for place in places])
        placed = tuple(replace(place, player=player) for place, player in zip(places, players, strict=True))
        texts = tuple(places[players.index(player)].text for player in range(max(players) + 1))
        how = f"windows of {cut} tokens" if not isinstance(cut, str) else SPLITTER if cut == "sentences" else cut
        return cls(answer, texts, placed, _owned(answer, placed, texts, duplicates), how, duplicates)

    @property
    def digest(self) -> str:
        """A hash of the players in their order, on which a coalition's value depends, too."""
        return digest_of(json.dumps([[place.text, place.ids] for place in self.first]))

    @property
    def first(self) -> list[Place]:
        """The first place of each player."""
        return list({place.player: place for place in reversed(self.places)}.values())[::-1]

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self.texts)

    def members(self, mask: Sequence[bool]) -> list[str]:
        """Return the texts that a coalition puts into the prompt, in their order."""
        return [text for text, inside in zip(self.texts, mask, strict=True) if inside]


def _texts(answer: Answer, cut: str) -> list[Place]:
    if cut not in ("sentences", "passages"):
        raise ValueError(f"cut must be 'sentences', 'passages' or a number of tokens, got {cut!r:.100}")
    split = sentences if cut == "sentences" else lambda text: [text] * bool(sentences(text))
    return [Place(k, 0, text) for k, passage in enumerate(answer.passages) for text in split(passage.text)]


def _windows(answer: Answer, length: int, scorer: Scorer | None) -> list[Place]:
    """Return windows of tokens; a passage is followed by a new line."""
    length = whole_number("cut", length, 1)
    if scorer is None:
        raise ValueError("windows of tokens need the scorer that reads them: give scorer=...")
    places = []
    named = {f"passage {k}": passage.text + "\n" for k, passage in enumerate(answer.passages, 1)}
    for k, ids in enumerate(scorer.reader.tokens([*named.values()], [*named])):
        for begin in range(0, len(ids), length):
            window = tuple(ids[begin : begin + length].tolist())
            places.append(Place(k, 0, str(scorer.reader.tokenizer.decode(window)), window))
    return places


def _owned(answer: Answer, places: Sequence[Place], texts: tuple[str, ...], duplicates: str) -> Partition:
    """Return the publishers of players."""
    names = answer.publishers
    owners = np.zeros((len(texts), len(names)))
    for player in range(len(texts)):
        passages = [answer.passages[place.passage] for place in places if place.player == player]
        if duplicates == "first":
            first = min(_moment(str(passage.registered)) for passage in passages)
            passages = [passage for passage in passages if _moment(str(passage.registered)) == first]
        for passage in passages:
            owners[player, names.index(passage.publisher)] = 1
    owners /= owners.sum(axis=1, keepdims=True)
    return Partition(names, owners.argmax(axis=1) if (owners.max(axis=1) == 1).all() else owners, texts)


def _moment(given: str) -> datetime:
    """Return a date, or a date and time, which is in UTC if it does not say."""
    found = datetime.fromisoformat(given)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
