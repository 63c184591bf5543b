"""Forgetting: evaluations of withdrawn players are gone from the file, and the others stay."""

import hashlib
import sqlite3
import struct
from dataclasses import replace

import numpy as np
import pytest

import fgsv
from fgsv.coalitions import unpack_masks
from fgsv.game import Game, provider_digest
from fgsv.ledger import Ledger, LedgerError, WrongLedger, forgetting, known
from fgsv.ledger.forgetting import forget
from fgsv.ledger.tools import merge, summary
from fgsv.partition import Partition
from fgsv.verification.verify import verify

WEIGHTS = {name: (number + 1.25) ** 1.5 for number, name in enumerate("abcdefgh")}


def market(players):
    weights = np.array([WEIGHTS[player] for player in players])
    return Game(lambda masks: np.sqrt(masks @ weights), len(players), frame="roots", players=list(players))


@pytest.fixture
def march(tmp_path):
    path = tmp_path / "march.db"
    return path, fgsv.value(market("abcdef"), budget=50, ledger=path)


def test_nothing_of_a_withdrawn_player_stays(march):
    path, result = march
    found = known(market("abcdef"), [path])
    with_c, without = found.masks()[:, 2], known(market("abdef"), [path])
    secrets = [struct.pack("<d", value) for value in found.values[with_c, 0]]
    before = path.read_bytes()
    assert hashlib.sha256(b"c").digest()[:16] in before
    assert all(secret in before for secret in secrets)
    erased = forget(path, ["c"])
    assert erased.players == 1
    assert erased.evaluations >= int(with_c.sum())  # some coalitions are in two batches
    after = path.read_bytes()
    assert hashlib.sha256(b"c").digest()[:16] not in after
    assert not any(secret in after for secret in secrets)
    assert without.related is not None
    assert known(market("abdef"), [path]).sha256 == replace(without, related=None).sha256
    again = known(market("abcdef"), [path])
    assert len(again) == int((~with_c).sum())
    assert again.n_left == 1
    with Ledger(path, read_only=True) as ledger:  # opening checks every record
        assert len(ledger.games()) == 1
        counts = summary(ledger).iloc[0]
        assert (counts["failed"], counts["forgotten"]) == (0, erased.evaluations)
    assert verify(result, path) != []
    assert forget(path, ["c"]).players == 0


def test_names_that_can_be_read_once_are_forgotten_too(march):
    path, _ = march
    assert forget(path, iter(["c", "d"])).players == 2


def test_a_game_with_forgotten_values_can_be_run_again(march):
    path, result = march
    forget(path, ["a"])
    again = fgsv.value(market("abcdef"), budget=50, ledger=path)
    assert again.values.tobytes() == result.values.tobytes()


def test_keep_the_players_of_the_next_month(march, tmp_path):
    path, _ = march
    april = tmp_path / "april.db"
    fgsv.value(market("abdeg"), budget=34, start=path, ledger=april)
    for each in (path, april):
        forget(each, keep=april)
    assert known(market("abcdef"), [path]).n_left == 2
    assert len(known(market("abdeg"), [april])) > 0
    assert all(
        hashlib.sha256(each).digest()[:16] not in april.read_bytes() + path.read_bytes() for each in (b"c", b"f")
    )
    assert forget(april, [hashlib.sha256(b"g").hexdigest()[:32]]).players == 1  # by digest
    for both in ({}, {"players": ["g"], "keep": path}):
        with pytest.raises(ValueError, match=r"which players to forget: name them with .* or .* keep, .*; not both"):
            forget(april, **both)


def test_forget_a_provider_by_name(tmp_path):
    """Its players in any run of the ledger go, also from the evaluations that a later run took over."""
    march, april = tmp_path / "march.db", tmp_path / "april.db"
    fgsv.value(market("abcdef"), ["Ash", "Ash", "Birch", "Birch", "Cedar", "Cedar"], budget=50, ledger=march)
    fgsv.value(market("abefg"), ["Ash", "Ash", "Cedar", "Cedar", "Date"], budget=30, start=march, ledger=april)
    with pytest.raises(WrongLedger, match="'Elm': is it spelt as in the table"):
        forget(april, providers=["Elm"])
    before = len(known(market("abef"), [april]))
    assert forget(april, providers=["Birch"]).players == 2
    assert not any(hashlib.sha256(each).digest()[:16] in april.read_bytes() for each in (b"c", b"d"))
    assert len(known(market("abef"), [april])) == before


def test_an_audit_in_the_ledger_does_not_change_whose_players_are_forgotten(tmp_path):
    """The players of its runs are groups: they must not be taken for the first players of the game."""
    path, game, owners = tmp_path / "march.db", market("abcdef"), ["Ash", "Ash", "Birch", "Birch", "Cedar", "Cedar"]
    fgsv.audit.audit(game, fgsv.value(game, owners, budget=50, ledger=path), ledger=path)
    assert known(game, [path]).owners == tuple(map(provider_digest, owners))
    assert forget(path, providers=["Birch"]).players == 2
    kept = [hashlib.sha256(each.encode()).digest()[:16] in path.read_bytes() for each in "abcdef"]
    assert kept == [True, True, False, False, True, True]


def test_trainings_with_other_seeds_are_forgotten_too(tmp_path):
    path, game = tmp_path / "march.db", market("abcdef")

    def again(number):
        return lambda masks: game.function(masks) + number / 1000 + masks @ np.full(6, 1e-4)

    fgsv.value(replace(game, retrain=again), budget=50, ledger=path)
    assert forget(path, keep=path).players == 0
    assert forget(path, ["c"]).players == 1
    with Ledger(path, read_only=True) as ledger:
        [number] = [number for number, each in ledger.games() if each.fingerprint.endswith("trained again")]
        outcomes = [(unpack_masks(14, each.coalitions), each.outcome.values) for each in ledger.batches(number)]
    masks, values = (np.concatenate(each) for each in zip(*outcomes, strict=True))
    np.testing.assert_array_equal(np.isnan(values[:, 0]), masks[:, 2])


def test_a_provider_whose_players_one_run_does_not_tell_is_not_forgotten_in_part(tmp_path):
    """A run with players of several owners does not record who owns which, so its players could stay unnoticed."""
    march, april = tmp_path / "march.db", tmp_path / "april.db"
    fgsv.value(market("abcdef"), ["Ash", "Ash", "Birch", "Birch", "Cedar", "Cedar"], budget=50, ledger=march)
    owned = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]])
    shared = Partition(("Ash", "Birch"), owned)
    fgsv.value(market("abdfg"), shared, budget=20, start=march, ledger=april)
    before = april.read_bytes()
    with pytest.raises(WrongLedger, match=r"'Birch', because some players have several owners.*nothing was erased"):
        forget(april, providers=["Birch"])
    assert april.read_bytes() == before
    assert forget(april, providers=["Cedar"]).players == 2


def test_who_was_evaluated_again_can_withdraw_again(march):
    path, _ = march
    digest, n_known = hashlib.sha256(b"c").digest()[:16], len(known(market("abcdef"), [path]))
    first = forget(path, ["c"])
    fgsv.value(market("abcdef"), budget=50, ledger=path)
    assert len(known(market("abcdef"), [path])) == n_known
    assert forget(path, ["c"]) == first
    assert digest not in path.read_bytes()


def test_who_was_forgotten_does_not_come_back_from_a_copy(march, tmp_path):
    path, _ = march
    copy, both, april = tmp_path / "copy.db", tmp_path / "both.db", tmp_path / "april.db"
    copy.write_bytes(path.read_bytes())
    first = forget(path, ["c"])
    digest, before = hashlib.sha256(b"c").digest()[:16], copy.read_bytes()
    words = r"1 player forgotten in .*march\.db, but still in .*copy\.db"
    for into, sources in ((path, [copy]), (copy, [path]), (both, [path, copy]), (both, [copy, path])):
        with pytest.raises(WrongLedger, match=words):
            merge(into, sources)
    with pytest.raises(WrongLedger, match=words):
        fgsv.value(market("abdefg"), budget=50, start=copy, ledger=path)
    for start in ([path, copy], [copy, path]):
        with pytest.raises(WrongLedger, match=words):
            fgsv.value(market("abdefg"), budget=50, start=start)
    assert digest not in path.read_bytes()
    assert copy.read_bytes() == before
    assert not both.exists()
    fgsv.value(market("abdefg"), budget=50, start=copy, ledger=april)  # a ledger that knows of no erasure
    assert forget(copy, ["c"]) == first
    merge(both, [path, copy])
    assert digest not in both.read_bytes()


def test_a_file_that_could_not_be_written_anew_is_when_forget_runs_again(march, monkeypatch):
    path, _ = march
    tried = []

    def full(path):
        tried.append(path)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(forgetting, "closing", lambda db: db.close() or full(path))
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"still has traces of them .*is full.: run the same command again"):
            forget(path, ["c"])
    assert tried == [path, path]


def test_a_player_or_a_ledger_that_is_not_there_is_said_so(march, tmp_path):
    path, _ = march
    assert forget(path, ["c", "Zoe"]).unknown == ("Zoe",)
    assert forget(path, ["c"]).unknown == ("c",)
    with pytest.raises(WrongLedger, match="there is no ledger"):
        forget(tmp_path / "none.db", ["c"])
    assert not (tmp_path / "none.db").exists()
