"""The loop: what it evaluates, what it refuses, and that it repeats."""

import inspect
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import fgsv
from fgsv.games import Airport, SumOfUnanimity
from fgsv.running.preparation import settings_of
from fgsv.valuation import RunSettings
from fgsv.valuation.settings import LIMITS


class Counting:
    """A game that knows what it was asked."""

    def __init__(self, game):
        self.game, self.n_players, self.asked = game, game.n_players, []

    def __call__(self, masks):
        assert masks.dtype == bool
        assert masks.shape[1] == self.n_players
        self.asked.append(masks.copy())
        return self.game(masks)

    @property
    def n_asked(self):
        return sum(map(len, self.asked))


def test_a_budget_for_all_coalitions_enumerates_them():
    game = Counting(Airport(np.arange(1.0, 11)))
    result = fgsv.value(game, budget=2**10)
    assert result.method == "exact"
    assert game.n_asked == result.n_evaluations == 2**10
    assert len(np.unique(np.concatenate(game.asked), axis=0)) == 2**10
    np.testing.assert_allclose(result.values, game.game.shapley, atol=1e-12)
    np.testing.assert_array_equal(result.stderr, 0)
    assert fgsv.value(game, budget=2**10 - 1).method == "gp"


def test_batches_do_not_change_the_draws():
    game = Counting(SumOfUnanimity(24))
    one = fgsv.value(game, np.arange(24) % 2, budget=700, batch_size=7)
    assert max(map(len, game.asked)) == 7
    two = fgsv.value(SumOfUnanimity(24), np.arange(24) % 2, budget=700)
    np.testing.assert_array_equal(one.values, two.values)


def test_one_player_and_one_group():
    alone = fgsv.value(lambda masks: 3.0 + masks[:, 0], ["me"])
    assert alone.values.tolist() == [1.0]
    assert alone.n_evaluations == 2
    game = SumOfUnanimity(30)
    everyone = fgsv.value(game, ["all"] * 30, budget=500)
    ends = game(np.array([np.zeros(30), np.ones(30)], dtype=bool))
    assert everyone.values[0] == ends[1] - ends[0]
    assert everyone.stderr[0] == 0
    for method in ("gp", "finite_difference"):
        assert fgsv.value(game, ["all"] * 30, method=method, budget=500).values[0] == ends[1] - ends[0]


def test_many_outputs_are_the_outputs_one_by_one(random_game):
    game = random_game(7, q=3)
    labels = [0, 0, 1, 1, 2, 2, 2]
    together = fgsv.exact(game, labels)
    assert together.values.shape == together.stderr.shape == (3, 3)
    for output in range(3):
        alone = fgsv.exact(lambda masks, k=output: game(masks)[:, k], labels)
        np.testing.assert_allclose(together.values[:, output], alone.values, atol=1e-14)
    sampled = fgsv.value(game, labels, budget=100)
    assert sampled.values.shape == sampled.stderr.shape == (3, 3)
    np.testing.assert_allclose(sampled.values.sum(axis=0), sampled.total, atol=1e-12)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda masks: masks.sum(axis=1)[:-1], r"shape \(1,\) for 2 coalitions; expected \(2,\)"),
        (lambda masks: 1.0, r"shape \(\)"),
        (lambda masks: masks.sum(axis=1) + 1j, "complex"),
        (lambda masks: np.where(masks.all(axis=1), np.nan, 0), r"nan for the coalition of size 20 .*\[0, 1, 2"),
        (
            lambda masks: np.where(masks.any(axis=1), 0, np.inf),
            r"inf for the coalition of size 0 .*\[\]",
        ),
        (lambda masks: np.where(masks.sum(axis=1) == 3, np.nan, 1.0), "nan for the coalition of size 3"),
    ],
)
def test_a_bad_answer_names_the_coalition(answer, message):
    with pytest.raises(fgsv.GameError, match=message):
        fgsv.value(fgsv.Game(answer, 20), budget=1000)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "magic"}, ValueError, "unknown method 'magic': expected one of gp, finite_difference"),
        ({"budget": 3}, ValueError, "at least 8 evaluations, got 3"),
        ({"method": "finite_difference", "budget": 40}, ValueError, "at least"),
        ({"threshold": 3}, TypeError, "no option threshold; it takes"),
        ({"method": "finite_difference", "threshold": 0}, ValueError, "threshold must be at least 1"),
        ({"method": "finite_difference", "round_size": 0}, ValueError, "round_size must be at least 1"),
        ({"seed": -1}, ValueError, "seed"),
        ({"semivalue": "nobel"}, ValueError, "unknown semivalue"),
        ({"semivalue": "beta(1, -1)"}, ValueError, "positive"),
        ({"semivalue": "beta(1)"}, ValueError, "expected two numbers, as in"),
        ({"precision": 0.0}, ValueError, "precision must be a positive number"),
        ({"precision": "0.01"}, ValueError, "precision must be a positive number, got '0.01'"),
        ({"n_jobs": "all"}, ValueError, "must be a whole number, got 'all'"),
        ({"cost": lambda sizes: []}, ValueError, "cost must give a positive number"),
        ({"cost": lambda sizes: 0 * sizes}, ValueError, "cost must give a positive number"),
        ({"cost": lambda sizes: np.ones(3)}, ValueError, "each of the 19 sizes"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"budget": 100.5}, ValueError, "budget must be a whole number"),
        ({"seed": 1.5}, ValueError, "seed must be a whole number"),
        ({"confidence": 95}, ValueError, "confidence must be between 0 and 1, such as 0.95; got 95"),
        ({"semivalue": "beta(inf, 1)"}, ValueError, "finite"),
        ({"cost": lambda sizes: "much"}, ValueError, "cost must give a positive number"),
        ({"method": 3}, TypeError, "method must be one of gp, .* got 3"),
        ({"proxy": 3}, TypeError, "proxy must be a game of the same players, got int"),
        ({"proxy": SumOfUnanimity(19)}, ValueError, "the proxy has 19 players, but the game has 20"),
        ({"progress": print}, TypeError, "progress must be True, False or None"),
        ({"start": 3}, TypeError, "start must be the path of an earlier ledger, or a list of paths; got 3"),
    ],
)
def test_bad_arguments_cost_nothing(arguments, error, message):
    game = Counting(SumOfUnanimity(20))
    with pytest.raises(error, match=message):
        fgsv.value(game, **arguments)
    assert game.n_asked == 0


def test_a_small_game_needs_no_more_than_all_its_coalitions():
    with pytest.raises(ValueError, match="at least 4 evaluations, got 3"):
        fgsv.value(Airport([1, 2]), budget=3)
    assert fgsv.value(Airport([1, 2]), budget=4).method == "exact"


@pytest.mark.parametrize("size", [-1, 0, 2.5])
def test_a_game_cannot_prefer_batches_of_no_coalitions(size):
    with pytest.raises(ValueError, match="batch_size must be"):
        fgsv.value(fgsv.Game(lambda masks: masks.sum(axis=1), 8, batch_size=size), budget=60)


class Own:
    def __init__(self, n_players):
        self.n_players = n_players

    def __call__(self, masks):
        return masks.sum(axis=1)


def test_the_number_of_players_must_be_known():
    with pytest.raises(ValueError, match=r"fgsv.Game\(fn, n_players\)"):
        fgsv.value(lambda masks: masks.sum(axis=1))
    with pytest.raises(TypeError, match="callable"):
        fgsv.value([1, 2, 3], ["a"])
    with pytest.raises(TypeError, match="n_players must be a whole number, got '4'"):
        fgsv.Game(len, "4")
    with pytest.raises(ValueError, match="at least one player"):
        fgsv.Game(lambda masks: masks.sum(axis=1), 0)
    with pytest.raises(TypeError, match="n_players must be a whole number"):
        fgsv.Game(len, 4.0)
    for players in ("4", 4.5):
        for groups in (None, ["a", "b", "a", "b"]):
            with pytest.raises(TypeError, match="n_players must be a whole number"):
                fgsv.value(Own(players), groups)
    with pytest.raises(TypeError, match=r"game must be callable.* got str"):
        fgsv.value("game")
    with pytest.raises(TypeError, match=r"got LinearRegression; make a game from a model with fgsv.utility"):
        fgsv.value(LinearRegression(), ["a"])
    rows = pd.DataFrame({"x": range(40), "y": [i // 20 for i in range(40)], "provider": ["north", "south"] * 20})
    for table in (rows, "rows.csv"):
        with pytest.raises(TypeError, match=r"make a game from a table with fgsv.open_table\("):
            fgsv.value(table, "provider")
    with pytest.raises(TypeError, match=r"got Table; .*fgsv.value\(data.game, data.partition\)"):
        fgsv.value(fgsv.open_table(rows, target="y", group="provider"))


@pytest.mark.parametrize(("typo", "meant"), [("budgt", "budget"), ("njobs", "n_jobs"), ("unbiasd", "unbiased")])
def test_a_misspelt_argument_is_recognised(typo, meant):
    with pytest.raises(TypeError, match=f"no option {typo}; did you mean {meant}"):
        fgsv.value(Airport([1, 2, 3]), **{typo: 20})
    with pytest.raises(TypeError, match="no option colour; it takes unbiased, proxy, learn"):
        fgsv.value(Airport([1, 2, 3]), colour=20)


@pytest.mark.parametrize("n", [30, 2000])
def test_exact_says_what_it_would_take(n):
    game = fgsv.Game(lambda masks: masks.sum(axis=1), n)
    for exact in (fgsv.exact, partial(fgsv.value, method="exact")):
        with pytest.raises(ValueError, match=rf"2\^{n} evaluations.*fgsv.value"):
            exact(game)


def test_exact_takes_a_closed_form_beyond_enumeration():
    game = fgsv.games.SumOfUnanimity(200)
    labels = [i % 3 for i in range(200)]
    found = fgsv.exact(game, labels)
    np.testing.assert_allclose(found.values, [game.shapley[k::3].sum() for k in range(3)], rtol=1e-12)
    assert (found.exact, found.method, found.n_evaluations) == (True, "closed form", 2)
    assert found.end.reason == "exhausted"
    assert (found.half_width() == 0).all()
    assert found.values.sum() == pytest.approx(found.total, rel=1e-12)
    for semivalue in ("banzhaf", "beta(4, 1)"):
        with pytest.raises(ValueError, match="the limit is 24 players"):
            fgsv.exact(game, labels, semivalue=semivalue)


@pytest.mark.parametrize(
    ("shapley", "message"), [(np.ones(29), "for each of the 30 players"), (np.ones(30), "are not its Shapley values")]
)
def test_a_closed_form_that_is_none_is_refused(shapley, message):
    game = fgsv.games.Airport(np.arange(30.0))

    def claims(masks):
        return game(masks)

    claims.n_players, claims.shapley = 30, shapley
    with pytest.raises(ValueError, match=message):
        fgsv.exact(claims)


def test_rules_stop_and_can_be_repeated():
    game, labels = SumOfUnanimity(32), np.arange(32) % 4
    for rule in ({"stderr": 3.0}, {"precision": 0.02}):
        result = fgsv.value(game, labels, **rule)
        assert "every" in result.end.detail
        again = fgsv.value(game, labels, budget=result.n_evaluations)
        np.testing.assert_array_equal(result.values, again.values)
    assert fgsv.value(game, labels, stderr=3.0).stderr.max() <= 3.0
    timed = fgsv.value(game, labels, max_seconds=1e-9)
    assert timed.n_evaluations == 16
    assert timed.end.detail == "time limit of 1e-09 s reached"


def test_a_target_out_of_reach_is_estimated():
    game, labels = SumOfUnanimity(32), np.arange(32) % 4
    short = fgsv.value(game, labels, precision=1e-4, budget=1000)
    assert short.end.detail.startswith("budget of 1000 reached; a precision of 0.0001 would take about ")
    needed = int(short.end.detail.split()[-2].replace(",", ""))
    ratio = (short.half_width() / short.total).max() / 1e-4
    assert needed / short.n_evaluations == pytest.approx(ratio**2, rel=0.05)  # it has two digits


def test_a_target_does_not_enumerate():
    """Only a budget asks for every coalition; a rule ends a run as soon as it is met, also in a small game."""
    game = Counting(SumOfUnanimity(17))
    result = fgsv.value(game, precision=0.1)
    assert result.method == "gp"
    assert game.n_asked < 2**14
    assert fgsv.value(game, max_seconds=1e-9).n_evaluations == 16


SMALL = [(9, "kernel", 512), (9, "sizes", 512), (9, "sizes", 520), (10, "kernel", None)]


@pytest.mark.parametrize(("n", "learn", "budget"), SMALL)
def test_no_coalition_is_evaluated_twice_where_a_target_needs_all_of_them(n, learn, budget):
    utilities, seen = np.random.default_rng(0).normal(size=2**n), []
    utilities[-1] = 3.0  # shares need a gain

    def noise(masks):
        seen.extend(masks @ (1 << np.arange(n)))
        return utilities[masks @ (1 << np.arange(n))]

    game = fgsv.Game(noise, n)
    found = fgsv.value(game, precision=1e-6, budget=budget, learn=learn, progress=False)
    assert len(seen) == len(set(seen)) == found.n_evaluations == 2**n
    assert found.exact
    np.testing.assert_allclose(found.values, fgsv.exact(game).values)


def test_a_target_needs_no_room_for_every_coalition():
    """A budget may be as good as none: here that of all coalitions of 39 players, terabytes of utilities."""
    game = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 39)
    assert fgsv.value(game, np.arange(39) % 3, precision=0.1, budget=2**39).n_evaluations < 1000


def test_an_enumeration_in_several_rounds_can_be_watched():
    game = Airport(np.arange(1.0, 14))
    rounds = list(fgsv.iterate(game, budget=2**13))
    assert len(rounds) == 4
    assert np.isnan(rounds[0].stderr).all()
    assert np.isnan(rounds[0].regroup([0] * 8 + [1] * 5).stderr).all()
    np.testing.assert_allclose(rounds[-1].values, game.shapley, atol=1e-10)


def test_an_interrupted_enumeration_has_nothing_to_return():
    asked = []

    def interrupted(masks):
        asked.extend(masks)
        if len(asked) > 5000:
            raise KeyboardInterrupt
        return masks.sum(axis=1)

    with pytest.raises(KeyboardInterrupt):
        fgsv.value(fgsv.Game(interrupted, 13))


def test_a_precision_of_shares_needs_something_to_share():
    asked = []

    def nothing(masks):
        asked.append(len(masks))
        return np.zeros(len(masks))

    with pytest.raises(ValueError, match="nothing to share"):
        fgsv.value(fgsv.Game(nothing, 20), precision=0.01)
    assert sum(asked) == 2


def test_the_coalition_that_raises_is_named_among_those_of_its_batch():
    watched = Counting(SumOfUnanimity(20))
    fgsv.value(watched, budget=34)
    guilty = watched.asked[1][5]

    def fails(masks):
        if (masks == guilty).all(axis=1).any():
            raise ZeroDivisionError("no such model")
        return watched.game(masks)

    with pytest.raises(fgsv.GameError, match=f"for the coalition of size {guilty.sum()}") as caught:
        fgsv.value(fgsv.Game(fails, 20), budget=100)
    assert str(np.flatnonzero(guilty).tolist()) in caught.value.__notes__[-1]

    by_row = Counting(fgsv.Game(fails, 20))
    with pytest.raises(fgsv.GameError, match=f"for the coalition of size {guilty.sum()}"):
        fgsv.value(fgsv.Game(by_row, 20, independent_rows=True), budget=100)
    assert by_row.n_asked == 2 + 14 + 14  # the ends, the batch, its rows: once each


def test_iterate_has_the_arguments_of_value():
    given, same = (inspect.signature(each).parameters for each in (fgsv.value, fgsv.iterate))
    assert len(given) > 20
    assert list(same.values()) == list(given.values())
    [*_, last] = fgsv.iterate(SumOfUnanimity(20), None, budget=100)
    assert last.values.tobytes() == fgsv.value(SumOfUnanimity(20), None, budget=100).values.tobytes()


def test_a_seal_describes_the_run_that_is_made():
    """It is made with the defaults of value, and so is the run."""
    given, *sealed = (inspect.signature(each).parameters for each in (fgsv.value, settings_of, RunSettings))
    by_default = {
        "seed": sealed[0]["seed"].default,
        **{name: sealed[1][name].default for name in (*LIMITS, "confidence")},
    }
    assert by_default == {name: given[name].default for name in by_default}
