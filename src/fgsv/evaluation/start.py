"""The start of a run: evaluations from earlier ledgers, which are reused and not counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.evaluation.lookup import recheck_known
from fgsv.evaluation.workers import Workers
from fgsv.game import Game, provider_digest
from fgsv.ledger import Ledger, RecordedStart, WrongLedger, known
from fgsv.ledger.copying import take_over
from fgsv.methods.known import Known
from fgsv.partition import Partition
from fgsv.types import Floats, Ints

Given = str | Path | Sequence[str | Path] | Known
"""Earlier ledgers, which are only read, or the evaluations known from them."""
Start = Given | None
MOST_NAMED = 100_000
"""Largest number of players for which a ledger records their providers."""
LEAST_KNOWN = 8
"""Fewer known evaluations are not worth a slower method."""
SECONDS_OF_LEARNING = 4.6e-9
"""Of k known evaluations, over k^3: measured, over the rounds that take a run to its precision."""
MOST_LEARNED = 2048
"""Known evaluations beyond which learning takes no longer for each of them."""
UNNOTICED = 2.0
"""Seconds of learning that nobody minds."""
IN_BATCHES = 0.1
"""What an evaluation takes in a batch, of what a game states for it alone."""
AT_ONCE = 2**26
"""Booleans held at once when coalitions are looked up."""


class KnownBefore:
    """Evaluations that an evaluator starts from; they are fixed before its first one, and do not count."""

    def __init__(self, game: Game, known: Known, paths: Sequence[Path] = ()) -> None:
        self.known = known
        self.asked = np.zeros(len(known), dtype=np.int64)
        """How often each known evaluation was requested."""
        self.keys: list[bytes] = []
        """Keys of the batches that have them in the ledger of the run."""
        self._game = game
        self._paths = paths

    def take_over(self, ledger: Ledger) -> None:
        """Copy the evaluations into the ledger of the run, which then no longer needs the earlier ones."""
        if self._paths and not ledger.read_only:
            self.keys = take_over(ledger, self._game, self._paths)

    def check(self, workers: Workers) -> None:
        """Check, before the first evaluation, that the game still gives the values in earlier ledgers."""
        if self._paths:
            recheck_known(self.known, workers)

    def find(self, coalitions: Coalitions) -> Ints:
        """Return (m,): the row of each coalition among what is known, -1 if it is not."""
        step = max(1, AT_ONCE // coalitions.n_players)
        found = [self.known.find(coalitions[i : i + step]) for i in range(0, len(coalitions), step)]
        return np.concatenate(found)

    def values(self, rows: Ints, new: Floats | None) -> Floats:
        """Return the (m, q) values of coalitions: known ones, and `new` ones where `rows` has none."""
        if not len(self.known):
            assert new is not None
            return new
        values = self.known.values[rows]
        if new is not None:
            if values.shape[1] != new.shape[1]:
                raise WrongLedger(
                    f"the evaluations to start from have {values.shape[1]} outputs, the game has {new.shape[1]}: run "
                    "without them, and give a game with other outputs another frame"
                )
            values[rows < 0] = new
        np.add.at(self.asked, rows[rows >= 0], 1)
        return values


def recorded_start(partition: Partition, before: KnownBefore | None) -> RecordedStart:
    """Return what a ledger records of the start of a run: its providers, and what was known before."""
    named = partition.is_disjoint and partition.n_players <= MOST_NAMED
    return RecordedStart(
        tuple(map(provider_digest, partition.names)),
        tuple(partition.codes.tolist()) if named else (),
        *(() if before is None else (before.known.sha256, tuple(before.keys))),
    )


def known_from(game: Game, start: Given, ledger: Any) -> tuple[Known | None, KnownBefore | None]:
    """Return what applies of earlier evaluations, and what is used of it: nothing if it is not worth its learning."""
    if isinstance(start, Known):
        return start, KnownBefore(game, start)
    paths = _paths(start, ledger)
    if not paths:
        return None, None
    found = known(game, paths)
    return found, KnownBefore(game, found, paths) if is_worth(found, game) else None


def is_worth(known: Known, game: Game) -> bool:
    """Say whether a run gets further from known evaluations than by starting over within the same time.

    Decided by counts and by what the game states that an evaluation takes, never by the clock. Where the same players
    are there, draws are looked up, which takes no time. Else k known evaluations save the time of k new ones, and
    what is learned from them is learned again round after round, in time that grows with k^3.
    """
    if game.seconds is None or (known.had.all() and not known.n_left):
        return True
    k = len(known) + (0 if known.related is None else len(known.related.values))
    if k < LEAST_KNOWN:
        return False
    learning = SECONDS_OF_LEARNING * min(k, MOST_LEARNED) ** 3
    return learning < UNNOTICED or k * game.seconds * IN_BATCHES > learning


def _paths(start: str | Path | Sequence[str | Path], ledger: Any) -> list[Path]:
    listed = [start] if isinstance(start, (str, Path)) else start
    if not isinstance(listed, Sequence) or not all(isinstance(each, (str, Path)) for each in listed):
        raise TypeError(f"start must be the path of an earlier ledger, or a list of paths; got {start!r:.200}")
    paths = [Path(each) for each in listed]
    ledger = ledger.path if isinstance(ledger, Ledger) else ledger
    if isinstance(ledger, (str, Path)) and Path(ledger).resolve() in [path.resolve() for path in paths]:
        raise WrongLedger(
            f"{ledger} is both the ledger of this run and one to start from, which is only read: give the run its "
            "own ledger, which takes over the evaluations it uses"
        )
    return paths
