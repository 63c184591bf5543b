"""Ledgers made or changed by somebody who knows how they work: refused, or found by verification."""

import json
import os
import sqlite3
import threading

import numpy as np
import pytest

import fgsv
from fgsv.ledger import Ledger, LedgerError, Purpose, schema
from fgsv.verification import record_checks

N = 8


def utility(masks):
    return np.sqrt((masks * np.arange(1, N + 1)).sum(axis=1))


def game(**options):
    return fgsv.Game(utility, N, fingerprint="small", **options)


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "run.db"
    fgsv.value(game(), [0, 1] * 4, budget=100, batch_size=8, ledger=path)
    return path


def change(path, table, number, **cells):
    """Change cells of a record, with a checksum that fits."""
    names = schema.COLUMNS[table].replace('"', "").split(", ")
    with sqlite3.connect(path) as db:
        row = db.execute(f"SELECT {schema.COLUMNS[table]} FROM {table} WHERE id = ?", (number,)).fetchone()
        new = [cells.get(name, cell) for name, cell in zip(names, row, strict=True)]
        marks = ", ".join("?" * (len(new) + 1))
        db.execute(f"DELETE FROM {table} WHERE id = ?", (number,))
        db.execute(f"INSERT INTO {table} VALUES ({marks})", (*new, schema.checksum(new)))
    db.close()
    return dict(zip(names, row, strict=True))


def test_a_record_under_another_batchs_key_is_refused(ledger):
    with Ledger(ledger, read_only=True) as opened:
        first, second = [batch for batch in opened.batches() if len(batch.outcome.values) == 8][:2]
    one = change(ledger, "batch", first.id, key=b"0" * 16)
    two = change(ledger, "batch", second.id, key=one["key"])
    change(ledger, "batch", first.id, key=two["key"])
    for open_again in (lambda: Ledger(ledger, read_only=True), lambda: fgsv.value(game(), ledger=ledger)):
        with pytest.raises(LedgerError, match="key does not match its coalitions"):
            open_again()


def test_a_record_that_changes_under_an_open_ledger_is_refused(ledger, monkeypatch):
    monkeypatch.setattr(schema, "fault", lambda *arguments: None)
    with Ledger(ledger, read_only=True) as opened:
        first, second = [each for each in opened.batches() if len(each.outcome.values) == 8][1:3]
        asked = second.coalitions
    change(ledger, "batch", first.id, coalitions=asked)
    with Ledger(ledger, read_only=True) as opened, pytest.raises(LedgerError, match="under the key of another batch"):
        opened.find(1, first.coalitions)


NAN = np.full(8, np.nan).tobytes()
FORGED = {
    "a value that is no number": ("batch", {"values": NAN}, "not a finite number"),
    "a failure out of range": ("batch", {"failures": json.dumps({"odd": [99]})}, "failure of coalition 99"),
    "a negative failure": ("batch", {"failures": json.dumps({"odd": [-1]})}, "failure of coalition"),
    "failures that are a list": ("batch", {"failures": "[1]"}, "cannot be read"),
    "a record of no game": ("batch", {"game": 7}, "game 7, which is not in the file"),
    "half a batch": ("batch", {"coalitions": b"\x02\0\0\0"}, "key does not match its coalitions"),
    "settings that are no JSON": ("run", {"settings": "{"}, "settings cannot be read as JSON"),
    "a run of no game": ("run", {"game": 9}, "game 9, which is not in the file"),
    "outputs that are no JSON": ("game", {"outputs": "("}, "outputs cannot be read as JSON"),
    "too few players": ("game", {"players": b"0" * 17}, "players, expected 8"),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_record_that_makes_no_sense_is_refused_by_name(ledger, kind):
    table, cells, words = FORGED[kind]
    change(ledger, table, 2 if table == "batch" else 1, **cells)
    with pytest.raises(LedgerError, match=words):
        Ledger(ledger, read_only=True)


FOREIGN = {
    "a view": "CREATE VIEW extra AS SELECT * FROM batch",
    "a view in place of a table": "ALTER TABLE batch RENAME TO hidden; CREATE VIEW batch AS "
    "WITH RECURSIVE slow(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM slow) SELECT * FROM hidden, slow",
    "a trigger": "CREATE TRIGGER more AFTER INSERT ON run BEGIN DELETE FROM batch; END",
    "a table": "CREATE TABLE extra (x)",
    "an index": "CREATE INDEX extra ON run (game)",
    "a column": "ALTER TABLE run ADD COLUMN extra TEXT",
    "a virtual table": "CREATE VIRTUAL TABLE extra USING fts5(x)",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_with_more_than_the_tables_of_a_ledger_is_refused(ledger, kind):
    with sqlite3.connect(ledger) as db:
        db.executescript(FOREIGN[kind])
    db.close()
    before = ledger.read_bytes()
    for read_only in (False, True):
        with pytest.raises(LedgerError, match="tables, views or triggers that no ledger has"):
            Ledger(ledger, read_only=read_only)
    assert ledger.read_bytes() == before


def test_the_sample_that_is_evaluated_again_cannot_be_known_in_advance(ledger):
    """A game that is honest in the batches of one seed does not pass."""

    def sampled(**options):
        asked = set()
        noted = fgsv.Game(lambda masks: asked.add(masks.tobytes()) or utility(masks), N, fingerprint="small")
        record_checks.verify_records(ledger, noted, sample=3, **options)
        return frozenset(asked)

    assert len({sampled() for _ in range(6)}) > 1
    assert sampled(seed=5) == sampled(seed=5)


def test_who_asked_for_an_evaluation_is_recorded(tmp_path):
    path = tmp_path / "run.db"
    fgsv.value(game(), [0, 1] * 4, budget=60, batch_size=8, ledger=path)
    fgsv.exact(game(), ledger=path)
    fgsv.diagnose(game(), budget=200, ledger=path)
    with Ledger(path, read_only=True) as opened:
        purposes = {run.id: run.purpose for run in opened.runs()}
        asked = {purposes[batch.run] for batch in opened.batches()}
    assert list(purposes.values()) == [Purpose.DRAWS, Purpose.ENUMERATION, Purpose.DIAGNOSIS]
    assert asked == set(purposes.values())


def test_a_second_name_of_the_file_is_refused(ledger):
    os.link(ledger, ledger.with_name("other.db"))
    with pytest.raises(LedgerError, match="2 names"):
        fgsv.value(game(), ledger=ledger)
    ledger.with_name("other.db").unlink()
    fgsv.value(game(), budget=100, batch_size=8, ledger=ledger)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_ledger_that_disappears_under_its_driver_is_noticed(ledger, how):
    content = ledger.read_bytes()

    def vanishing(masks):
        ledger.unlink(missing_ok=True)
        if how == "replaced":
            ledger.write_bytes(content)
        return utility(masks)

    with pytest.raises(LedgerError, match="deleted, moved or replaced during the run"):
        fgsv.value(fgsv.Game(vanishing, N, fingerprint="vanishing"), budget=100, ledger=ledger)


def test_one_ledger_serves_several_threads(tmp_path):
    """Runs of several threads through one object: each is right, and every record is whole."""
    path = tmp_path / "run.db"
    results = {}
    with Ledger(path) as opened:

        def run(seed):
            own = fgsv.Game(utility, N, fingerprint=f"game {seed}")
            results[seed] = fgsv.value(own, budget=100, batch_size=4, seed=seed, ledger=opened)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for seed in range(4):
        alone = fgsv.value(game(), budget=100, batch_size=4, seed=seed)
        assert results[seed].values.tobytes() == alone.values.tobytes()
    with Ledger(path, read_only=True) as opened:
        assert len(opened.games()) == 4
