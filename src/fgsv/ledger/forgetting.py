"""Forgetting: erase the evaluations that used players who have withdrawn."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fgsv.coalitions import unpack
from fgsv.game import Game
from fgsv.ledger.file import Ledger
from fgsv.ledger.records import Batch, Outcome

FORGOTTEN = "forgotten: a player has withdrawn"
"""What stands in place of an erased value; such a coalition is evaluated again if its game is run again."""


@dataclass(frozen=True)
class Forgotten:
    """What was erased from a ledger."""

    players: int
    evaluations: int


def forget(path: str | Path, withdrawn: Callable[[bytes], bool]) -> Forgotten:
    """Erase every evaluation of a coalition with a player whose 16-byte digest `withdrawn` accepts.

    The values are overwritten, and the players' digests too, so that nobody can know them again; then the file is
    written anew, without what SQLite keeps of deleted records. Which places of a game were in a coalition stays, so
    that the other draws of a run keep theirs. A result that needs an erased value can no longer be verified.
    """
    n_players = n_evaluations = 0
    with Ledger(path) as ledger:
        for number, game in ledger.games():
            digests = game.player_digests()
            if digests is None:
                continue
            each = [digests[start : start + 16] for start in range(0, len(digests), 16)]
            gone = np.array([withdrawn(digest) for digest in each])
            if not gone.any():
                continue
            erased = list(_erased(ledger, number, game, gone))
            n_players += int(gone.sum())
            n_evaluations += sum(count for _, count in erased)
            nobody = b"".join(bytes(16) if left else digest for left, digest in zip(gone, each, strict=True))
            ledger.replace(replace(game, players=nobody), number, [batch for batch, _ in erased])
    if n_players:
        with closing(sqlite3.connect(path)) as db:
            db.execute("VACUUM")
    return Forgotten(n_players, n_evaluations)


def _erased(ledger: Ledger, number: int, game: Game, gone: np.ndarray) -> Iterator[tuple[Batch, int]]:
    """Yield the batches that change, and how many of their evaluations are erased."""
    for batch in ledger.batches(number):
        rows = unpack(game.n_players, batch.coalitions).masks()[:, gone].any(axis=1)
        outcome = batch.outcome
        if not rows.any() or not outcome.values.shape[1]:
            continue
        known = rows & ~np.isnan(outcome.values).any(axis=1)
        failures = {text: [row for row in where if not rows[row]] for text, where in outcome.failures.items()}
        failures = {text: where for text, where in failures.items() if where}
        failures[FORGOTTEN] = np.flatnonzero(rows).tolist()
        values = np.where(rows[:, None], np.nan, outcome.values)
        yield replace(batch, outcome=Outcome(values, outcome.seconds, failures)), int(known.sum())
