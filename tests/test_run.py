"""The loop: what it evaluates, what it refuses, and that it repeats."""

import numpy as np
import pytest

import fgsv
from fgsv.games import Airport, SumOfUnanimity


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


@pytest.mark.parametrize("budget", [34, 100, 1000, 5000])
@pytest.mark.parametrize("method", fgsv.METHODS)
def test_the_budget_is_kept_and_counted(method, budget):
    game = Counting(SumOfUnanimity(20))
    try:
        result = fgsv.value(game, np.arange(20) % 3, method=method, budget=budget)
    except ValueError as error:
        assert "needs a budget of at least" in str(error)  # noqa: PT017
        assert game.n_asked == 0
    else:
        assert result.n_evaluations == game.n_asked <= budget
        assert result.stopped.startswith(f"budget of {budget} reached")


def test_a_budget_for_all_coalitions_enumerates_them():
    game = Counting(Airport(np.arange(1.0, 11)))
    result = fgsv.value(game, budget=2**10)
    assert result.method == "exact"
    assert game.n_asked == result.n_evaluations == 2**10
    assert len(np.unique(np.concatenate(game.asked), axis=0)) == 2**10
    np.testing.assert_allclose(result.values, game.game.shapley, atol=1e-12)
    np.testing.assert_array_equal(result.stderr, 0)
    assert fgsv.value(game, budget=2**10 - 1).method == "covariance"


@pytest.mark.parametrize("method", fgsv.METHODS)
def test_same_seed_same_bits_and_a_larger_budget_continues(method):
    game, labels = SumOfUnanimity(16), np.arange(16) % 2
    runs = {v.n_evaluations: v.values for v in fgsv.iterate(game, labels, method=method, budget=3000, seed=4)}
    later = {evaluations: values for evaluations, values in runs.items() if evaluations > 250}
    for evaluations, values in list(later.items())[::5]:
        again = fgsv.value(game, labels, method=method, budget=evaluations, seed=4)
        np.testing.assert_array_equal(again.values, values)
        assert again.n_evaluations == evaluations
    other = fgsv.value(game, labels, method=method, budget=3000, seed=5)
    assert not np.array_equal(other.values, values)


def test_batches_do_not_change_the_draws():
    game = Counting(SumOfUnanimity(24))
    one = fgsv.value(game, np.arange(24) % 2, budget=2000, batch_size=7)
    assert max(map(len, game.asked)) == 7
    two = fgsv.value(SumOfUnanimity(24), np.arange(24) % 2, budget=2000)
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
    for method in ("covariance", "finite_difference"):
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
        (lambda masks: ["a"] * len(masks), "not numbers"),
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
        ({"method": "magic"}, ValueError, "unknown method 'magic': expected one of covariance, finite_difference"),
        ({"budget": 3}, ValueError, "at least 34 evaluations, got 3"),
        ({"method": "finite_difference", "budget": 40}, ValueError, "at least"),
        ({"threshold": 3}, TypeError, "no option threshold; it takes"),
        ({"method": "finite_difference", "threshold": 0}, ValueError, "threshold must be at least 1"),
        ({"seed": -1}, ValueError, "seed"),
        ({"semivalue": "nobel"}, ValueError, "unknown semivalue"),
        ({"semivalue": "beta(1, -1)"}, ValueError, "positive"),
        ({"precision": 0.0}, ValueError, "precision must be positive"),
    ],
)
def test_bad_arguments_cost_nothing(arguments, error, message):
    game = Counting(SumOfUnanimity(20))
    with pytest.raises(error, match=message):
        fgsv.value(game, **arguments)
    assert game.n_asked == 0


def test_a_small_game_needs_no_more_than_all_its_coalitions():
    with pytest.raises(ValueError, match="at least 16 evaluations, got 15"):
        fgsv.value(Airport([1, 2, 3, 4]), budget=15)
    assert fgsv.value(Airport([1, 2, 3, 4]), budget=16).method == "exact"


def test_the_number_of_players_must_be_known():
    with pytest.raises(ValueError, match=r"fgsv.Game\(fn, n_players\)"):
        fgsv.value(lambda masks: masks.sum(axis=1))
    with pytest.raises(TypeError, match="callable"):
        fgsv.value([1, 2, 3], ["a"])
    with pytest.raises(ValueError, match="at least one player"):
        fgsv.Game(lambda masks: masks.sum(axis=1), 0)


def test_exact_says_what_it_would_take():
    with pytest.raises(ValueError, match=r"2\^30 = 1.07e\+09 evaluations.*fgsv.value"):
        fgsv.exact(SumOfUnanimity(30))


def test_an_interrupted_run_returns_what_it_has():
    game = SumOfUnanimity(20)

    class Interrupted:
        n_players, asked = 20, 0

        def __call__(self, masks):
            self.asked += len(masks)
            if self.asked > 300:
                raise KeyboardInterrupt
            return game(masks)

    result = fgsv.value(Interrupted(), budget=10_000)
    assert result.stopped == "interrupted"
    again = fgsv.value(game, budget=result.n_evaluations)
    np.testing.assert_array_equal(result.values, again.values)


def test_rules_stop_and_can_be_repeated():
    game, labels = SumOfUnanimity(32), np.arange(32) % 4
    for rule in ({"stderr": 3.0}, {"precision": 0.02}):
        result = fgsv.value(game, labels, **rule)
        assert "every" in result.stopped
        again = fgsv.value(game, labels, budget=result.n_evaluations)
        np.testing.assert_array_equal(result.values, again.values)
    assert fgsv.value(game, labels, stderr=3.0).stderr.max() <= 3.0
    timed = fgsv.value(game, labels, max_seconds=1e-9)
    assert timed.n_evaluations == 34
    assert "max_seconds" in timed.stopped


def test_a_target_out_of_reach_is_estimated():
    game, labels = SumOfUnanimity(32), np.arange(32) % 4
    short = fgsv.value(game, labels, precision=1e-4, budget=1000)
    assert short.stopped.startswith("budget of 1000 reached; a precision of 0.0001 would take about ")
    needed = int(short.stopped.split()[-2].replace(",", ""))
    ratio = (short.half_width() / short.total).max() / 1e-4
    assert needed == pytest.approx(short.n_evaluations * ratio**2, rel=0.06)


def test_a_target_does_not_enumerate():
    """Only a budget asks for every coalition; a rule ends a run as soon as it is met, also in a small game."""
    game = Counting(SumOfUnanimity(17))
    result = fgsv.value(game, precision=0.1)
    assert result.method == "covariance"
    assert game.n_asked < 2**14
    assert fgsv.value(game, max_seconds=1e-9).n_evaluations == 34


def test_an_enumeration_in_several_rounds_can_be_watched():
    game = Airport(np.arange(1.0, 18))
    rounds = list(fgsv.iterate(game, budget=2**17))
    assert len(rounds) == 2
    assert np.isnan(rounds[0].stderr).all()
    assert np.isnan(rounds[0].regroup([0] * 8 + [1] * 9).stderr).all()
    np.testing.assert_allclose(rounds[1].values, game.shapley, atol=1e-10)


def test_numbers_of_numpy_are_numbers(tmp_path):
    result = fgsv.value(SumOfUnanimity(20), budget=np.int64(100), seed=np.int64(1), batch_size=np.int64(8))
    result.save(tmp_path / "run.json")
    assert fgsv.Valuation.load(tmp_path / "run.json").seed == 1
