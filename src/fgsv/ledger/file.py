"""The ledger: a file that records every evaluation, so that none is paid for twice."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.coalitions import n_rows, split
from fgsv.environment import versions
from fgsv.game import Game
from fgsv.ledger.index import Rows
from fgsv.ledger.records import Batch, Outcome, Row, by_row
from fgsv.valuation import End

FORMAT = 1
APPLICATION = 0x46475356  # "FGSV", where the command `file` looks for it
SYNC_SECONDS = 1.0
"""Seconds of work that a power failure may lose; a killed process loses nothing that was committed."""

_SCHEMA = """
CREATE TABLE game (
    id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, n_players INTEGER NOT NULL,
    outputs TEXT, independent_rows INTEGER NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE batch (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, game INTEGER NOT NULL REFERENCES game,
    replicate INTEGER NOT NULL, coalitions BLOB NOT NULL, "values" BLOB NOT NULL,
    seconds REAL NOT NULL, failures TEXT, checksum BLOB NOT NULL);
CREATE TABLE run (
    id INTEGER PRIMARY KEY, game INTEGER NOT NULL REFERENCES game, settings TEXT NOT NULL,
    versions TEXT NOT NULL, started TEXT NOT NULL, ended TEXT, stopped TEXT, n_evaluations INTEGER,
    checksum BLOB NOT NULL);
CREATE TABLE count (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO count VALUES ('batch', 0), ('game', 0), ('run', 0);
"""

_COLUMNS = {
    "game": "id, fingerprint, n_players, outputs, independent_rows",
    "batch": 'id, key, game, replicate, coalitions, "values", seconds, failures',
    "run": "id, game, settings, versions, started, ended, stopped, n_evaluations",
}


class LedgerError(RuntimeError):
    """A ledger that cannot be read, written or trusted. Its contents are not changed."""


class WrongLedger(LedgerError, ValueError):
    """A path that is not a ledger, or a ledger of another game: a mistake in the arguments."""


class NotRecorded(LedgerError):
    """A game replayed from a ledger was asked for an evaluation that is not recorded."""


class Ledger:
    """An open ledger. Its driver is the only writer; others may read between two commits.

    One SQLite file, with a write-ahead log next to it while a driver is using it: commits are quick, and readers do
    not disturb the run. A record is a batch of coalitions with its values; if rows are independent, an index in
    memory finds them one by one. Each record has a checksum over its contents, checked when the file is opened and
    again when the record is used.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self._rows: dict[tuple[int, int], Rows] = {}
        if read_only and not self.path.exists():
            raise WrongLedger(f"there is no ledger at {self.path}")
        if not self.path.parent.exists():
            raise WrongLedger(f"the folder {self.path.parent} of the ledger does not exist")
        # a reader with write access merges the log of a killed driver into the file, as the next driver would
        mode = "rwc" if not read_only else "rw" if os.access(self.path, os.W_OK) else "ro"
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        with self._explained("open"):
            self._db = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with self._explained("open"):
                self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        if self.read_only:
            self._db.execute("BEGIN")  # a snapshot: all reads see the same state of the file
        else:
            self._db.execute("BEGIN IMMEDIATE")  # fails at once if another driver has the file
            if self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                self._create()
        if self._db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise WrongLedger(f"{self.path} is an SQLite file, but not a ledger; it was not changed")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            raise LedgerError(
                f"{self.path} has ledger format {found}; this version of fgsv reads format {FORMAT}. "
                "It was not changed: use the version that wrote it, or a newer one"
            )
        self.check()
        if not self.read_only:
            self._begin_log()

    def _begin_log(self) -> None:
        """Begin a write-ahead log, so that not every commit waits for the disk."""
        self._db.execute("COMMIT")
        self._db.execute("PRAGMA busy_timeout = 60000")  # from here on only readers can block, and briefly
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA wal_autocheckpoint = 0")
        self._db.execute("BEGIN IMMEDIATE")
        # a second connection merges the log into the file while the first one keeps the writer's lock
        self._mover = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
        self._synced = time.monotonic()

    def _create(self) -> None:
        if self.path.exists() and self.path.stat().st_size:
            raise WrongLedger(f"{self.path} is an SQLite file without tables, not a ledger; it was not changed")
        for statement in _SCHEMA.split(";"):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA application_id = {APPLICATION}")
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def close(self) -> None:
        """Close the file; everything recorded is already in it."""
        with suppress(sqlite3.Error):
            if not self.read_only:
                self._mover.close()
                self._db.execute("ROLLBACK")
                self._db.execute("PRAGMA journal_mode = DELETE")  # one plain file, unless a reader has it open
        self._db.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Turn SQLite's errors into ones that say what happened and what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:  # the latter if SQLite quotes a damaged schema
            is_none = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB
            kind = WrongLedger if is_none else LedgerError
            raise kind(f"cannot {doing} the ledger {self.path}: {_reason(error)}") from error

    def _commit(self) -> None:
        """Commit, and take the writer's lock again at once: the driver keeps the file until it closes it."""
        self._db.execute("COMMIT")
        self._db.execute("BEGIN IMMEDIATE")
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self._mover.execute("PRAGMA wal_checkpoint(PASSIVE)")  # waits for the disk
            self._db.execute("COMMIT")  # the log can restart only in a transaction begun after that
            self._db.execute("BEGIN IMMEDIATE")
            self._synced = time.monotonic()

    @contextmanager
    def _transaction(self, doing: str = "write to") -> Iterator[None]:
        """Commit everything in the block, or nothing."""
        with self._explained(doing):
            try:
                yield
                self._commit()
            except BaseException:
                with suppress(sqlite3.Error):  # a failed commit may have rolled back by itself
                    self._db.execute("ROLLBACK")
                with suppress(sqlite3.Error):
                    self._db.execute("BEGIN IMMEDIATE")
                raise

    # Records: each table has a checksum over its other columns, and `count` holds the expected number of rows.

    def _add(self, table: str, *columns: Any) -> int:
        self._db.execute("UPDATE count SET number = number + 1 WHERE name = ?", (table,))
        number = self._db.execute("SELECT number FROM count WHERE name = ?", (table,)).fetchone()[0]
        self._put(table, number, *columns)
        return int(number)

    def _put(self, table: str, *columns: Any) -> None:
        marks = ", ".join("?" * (len(columns) + 1))
        self._db.execute(
            f"INSERT OR REPLACE INTO {table} ({_COLUMNS[table]}, checksum) VALUES ({marks})",
            (*columns, _checksum(columns)),
        )

    def _read(self, table: str, where: str = "", *parameters: Any) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT {_COLUMNS[table]}, checksum FROM {table} {where}"
        for *columns, checksum in self._db.execute(query, parameters):
            if _checksum(columns) != checksum:
                raise LedgerError(
                    f"record {columns[0]} of table {table} of {self.path} is damaged: its checksum does not "
                    "match. The file was not changed; restore a copy of it"
                )
            yield tuple(columns)

    def check(self) -> None:
        """Read the whole file and raise a `LedgerError` unless every record is intact and none is missing."""
        with self._explained("read"):
            problems = [row[0] for row in self._db.execute("PRAGMA integrity_check(3)")]
            if problems != ["ok"]:
                raise LedgerError(f"{self.path} is damaged; it was not changed: {'; '.join(problems)}")
            written = dict(self._db.execute("SELECT name, number FROM count"))
            found = {table: sum(1 for _ in self._read(table)) for table in _COLUMNS}
            if found != written:
                raise LedgerError(
                    f"{self.path} is damaged; it was not changed. Records written: {written}; found: {found}"
                )

    # Games and their evaluations

    def game(self, game: Game) -> int:
        """Return the number of a game in this ledger, adding the game if it is new."""
        if game.fingerprint is None:
            raise LedgerError(
                "this game has no fingerprint, so a ledger could not recognise it: name it with fgsv.Game(fn, "
                'n_players, fingerprint="ridge on 2024 data"), and change the name whenever the data, the model '
                "or the score changes"
            )
        outputs = None if game.outputs is None else json.dumps(game.outputs)
        entered = (game.fingerprint, game.n_players, outputs, int(game.independent_rows))
        with self._explained("read"):
            known = list(self._read("game", "WHERE fingerprint = ?", game.fingerprint))
        if known:
            if known[0][1:] != entered:
                raise LedgerError(
                    f"in the ledger {self.path} the fingerprint {game.fingerprint!r} belongs to another game "
                    f"(players, outputs, independent rows): {known[0][2:]}, now {entered[1:]}. "
                    "Two games need two names"
                )
            return int(known[0][0])
        with self._transaction():
            return self._add("game", *entered)

    def find(self, game: int, coalitions: bytes, replicate: int = 0) -> Outcome | None:
        """Return the outcome of a batch, or None if this exact batch was not evaluated."""
        with self._explained("read"):
            for columns in self._read("batch", "WHERE key = ?", self._key(game, replicate, coalitions)):
                return _batch(columns).outcome
        return None

    def find_rows(self, game: int, rows: Collection[bytes], replicate: int = 0) -> dict[bytes, Row]:
        """Return the outcome of each coalition that was evaluated, in any batch; for independent rows."""
        found: dict[bytes, Row] = {}
        with self._explained("read"):
            for batch, wanted in self._rows_of(game, replicate).find(rows).items():
                columns = next(self._read("batch", "WHERE id = ?", batch))
                recorded, outcomes = split(columns[4]), by_row(_batch(columns).outcome)
                found |= {coalition: outcomes[row] for coalition, row in wanted if recorded[row] == coalition}
        return found

    def _rows_of(self, game: int, replicate: int) -> Rows:
        if (game, replicate) not in self._rows:
            rows = self._rows[game, replicate] = Rows()
            for columns in self._read("batch", "WHERE game = ? AND replicate = ? ORDER BY id", game, replicate):
                rows.add(columns[0], split(columns[4]), _batch(columns).outcome.failed)
        return self._rows[game, replicate]

    def record(self, game: int, batches: Sequence[tuple[bytes, Outcome]], replicate: int = 0) -> None:
        """Record batches with their outcomes, all or none."""
        numbers = []
        with self._transaction():
            for coalitions, outcome in batches:
                key = self._key(game, replicate, coalitions)
                columns = (
                    key,
                    game,
                    replicate,
                    coalitions,
                    outcome.values.astype("<f8").tobytes(),
                    outcome.seconds,
                    json.dumps(outcome.failures) if outcome.failures else None,
                )
                known = self._db.execute("SELECT id FROM batch WHERE key = ?", (key,)).fetchone()
                if known:  # replaces a failure that was retried
                    self._put("batch", known[0], *columns)
                numbers.append(known[0] if known else self._add("batch", *columns))
        if (game, replicate) in self._rows:
            for number, (coalitions, outcome) in zip(numbers, batches, strict=True):
                self._rows[game, replicate].add(number, split(coalitions), outcome.failed)

    def _key(self, game: int, replicate: int, coalitions: bytes) -> bytes:
        return hashlib.sha256(b"%d %d " % (game, replicate) + coalitions).digest()[:16]

    def games(self) -> list[tuple[int, Game]]:
        """Return the games of the ledger, by number; they cannot evaluate anything."""
        with self._explained("read"):
            return [(columns[0], _recorded(*columns[1:])) for columns in self._read("game")]

    def batches(self, game: int | None = None) -> Iterator[Batch]:
        """Yield the records one by one."""
        with self._explained("read"):
            where = ("ORDER BY id",) if game is None else ("WHERE game = ? ORDER BY id", game)
            yield from map(_batch, self._read("batch", *where))

    # Runs

    def begin_run(self, game: int, settings: dict[str, Any]) -> int:
        """Record the start of a run and return its number."""
        with self._transaction():
            return self._add("run", game, json.dumps(settings), json.dumps(versions()), _now(), None, None, None)

    def add_run(self, game: int, run: dict[str, Any]) -> None:
        """Add a run of another ledger, as its `runs` returned it, unless it is already here."""
        columns = [game, json.dumps(run["settings"]), json.dumps(run["versions"])]
        columns += [run[name] for name in ("started", "ended", "stopped", "n_evaluations")]
        with self._transaction():
            if not any(list(known[1:]) == columns for known in self._read("run")):
                self._add("run", *columns)

    def end_run(self, run: int, end: End, n_evaluations: int) -> None:
        """Record how a run ended. A killed run has no end."""
        with self._transaction():
            number, game, settings, made_with, started, *_ = next(self._read("run", "WHERE id = ?", run))
            self._put("run", number, game, settings, made_with, started, _now(), end.to_text(), n_evaluations)

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs in order, with settings, versions, times and how they ended."""
        names = _COLUMNS["run"].split(", ")
        with self._explained("read"):
            runs = [dict(zip(names, columns, strict=True)) for columns in self._read("run", "ORDER BY id")]
        return [
            {**run, "settings": json.loads(run["settings"]), "versions": json.loads(run["versions"])} for run in runs
        ]


def _checksum(columns: Sequence[Any]) -> bytes:
    digest = hashlib.sha256()
    for column in columns:
        content = column if isinstance(column, bytes) else repr(column).encode()
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.digest()[:16]


def _batch(columns: tuple[Any, ...]) -> Batch:
    number, _, game, replicate, coalitions, values, seconds, failures = columns
    outcome = Outcome(
        np.frombuffer(values, "<f8").reshape(n_rows(coalitions), -1).astype(float),
        seconds,
        json.loads(failures) if failures else {},
    )
    return Batch(number, game, replicate, coalitions, outcome)


def _recorded(fingerprint: str, n_players: int, outputs: str | None, independent_rows: int) -> Game:
    def refuse(masks: object) -> Any:
        raise NotRecorded("this game replays a ledger, which does not contain the requested evaluation")

    names = None if outputs is None else tuple(json.loads(outputs))
    return Game(refuse, n_players, names, fingerprint, bool(independent_rows))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _reason(error: Exception) -> str:
    """Explain an SQLite error: what happened, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another run is using it. Give this run its own ledger and merge the two later"
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full. All earlier evaluations are in the file: free some space and run the same again"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return f"the file or its folder cannot be written ({error})"
    if code == sqlite3.SQLITE_NOTADB:
        return "it is not a ledger, or its first page is damaged. It was not changed"
    if code == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeError):
        return f"it is damaged or truncated ({error}). It was not changed: restore a copy"
    return f"{error}. All earlier evaluations are in the file"
