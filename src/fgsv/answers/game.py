"""The game of an answer: what a set of its pieces is worth to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from fgsv.answers.answer import Answer
from fgsv.answers.pieces import Pieces
from fgsv.answers.scorers import TARGETS, Ids, Judge, Scorer, as_scorer
from fgsv.game import Game
from fgsv.types import Floats, Masks
from fgsv.words import some

BATCH = 64
"""Coalitions that a scorer is given at once."""
NOISES = 4.0
"""A rise of the log-likelihood by so many standard errors of the engine's rounding is not one."""


class NothingToShare(ValueError):
    """An answer that its sources hardly help: U(N) - U(0), its `rise`, is not above a threshold."""

    def __init__(self, rise: float, why: str) -> None:
        self.rise = rise
        super().__init__(
            f"there is nothing to share: the sources raise the worth of the answer by {rise:.3g}, which {why}"
        )


@dataclass(frozen=True)
class Prompt:
    """What stands around the pieces in a prompt. `{query}` stands for the query; nothing else is replaced."""

    before: str = "Sources:\n"
    after: str = "\nQuestion: {query}\nAnswer:\n"


def game_of(
    answer: Answer | Pieces,
    scorer: Scorer | Judge,
    *,
    cut: str | int = "sentences",
    duplicates: str = "share",
    target: str = "log-likelihood",
    prompt: Prompt | None = None,
    fingerprint: str | None = None,
) -> Game:
    """Return the game of an answer, whose players are pieces of its passages.

        U(S) = log p(answer | prompt with the pieces of S, in their order)

    or, by `target`, that probability, or its logit. It costs one prompt of the model an evaluation.

    Args:
        answer: The answer, or its `Pieces`, cut before.
        scorer: A `Scorer`; or a judge, a function from query, answer and the texts of a coalition to a number.
        cut: How passages are cut; see `Pieces.of`.
        duplicates: Whose a piece is that several publishers have; see `Pieces.of`.
        target: "log-likelihood", "probability" or "logit".
        prompt: What stands around the pieces. Default: `Prompt()`.
        fingerprint: What identifies a judge in a ledger, such as "judge 3"; a scorer states itself.

    Returns:
        The game; `game_of(...).function.pieces` has the pieces.

    Raises:
        ValueError, TypeError: An argument is wrong, or the prompt of all pieces is too long.

    Examples:
        >>> from fgsv.answers import Answer, Passage
        >>> passages = [Passage("It rained on Monday. It was cold.", "North"), Passage("Tuesday was dry.", "South")]
        >>> answer = Answer("When did it rain?", "On Monday.", passages)
        >>> game = game_of(answer, lambda query, answer, pieces: float("Monday" in " ".join(pieces)))
        >>> game([[0, 0, 0], [1, 0, 0], [0, 1, 1]]).tolist()
        [0.0, 1.0, 0.0]

    """
    if target not in TARGETS:
        raise ValueError(f"target must be {some(map(repr, TARGETS))}, got {target!r:.100}")
    model = as_scorer(scorer)
    pieces = answer if isinstance(answer, Pieces) else Pieces.of(answer, cut=cut, duplicates=duplicates, scorer=model)
    players = [f"{number} {text}" for number, text in enumerate(pieces.texts)]
    frame = {"answer": pieces.answer.digest, "pieces": pieces.digest, "cut": pieces.cut}
    if model is not None:
        around = prompt or Prompt()
        frame |= {**model.frame, "target": target, **asdict(around)}
        function = Likelihood.of(pieces, model, target, around)
        return Game(function, len(players), batch_size=BATCH, frame=frame, players=players)
    if not callable(scorer):
        raise TypeError(f"scorer must be a scorer of fgsv.answers, or a function, got {type(scorer).__name__}")
    return Game(
        Judged(pieces, scorer),
        len(players),
        independent_rows=True,
        frame=None if fingerprint is None else frame | {"judge": fingerprint},
        players=players,
    )


@dataclass(frozen=True, eq=False)
class Likelihood:
    """How likely the answer is, given each coalition's pieces: (m, n) to (m,)."""

    pieces: Pieces
    scorer: Scorer
    target: str
    before: list[int]
    after: list[int]
    ids: list[Ids]
    """The tokens of each player."""
    answer: list[int]

    @classmethod
    def of(cls, pieces: Pieces, scorer: Scorer, target: str, prompt: Prompt) -> Likelihood:
        """Turn texts into tokens, each text for itself: the tokens of a piece are the same in every coalition."""
        given = pieces.answer
        cut = [place for place in pieces.first if place.ids is None]
        around = [text.replace("{query}", given.query) for text in (prompt.before, prompt.after)]
        texts = [*around, given.text, *(place.text + "\n" for place in cut)]
        names = ["the query", "the query", "the answer", *(f"passage {place.passage + 1}" for place in cut)]
        before, after, answer, *read = (ids.tolist() for ids in scorer.reader.tokens(texts, names))
        ids = read or [place.ids for place in pieces.first]  # all are texts, or all are windows
        if not answer:
            raise ValueError("the answer has no tokens")
        before = [*scorer.reader.start, *before]
        length = len(before) + sum(map(len, ids)) + len(after) + len(answer)
        if length > scorer.most_tokens:
            raise ValueError(
                f"the prompt of all pieces and the answer have {length:,} tokens, but the model takes at most "
                f"{scorer.most_tokens:,}"
            )
        return cls(pieces, scorer, target, before, after, ids, answer)

    def is_rounding(self, ends: Floats) -> bool:
        """Return whether the engine's rounding may make the difference between two worths."""
        below, above = TARGETS[self.target][1](ends)
        return not above - below > NOISES * self.scorer.noise * np.sqrt(len(self.answer))

    def prompt(self, mask: NDArray[np.bool_]) -> list[int]:
        """Return the prompt of a coalition."""
        inside = (ids for ids, here in zip(self.ids, mask, strict=True) if here)
        return [*self.before, *chain.from_iterable(inside), *self.after]

    def __call__(self, masks: Masks) -> Floats:
        """Return the worth of coalitions."""
        found = self.scorer.logprob([self.prompt(mask) for mask in masks], self.answer)
        return TARGETS[self.target][0](found)


@dataclass(frozen=True, eq=False)
class Judged:
    """What a judge says of each coalition: (m, n) to (m,)."""

    pieces: Pieces
    judge: Judge

    def __call__(self, masks: Masks) -> Floats:
        """Return the worth of coalitions."""
        query, text = self.pieces.answer.query, self.pieces.answer.text
        return np.array([self.judge(query, text, self.pieces.members(mask)) for mask in masks], dtype=float)
