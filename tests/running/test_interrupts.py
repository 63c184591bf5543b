"""Ctrl-C ends a run between two steps, whoever catches it, and what was found so far is returned."""

import signal
from contextlib import suppress

import joblib
import numpy as np
import pytest
from joblib.parallel import ThreadingBackend

import fgsv
from fgsv.games import SumOfUnanimity
from fgsv.methods.gp import GP
from fgsv.valuation import INTERRUPTED


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
    assert result.end == INTERRUPTED
    again = fgsv.value(game, budget=result.n_evaluations)
    np.testing.assert_array_equal(result.values, again.values)


@pytest.mark.parametrize("then", [lambda values: values, lambda values: 1 / 0])
def test_an_interrupt_that_a_model_swallows_ends_the_run(then):
    """Code in C drops exceptions, and models catch them all: what they return or raise afterwards does not count."""
    game, handler = SumOfUnanimity(20), signal.getsignal(signal.SIGINT)

    class Swallows:
        n_players, asked = 20, 0

        def __call__(self, masks):
            self.asked += len(masks)
            if self.asked <= 300:
                return game(masks)
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                return then(game(masks))

    result = fgsv.value(Swallows(), budget=10_000, on_error=0.0)
    assert result.end == INTERRUPTED
    assert result.failures is None
    assert signal.getsignal(signal.SIGINT) is handler


class Dropped:
    """Raises an interrupt in one of its calls, and drops it, as callbacks from C do."""

    def __init__(self, at):
        self.n_calls, self.at = 0, at

    def __call__(self):
        self.n_calls += 1
        if self.n_calls == self.at:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_is_swallowed_in_an_estimate_ends_the_run():
    dropped = Dropped(at=3)

    class Deaf(GP):
        def start(self, problem):
            estimator = super().start(problem)
            estimate = estimator.estimate
            estimator.estimate = lambda: (dropped(), estimate())[1]
            return estimator

    *_, result = fgsv.iterate(SumOfUnanimity(20), budget=10_000, method=Deaf())
    assert result.end == INTERRUPTED
    assert result.n_evaluations < 200


def test_an_interrupt_that_is_swallowed_where_workers_are_awaited_ends_the_run():
    dropped = Dropped(at=12)  # before the first estimate there is nothing to return

    class Deaf(ThreadingBackend):
        def submit(self, func, callback=None):
            dropped()
            return super().submit(func, callback)

    joblib.register_parallel_backend("deaf", Deaf)
    with joblib.parallel_config(backend="deaf", n_jobs=2):
        *_, result = fgsv.iterate(SumOfUnanimity(20), budget=10_000)
    assert dropped.n_calls >= 12
    assert result.end == INTERRUPTED
    assert result.n_evaluations < 200


def test_a_handler_that_a_model_sets_stays():
    def own(number, frame):
        raise AssertionError

    def game(masks):
        signal.signal(signal.SIGINT, own)
        return masks.sum(axis=1)

    before = signal.getsignal(signal.SIGINT)
    try:
        fgsv.value(game, list("abcd"), budget=16)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_left_to_whoever_handles_it():
    """During an update it waits; then the handler that was there before gets it."""
    seen = []

    class Signalled(GP):
        def start(self, problem):
            estimator = super().start(problem)
            update = estimator.update

            def interrupted(draws, values):
                signal.raise_signal(signal.SIGINT)
                assert len(seen) == estimator.signals
                estimator.signals += 1
                update(draws, values)

            estimator.signals, estimator.update = 0, interrupted
            return estimator

    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        result = fgsv.value(SumOfUnanimity(20), budget=100, method=Signalled())
        assert result.n_evaluations == 100
        assert len(seen) == len(list(fgsv.iterate(SumOfUnanimity(20), budget=100)))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        seen[:] = []
        ignored = fgsv.value(SumOfUnanimity(20), budget=16, method=Signalled())
        assert ignored.n_evaluations == 16
    finally:
        signal.signal(signal.SIGINT, before)
