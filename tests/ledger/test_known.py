"""Known evaluations: what an earlier ledger knows about a game whose players have joined, left or moved."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.game import Game
from fgsv.ledger import Ledger, Purpose, WrongLedger, known
from fgsv.ledger.earlier import matched_players
from fgsv.ledger.tools import merge

WEIGHTS = {name: (number + 1) ** 1.5 for number, name in enumerate("abcdefgh")}


def market(players, frame="roots", *, independent_rows=False):
    """Return the game in which a coalition is worth the root of what its players weigh, whoever else is there."""
    weights = np.array([WEIGHTS[player] for player in players])

    def function(masks):
        return np.sqrt(masks @ weights)

    return Game(function, len(players), frame=frame, players=list(players), independent_rows=independent_rows)


def run(path, players, **options):
    """Value a game with a ledger."""
    return fgsv.value(market(players), ledger=path, **{"budget": 40, "seed": 1} | options)


@pytest.mark.parametrize("players", ["abcdef", "abdf", "fedcba", "bgadh", "fgh"])
def test_known_values_are_those_of_the_new_game(tmp_path, players):
    run(tmp_path / "march.db", "abcdef")
    game = market(players)
    found = known(game, [tmp_path / "march.db"])
    masks = found.masks()
    np.testing.assert_allclose(found.values[:, 0], game(masks), rtol=1e-12)
    assert len(np.unique(masks, axis=0)) == len(found)
    # every recorded coalition without those who left, and nothing else
    with Ledger(tmp_path / "march.db", read_only=True) as ledger:
        [(number, _)] = ledger.games()
        sets = set()
        for batch in ledger.batches(number):
            for mask in fgsv.coalitions.unpack(6, batch.coalitions).masks():
                sets.add(frozenset(np.array(list("abcdef"))[mask]))
    expected = {each for each in sets if each <= set(players)}
    assert {frozenset(np.array(list(players))[mask]) for mask in masks} == expected
    assert found.had.tolist() == [player in "abcdef" for player in players]
    assert (found.n_left, found.n_joined) == (len(set("abcdef") - set(players)), len(set(players) - set("abcdef")))


def test_the_order_of_ledgers_and_of_writing_does_not_matter(tmp_path):
    run(tmp_path / "a.db", "abcde")
    run(tmp_path / "b.db", "abcdf", seed=2)
    game = market("abdefg")
    one = known(game, [tmp_path / "a.db", tmp_path / "b.db"])
    other = known(game, [tmp_path / "b.db", tmp_path / "a.db"])
    assert one.sha256 == other.sha256
    merge(tmp_path / "both.db", [tmp_path / "b.db", tmp_path / "a.db"])
    assert known(game, [tmp_path / "both.db"]).sha256 == one.sha256
    assert known(game, [tmp_path / "a.db"]).sha256 != one.sha256


def test_each_coalition_is_found_and_no_other(tmp_path):
    run(tmp_path / "march.db", "abcdef", budget=40)
    found = known(market("abcdef"), [tmp_path / "march.db"])
    every = np.array(list(itertools.product([False, True], repeat=6)))
    rows = found.find(Coalitions.from_masks(every))
    assert (rows >= 0).sum() == len(found) < 64
    assert np.array_equal(found.masks()[rows[rows >= 0]], every[rows >= 0])


def test_equal_players_are_matched_in_order():
    a, b, c = (bytes([number]) * 16 for number in range(3))
    assert matched_players(a + b + a + c + a, a + c + a + b).tolist() == [0, 3, 2, 1, -1]
    assert matched_players(b"", a).tolist() == []


def test_equal_rows_are_players_that_all_count(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    X[5] = X[3]
    y = X @ [1.0, 2.0]
    rest = rng.normal(size=(20, 2)), rng.normal(size=20)
    fgsv.value(fgsv.utility(Ridge(), X, y, *rest), budget=60, ledger=tmp_path / "march.db")
    order = [7, 5, 3, 0, 1, 2]
    game = fgsv.utility(Ridge(), X[order], y[order], *rest)
    found = known(fgsv.game.as_game(game), [tmp_path / "march.db"])
    np.testing.assert_allclose(found.values[:, 0], game(found.masks()), rtol=1e-9)
    assert "same content" in found.notes[0]
    assert found.n_left == 6


def test_a_unit_is_the_same_whatever_the_order_of_its_rows(tmp_path):
    rng = np.random.default_rng(0)
    X, units = rng.normal(size=(12, 2)), np.arange(12) // 3
    y = X @ [1.0, 2.0]
    rest = rng.normal(size=(20, 2)), rng.normal(size=20)
    fgsv.value(fgsv.utility(Ridge(), X, y, *rest, units=units), budget=16, ledger=tmp_path / "march.db")
    order = rng.permutation(12)
    game = fgsv.utility(Ridge(), X[order], y[order], *rest, units=units[order])
    found = known(fgsv.game.as_game(game), [tmp_path / "march.db"])
    assert (found.n_left, found.n_joined, len(found)) == (0, 0, 16)
    np.testing.assert_allclose(found.values[:, 0], game(found.masks()), rtol=1e-9)


def test_a_unit_of_texts_is_the_same_whatever_their_order(tmp_path):
    tests = {"all": ["the cat sat on a mat", "a dog sat"]}
    authors = [["the cat sat", "on a mat"], ["a dog sat", "the dog"], ["a cat"]]
    fgsv.value(fgsv.utilities.language.ngram(authors, tests), budget=8, ledger=tmp_path / "march.db")
    game = fgsv.utilities.language.ngram([each[::-1] for each in authors[::-1]], tests)
    found = known(game, [tmp_path / "march.db"])
    assert (found.n_left, found.n_joined, len(found)) == (0, 0, 8)
    np.testing.assert_allclose(found.values[:, 0], game(found.masks()), rtol=1e-12)


def test_a_player_of_text_is_the_same_beside_a_longer_one():
    def digests(words, labels):
        table = pd.DataFrame({"x": np.arange(len(words), dtype=float), "word": words})
        steps = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["word"]), remainder="passthrough")
        given = fgsv.utility(
            make_pipeline(steps, LogisticRegression()), table, labels, table, labels, scoring="accuracy", empty=0.0
        )
        return given.players()

    short = digests(["a", "b", "a"], ["no", "yes", "no"])
    longer = digests(["a", "b", "a much longer word"], ["no", "yes", "perhaps"])
    assert short[:32] == longer[:32]
    assert short[32:] != longer[32:]


def test_what_changed_is_named(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 2)), rng.normal(size=8)
    rest = rng.normal(size=(10, 2)), rng.normal(size=10)
    fgsv.value(fgsv.utility(Ridge(), X, y, *rest), budget=60, ledger=tmp_path / "march.db")
    others = {
        "model": fgsv.utility(Ridge(alpha=2.0), X[:7], y[:7], *rest),
        "score": fgsv.utility(Ridge(), X[:7], y[:7], *rest, scoring="neg_mean_squared_error", empty=0.0),
        "test rows": fgsv.utility(Ridge(), X[:7], y[:7], rest[0][:9], rest[1][:9], empty=0.0),
        "worth of nothing": fgsv.utility(Ridge(), X[:7], y[:7], *rest, empty=-1.0),
    }
    for name, game in others.items():
        with pytest.raises(WrongLedger, match=f"nothing in .* can be reused: .*the {name} changed"):
            fgsv.value(game, budget=60, start=tmp_path / "march.db")


def test_a_table_opened_without_its_ledger_is_told_how_to_open_it(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"]).assign(provider=["north", "south"] * 40)
    rows["y"] = rows["a"] + 0.1 * rows["b"]
    columns = {"group": "provider", "target": "y", "test": rows[60:]}
    march = fgsv.open_table(rows[:50], **columns)
    fgsv.value(march.game, march.partition, budget=60, ledger=tmp_path / "march.db")
    april = fgsv.open_table(rows[:60], **columns)
    with pytest.raises(WrongLedger, match=r"the preprocessing changed; .*; fgsv.open_table\(..., start=LEDGER\)"):
        fgsv.value(april.game, april.partition, budget=60, start=tmp_path / "march.db")
    kept = fgsv.open_table(rows[:60], **columns, start=tmp_path / "march.db")
    assert fgsv.value(kept.game, kept.partition, budget=60, start=tmp_path / "march.db").n_known > 0


def test_bad_starts(tmp_path):
    run(tmp_path / "march.db", "abcdef")
    with pytest.raises(WrongLedger, match="frame was 'roots', now 'squares'"):
        known(market("abc", "squares"), [tmp_path / "march.db"])
    with pytest.raises(WrongLedger, match="does not say what its players are"):
        known(Game(len, 3), [tmp_path / "march.db"])
    with pytest.raises(WrongLedger, match="does not say what its values depend on"):
        known(Game(len, 3, fingerprint="other"), [tmp_path / "march.db"])
    with pytest.raises(WrongLedger, match="there is no ledger"):
        known(market("abc"), [tmp_path / "none.db"])
    Ledger(tmp_path / "empty.db").close()
    with pytest.raises(WrongLedger, match="has no evaluations"):
        known(market("abc"), [tmp_path / "empty.db"])
    with pytest.raises(WrongLedger, match="both the ledger of this run and one to start from"):
        run(tmp_path / "march.db", "abc", start=tmp_path / "march.db")


def test_only_draws_by_a_recorded_law_are_draws(tmp_path):
    """An audit's coalitions, the ends, and draws without a law are values and no more."""
    game = market("abcdef")
    masks = np.array([[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0]], dtype=bool)
    ends = Coalitions.ends(6).masks()

    def record(ledger, number, rows, run):
        batch = fgsv.coalitions.pack(Coalitions.from_masks(rows))
        outcome = fgsv.ledger.Outcome(game(rows)[:, None], 0.1)
        ledger.record(number, [(batch, outcome)], run=run)

    with Ledger(tmp_path / "march.db") as ledger:
        number = ledger.game(game)
        settings = {"seed": 0, "method": "gp", "budget": 10}
        first = ledger.begin_run(number, settings)
        ledger.add_law(first, 0, {"sizes": [1, 2]})
        record(ledger, number, np.concatenate([ends, masks[:2]]), first)
        again = ledger.begin_run(number, settings | {"budget": 20})  # the same run, resumed
        record(ledger, number, masks[2:3], again)
        audit = ledger.begin_run(number, {}, Purpose.AUDIT)
        record(ledger, number, np.concatenate([masks[1:2], masks[3:]]), audit)
        without = ledger.begin_run(number, {"seed": 5})
        record(ledger, number, ~masks[:1], without)
    found = known(market("abcdefg"), [tmp_path / "march.db"])
    assert found.runs_had.tolist() == [[True] * 6 + [False]]
    rows = found.find(Coalitions.from_masks(np.concatenate([masks, ~masks[:1], ends]) @ np.eye(6, 7, dtype=bool)))
    assert (rows >= 0).all()
    assert found.run[rows].tolist() == [0, -1, 0, -1, -1, -1, -1]  # the second was also asked for by the audit


@pytest.mark.parametrize("independent_rows", [False, True])
def test_a_draw_counts_as_one_only_where_it_is_certain(tmp_path, independent_rows):
    """A run that begins or continues beside the records of another may have drawn some of these."""
    game = market("abcdefgh", independent_rows=independent_rows)

    def drawn(ledger):
        found = known(game, [tmp_path / ledger])
        by_run = [{row.tobytes() for row in found.packed[found.run == run]} for run in range(len(found.runs_had))]
        return [each for each in by_run if each]

    for seed, budget in ((1, 60), (2, 40)):
        fgsv.value(game, ledger=tmp_path / f"{seed}.db", seed=seed, budget=budget)
    alone = drawn("1.db") + drawn("2.db")
    for seed, budget in ((1, 40), (2, 40)):
        fgsv.value(game, ledger=tmp_path / "both.db", seed=seed, budget=budget)
    beside = drawn("both.db")
    # in batches that are found as a whole, the second run found nothing: all its evaluations are its own
    assert len(beside) == (1 if independent_rows else 2)
    fgsv.value(game, ledger=tmp_path / "both.db", seed=1, budget=60)
    later = drawn("both.db")
    assert sum(map(len, beside)) >= sum(map(len, later)) > 20  # of what was drawn last, nothing is certain
    assert all(any(each <= one for one in alone) for each in beside + later)


def test_a_name_that_is_no_unicode_has_a_digest(tmp_path):
    """As of a file's name that the system could not decode."""
    name = b"n\xf6rd".decode(errors="surrogateescape")
    game = Game(lambda masks: masks.sum(axis=1), 2, frame="sum", players=[name, "south"])
    fgsv.value(game, [name, "south"], ledger=tmp_path / "run.db")
    assert len(known(game, [tmp_path / "run.db"])) == 4
