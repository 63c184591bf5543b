"""Forgetting: erase the evaluations that used players who have withdrawn."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fgsv.checks import as_texts
from fgsv.coalitions import unpack_masks
from fgsv.files import as_path
from fgsv.game import Game, each_digest, player_digest, provider_digest
from fgsv.ledger.earlier import latest
from fgsv.ledger.file import Ledger, LedgerError, WrongLedger
from fgsv.ledger.kept_rows import forget_rows
from fgsv.ledger.records import Batch, Outcome, RecordedStart
from fgsv.types import Masks
from fgsv.words import option

FORGOTTEN = "forgotten: a player has withdrawn"
"""Recorded in place of an erased value; such a coalition is evaluated again if its game is run again."""


@dataclass(frozen=True)
class Forgotten:
    """What was erased from a ledger."""

    players: int
    evaluations: int
    unknown: tuple[str, ...] = ()
    """Those of `players` that no game of the ledger has: misspelt, or forgotten before."""
    preprocessing: bool = False
    """Whether the file still states preprocessing, which may have been fitted to rows of these players, too."""
    test_rows: int = 0
    """Rows of these providers among the test rows kept beside the ledger."""


def forget(
    path: str | Path,
    players: Collection[str] = (),
    *,
    providers: Collection[str] = (),
    keep: str | Path | None = None,
) -> Forgotten:
    """Erase every evaluation of a coalition with players who have withdrawn.

    The values and the players' digests are overwritten, so that nobody can recognise the players; then the file is
    rewritten, without the traces that SQLite keeps of deleted records. The positions of players in coalitions stay,
    so that the other draws of a run keep theirs. So does the preprocessing of a table: without it, no evaluation
    could be used again. A result that needs an erased value can no longer be verified. Test rows that are kept beside
    the ledger are erased by their providers; no run can start from the others then.

    Args:
        path: The ledger.
        players: Id of a withdrawn player, or its digest (32 hexadecimal digits); or several.
        providers: Name of a provider all of whose players are withdrawn, or several: a group of a run of the ledger.
        keep: A ledger: forget all players except those of its last run.

    Returns:
        Counts of what was erased, and the names that the ledger does not have.

    Raises:
        ValueError, TypeError: Nobody is named, or both those who go and those who stay.

    """
    players = as_texts(players, option("players"), "names")
    providers = as_texts(providers, option("providers"), "names")
    if bool(players or providers) == (keep is not None):
        raise ValueError(
            f"say which players to forget: name them with {option('players')} and {option('providers')}, or name a "
            f"ledger with {option('keep')}, to forget all but those of its last run; not both"
        )
    if not as_path(path, "a ledger").exists():
        raise WrongLedger(f"there is no ledger at {path}")
    named = _digests_of(players)
    withdrawn = {*named.values(), *(_players_of_providers(path, providers) if providers else ())}
    kept = None if keep is None else _players_of_last_run(keep)
    players_met: set[bytes] = set()
    players_gone: set[bytes] = set()
    n_evaluations = 0
    preprocessing = False
    with Ledger(path) as ledger:
        for number, game in ledger.games():
            digests = game.player_digests()
            if digests is None:
                continue
            each = each_digest(digests)
            players_met |= set(each)
            gone = np.array([digest in withdrawn if kept is None else digest not in kept for digest in each])
            gone &= np.array([any(digest) for digest in each])  # zeros were forgotten before
            if not gone.any():
                continue
            erased = list(_erased(ledger, number, game, gone))
            players_gone |= {digest for left, digest in zip(gone, each, strict=True) if left}
            n_evaluations += sum(count for _, count in erased)
            preprocessing |= isinstance(game.frame, Mapping) and "preprocessing" in game.frame
            nobody = b"".join(bytes(16) if left else digest for left, digest in zip(gone, each, strict=True))
            ledger.replace(replace(game, players=nobody), number, [batch for batch, _ in erased])
    _rewrite(path)
    unknown = [name for name, digest in named.items() if digest not in players_met]
    n_rows = forget_rows(path, providers)
    return Forgotten(len(players_gone), n_evaluations, tuple(unknown), preprocessing, n_rows)


def has_forgotten(game: Game) -> bool:
    """Say whether players of a recorded game were forgotten, and evaluations with them erased."""
    return any(not any(digest) for digest in each_digest(game.player_digests() or b""))


def _rewrite(path: str | Path) -> None:
    """Rewrite a file without traces of deleted records; also if none were deleted now, in case it failed before."""
    try:
        with closing(sqlite3.connect(path)) as db:
            db.execute("VACUUM")
    except sqlite3.Error as error:
        raise LedgerError(
            f"the evaluations are erased, but {path} could not be rewritten and still has traces of them ({error}): "
            "run the same command again"
        ) from error


def _digests_of(players: Iterable[str]) -> dict[str, bytes]:
    """Return the digests of players, given as ids or as digests in hexadecimal."""
    hexadecimal = set("0123456789abcdef")
    are = {each: len(each) == 32 and set(each) <= hexadecimal for each in players}
    return {each: bytes.fromhex(each) if is_digest else player_digest(each) for each, is_digest in are.items()}


def _players_of_providers(path: str | Path, providers: Collection[str]) -> set[bytes]:
    """Return the digests of the players that belonged to providers in any run of a ledger."""
    wanted = {provider_digest(name): name for name in providers}
    found = set()
    met = set()
    with Ledger(path, read_only=True) as ledger:
        games = dict(ledger.games())
        for run in ledger.runs():
            start = ledger.start_of(run.id) or RecordedStart()
            digests = games[run.game].player_digests()
            mine = {place for place, name in enumerate(start.providers) if name in wanted}
            if not mine or digests is None:
                continue
            players = each_digest(digests)
            owners = start.provider_of_player
            if len(owners) != len(players):
                name = wanted[start.providers[min(mine)]]
                raise WrongLedger(
                    f"{path} has a run that does not record which players belong to the provider {name!r}, "
                    "because some players have several owners, or are too many; nothing was erased. Name the "
                    "players, or keep those of a run without them"
                )
            met |= {start.providers[place] for place in mine}
            found |= {digest for digest, place in zip(players, owners, strict=True) if place in mine}
    unknown = [wanted[digest] for digest in wanted if digest not in met]
    if unknown:
        raise WrongLedger(
            f"{path} does not record which players belong to the provider {unknown[0]!r}: is it spelt as in the "
            "table? If so, name the players, or keep those of a run without them"
        )
    return found


def _players_of_last_run(path: str | Path) -> set[bytes]:
    """Return the digests of the players of the last run of a ledger."""
    with Ledger(path, read_only=True) as ledger:
        runs = ledger.runs()
        games = dict(ledger.games())
        digests = games[latest(runs).game].player_digests() if runs else None
    if not digests:
        raise WrongLedger(f"{path} has no run of a game that says what its players are")
    return set(each_digest(digests))


def _erased(ledger: Ledger, number: int, game: Game, gone: Masks) -> Iterator[tuple[Batch, int]]:
    """Yield the batches that change, and how many of their evaluations are erased."""
    for batch in ledger.batches(number):
        rows = np.asarray(unpack_masks(game.n_players, batch.coalitions)[:, gone].any(axis=1))
        outcome = batch.outcome
        if not rows.any() or not outcome.values.shape[1]:
            continue
        known = rows & ~np.isnan(outcome.values).any(axis=1)
        failures = {text: [row for row in where if not rows[row]] for text, where in outcome.failures.items()}
        failures = {text: where for text, where in failures.items() if where}
        failures[FORGOTTEN] = sorted({*failures.get(FORGOTTEN, ()), *np.flatnonzero(rows).tolist()})  # also before
        values = np.where(rows[:, None], np.nan, outcome.values)
        yield replace(batch, outcome=Outcome(values, outcome.seconds, failures)), int(known.sum())
