"""Who came first: registration times decide it, and a copy counts only beside its original."""

import json
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from oracles import GAMES, shapley

import fgsv
from fgsv.audit import AuditPlan, audit_table, find_copies, find_passages, table_audit, with_precedence
from fgsv.data.players import ranks_of
from fgsv.data.reading import TableError, TableFile
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.recording import OutOfTime
from fgsv.game import as_game

PAIRS = ["provider", "other", "exact", "near"]


@pytest.mark.parametrize("name", ["airport", "majority"])
def test_values_are_those_of_the_definition(name):
    game, n = GAMES[name], 10
    origin = np.array([0, 1, 2, 0, 4, 1, 6, 0, 8, 9])

    def restricted(masks):
        counted = np.array([[held[i] and held[origin[i]] for i in range(n)] for held in masks])
        return game(counted)

    found = fgsv.exact(with_precedence(game, origin))
    np.testing.assert_allclose(found.player_values, shapley(restricted, n), atol=1e-12)
    nobody, everybody = game(np.array([[False] * n, [True] * n]))
    assert found.values.sum() == pytest.approx(everybody - nobody, abs=1e-12)


def test_an_original_earns_what_it_would_without_its_copy_and_as_much_as_the_copy():
    game = GAMES["unanimity"]
    found = fgsv.exact(with_precedence(game, [*range(9), 4])).player_values
    alone = fgsv.exact(fgsv.Game(lambda masks: game(np.pad(masks, ((0, 0), (0, 1)))), 9)).player_values
    assert found[4] - found[9] == pytest.approx(alone[4], abs=1e-12)


def test_a_useless_copy_earns_nothing_and_moves_nobody():
    weights = np.array([3.0, 5.0, 2.0])

    def game(masks):  # the fourth row is the first again
        held = masks[:, :3].copy()
        held[:, 0] |= masks[:, 3]
        return np.sqrt(held @ weights)

    plain = fgsv.exact(fgsv.Game(lambda masks: np.sqrt(masks @ weights), 3)).values
    np.testing.assert_allclose(fgsv.exact(with_precedence(game, [0, 1, 2, 0])).values, [*plain, 0], atol=1e-12)
    assert fgsv.exact(fgsv.Game(game, 4)).values[3] > 0.1


def test_rows_of_units_count_one_by_one():
    game, units = GAMES["airport"], np.array([0, 0, 0, 1, 1, 2, 2, 3, 3, 3])
    origin = np.array([0, 1, 2, 0, 4, 5, 1, 7, 8, 4])

    def restricted(masks):
        rows = masks[:, units]
        return game(rows & rows[:, origin])

    found = fgsv.exact(with_precedence(game, origin, units))
    np.testing.assert_allclose(found.player_values, shapley(restricted, 4), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 3],), "or its own"),
        (([0.5, 1.0],), "or its own"),
        (([0, 0, 1],), "row 2 descends from row 1, which descends from row 0"),
        (([0, 0, 2], [0, 2, 2]), "without gaps"),
        (([0, 0, 2], [0, 1]), "each of the 3 rows"),
    ],
)
def test_lines_of_descent_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        with_precedence(lambda masks: masks.sum(axis=1), *arguments)


def test_the_first_is_who_registered_first():
    X, groups = np.arange(40.0)[:, None], ["thief"] * 10 + ["b"] * 10 + ["c"] * 20
    X[:8], y = X[10:18], np.zeros(40)
    times = np.append(np.arange(100, 110), np.arange(30))
    assert [{*row} for row in find_copies(X, y, groups).table[["provider", "other"]].to_numpy()] == [{"thief", "b"}]
    found = find_copies(X, y, groups, registered=times)
    assert found.table[PAIRS].to_dict("records") == [{"provider": "thief", "other": "b", "exact": 8, "near": 0}]
    assert found.origin.tolist() == [*range(10, 18), *range(8, 40)]
    assert found.kept.tolist() == [False] * 8 + [True] * 32
    dates = np.full(40, "2025-03-01", dtype="datetime64[D]")
    same = find_copies(X, y, groups, registered=dates).origin  # of equal times, the file's first
    assert same.tolist() == [*range(10), *range(8), *range(18, 40)]
    for wrong in ([1, 2], [np.nan, *range(39)]):
        with pytest.raises(ValueError, match="a time for each of the 40 rows"):
            find_copies(X, y, groups, registered=wrong)
    story = "once upon a time there was a miller who had three sons and a mill and a donkey and a cat"
    texts = find_passages([story, "another tale", story], ["thief", "a", "b"], registered=[2, 0, 1])
    assert texts.copies.origin.tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("column", "ranks"),
    [
        ([3, 1, 2, 1], [2, 0, 1, 0]),
        (["2025-03-02", "2025-03-01", "2025-03-01 08:30", "2025-02-28T23:59:59Z"], [3, 1, 2, 0]),
        (pd.to_datetime(["2025-03-02", "2024-01-01", "2025-03-02", "2023-01-01"]), [2, 1, 2, 0]),
        (["10", "9", "100", "9"], [1, 0, 2, 0]),
    ],
)
def test_times_are_numbers_or_dates(column, ranks):
    table = TableFile(pd.DataFrame({"when": column}), "t.csv", "")
    assert ranks_of(table, "when").tolist() == ranks


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["2025-03-02", "yesterday"], "'yesterday' in row 2: expected numbers"),
        ([1.0, None], "missing values in 1 of 2"),
    ],
)
def test_other_times_are_refused(column, message):
    with pytest.raises(TableError, match=message):
        ranks_of(TableFile(pd.DataFrame({"when": column}), "t.csv", ""), "when")


def market(units):
    """Return eleven rows of three providers for training; the thief, who is first in the file, copies four of b's."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(51, 3)), columns=["a", "b", "c"]).assign(when=range(51), split="train")
    frame.loc[0:3, ["a", "b", "c"]] = frame.loc[4:7, ["a", "b", "c"]].to_numpy()
    frame["y"] = frame[["a", "b", "c"]] @ [1.0, 2.0, -1.0]
    frame["provider"] = ["thief"] * 4 + ["b"] * 4 + ["c"] * 43
    frame.loc[0:3, "when"] = 100
    frame.loc[11:, "split"] = "test"
    return frame.assign(patient=np.minimum(np.arange(51) // units, 51))


def opened(units=2, unit=None, registered=None):
    ignored = [name for name in ("patient", "when") if name not in (unit, registered)]
    options = {"group": "provider", "target": "y", "test_by": "split", "model": "ridge", "ignore": ignored}
    return fgsv.open_table(market(units), **options, unit=unit, registered=registered)


@pytest.mark.parametrize("unit", [None, "patient"])
def test_the_audit_of_a_table_shows_what_the_first_keep(unit):
    table = opened(unit=unit, registered="when")
    assert "when" not in table.rows.features.columns
    assert table.source.columns["registered"] == "when"
    valuation = fgsv.exact(table.game, table.partition)
    plan = AuditPlan.of(table)
    pair = {"provider": "thief", "other": "b", "exact": 4, "near": 0}
    assert plan.copies.table[PAIRS].to_dict("records") == [pair]
    found = audit_table(table, valuation, plan)
    section = next(each for each in found.tables if each.title == "What copying earns")
    assert section.columns == ("group", "share as it is", "first provider keeps", "providers co-own", "precedence")
    truth = differences(table, plan.copies, valuation)
    shares = dict(zip(valuation.names, valuation.shares(), strict=True))
    names = [row[0] for row in section.rows]
    assert names == sorted(names, key=lambda name: -shares[name])
    by_name = {row[0]: row for row in section.rows}
    for remedy, column in zip(truth, range(2, 5), strict=True):
        shown = [by_name[name][column] for name in valuation.names]
        assert shown == [f"{share:+.2%} ± 0.00%" for share in truth[remedy]]
    assert found.n_evaluations <= plan.most(valuation)
    assert found.spent["what copying earns"] <= 4 * 2**11
    json.dumps(found.to_dict())
    # without times, the pair has no direction, and nobody is first
    unknown = AuditPlan.of(opened(unit=unit))
    assert sorted(unknown.copies.table.loc[0, ["provider", "other"]]) == ["b", "thief"]
    assert plan.least == unknown.least + 2 * plan.least_pairs


def differences(table, copies, valuation):
    """Return what the share of each provider is more than under each remedy, by enumeration of each game."""
    units = table.units
    rest = table.game_of(copies.kept)
    players = None if units is None else pd.factorize(units)[0]
    under = {
        "first": fgsv.exact(rest, copies.remedy("first", units)),
        "share": fgsv.exact(rest, copies.remedy("share", units)),
        "precedence": fgsv.exact(with_precedence(table.game_of_units(None), copies.origin, players), table.partition),
    }
    return {name: valuation.shares() - each.shares() for name, each in under.items()}


@pytest.mark.slow
def test_what_copying_earns_is_unbiased_and_its_interval_holds():
    table = opened(registered="when")
    plan, exact = AuditPlan.of(table), fgsv.exact(table.game, table.partition)
    truth = np.array(list(differences(table, plan.copies, exact).values()))
    estimates, inside = [], []
    for seed in range(40):
        valuation = fgsv.value(table.game, table.partition, budget=200, seed=10 * seed, unbiased=True)
        with Evaluator(as_game(table.game)) as access:
            found = table_audit.compared_shares(table, access, valuation, plan.copies, 120, 10 * seed, {})
        estimates.append([each.shares for each in found.values()])
        reach = np.array([each.half_width(0.95) for each in found.values()])
        inside.append(np.abs(estimates[-1] - truth) <= reach)
    errors = np.std(estimates, axis=0, ddof=1) / 40**0.5
    assert (np.abs(np.mean(estimates, axis=0) - truth) < 3.5 * errors).all()
    assert 0.9 <= np.mean(inside) <= 1


def test_an_audit_out_of_time_counts_what_it_used(monkeypatch):
    def interrupted(game, groups, *, budget, max_seconds, seed, unbiased):
        fgsv.value(game, groups, budget=40, seed=seed)
        raise OutOfTime("no time")

    table = opened()
    valuation = fgsv.exact(table.game, table.partition)
    monkeypatch.setattr(table_audit, "value", interrupted)
    found = audit_table(table, valuation, AuditPlan.of(table))
    assert dict(found.spent)["what copying earns"] == 2 * 40
    assert any("before what copying earns was measured" in each for each in found.warnings)


@pytest.mark.parametrize(("limit", "least", "most"), [(None, None, None), (1000, 400, 500)])
def test_what_copying_earns_leaves_half_of_the_time_to_the_rest(monkeypatch, limit, least, most):
    given = []

    def timed(game, groups, *, budget, max_seconds, seed, unbiased):
        given.append(max_seconds)
        return fgsv.value(game, groups, budget=budget, max_seconds=max_seconds, seed=seed)

    table = opened(registered="when")
    monkeypatch.setattr(table_audit, "value", timed)
    found = audit_table(table, fgsv.exact(table.game, table.partition), AuditPlan.of(table), max_seconds=limit)
    assert len(given) == 2  # without copies, and by precedence
    assert all(seconds is None if limit is None else least < seconds <= most for seconds in given)
    assert any(each.title == "What copying earns" for each in found.tables)


def test_the_valuations_of_remedies_are_expected_to_learn_as_the_run_did(monkeypatch):
    from fgsv.pipeline import pipeline, value_data
    from fgsv.planning import Watcher

    class Watch(Watcher):
        def audit_begins(self, n_evaluations, seconds):
            self.seconds = seconds

    def expected(frame):
        clock, watch = count(0, 1000), Watch()  # 1000 seconds pass between two looks at the clock
        monkeypatch.setattr(pipeline, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        table = fgsv.open_table(frame, group="provider", target="y", test_by="split", ignore=["patient", "when"])
        value_data(table, audit=True, watcher=watch, without=False)
        return watch.seconds

    assert expected(market(2)) > 1000
    assert expected(market(2).query("provider != 'thief'")) < 100


def test_texts_have_times_too():
    story = "once upon a time there was a miller who had three sons and a mill and a donkey and a cat"
    rows = [(story, "thief", 9), ("a tale of two cities", "thief", 1), (story, "b", 2), ("the sea is deep", "b", 3)]
    frame = pd.DataFrame(rows, columns=["text", "by", "when"])
    corpus = fgsv.open_text(frame, group="by", test=[frame[["text", "by"]]], registered="when")
    plan = AuditPlan.of(corpus)
    assert plan.copies.table[PAIRS].to_dict("records") == [{"provider": "thief", "other": "b", "exact": 1, "near": 0}]
    assert corpus.game_of_units(None).n_players == 4
    found = audit_table(corpus, fgsv.exact(corpus.game, corpus.partition), plan)
    assert any(each.title == "What copying earns" for each in found.tables)


def test_a_game_of_fresh_training_seeds_keeps_them():
    def noisy(k):
        return lambda masks: masks.sum(axis=1) + np.random.default_rng(k).normal(size=64)[masks @ (1 << np.arange(6))]

    game = with_precedence(fgsv.Game(noisy(0), 6, retrain=noisy), [0, 1, 2, 3, 4, 0])
    masks = np.array([[0, 1, 0, 0, 0, 1], [1, 1, 0, 0, 0, 1]], dtype=bool)
    counted = np.array([[0, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1]], dtype=bool)  # the last row is a copy of the first
    np.testing.assert_array_equal(game.retrain(3)(masks), noisy(3)(counted))
    assert fgsv.value(game, budget=64).seed_noise is not None
