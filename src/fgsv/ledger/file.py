"""The ledger: a file that records every evaluation, so that none is paid for twice."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

from fgsv.coalitions import split
from fgsv.files import as_path, encode, other_schema
from fgsv.game import Game, each_digest
from fgsv.ledger import schema
from fgsv.ledger.records import Batch, Outcome, Purpose, RecordedRun, RecordedStart, Row, Rows
from fgsv.ledger.schema import APPLICATION, SCHEMA
from fgsv.packages import versions
from fgsv.valuation import End
from fgsv.words import counted

SYNC_SECONDS = 1.0
"""Seconds of work that a power failure may lose; a killed process loses nothing that was committed."""

START = -1
"""The round before the first, where the table of laws holds what a run started from."""
IN_USE = "another run is using it. Give this run its own ledger and merge the two later"


class LedgerError(RuntimeError):
    """A ledger that cannot be read, written or trusted. Its contents are not changed."""


class WrongLedger(LedgerError, ValueError):
    """A path that is not a ledger, or a ledger of another game: a mistake in the arguments."""


class NotRecorded(LedgerError):
    """A game replayed from a ledger was asked for an evaluation that is not recorded."""


class Ledger:
    """An open ledger. Its driver is the only writer; others may read between two commits.

    One SQLite file, with a write-ahead log next to it while a driver is using it: commits are quick, and readers do
    not disturb the run. A record is a batch of coalitions with its values and the run that asked for it; if rows are
    independent, an index in memory finds them one by one. Each record has a checksum over its contents, checked when
    the file is opened and again when the record is used. Files with other tables, views or triggers are refused.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = as_path(path, "a ledger")
        self.read_only = read_only
        self._rows: dict[int, Rows] = {}
        self._games: dict[int, tuple[Any, ...]] = {}
        self._lock = RLock()
        if read_only and not self.path.exists():
            raise WrongLedger(f"there is no ledger at {self.path}")
        if self.path.exists() and not self.path.is_file():
            raise WrongLedger(f"{self.path} is not a file, so it cannot be a ledger")
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
        schema.distrust(self._db)
        if self.read_only:
            self._db.execute("BEGIN")  # a snapshot: all reads see the same state of the file
        else:
            self._db.execute("BEGIN IMMEDIATE")  # fails at once if another driver has the file
            if self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                self._create()
        if self._db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise WrongLedger(f"{self.path} is an SQLite file, but not a ledger; it was not changed")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found != SCHEMA:
            raise LedgerError(f"{self.path} cannot be read, and was not changed: {other_schema(found, SCHEMA)}")
        if not schema.is_known(self._db):
            raise WrongLedger(
                f"{self.path} has tables, views or triggers that no ledger has; it was not changed. Do not trust "
                "its source"
            )
        self.check()
        if not self.read_only:
            with self._explained("open", busy="it is open, for reading or in another run: close it there"):
                self._begin_log()

    def _begin_log(self) -> None:
        """Begin a write-ahead log, so that not every commit waits for the disk."""
        self._db.execute("COMMIT")
        opened = os.stat(self.path)
        if opened.st_nlink > 1:
            raise LedgerError(
                f"{self.path} has {opened.st_nlink} names (hard links), and a second run could write through "
                "another one undetected: copy it, and use the copy"
            )
        self._inode = opened.st_dev, opened.st_ino
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
        schema.create(self._db)

    def close(self) -> None:
        """Close the file; everything recorded is already in it."""
        with suppress(sqlite3.Error):
            if not self.read_only:
                self._mover.close()
                self._db.execute("ROLLBACK")
                self._db.execute("PRAGMA journal_mode = DELETE")  # one plain file, unless a reader has it open
        self._db.close()

    def __del__(self) -> None:
        if getattr(self, "read_only", False) and hasattr(self, "_db"):
            self._db.close()  # which is in a cycle of its own, and keeps its lock until that is collected

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _explained(self, doing: str, busy: str = IN_USE) -> Iterator[None]:
        """Turn SQLite's errors into ones that say what happened and what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:  # the latter if SQLite quotes a damaged schema
            is_none = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB
            kind = WrongLedger if is_none else LedgerError
            raise kind(f"cannot {doing} the ledger {self.path}: {_reason(error, busy)}") from error

    def _commit(self) -> None:
        """Commit, and take the writer's lock again at once: the driver keeps the file until it closes it."""
        self._check_place()
        self._db.execute("COMMIT")
        self._db.execute("BEGIN IMMEDIATE")
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self._mover.execute("PRAGMA wal_checkpoint(PASSIVE)")  # waits for the disk
            self._db.execute("COMMIT")  # the log can restart only in a transaction begun after that
            self._db.execute("BEGIN IMMEDIATE")
            self._synced = time.monotonic()

    def _check_place(self) -> None:
        """Raise an error if the file is no longer where it was opened: what is written would be lost."""
        try:
            found = os.stat(self.path)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._inode:
            raise LedgerError(
                f"the ledger {self.path} was deleted, moved or replaced during the run: restore it, or run the same "
                "command again with a new one"
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit everything in the block, or nothing; threads take turns."""
        with self._lock, self._explained("write to"):
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
            f"INSERT OR REPLACE INTO {table} ({schema.COLUMNS[table]}, checksum) VALUES ({marks})",
            (*columns, schema.checksum(columns)),
        )

    def _read(self, table: str, where: str = "", *parameters: Any) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT {schema.COLUMNS[table]}, checksum FROM {table} {where}"
        with self._lock:
            for *columns, checksum in self._db.execute(query, parameters):
                if schema.checksum(columns) != checksum:
                    raise self._damaged(table, columns[0], "its checksum does not match")
                yield tuple(columns)

    def _damaged(self, table: str, number: int, fault: str) -> LedgerError:
        return LedgerError(
            f"record {number} of table {table} of {self.path} is damaged: {fault}. The file was not changed; "
            "restore a copy of it"
        )

    def check(self) -> None:
        """Read the whole file and raise a `LedgerError` unless every record is intact and none is missing."""
        with self._explained("read"):
            problems = [row[0] for row in self._db.execute("PRAGMA integrity_check(3)")]
            if problems != ["ok"]:
                raise LedgerError(f"{self.path} is damaged; it was not changed: {'; '.join(problems)}")
            written = dict(self._db.execute("SELECT name, number FROM count"))
            games = {columns[0]: columns for columns in self._read("game")}
            found = dict.fromkeys(schema.COLUMNS, 0)
            for table in found:
                for columns in self._read(table):
                    found[table] += 1
                    fault = schema.fault(table, columns, games)
                    if fault is not None:
                        raise self._damaged(table, columns[0], fault)
            if found != written:
                raise LedgerError(
                    f"{self.path} is damaged; it was not changed. Records written: {written}; found: {found}"
                )

    # Games and their evaluations

    def game(self, game: Game) -> int:
        """Return the number of a game in this ledger, adding it if it is new."""
        if game.fingerprint is None:
            raise LedgerError(
                "this game has no fingerprint, so a ledger could not recognise it: name it with fgsv.Game(fn, "
                'n_players, fingerprint="ridge on 2024 data"), and change the name whenever the data, the model '
                "or the score changes"
            )
        with self._explained("read"):
            known = next(self._read("game", "WHERE fingerprint = ?", game.fingerprint), None)
        outputs = None if game.outputs is None else json.dumps(game.outputs)
        entered = (game.n_players, outputs, int(game.independent_rows))
        if known is not None:
            number, _, *stated, _, _ = known
            if tuple(stated) != entered:
                raise LedgerError(
                    f"in the ledger {self.path} the fingerprint {game.fingerprint!r} belongs to another game "
                    f"(players, outputs, independent rows): {tuple(stated)}, now {entered}. Give the two games "
                    "different fingerprints"
                )
            self._name_again(known, game)
            return int(number)
        frame = None if game.frame is None else json.dumps(game.frame, sort_keys=True)
        with self._transaction():
            return self._add("game", game.fingerprint, *entered, frame, game.player_digests())

    def _name_again(self, known: tuple[Any, ...], game: Game) -> None:
        """Enter the players of a game that were forgotten, since it is evaluated again: they may withdraw again."""
        *entered, recorded = known
        given = game.player_digests()
        if self.read_only or not recorded or not given:
            return
        pairs = zip(each_digest(recorded), each_digest(given), strict=True)
        players = b"".join(old if any(old) else new for old, new in pairs)
        if players != recorded:
            with self._transaction():
                self._put("game", *entered, players)

    def key(self, game: int, coalitions: bytes) -> bytes:
        """Return the key of a batch, the same in every ledger."""
        if game not in self._games:
            self._games[game] = next(self._read("game", "WHERE id = ?", game))
        return schema.key_of(self._games[game], coalitions)

    def find(self, game: int, coalitions: bytes) -> Outcome | None:
        """Return the outcome of a batch, or None if this exact batch was not evaluated."""
        with self._explained("read"):
            for columns in self._read("batch", "WHERE key = ?", self.key(game, coalitions)):
                batch = Batch.of(columns)
                if (batch.game, batch.coalitions) != (game, coalitions):
                    raise self._damaged("batch", batch.id, "it is stored under the key of another batch")
                return batch.outcome
        return None

    def find_rows(self, game: int, rows: Collection[bytes]) -> dict[bytes, Row]:
        """Return the outcome of each coalition that was evaluated, in any batch; for independent rows."""
        found: dict[bytes, Row] = {}
        with self._explained("read"):
            for batch, wanted in self._rows_of(game).find(rows).items():
                record = Batch.of(next(self._read("batch", "WHERE id = ?", batch)))
                recorded = split(record.coalitions)
                outcomes = record.outcome.rows([row for _, row in wanted])
                found |= {
                    coalition: outcome
                    for (coalition, row), outcome in zip(wanted, outcomes, strict=True)
                    if recorded[row] == coalition
                }
        return found

    def _rows_of(self, game: int) -> Rows:
        if game not in self._rows:
            rows = self._rows[game] = Rows()
            for batch in self.batches(game):
                rows.add(batch.id, split(batch.coalitions), batch.outcome.failed)
        return self._rows[game]

    def record(self, game: int, batches: Sequence[tuple[bytes, Outcome]], run: int | None = None) -> None:
        """Record batches with their outcomes and the run that asked for them, all or none.

        Args:
            game: The number of their game.
            batches: Packed coalitions with their outcomes.
            run: The number of the run; None if no run asked for them.

        Raises:
            LedgerError: The file cannot be written; nothing is changed.

        """
        numbers = []
        with self._transaction():
            for coalitions, outcome in batches:
                columns = self._columns(game, run, coalitions, outcome)
                known = self._db.execute("SELECT id FROM batch WHERE key = ?", columns[:1]).fetchone()
                if known:  # replaces a failure that was retried
                    self._put("batch", known[0], *columns)
                numbers.append(known[0] if known else self._add("batch", *columns))
            if game in self._rows:
                for number, (coalitions, outcome) in zip(numbers, batches, strict=True):
                    self._rows[game].add(number, split(coalitions), outcome.failed)

    def _columns(self, game: int, run: int | None, coalitions: bytes, outcome: Outcome) -> tuple[Any, ...]:
        """Return a batch as columns without its number; `Batch.of` reads them back."""
        values = outcome.values.astype("<f8").tobytes()
        failures = json.dumps(outcome.failures) if outcome.failures else None
        return self.key(game, coalitions), game, run, coalitions, values, outcome.seconds, failures

    def replace(self, game: Game, number: int, batches: Iterable[Batch]) -> None:
        """Put other players into the record of a game, and other outcomes into its batches, all or none.

        Args:
            game: The game with the players as they are to be recorded.
            number: Its number here.
            batches: Batches with their numbers, and the outcomes to record.

        Raises:
            LedgerError: The file cannot be written; nothing is changed.

        """
        with self._transaction():
            *entered, _ = next(self._read("game", "WHERE id = ?", number))
            self._put("game", *entered, game.player_digests())
            for batch in batches:
                columns = self._columns(number, batch.run, batch.coalitions, batch.outcome)
                self._put("batch", batch.id, *columns)
            self._games.clear()
            self._rows.clear()

    def games(self) -> list[tuple[int, Game]]:
        """Return the games of the ledger, by number; they cannot evaluate anything."""
        with self._explained("read"):
            return [(columns[0], _recorded(*columns[1:])) for columns in self._read("game")]

    def batches(self, game: int | None = None) -> Iterator[Batch]:
        """Yield the records one by one."""
        with self._explained("read"):
            where = ("ORDER BY id",) if game is None else ("WHERE game = ? ORDER BY id", game)
            yield from map(Batch.of, self._read("batch", *where))

    def check_stays_forgotten(self, others: Sequence[Ledger]) -> None:
        """Raise an error if other ledgers still have players of a game whom this one has forgotten."""
        here = {game.fingerprint: each_digest(game.player_digests() or b"") for _, game in self.games()}
        for other in others:
            for _, game in other.games():
                pairs = zip(here.get(game.fingerprint, ()), each_digest(game.player_digests() or b""), strict=False)
                count = sum(not any(ours) and any(theirs) for ours, theirs in pairs)  # zeros were forgotten
                if count:
                    raise WrongLedger(
                        f"{counted(count, 'player')} forgotten in {self.path}, but still in {other.path}: "
                        "evaluations would come back from there. Forget in both"
                    )

    # Runs, the laws of their draws, and what their results state

    def begin_run(self, game: int, settings: dict[str, Any], purpose: Purpose = Purpose.DRAWS) -> int:
        """Record the start of a run and return its number.

        Args:
            game: The number of its game.
            settings: Its settings, as JSON can hold them.
            purpose: Why it evaluates coalitions. Default: draws.

        Returns:
            The number of the run.

        """
        made_with = json.dumps(versions())
        with self._transaction():
            return self._add("run", game, str(purpose), json.dumps(settings), made_with, _now(), None, None, None)

    def add_run(self, game: int, run: RecordedRun) -> int:
        """Add a run of another ledger, of this game here, unless it is already here; return its number."""
        columns = replace(run, game=game).columns
        with self._transaction():
            for known in self._read("run"):
                if list(known[1:]) == columns:
                    return int(known[0])
            return self._add("run", *columns)

    def end_run(self, run: int, end: End, n_evaluations: int) -> None:
        """Record how a run ended. A killed run has no end.

        Args:
            run: The number of the run.
            end: How it ended.
            n_evaluations: Evaluations that it requested.

        """
        with self._transaction():
            *begun, _, _, _ = next(self._read("run", "WHERE id = ?", run))
            self._put("run", *begun, _now(), json.dumps(encode(end)), n_evaluations)

    def runs(self, game: int | None = None) -> list[RecordedRun]:
        """Return the runs in order, of all games or of one."""
        where = "" if game is None else "WHERE game = ?"
        with self._explained("read"):
            found = self._read("run", f"{where} ORDER BY id", *([] if game is None else [game]))
            return [RecordedRun.of(columns) for columns in found]

    def add_law(self, run: int, round_number: int, law: Mapping[str, Any]) -> None:
        """Record the law of a run's draws from a round on.

        Args:
            run: The number of the run.
            round_number: The first round that is drawn by the law.
            law: The law, as JSON can hold it. One that is recorded for this round stays.

        """
        with self._transaction():
            if round_number not in self.laws(run):
                self._add("law", run, round_number, json.dumps(law))

    def laws(self, run: int) -> dict[int, dict[str, Any]]:
        """Return the laws of a run's draws, by the round from which each holds."""
        with self._explained("read"):
            known = self._read("law", "WHERE run = ? AND round > ?", run, START)
            return {columns[2]: json.loads(columns[3]) for columns in known}

    def add_start(self, run: int, start: RecordedStart) -> None:
        """Record what a run starts from, before its first round."""
        with self._transaction():
            if self.start_of(run) is None:
                self._add("law", run, START, json.dumps(start.to_dict()))

    def start_of(self, run: int) -> RecordedStart | None:
        """Return what a run started from; None if it is not recorded."""
        with self._explained("read"):
            found = self._read("law", "WHERE run = ? AND round = ?", run, START)
            return next((RecordedStart.from_dict(json.loads(columns[3])) for columns in found), None)

    def add_statement(self, run: int, statement: Mapping[str, str]) -> None:
        """Record what a run's result states: field -> digest."""
        content = json.dumps(statement, sort_keys=True)
        with self._transaction():
            if content not in (columns[2] for columns in self._read("statement", "WHERE run = ?", run)):
                self._add("statement", run, content, _now())

    def statements(self) -> list[tuple[int, dict[str, str]]]:
        """Return what the results of each run state: the run's number, and field -> digest."""
        with self._explained("read"):
            return [(columns[1], json.loads(columns[2])) for columns in self._read("statement", "ORDER BY id")]


def _recorded(
    fingerprint: str,
    n_players: int,
    outputs: str | None,
    independent_rows: int,
    frame: str | None,
    players: bytes | None,
) -> Game:
    def refuse(masks: object) -> Any:
        raise NotRecorded("this game replays a ledger, which does not contain the requested evaluation")

    return Game(
        refuse,
        n_players,
        None if outputs is None else tuple(json.loads(outputs)),
        fingerprint,
        bool(independent_rows),
        frame=None if frame is None else json.loads(frame),
        players=players,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _reason(error: Exception, busy: str) -> str:
    """Explain an SQLite error: what happened, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return busy
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full. All earlier evaluations are in the file: free some space and run the command again"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return f"the file or its folder cannot be written ({error})"
    if code == sqlite3.SQLITE_NOTADB:
        return "it is not a ledger, or its first page is damaged. It was not changed"
    if code == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeError):
        return f"it is damaged or truncated ({error}). It was not changed: restore a copy"
    return f"{error}. All earlier evaluations are in the file"
