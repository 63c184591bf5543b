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
from fgsv.valuation import Reason

GROUPS = np.arange(24) % 3
TARGET = {"precision": 0.02, "budget": 2_000}


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
    assert sum(len(each.values) for each in outcomes if not each.failures) == game.evaluated


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
