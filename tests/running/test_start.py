"""Runs that start from earlier ledgers: what is known is not evaluated, not counted, and taken over."""

import itertools

import numpy as np
import pytest

import fgsv
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.start import is_worth
from fgsv.evaluation.views import by_groups, by_precedence
from fgsv.game import Game, Precedence
from fgsv.ledger import Ledger, known
from fgsv.ledger.tools import summary
from fgsv.methods.known import Known
from fgsv.running.run import iterate
from fgsv.verification.verify import verify

WEIGHTS = {name: (number + 1) ** 1.5 for number, name in enumerate("abcdefghijkl")}


def market(players, calls=None, *, independent_rows=False):
    """Return the game in which a coalition is worth the root of what its players weigh, whoever else is there."""
    weights = np.array([WEIGHTS[player] for player in players])

    def function(masks):
        if calls is not None:
            calls.extend([frozenset(np.array(list(players))[mask]) for mask in masks])
        return np.sqrt((masks * weights).sum(axis=1))

    return Game(function, len(players), frame="roots", players=list(players), independent_rows=independent_rows)


OPTIONS = {"method": "permutation", "budget": 250, "seed": 3}


@pytest.mark.parametrize("independent_rows", [False, True])
def test_what_is_known_is_neither_evaluated_nor_counted(tmp_path, independent_rows):
    old, new = [], []
    fgsv.value(market("abcdefgh", old, independent_rows=independent_rows), ledger=tmp_path / "march.db", **OPTIONS)
    game = market("abcdfgi", new, independent_rows=independent_rows)
    result = fgsv.value(game, start=tmp_path / "march.db", ledger=tmp_path / "april.db", **OPTIONS)
    assert not set(old) & set(new)
    assert result.n_known > 0
    assert result.n_evaluations <= OPTIONS["budget"]
    if not independent_rows:
        assert len(new) == result.n_evaluations
    exact = fgsv.exact(market("abcdfgi"))
    assert np.abs(result.values - exact.values).max() < 5 * result.stderr.max()


@pytest.mark.parametrize("method", ["gp", "permutation", "kernelshap"])
def test_same_seed_same_bits_killed_or_not_and_verified_from_the_new_ledger_alone(tmp_path, method):
    options = OPTIONS | {"method": method, "budget": 300}
    fgsv.value(market("abcdefgh"), ledger=tmp_path / "march.db", **options)
    april = {"start": tmp_path / "march.db", **options}
    plain = fgsv.value(market("bcdefghijkl"), **april)
    once = fgsv.value(market("bcdefghijkl"), ledger=tmp_path / "april.db", **april)
    rounds = iterate(market("bcdefghijkl"), ledger=tmp_path / "cut.db", **april)
    list(itertools.islice(rounds, 2))
    rounds.close()
    resumed = fgsv.value(market("bcdefghijkl"), ledger=tmp_path / "cut.db", **april)
    for each in (once, resumed):
        assert each.values.tobytes() == plain.values.tobytes()
        assert (each.n_evaluations, each.n_known) == (plain.n_evaluations, plain.n_known)
    assert once.settings.start == plain.settings.start is not None
    (tmp_path / "march.db").unlink()
    loaded = tmp_path / "april.json"
    once.save(loaded)
    for ledger in ("april.db", "cut.db"):
        found = verify(fgsv.Valuation.load(loaded), tmp_path / ledger)
        assert found == []
    fgsv.ledger.tools.merge(tmp_path / "all.db", [tmp_path / "april.db"])
    assert verify(once, tmp_path / "all.db") == []


def test_the_next_month_needs_the_last_ledger_alone(tmp_path):
    fgsv.value(market("abcdef"), ledger=tmp_path / "march.db", **OPTIONS)
    fgsv.value(market("abcdeg"), start=tmp_path / "march.db", ledger=tmp_path / "april.db", **OPTIONS)
    may = market("abcdeh")
    both = fgsv.ledger.known(may, [tmp_path / "march.db", tmp_path / "april.db"])
    alone = fgsv.ledger.known(may, [tmp_path / "april.db"])
    assert alone.sha256 == both.sha256
    assert alone.n_recorded == both.n_recorded
    with Ledger(tmp_path / "april.db", read_only=True) as ledger:
        assert list(summary(ledger)["players"]) == [6, 6]


def test_a_run_that_draws_nothing_new_ends(tmp_path):
    game = market("abc")
    fgsv.exact(game, ledger=tmp_path / "march.db")
    result = fgsv.value(game, method="permutation", budget=250, start=tmp_path / "march.db")
    assert result.n_evaluations == 0
    assert result.n_known == 2**3
    assert result.end.reason == "exhausted"
    np.testing.assert_allclose(result.values, fgsv.exact(game).values, atol=5 * result.stderr.max() + 1e-12)


def test_what_it_starts_from_is_fixed_at_the_beginning(tmp_path):
    fgsv.value(market("abcdefgh"), ledger=tmp_path / "march.db", **OPTIONS)
    first = fgsv.value(market("abcdefg"), start=tmp_path / "march.db", **OPTIONS)
    fgsv.value(market("abcdefgh"), ledger=tmp_path / "march.db", **OPTIONS | {"budget": 500})
    second = fgsv.value(market("abcdefg"), start=tmp_path / "march.db", **OPTIONS)
    assert first.settings.start != second.settings.start
    fgsv.value(market("abcdefg"), start=tmp_path / "march.db", ledger=tmp_path / "april.db", **OPTIONS)
    with pytest.raises(fgsv.ledger.WrongLedger, match="does not record the evaluations"):
        verify(first, tmp_path / "april.db")


@pytest.mark.parametrize("among_others", [False, True])
def test_an_earlier_run_that_goes_on_later_changes_nothing_for_what_started_from_it(tmp_path, among_others):
    """Also if something else is in its ledger, so that the number of its evaluations decides what it drew."""
    march, april, old, new = (
        tmp_path / "march.db",
        tmp_path / "april.db",
        market("abcdefghijk"),
        market("abcdefghijkl"),
    )
    if among_others:
        fgsv.value(old, method="permutation", budget=250, seed=9, ledger=march)
    fgsv.value(old, budget=100, seed=0, ledger=march)
    result = fgsv.value(new, budget=100, seed=1, ledger=april, start=march)
    fgsv.value(old, budget=400, seed=0, ledger=april)
    assert verify(result, april) == []


def test_a_ledger_that_took_over_a_game_says_nothing_about_its_results(tmp_path):
    march = fgsv.value(market("abcdefgh"), ledger=tmp_path / "march.db", **OPTIONS)
    fgsv.value(market("abcdefg"), start=tmp_path / "march.db", ledger=tmp_path / "april.db", **OPTIONS)
    assert not verify(march, tmp_path / "march.db").on_trust
    found = verify(march, tmp_path / "april.db")
    assert list(found) == []
    assert {"partition.names", "partition.owners", "settings.seed"} <= set(found.on_trust)


def test_an_altered_count_of_known_evaluations_is_found(tmp_path):
    from dataclasses import replace

    fgsv.value(market("abcdefgh"), ledger=tmp_path / "march.db", **OPTIONS)
    result = fgsv.value(market("abcdefg"), start=tmp_path / "march.db", ledger=tmp_path / "april.db", **OPTIONS)
    found = verify(replace(result, n_known=result.n_known - 1), tmp_path / "april.db")
    assert "n_known" in [each.where for each in found]


@pytest.mark.parametrize("options", [{"learn": "sizes"}, {}])
def test_a_known_evaluation_is_counted_once_however_often_it_is_drawn(tmp_path, options):
    fgsv.exact(market("abcdef"), ledger=tmp_path / "march.db")
    result = fgsv.value(
        market("abcdef"), start=tmp_path / "march.db", ledger=tmp_path / "april.db", budget=40, **options
    )
    assert (result.n_evaluations, result.n_known) == (0, 2**6)
    assert list(verify(result, tmp_path / "april.db")) == []


def test_a_game_with_another_number_of_outputs_is_refused(tmp_path):
    fgsv.value(market("abcdefgh"), ledger=tmp_path / "march.db", **OPTIONS)
    one = market("abcdefg")
    two = Game(lambda masks: np.stack([one(masks)] * 2, axis=1), 7, frame="roots", players=list("abcdefg"))
    with pytest.raises(fgsv.ledger.WrongLedger, match="start from have 1 outputs, the game has 2"):
        fgsv.value(two, start=tmp_path / "march.db", **OPTIONS)


def test_other_versions_are_checked_before_they_are_believed(tmp_path, monkeypatch):
    with monkeypatch.context() as then:
        then.setattr("fgsv.ledger.file.versions", lambda: {"numpy": "1.0"})
        fgsv.value(market("abcdefgh"), ledger=tmp_path / "march.db", **OPTIONS)
    assert fgsv.value(market("abcdefg"), start=tmp_path / "march.db", **OPTIONS).n_known > 0
    moved = Game(lambda masks: masks.sum(axis=1), 7, frame="roots", players=list("abcdefg"))
    with pytest.raises(fgsv.ledger.LedgerError, match=r"other values than those recorded.*numpy 1\.0 then"):
        fgsv.value(moved, start=tmp_path / "march.db", **OPTIONS)
    same = market("abcdefg")
    moved = Game(lambda masks: masks.all(axis=1) * same(masks), 7, frame="roots", players=list("abcdefg"))
    with pytest.raises(fgsv.ledger.LedgerError, match=r"the coalition of size [1-6] "):  # not U(N), which is the same
        fgsv.value(moved, start=tmp_path / "march.db", **OPTIONS)


def test_with_several_outputs_and_of_groups(tmp_path):
    def two(players):
        one = market(players)
        return Game(
            lambda masks: np.stack([one(masks), one(masks) ** 2], axis=1),
            len(players),
            outputs=("root", "sum"),
            frame="two",
            players=list(players),
        )

    fgsv.value(two("abcdefgh"), ledger=tmp_path / "march.db", **OPTIONS)
    result = fgsv.value(two("abcdefg"), start=tmp_path / "march.db", **OPTIONS)
    assert result.n_known > 0
    assert result.values.shape == (7, 2)


def test_what_was_drawn_for_a_view_is_known_but_no_draw_of_the_game(tmp_path):
    """With a ledger, views have the same bits as without, and no run counts as drawn by a law it did not follow."""
    groups = fgsv.Partition.of(np.arange(24) // 2)
    order = Precedence.of(np.append(np.arange(16), np.arange(8)))
    weights = np.random.default_rng(0).random(24)
    game = Game(lambda masks: np.sqrt(masks @ weights), 24, frame="roots", players=list(range(24)))

    def valued(ledger):
        with Evaluator(game, ledger=ledger) as access:
            views = [(access, groups), (by_groups(access, groups), None), (by_precedence(access, order), groups)]
            return [fgsv.value(*view, budget=66, seed=1) for view in views]

    for plain, recorded in zip(valued(None), valued(tmp_path / "march.db"), strict=True):
        assert plain.values.tobytes() == recorded.values.tobytes()
    found = known(game, [tmp_path / "march.db"])
    assert len(found.runs_had) == 1  # the run of the game itself
    assert len(found) > 100
    assert 0 < (found.run == 0).sum() <= 64


def test_a_failure_in_one_ledger_gives_way_to_a_value_in_another(tmp_path):
    """A run that failed and was continued elsewhere, or here after another one started from it."""

    def failing(masks):
        if len(masks) > 2:
            raise RuntimeError("out of memory")
        return market("abcdef").function(masks)

    failed, whole = tmp_path / "failed.db", tmp_path / "whole.db"
    game = Game(failing, 6, frame="roots", players=list("abcdef"))
    with pytest.raises(fgsv.GameError):
        fgsv.value(game, ledger=failed, **OPTIONS)
    fgsv.value(market("abcdef"), ledger=whole, **OPTIONS)
    alone = fgsv.value(market("abcdefg"), start=whole, **OPTIONS)
    for number, paths in enumerate(([failed, whole], [whole, failed])):
        ledger = tmp_path / f"april {number}.db"
        result = fgsv.value(market("abcdefg"), start=paths, ledger=ledger, **OPTIONS)
        assert result.values.tobytes() == alone.values.tobytes()
        assert verify(result, ledger) == []
    fgsv.value(market("abcdefg"), start=failed, ledger=tmp_path / "may.db", **OPTIONS)
    fgsv.value(market("abcdef"), ledger=failed, **OPTIONS)
    again = fgsv.value(market("abcdefg"), start=failed, ledger=tmp_path / "may.db", **OPTIONS)
    assert again.values.tobytes() == alone.values.tobytes()


def test_ledgers_that_contradict_each_other_are_named(tmp_path):
    twice = Game(lambda masks: 2 * market("abcdef").function(masks), 6, frame="roots", players=list("abcdef"))
    fgsv.value(market("abcdef"), ledger=tmp_path / "one.db", **OPTIONS)
    fgsv.value(twice, ledger=tmp_path / "two.db", **OPTIONS)
    start = [tmp_path / "one.db", tmp_path / "two.db"]
    with pytest.raises(fgsv.ledger.LedgerError, match=r"different values from .*two.db.* use only one of them"):
        fgsv.value(market("abcdefg"), start=start, ledger=tmp_path / "april.db", **OPTIONS)


@pytest.mark.parametrize(
    ("k", "seconds", "left", "worth"),
    [
        (1, 1e-3, 1, False),  # a slower method for one value
        (300, 1e-3, 1, True),  # learned from in no time
        (1500, 0.05, 1, False),  # 1,500 in batches take 8 s, learning from them 16 s
        (1500, 0.5, 1, True),
        (1500, 1e-6, 0, True),  # the same players: looked up
        (1, None, 1, True),
    ],
)
def test_known_evaluations_are_used_where_that_beats_starting_over(k, seconds, left, worth):
    found = Known(
        8,
        np.zeros((k, 1), dtype=np.uint8),
        np.zeros((k, 1)),
        np.zeros(k),
        np.ones((1, 8)) > 0,
        np.ones(8) > 0,
        left,
        k,
    )
    assert is_worth(found, Game(np.sum, 8, seconds=seconds)) == worth


def test_a_run_that_starts_over_is_the_run_without_a_start(tmp_path):
    def quick(players):
        game = market(players)
        return Game(game.function, game.n_players, frame=game.frame, players=game.players, seconds=1e-5)

    fgsv.value(quick("abcdefgh"), ledger=tmp_path / "march.db", budget=8)
    alone = fgsv.value(quick("bcdefghijk"), budget=200)
    started = fgsv.value(quick("bcdefghijk"), start=tmp_path / "march.db", ledger=tmp_path / "april.db", budget=200)
    np.testing.assert_array_equal(started.values, alone.values)
    assert started.n_known == 0
    assert not verify(started, tmp_path / "april.db")
