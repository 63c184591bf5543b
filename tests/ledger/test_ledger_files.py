"""Ledger files that are damaged, full, locked, foreign or newer: a clear error, and nothing is overwritten."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import fgsv
from fgsv.ledger import Ledger, LedgerError, WrongLedger
from fgsv.ledger.schema import SCHEMA
from fgsv.verification.verify import verify

N = 10


def utility(masks):
    return np.sqrt((masks * np.arange(1, N + 1)).sum(axis=1))


def value(path, *, independent_rows=False, **options):
    game = fgsv.Game(utility, N, fingerprint="small", independent_rows=independent_rows)
    return fgsv.value(game, **{"budget": 200, "batch_size": 16, "ledger": path, "learn": "sizes"} | options)


def content(path):
    """Return all that a ledger says, by reading every record."""
    with Ledger(path, read_only=True) as ledger:
        games = [(number, game.fingerprint, game.n_players) for number, game in ledger.games()]
        batches = [
            (batch.id, batch.game, batch.coalitions, batch.outcome.values.tobytes(), batch.outcome.failures)
            for batch in ledger.batches()
        ]
        return games, batches, ledger.runs()


@pytest.fixture(params=[False, True], ids=["batches", "rows"])
def whole(request, tmp_path):
    path = tmp_path / "whole.db"
    value(path, independent_rows=request.param)
    return path


def damaged(path, data):
    """Return whether a damaged file is found out; where it is not, what it says must be right."""
    copy = path.with_name("damaged.db")
    copy.write_bytes(data)
    try:
        found = content(copy)
    except LedgerError as error:
        named, untouched = str(copy) in str(error), copy.read_bytes() == data
    else:
        assert found == content(path)
        return False
    finally:
        for left in path.parent.glob("damaged.db-*"):
            left.unlink()
    assert named
    assert untouched
    return True


def test_no_bit_flip_goes_by_with_a_wrong_value(whole):
    data = whole.read_bytes()
    rng = np.random.default_rng(0)
    detected = 0
    used = np.flatnonzero(np.frombuffer(data, np.uint8))  # half of the flips where something is written
    for position in [*rng.integers(0, len(data), 120).tolist(), *rng.choice(used, 120).tolist()]:
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(rng.integers(8))
        detected += damaged(whole, bytes(flipped))
    assert 60 < detected < 240  # the others fell on bytes that mean nothing


def test_truncation_at_every_page_is_found_out(whole):
    data = whole.read_bytes()
    page = int.from_bytes(data[16:18], "big")
    assert len(data) % page == 0
    for end in range(page, len(data), page):
        assert damaged(whole, data[:end]), f"cut at page {end // page}"
        assert damaged(whole, data[: end - 100])


def test_a_run_does_not_write_to_a_damaged_file(whole):
    data = bytearray(whole.read_bytes())
    used = np.flatnonzero(np.frombuffer(data, np.uint8))
    data[used[len(used) // 2]] ^= 255
    whole.write_bytes(data)
    with pytest.raises(LedgerError):
        value(whole)
    assert whole.read_bytes() == data


@pytest.mark.parametrize("kind", ["text", "other database", "newer", "older"])
def test_a_file_that_is_no_ledger_is_left_as_it_is(tmp_path, kind):
    path = tmp_path / "run.db"
    if kind == "text":
        path.write_text("group,value\n" * 500)
    else:
        with sqlite3.connect(path) as db:
            if kind == "other database":
                db.execute("CREATE TABLE customers (name TEXT)")
        db.close()
        if kind in ("newer", "older"):
            value(path)
            with sqlite3.connect(path) as db:
                db.execute(f"PRAGMA user_version = {SCHEMA + (1 if kind == 'newer' else -1)}")
            db.close()
    before = path.read_bytes()
    expected = {"text": "not a ledger", "other database": "not a ledger"}
    expected |= {"newer": "install a newer fgsv", "older": "before version 1.0, make it again"}
    for read_only in (False, True):
        with pytest.raises(LedgerError, match=expected[kind]):
            Ledger(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_second_driver_is_refused_and_readers_are_not(tmp_path):
    path = tmp_path / "run.db"
    rounds = fgsv.iterate(fgsv.Game(utility, N, fingerprint="small"), budget=200, ledger=path, learn="sizes")
    first = next(rounds)
    with pytest.raises(LedgerError, match="another run is using it"):
        value(path)
    with Ledger(path, read_only=True) as ledger:
        seen = sum(len(batch.outcome.values) for batch in ledger.batches())
        assert seen == first.n_evaluations
        assert ledger.runs()[0].ended is None
        *_, last = rounds  # a reader does not stop the run either
    assert last.end.detail == "budget of 200 reached"
    assert value(path, batch_size=None).values.tobytes() == last.values.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["run.db"]


def test_a_run_that_begins_beside_a_reader_says_what_to_close_and_a_forgotten_reader_is_closed(tmp_path):
    path = tmp_path / "run.db"
    value(path)
    reader = Ledger(path, read_only=True)
    with pytest.raises(LedgerError, match="it is open, for reading or in another run: close it there"):
        value(path)
    del reader
    value(path)
    Ledger.__new__(Ledger).__del__()  # one that was never opened


def test_a_missing_folder_or_file_is_said_so(tmp_path):
    with pytest.raises(LedgerError, match="does not exist"):
        value(tmp_path / "nowhere" / "run.db")
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "run.db", read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder_or_a_device_is_no_ledger(tmp_path, read_only):
    for path in (tmp_path, Path(os.devnull)):
        with pytest.raises(WrongLedger, match="is not a file"):
            Ledger(path, read_only=read_only)


DRIVER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_ledger_files as files
files.value(sys.argv[1], budget=int(sys.argv[2]))
"""


def drive(path, budget, **options):
    command = [sys.executable, "-c", DRIVER, str(path), str(budget)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path):
    path = tmp_path / "run.db"
    value(path, budget=100)
    before = content(path)

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 4096,) * 2)

    done = drive(path, 900, preexec_fn=small_files)
    assert done.returncode == 1
    assert "LedgerError: cannot write to the ledger" in done.stderr
    after = content(path)
    assert after[0] == before[0]
    assert after[1][: len(before[1])] == before[1]
    assert value(path, budget=900).values.tobytes() == value(None, budget=900).values.tobytes()


def test_a_database_that_is_full_says_so(tmp_path):
    with Ledger(tmp_path / "run.db") as ledger:
        number = ledger.game(fgsv.Game(utility, N, fingerprint="small"))
        pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
        ledger._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerError, match=r"the disk is full\. All earlier evaluations are in the file"):
            ledger.begin_run(number, {"note": "x" * 100_000})


@contextmanager
def somebody_else():
    """Act as a user to whom permissions apply: root may write anything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_file_is_an_error_for_a_driver_and_none_for_a_reader():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        result = value(path)
        before = path.read_bytes()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        with somebody_else():
            with pytest.raises(LedgerError, match="cannot be written"):
                value(path)
            assert verify(result, path) == []
        Path(folder).chmod(0o755)
        assert path.read_bytes() == before
