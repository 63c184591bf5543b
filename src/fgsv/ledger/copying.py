"""Copying from one ledger into another: runs with their starts and laws, and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fgsv.coalitions import n_rows
from fgsv.game import Game
from fgsv.ledger.earlier import applicable_games
from fgsv.ledger.file import Ledger, LedgerError
from fgsv.ledger.records import Batch, classify

AT_ONCE = 2**14
"""Coalitions that are copied in one transaction."""


def take_over(into: Ledger, game: Game, ledgers: Sequence[str | Path]) -> list[bytes]:
    """Copy the evaluations of a game's frame, with their runs and laws, into a ledger; return the batches' keys.

    Raise an error if the ledger has other values for them, or has forgotten some of their players.

    Args:
        into: The ledger of the run, open for writing.
        game: The game whose frame the evaluations share.
        ledgers: Paths of the earlier ledgers, which are only read.

    Returns:
        The keys of the batches, those that were there before among them.

    Raises:
        LedgerError: The ledger has other values for the same coalitions.
        WrongLedger: It has forgotten players that an earlier one still has, or nothing there applies.

    """
    keys: dict[bytes, None] = {}
    for path in ledgers:
        with Ledger(path, read_only=True) as source:
            into.check_stays_forgotten([source])
            games = {number: into.game(old) for number, old in applicable_games(source, game)}
            for key, kind, _ in copy_batches(source, into, games, copy_runs(source, into, games)):
                if kind == "different":
                    raise LedgerError(
                        f"{into.path} has different values from {source.path} for the same coalitions: use a new "
                        "ledger, and if two ledgers to start from differ, use only one of them"
                    )
                keys[key] = None
    return list(keys)


def copy_batches(
    source: Ledger, into: Ledger, games: Mapping[int, int], runs: Mapping[int, int]
) -> Iterator[tuple[bytes, str, float]]:
    """Copy the batches of some games that are new; yield the key of each batch and what `classify` says about it.

    Batches of one run are recorded together, after all of them were yielded.

    Args:
        source: The ledger to read.
        into: The ledger to write.
        games: The games to copy: old number -> new number.
        runs: Their runs: old number -> new number.

    Yields:
        The key of each batch, "added", "known" or "different", and the largest gap between the values.

    """
    for old, new in games.items():
        for batches in _chunks(source.batches(old)):
            added = []
            for batch in batches:
                kind, gap = classify(batch.outcome, into.find(new, batch.coalitions))
                if kind == "added":
                    added.append((batch.coalitions, batch.outcome))
                yield into.key(new, batch.coalitions), kind, gap
            run = batches[0].run
            into.record(new, added, run=None if run is None else runs[run])


def copy_runs(source: Ledger, into: Ledger, games: Mapping[int, int]) -> dict[int, int]:
    """Copy the runs of some games, with their starts and laws; return old number -> new, as `games` has it.

    Args:
        source: The ledger to read.
        into: The ledger to write.
        games: The games whose runs are copied: old number -> new number.

    Returns:
        Old number -> new number of each run.

    """
    runs = {run.id: into.add_run(games[run.game], run) for run in source.runs() if run.game in games}
    for old, new in runs.items():
        if (start := source.start_of(old)) is not None:
            into.add_start(new, start)
        for first, law in source.laws(old).items():
            into.add_law(new, first, law)
    return runs


def _chunks(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yield consecutive batches of one run together, so that copies keep their order."""
    chunk: list[Batch] = []
    count = 0
    for batch in batches:
        if chunk and (batch.run != chunk[-1].run or count > AT_ONCE):
            yield chunk
            chunk = []
            count = 0
        chunk.append(batch)
        count += n_rows(batch.coalitions)
    if chunk:
        yield chunk
