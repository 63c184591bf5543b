"""The schema of a ledger: its tables, and what a record must look like."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgsv.coalitions import split

SCHEMA = 3
APPLICATION = 0x46475356  # "FGSV", where the command `file` looks for it


_TABLES = (
    "CREATE TABLE game (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, n_players INTEGER NOT NULL, "
    "outputs TEXT, independent_rows INTEGER NOT NULL, frame TEXT, players BLOB, checksum BLOB NOT NULL)",
    "CREATE TABLE batch (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
    "game INTEGER NOT NULL REFERENCES game, "
    'run INTEGER REFERENCES run, coalitions BLOB NOT NULL, "values" BLOB NOT NULL, '
    "seconds REAL NOT NULL, failures TEXT, checksum BLOB NOT NULL)",
    "CREATE TABLE run (id INTEGER PRIMARY KEY, game INTEGER NOT NULL REFERENCES game, purpose TEXT NOT NULL, "
    'settings TEXT NOT NULL, versions TEXT NOT NULL, started TEXT NOT NULL, ended TEXT, "end" TEXT, '
    "n_evaluations INTEGER, checksum BLOB NOT NULL)",
    "CREATE TABLE law (id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run, round INTEGER NOT NULL, "
    "content TEXT NOT NULL, checksum BLOB NOT NULL)",
    "CREATE TABLE statement (id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run, content TEXT NOT NULL, "
    "made TEXT NOT NULL, checksum BLOB NOT NULL)",
    "CREATE TABLE count (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
)

COLUMNS = {
    "game": "id, fingerprint, n_players, outputs, independent_rows, frame, players",
    "batch": 'id, key, game, run, coalitions, "values", seconds, failures',
    "run": 'id, game, purpose, settings, versions, started, ended, "end", n_evaluations',
    "law": "id, run, round, content",
    "statement": "id, run, content, made",
}
"""Columns in the order in which they are read, written and checksummed; `checksum` follows them."""


def create(db: sqlite3.Connection) -> None:
    """Create the tables of an empty ledger."""
    for statement in _TABLES:
        db.execute(statement)
    db.executemany("INSERT INTO count VALUES (?, 0)", [(table,) for table in COLUMNS])
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def distrust(db: sqlite3.Connection) -> None:
    """Let nothing in a file of unknown origin run: no functions in its schema, no oversized cells."""
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")


def is_known(db: sqlite3.Connection) -> bool:
    """Say whether a file has the tables of a ledger, and no view, trigger, index or table besides."""
    found = db.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_autoindex_%'").fetchall()
    return sorted(_plain(sql) for (sql,) in found) == sorted(map(_plain, _TABLES))


def _plain(sql: str | None) -> str:
    return "".join((sql or "").split())


def key_of(game: tuple[Any, ...], coalitions: bytes) -> bytes:
    """Return the key of a batch: by the content of its game, so that it is the same in every ledger."""
    _, fingerprint, *_ = game
    return checksum((fingerprint, coalitions))


def checksum(columns: Sequence[Any]) -> bytes:
    """Return 16 bytes that change with any column."""
    digest = hashlib.sha256()
    for column in columns:
        content = column if isinstance(column, bytes) else repr(column).encode()
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.digest()[:16]


def fault(table: str, columns: tuple[Any, ...], games: dict[int, tuple[Any, ...]]) -> str | None:
    """Say what is wrong with a record whose checksum holds, or None.

    Args:
        table: The table that has the record.
        columns: Its columns, as in `COLUMNS`.
        games: The columns of every game, by number.

    Returns:
        What is wrong, in words; None if nothing is.

    """
    if table == "batch":
        return _fault_of_batch(columns, games)
    if table == "run":
        _, game, _, settings, versions, *_ = columns
        if game not in games:
            return f"it belongs to game {game}, which is not in the file"
        texts = {"settings": settings, "versions": versions}
    elif table == "game":
        _, _, n_players, outputs, _, frame, players = columns
        if players is not None and len(players) != 16 * n_players:
            return f"it names {len(players) / 16:g} players, expected {n_players}"
        texts = {"outputs": outputs or "[]", "frame": frame or "{}"}
    else:
        texts = {"content": columns[3 if table == "law" else 2]}
    for name, text in texts.items():
        try:
            json.loads(text)
        except ValueError:
            return f"its {name} cannot be read as JSON"
    return None


def _fault_of_batch(columns: tuple[Any, ...], games: dict[int, tuple[Any, ...]]) -> str | None:
    _, key, game, _, coalitions, values, _, failures = columns
    if game not in games:
        return f"it belongs to game {game}, which is not in the file"
    if key != key_of(games[game], coalitions):
        return "its key does not match its coalitions"
    try:
        m = len(split(coalitions))
        table = np.frombuffer(values, "<f8").reshape(m, -1)
        failed = sorted({int(row) for rows in json.loads(failures).values() for row in rows}) if failures else []
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        return f"it cannot be read: {error}"
    if failed and not 0 <= failed[0] <= failed[-1] < m:
        return f"it records a failure of coalition {failed[-1]}, but has {m}"
    valued = np.ones(m, dtype=bool)
    valued[failed] = False
    if not np.isfinite(table[valued]).all() or (valued.any() and not table.shape[1]):
        return "it has a value that is not a finite number and not recorded as a failure"
    return None
