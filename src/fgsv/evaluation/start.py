"""The start of a run: evaluations from earlier ledgers, which are reused and not counted."""

from __future__ import annotations

from collections import Counter
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
from fgsv.methods import DEFAULT, Task, as_method, for_task
from fgsv.methods.known import Known
from fgsv.partition import Partition
from fgsv.types import Floats, Ints

Start = str | Path | Sequence[str | Path] | Known | None
"""Earlier ledgers, which are only read, or the evaluations known from them."""
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
    """What an evaluator starts from; it is fixed before the first evaluation, and does not change with the ledger."""

    def __init__(self, game: Game, start: Start = None, ledger: Any = None) -> None:
        self._game = game
        self._paths = [] if start is None or isinstance(start, Known) else _paths(start, ledger)
        self.found: Known | None = start if isinstance(start, Known) else None
        """What applies of the earlier evaluations, used or not."""
        if self._paths:
            self.found = known(game, self._paths)
            if not is_worth(self.found, game):
                self._paths = []
        self.known: Known | None = self.found if self._paths or isinstance(start, Known) else None
        self.asked = np.zeros(0 if self.known is None else len(self.known), dtype=np.int64)
        """How often each known evaluation was requested."""
        self._keys: list[bytes] = []

    def take_over(self, ledger: Ledger) -> None:
        """Copy the evaluations into the ledger of the run, which then no longer needs the earlier ones."""
        if self._paths and not ledger.read_only:
            self._keys = take_over(ledger, self._game, self._paths)

    def check(self, workers: Workers) -> None:
        """Check, before the first evaluation, that the game still gives the values in earlier ledgers."""
        if self.known is not None and self._paths:
            recheck_known(self.known, workers)

    def recorded(self, partition: Partition) -> RecordedStart:
        """Return what a ledger records of the start of a run."""
        named = partition.is_disjoint and partition.n_players <= MOST_NAMED
        return RecordedStart(
            tuple(map(provider_digest, partition.names)),
            tuple(partition.codes.tolist()) if named else (),
            None if self.known is None else self.known.sha256,
            tuple(self._keys),
        )

    def find(self, coalitions: Coalitions) -> Ints | None:
        """Return (m,): the row of each coalition among what is known, -1 if it is not; None if nothing is known."""
        if self.known is None or not len(self.known):
            return None
        step = max(1, AT_ONCE // coalitions.n_players)
        found = [self.known.find(coalitions[i : i + step]) for i in range(0, len(coalitions), step)]
        return np.concatenate(found)

    def values(self, rows: Ints | None, new: Floats | None) -> Floats:
        """Return the (m, q) values of coalitions: known ones, and `new` ones where `rows` has none."""
        if rows is None:
            assert new is not None
            return new
        assert self.known is not None
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


def in_words(known: Known, partition: Partition, game: Game) -> str:
    """Say who is still there, who left and joined, how many known evaluations apply, and whether they are used.

    Args:
        known: The known evaluations.
        partition: The providers of the present players.
        game: The present game.

    Returns:
        One sentence.

    """
    here = [provider_digest(name) for name in partition.names]
    before = set(known.providers)
    players = f"{int(known.had.sum())} players as before, {known.n_left} left, {known.n_joined} joined"
    if before:
        renamed = _renamed(known, partition, here)
        new = partition.sums((~known.had).astype(float))
        changed = {digest for digest, count in zip(here, new, strict=True) if count and digest in before}
        withdrew = (known.lost & set(here)) - changed
        counts = {
            "renamed": len(renamed),
            "left": len(before - set(here)) - len(renamed),
            "joined": len(set(here) - before) - len(renamed),
            "brought other rows": len(changed),
            "withdrew rows": len(withdrew),
        }
        same = len(before & set(here)) - len(changed) - len(withdrew)
        everyone = len({*here, *before}) - len(renamed)
        rest = "".join(f", {count:,} {status}" for status, count in counts.items() if count)
        players = f"{same:,} of {everyone:,} providers as before{rest} ({players})"
    said = f"{players}: {len(known):,} of {known.n_recorded:,} known evaluations apply"
    if not is_worth(known, game):
        return f"{said}, but new ones take less time than to learn from so few, or so many: the run starts over"
    task = Task(partition.n_players, partition, n_known=len(known), seconds=game.seconds)
    if getattr(for_task(as_method(DEFAULT, {}), task), "uses_known", False):
        return said
    return f"{said} where they are drawn again; nothing is learned from them"


def _renamed(known: Known, partition: Partition, here: Sequence[str]) -> set[str]:
    """Return the providers of the earlier run all of whose players now belong to one provider with a new name."""
    if not known.owners or not partition.is_disjoint:
        return set()
    pairs = {(here[code], owner) for code, owner in zip(partition.codes.tolist(), known.owners, strict=True) if owner}
    holders = Counter(new for new, _ in pairs)
    held = Counter(old for _, old in pairs)
    whole = {old for new, old in pairs if holders[new] == held[old] == 1 and new not in known.providers}
    joined = {here[code] for code in partition.codes[~known.had]}
    mixed = {old for new, old in pairs if new in joined}
    return whole - set(here) - known.lost - mixed


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


def known_of_run(ledger: Ledger, game: Game, start: str | None) -> Known | None:
    """Return the known evaluations that a recorded run started from, by their hash, from its own ledger.

    Args:
        ledger: The open ledger of the run.
        game: Its game.
        start: The hash of what it started from; None if it started from nothing.

    Returns:
        The known evaluations; None if it started from nothing.

    Raises:
        WrongLedger: The ledger does not record them, or no longer has all of them.

    """
    if start is None:
        return None
    for run in ledger.runs():
        recorded = ledger.start_of(run.id)
        if recorded is not None and recorded.known == start:
            found = known(game, [ledger], keys=set(recorded.batches))
            if found.sha256 == start:
                return found
            raise WrongLedger(
                f"{ledger.path} no longer has all the evaluations that the run started from: they were erased or "
                "replaced"
            )
    raise WrongLedger(f"{ledger.path} does not record the evaluations that the run started from ({start[:16]}...)")
