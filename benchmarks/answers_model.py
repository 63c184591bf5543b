"""Answers of the small model of `python -m experiments answers` as games, with exact values by all coalitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

import fgsv
from experiments.answers import LEAST, Sizes, definitions, questions, trained
from fgsv.answers import HF, Pieces, game_of
from fgsv.methods.enumeration import everything
from fgsv.types import Floats, Ints, Masks

KINDS = {"8 passages, model": (8, "passages", 8), "10 sentences, model": (5, "sentences", 10)}
"""Publishers of an answer, what its players are, and how many."""
STATEMENTS = 2
"""Of each publisher."""


@dataclass(frozen=True, eq=False)
class Enumerated:
    """The game of an answer, by the worth of all coalitions; U of nobody is zero, and of all pieces one."""

    worth: Floats
    """(2^n,) by the sum of 2^i over the members i."""
    owner: Ints
    """(n,) the publisher of each player."""
    values: Floats
    """(n,) exact."""

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self.owner)

    def __call__(self, masks: Masks) -> Floats:
        """Return (m,)."""
        return self.worth[np.asarray(masks, dtype=int) @ 2 ** np.arange(self.n_players)]

    def shapley(self) -> Floats:
        """Return the exact values."""
        return self.values


def answers_of_model(n_games: int) -> dict[str, Sequence[Enumerated]]:
    """Return games of answers that their sources help: one half stand in one source, the other needs two."""
    library = definitions(Sizes())
    scorer = trained(library, Sizes(), seed=0)
    return {
        kind: [
            game
            for needed, size in ((1, (n_games + 1) // 2), (2, n_games // 2))
            for game in islice(enumerated(library, scorer, needed, *how), size)
        ]
        for kind, how in KINDS.items()
    }


def enumerated(
    library: dict[str, list[str]], scorer: HF, needed: int, publishers: int, cut: str, n_players: int
) -> Iterator[Enumerated]:
    """Yield the games of answers that need so many sources."""
    for seed in count():
        for answer, _ in questions(library, needed, Sizes().questions, seed, publishers, STATEMENTS):
            pieces = Pieces.of(answer, cut=cut)
            if pieces.n_players != n_players:  # a publisher has too little to say
                continue
            game = game_of(pieces, scorer)
            masks = np.concatenate([part.masks() for part in everything(n_players)])
            found = game(masks)
            worth = np.empty(len(masks))
            worth[masks.astype(int) @ 2 ** np.arange(n_players)] = found
            if worth[-1] - worth[0] > LEAST:
                worth = (worth - worth[0]) / (worth[-1] - worth[0])
                made = Enumerated(worth, pieces.partition.codes, np.empty(0))
                exact = fgsv.exact(fgsv.Game(made, n_players), progress=False)
                yield Enumerated(worth, made.owner, exact.values)
