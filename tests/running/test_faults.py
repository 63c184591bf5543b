"""Bad utilities and dying workers: the policy chosen is what happens, and the counts are right."""

import itertools
import os
import signal

import joblib
import numpy as np
import pytest
from faulty import FILLER, Bad, N, is_bad
from joblib.parallel import ThreadingBackend

import fgsv
from fgsv.evaluation import workers
from fgsv.game import GameError
from fgsv.games import SumOfUnanimity
from fgsv.ledger import Ledger
from fgsv.valuation import Reason
from fgsv.verification.verify import verify

pytestmark = pytest.mark.slow

BUDGET, BATCH = 98, 8


def expected(row_by_row, budget):
    oracle = Bad("fill")
    oracle.row_by_row = row_by_row
    result = fgsv.value(oracle, budget=budget, batch_size=BATCH)
    assert oracle.counted
    return result, oracle.counted


def check(result, kind, row_by_row, budget=BUDGET):
    oracle, count = expected(row_by_row, budget)
    np.testing.assert_array_equal(result.values, oracle.values)
    np.testing.assert_array_equal(result.stderr, oracle.stderr)
    assert result.failures.kinds == {kind: count}
    assert result.failures.coalitions == count
    words = "1 evaluation failed and counts" if count == 1 else f"{count} evaluations failed and count"
    assert f"{words} as -1.5: {count} {kind}" in repr(result)


HARMLESS = [
    ("raises", "raised", True),
    ("nan", "not finite", True),
    ("wrong_shape", "wrong shape", False),
    ("words", "wrong shape", False),
    ("other_width", "wrong shape", False),
]


@pytest.mark.parametrize("independent_rows", [False, True])
@pytest.mark.parametrize(("fault", "kind", "row_by_row"), HARMLESS)
def test_a_failure_counts_as_the_policy_says(tmp_path, fault, kind, row_by_row, independent_rows):
    game = Bad(fault, independent_rows=independent_rows)
    options = {
        "budget": BUDGET,
        "batch_size": BATCH,
        "on_error": FILLER,
        "ledger": tmp_path / "run.db",
    }
    for _ in range(2):  # the second time from the ledger
        result = fgsv.value(game, **options)
        check(result, kind, row_by_row or independent_rows)
    assert verify(result, tmp_path / "run.db") == []
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        recorded = [len(rows) for batch in ledger.batches() for rows in batch.outcome.failures.values()]
    assert sum(recorded) == result.failures.coalitions


def test_a_failed_batch_of_several_outputs_is_resumed(tmp_path):
    def two(masks):
        if is_bad(masks).any():
            raise ValueError
        return np.stack([masks.sum(axis=1), masks.sum(axis=1) ** 2], axis=1)

    options = {
        "budget": BUDGET,
        "batch_size": BATCH,
        "on_error": FILLER,
        "ledger": tmp_path / "run.db",
    }
    first, again = (fgsv.value(fgsv.Game(two, N, fingerprint="two"), **options) for _ in range(2))
    assert first.values.shape == (N, 2)
    np.testing.assert_array_equal(first.values, again.values)
    assert first.failures == again.failures


def test_a_game_that_always_fails_is_worth_what_the_policy_says():
    def never(masks):
        raise ValueError

    result = fgsv.value(fgsv.Game(never, N), budget=BUDGET, on_error=FILLER)
    assert result.failures.coalitions == result.n_evaluations
    np.testing.assert_allclose(result.values, 0, atol=1e-9)


@pytest.mark.parametrize(("fault", "kind"), [(fault, kind) for fault, kind, _ in HARMLESS])
def test_by_default_a_failure_stops_the_run_and_says_what_failed(fault, kind):
    with pytest.raises(GameError, match=kind):
        fgsv.value(Bad(fault), budget=BUDGET, batch_size=BATCH)


def test_the_error_shows_where_in_the_game_it_was_raised():
    with pytest.raises(GameError) as caught:
        fgsv.value(Bad("raises"), budget=BUDGET, batch_size=BATCH)
    assert "ZeroDivisionError: no such model" in str(caught.value)
    assert "the coalition of size" in str(caught.value)
    assert "in raises" in caught.value.__notes__[0]


def test_a_failure_is_tried_again_by_whoever_wants_a_value(tmp_path):
    with pytest.raises(GameError):
        fgsv.value(Bad("raises"), budget=BUDGET, batch_size=BATCH, ledger=tmp_path / "run.db")
    mended = Bad("nan")
    mended.nan = lambda values, bad: values
    result = fgsv.value(mended, budget=BUDGET, batch_size=BATCH, ledger=tmp_path / "run.db")
    assert result.failures is None
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        assert not any(batch.outcome.failures for batch in ledger.batches())
        assert [run.end.reason for run in ledger.runs()] == [Reason.FAILED, Reason.BUDGET]


@pytest.mark.parametrize("independent_rows", [False, True])
@pytest.mark.parametrize(("fault", "kind"), [("hang", "timed out"), ("hang_deaf", "timed out"), ("die", "died")])
def test_a_batch_that_hangs_or_kills_its_worker_fails_alone(fault, kind, independent_rows, monkeypatch):
    monkeypatch.setattr(workers, "TRIES", 2)  # each try costs a start of workers
    game = Bad(fault, independent_rows=independent_rows)
    timeout = {} if fault == "die" else {"timeout": 0.3}
    budget = 66  # one coalition is bad: each costs several starts of workers
    result = fgsv.value(game, budget=budget, batch_size=BATCH, n_jobs=2, on_error=FILLER, **timeout)
    check(result, kind, independent_rows, budget)
    place = "for the coalition of size" if independent_rows else f"in a batch of {BATCH} that begins with"
    assert place in result.failures.first


def test_workers_that_take_no_batch_because_one_has_died_are_replaced():
    calls = itertools.count()

    class Broken(ThreadingBackend):
        def submit(self, func, callback=None):
            if next(calls) == 7:
                raise RuntimeError("a worker was terminated")
            return super().submit(func, callback)

    joblib.register_parallel_backend("broken", Broken)
    with joblib.parallel_config(backend="broken", n_jobs=2):
        result = fgsv.value(SumOfUnanimity(20), budget=200, batch_size=4)
    np.testing.assert_array_equal(result.values, fgsv.value(SumOfUnanimity(20), budget=200, batch_size=4).values)


def test_a_batch_that_kills_is_tried_three_times(tmp_path):
    class Logged(Bad):
        def die(self, values, bad):
            with (tmp_path / "log").open("a") as log:
                log.write("x")
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(GameError, match="died: the worker died 3 times"):
        fgsv.value(Logged("die"), budget=BUDGET, batch_size=BATCH, n_jobs=2)
    assert (tmp_path / "log").read_text() == "xxx"


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_timeout_needs_process_workers(backend):
    n_jobs = 1 if backend == "loky" else 2
    with (
        joblib.parallel_config(backend=backend, n_jobs=n_jobs),
        pytest.raises(ValueError, match="timeout needs worker processes on this machine"),
    ):
        fgsv.value(Bad("hang"), budget=BUDGET, timeout=1)


def test_a_function_of_one_coalition_is_told_how_to_be_a_game():
    with pytest.raises(GameError, match=r"for mask in masks") as found:
        fgsv.value(lambda mask: float(np.sqrt(mask.sum())), list("abc"))
    assert "expected (2,)" in str(found.value)
    several = fgsv.Game(lambda masks: [float(np.sqrt(mask.sum())) for mask in masks], 3)
    np.testing.assert_allclose(fgsv.value(several, list("abc")).values, np.sqrt(3) / 3)
