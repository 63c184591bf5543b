"""Rounds drawn ahead: the same bits, however many; what is evaluated and not used is recorded and counted."""

import threading
import time

import joblib
import numpy as np
import pytest

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.evaluation.evaluator import Evaluator
from fgsv.games import SumOfUnanimity
from fgsv.ledger import Ledger
from fgsv.methods.permutation import PermutationEstimator
from fgsv.methods.steady import Steady
from fgsv.valuation import Reason

GROUPS = np.arange(24) % 3
TARGET = {"precision": 0.01, "budget": 2_000, "seed": 3}


class Uneven:
    """A game whose evaluations take times of their own, so that they end in another order than they began."""

    n_players, fingerprint = 24, "uneven"

    def __init__(self, *, independent_rows, pause=0.0):
        self.independent_rows, self.pause = independent_rows, pause
        self.game, self.lock, self.evaluated, self.fails = SumOfUnanimity(24), threading.Lock(), 0, None

    def __call__(self, masks):
        time.sleep(self.pause * (masks @ np.arange(24)).max() / 276)
        if self.fails is not None and (masks.sum(axis=1) == self.fails).any():
            raise ValueError("no such model")
        with self.lock:
            self.evaluated += len(masks)
        return np.array([self.game(mask[None])[0] for mask in masks])


def bits(result):
    return result.values.tobytes(), result.stderr.tobytes(), result.n_evaluations, result.end.reason


@pytest.mark.parametrize("independent_rows", [False, True])
@pytest.mark.parametrize("method", ["gp", "permutation", "finite_difference", "one_for_all"])
def test_a_run_that_stops_at_a_target_has_the_same_bits(method, independent_rows, tmp_path):
    alone = fgsv.value(Uneven(independent_rows=independent_rows), GROUPS, method=method, batch_size=8, **TARGET)
    game = Uneven(independent_rows=independent_rows, pause=0.03)
    options = {"method": method, "batch_size": 8, "ledger": tmp_path / "run.db", **TARGET}
    with joblib.parallel_config(backend="threading", n_jobs=5):
        first = fgsv.value(game, GROUPS, **options)
        n_evaluated = game.evaluated
        again = fgsv.value(game, GROUPS, **options)
    assert game.evaluated == n_evaluated
    assert bits(first) == bits(again) == bits(alone)
    if first.end.reason is Reason.TARGET:
        with Ledger(tmp_path / "run.db", read_only=True) as ledger:
            assert sum(len(batch.outcome.values) for batch in ledger.batches()) == n_evaluated
        if method == "gp":  # whose draws are without replacement
            assert first.end.n_unused == n_evaluated - first.n_evaluations > 0
            assert f"; {first.end.n_unused} more evaluations were under way" in str(first.end)
    assert fgsv.verify(first, tmp_path / "run.db") == []


def test_one_worker_evaluates_nothing_that_is_not_used():
    game = Uneven(independent_rows=True)
    result = fgsv.value(game, GROUPS, **TARGET)
    assert (result.end.reason, game.evaluated) == (Reason.TARGET, result.n_evaluations)


def test_a_failure_is_raised_in_draw_order_and_what_others_evaluate_is_recorded(tmp_path):
    game = Uneven(independent_rows=True, pause=0.02)
    game.fails = 5
    with joblib.parallel_config(backend="threading", n_jobs=4), pytest.raises(fgsv.GameError, match="of size 5"):
        fgsv.value(game, GROUPS, budget=200, ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        outcomes = [batch.outcome for batch in ledger.batches()]
    assert sum(len(each.values) - len(each.failed) for each in outcomes) == game.evaluated


class Waiting(Uneven):
    """A game whose ends are evaluated once something else is, or after five seconds."""

    def __init__(self):
        super().__init__(independent_rows=True)
        self.other, self.late = threading.Event(), False

    def __call__(self, masks):
        if (masks.sum(axis=1) % 24).any():
            self.other.set()
        elif not self.other.wait(5):
            self.late = True
        return super().__call__(masks)


def test_the_first_draws_are_evaluated_beside_the_ends():
    alone, game = fgsv.value(Uneven(independent_rows=True), GROUPS, budget=60), Waiting()
    with joblib.parallel_config(backend="threading", n_jobs=3):
        beside = fgsv.value(game, GROUPS, budget=60, batch_size=1)
    assert bits(beside) == bits(alone)
    assert not game.late


def test_rounds_are_drawn_while_workers_evaluate(monkeypatch):
    second, late, drawn, draw = threading.Event(), [], [], PermutationEstimator.draw

    def told(self, rng):
        drawn.append(1)
        if len(drawn) == 2:
            second.set()
        return draw(self, rng)

    def waits(masks):
        if (masks.sum(axis=1) % 24).any() and not second.is_set() and not second.wait(5):
            late.append(1)
            second.set()
        return np.sqrt(masks.sum(axis=1))

    monkeypatch.setattr(PermutationEstimator, "draw", told)
    game = fgsv.Game(waits, 24, independent_rows=True)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        result = fgsv.value(game, GROUPS, method="permutation", budget=2 + 20 * 23)
    assert (result.n_evaluations, late) == (2 + 16 * 23, [])


@pytest.mark.parametrize(("cost", "order"), [(None, -1), (lambda sizes: 1 / sizes, 1)])
def test_what_takes_longest_is_evaluated_first(cost, order):
    sizes, begun = np.random.default_rng(0).permutation(np.arange(1, 24)), []

    def noted(masks):
        begun.append(int(masks.sum()))
        time.sleep(0.01)
        return np.sqrt(masks.sum(axis=1))

    game = fgsv.Game(noted, 24, independent_rows=True, batch_size=1, cost=cost)
    with joblib.parallel_config(backend="threading", n_jobs=2), Evaluator(game) as evaluator:
        values = evaluator(Coalitions.from_masks(np.arange(24) < sizes[:, None]))
    np.testing.assert_array_equal(values[:, 0], np.sqrt(sizes))  # in the order in which they were asked for
    assert np.abs(np.argsort(np.argsort(begun)[::order]) - np.arange(23)).max() <= 1  # two workers may swap


def test_estimates_are_computed_when_somebody_asks(monkeypatch):
    asked, estimate = [], Steady.estimate
    monkeypatch.setattr(Steady, "estimate", lambda self: asked.append(1) or estimate(self))
    fgsv.value(SumOfUnanimity(24), GROUPS, budget=500)
    assert len(asked) == 1
    asked.clear()
    assert len(list(fgsv.iterate(SumOfUnanimity(24), GROUPS, budget=500))) == len(asked) > 5


@pytest.mark.parametrize("most", [1, 3])
def test_what_is_evaluated_and_not_used_is_bounded(most, tmp_path):
    alone = fgsv.value(Uneven(independent_rows=True), GROUPS, **TARGET)
    game = Uneven(independent_rows=True, pause=0.005)
    with joblib.parallel_config(backend="threading", n_jobs=4):
        result = fgsv.value(game, GROUPS, max_in_flight=most, batch_size=4, **TARGET)
    assert bits(result) == bits(alone)
    assert result.end.reason is Reason.TARGET
    assert result.end.n_unused == game.evaluated - result.n_evaluations <= (0 if most == 1 else 64)
    with pytest.raises(ValueError, match="max_in_flight"):
        fgsv.value(game, GROUPS, max_in_flight=0)


def test_what_was_evaluated_of_a_batch_that_failed_is_recorded(tmp_path):
    evaluated, enough = [], threading.Event()

    def fails(masks):
        sizes = masks.sum(axis=1)
        if (sizes == 1).any():
            enough.wait(5)
        if (sizes < 6).any():
            raise ValueError("no such model")
        time.sleep(0.05)
        evaluated.extend(sizes)
        if len(sizes) == 1:
            enough.set()
        return sizes / 24

    def coalitions(*sizes):
        return Coalitions.from_masks(np.arange(24) < np.array(sizes)[:, None])

    game = fgsv.Game(fails, 24, fingerprint="fails", independent_rows=True, batch_size=10, outputs=("score",))
    with (
        joblib.parallel_config(backend="threading", n_jobs=2),
        Evaluator(game, ledger=tmp_path / "run.db") as evaluator,
    ):
        first = evaluator.submit(coalitions(1))
        evaluator.submit(coalitions(*range(5, 24)))
        with pytest.raises(fgsv.GameError, match="of size 1"):
            first.result()
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        outcomes = [batch.outcome for batch in ledger.batches()]
    assert sum(len(each.values) - len(each.failed) for each in outcomes) == len(evaluated) < 18


def test_nothing_stays_in_flight_after_a_run_that_is_left(tmp_path):
    game = fgsv.game.as_game(Uneven(independent_rows=True, pause=0.02))
    with (
        joblib.parallel_config(backend="threading", n_jobs=4),
        Evaluator(game, ledger=tmp_path / "run.db") as evaluator,
    ):
        rounds = fgsv.iterate(evaluator, GROUPS, budget=500)
        next(rounds)
        rounds.close()
        before = evaluator.meter.asked
        some = evaluator(Coalitions.from_masks(np.eye(24, dtype=bool)))
        assert evaluator.meter.asked == before + 24
    np.testing.assert_array_equal(some[:, 0], SumOfUnanimity(24)(np.eye(24, dtype=bool)))
