"""One way to a game: only the evaluator calls it, once for each coalition, and records the value."""

import inspect
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fgsv
from fgsv.audit import shell_companies
from fgsv.coalitions import Coalitions
from fgsv.evaluation.evaluator import Evaluator
from fgsv.evaluation.recording import OutOfTime
from fgsv.evaluation.views import by_groups, weighted
from fgsv.games import SumOfUnanimity
from fgsv.ledger import Ledger
from fgsv.valuation import Reason

N = 12
GROUPS = np.arange(N) % 3
CALLER = Path(inspect.getfile(Evaluator)).with_name("batch.py")


class Watched:
    """A game that counts its evaluations and remembers which file of fgsv called it."""

    n_players = N
    fingerprint = "watched"

    def __init__(self, outputs=None, fails=lambda masks: masks[:, 0] & False):
        self.inner, self.outputs, self.fails = SumOfUnanimity(N), outputs, fails
        self.n_evaluations, self.callers, self.ends = 0, set(), 0

    def __call__(self, masks):
        frame = sys._getframe(1)
        while "/fgsv/" not in frame.f_code.co_filename or frame.f_code.co_filename.endswith("/game.py"):
            frame = frame.f_back
        self.callers.add(Path(frame.f_code.co_filename))
        self.n_evaluations += len(masks)
        self.ends += int((masks.sum(axis=1) % N == 0).sum())
        values = np.where(self.fails(masks), np.nan, self.inner(masks))
        return values if self.outputs is None else np.stack([values] * len(self.outputs), axis=1)


ASKED = {
    "value": lambda game, **how: fgsv.value(game, GROUPS, budget=100, **how),
    "iterate": lambda game, **how: list(fgsv.iterate(game, GROUPS, budget=100, **how)),
    "exact": lambda game, **how: fgsv.exact(game, GROUPS, **how),
    "exact GSV": lambda game, **how: fgsv.exact(fgsv.grouped(game, GROUPS), **how),
    "plan": lambda game, **how: fgsv.plan(game, GROUPS, pilot=200, **how),
    "diagnose": lambda game, **how: fgsv.diagnose(game, budget=200, **how),
    "shell companies": lambda game, **how: shell_companies(game, GROUPS, parts=[2], budget=1100, **how),
    "audit": lambda game, **how: fgsv.audit.audit(
        game, fgsv.value(game, GROUPS, budget=100, **how), parts=[2], budget=1200, **how
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_only_the_evaluator_calls_a_game(name):
    game = Watched()
    ASKED[name](game)
    assert game.callers == {CALLER}


def test_a_proxy_is_asked_through_the_door_too():
    game, proxy = Watched(), Watched()
    fgsv.value(game, GROUPS, budget=100, proxy=proxy)
    assert game.callers == proxy.callers == {CALLER}
    assert proxy.n_evaluations > 1000


@pytest.mark.parametrize("name", ASKED)
def test_what_a_ledger_holds_is_never_evaluated_again(name, tmp_path):
    first, second = Watched(), Watched()
    ASKED[name](first, ledger=tmp_path / "run.db")
    ASKED[name](second, ledger=tmp_path / "run.db")
    assert first.n_evaluations > 0
    assert second.n_evaluations == 0


@pytest.mark.parametrize("name", [name for name in ASKED if name not in ("iterate", "plan")])
def test_failures_count_as_the_number_that_was_chosen(name):
    def some(masks):
        return (masks[:, 0] & masks[:, 3]) & (masks.sum(axis=1) == 4)

    with pytest.raises(fgsv.GameError, match="nan"):
        ASKED[name](Watched(fails=lambda masks: masks.sum(axis=1) % 4 == 0))
    ASKED[name](Watched(fails=some), on_error=0.0)


@pytest.mark.parametrize("name", ["exact", "diagnose", "shell companies", "audit"])
def test_workers_give_the_same_numbers(name):
    game = fgsv.Game(SumOfUnanimity(N), N)
    alone, together = (ASKED[name](game, n_jobs=n) for n in (1, 2))
    assert repr(alone) == repr(together)


def test_the_ends_are_evaluated_once_for_a_run_and_its_audit():
    game = Watched()
    with Evaluator(fgsv.game.as_game(game)) as evaluator:
        valuation = fgsv.value(evaluator, GROUPS, budget=100)
        fgsv.audit.audit(evaluator, valuation, parts=[2], budget=1200)
    np.testing.assert_array_equal(valuation.ends, evaluator.ends()[:, 0])
    # sets of no or of all groups are asked for as part of the group values and the splits, never as ends of their own
    assert valuation.ends[1] - valuation.ends[0] == valuation.total
    single = Watched()
    with Evaluator(fgsv.game.as_game(single)) as evaluator:
        for _ in range(3):
            fgsv.value(evaluator, GROUPS, budget=100)
            evaluator.ends()
    assert single.ends == 2


def test_an_open_evaluator_has_settled_how_it_runs():
    with Evaluator(fgsv.Game(SumOfUnanimity(N), N)) as evaluator, pytest.raises(ValueError, match="n_jobs"):
        fgsv.value(evaluator, GROUPS, n_jobs=2)


def test_views_are_the_games_they_stand_for():
    two = fgsv.Game(lambda masks: np.stack([masks.sum(axis=1), masks[:, 0] * 2.0], axis=1), 6, outputs=("a", "b"))
    labels = ["x", "y", "x", "z", "y", "x"]
    masks = np.random.default_rng(0).random((20, 3)) < 0.5
    with Evaluator(two) as evaluator:
        of_groups = by_groups(evaluator, fgsv.Partition.of(labels))
        np.testing.assert_array_equal(of_groups(Coalitions.from_masks(masks)), fgsv.grouped(two, labels)(masks))
        mixed = weighted(of_groups, [0.25, 0.75])
        expected = fgsv.grouped(two, labels)(masks) @ [0.25, 0.75]
        np.testing.assert_allclose(mixed(Coalitions.from_masks(masks))[:, 0], expected)
        np.testing.assert_allclose(mixed.ends()[:, 0], [0, 0.25 * 6 + 0.75 * 2])
        assert mixed.game.outputs is None


def test_no_call_begins_after_the_deadline(tmp_path):
    def slow(masks):
        time.sleep(0.02)
        return SumOfUnanimity(N)(masks)

    game = fgsv.Game(slow, N, fingerprint="slow", batch_size=8)
    with Evaluator(game, ledger=tmp_path / "run.db") as evaluator:
        with pytest.raises(OutOfTime), evaluator.within(0.1):
            fgsv.value(evaluator, GROUPS, budget=4000, learn="sizes")
        fgsv.value(evaluator, GROUPS, budget=50)  # the deadline holds in its block alone
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        reasons = [run.end.reason for run in ledger.runs()]
    assert reasons == [Reason.TIME, Reason.BUDGET]


def test_what_an_audit_does_is_recorded_as_runs(tmp_path):
    ASKED["audit"](Watched(), ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        methods = [run.settings["method"] for run in ledger.runs()]
        counts = [run.n_evaluations for run in ledger.runs()]
    assert methods == ["gp", "exact", "shell companies"]
    assert all(count > 0 for count in counts)


def test_the_difference_of_two_meters_is_what_was_spent_between_them():
    game = Watched(fails=lambda masks: masks.sum(axis=1) == 2)
    pairs = Coalitions.from_masks(np.eye(N, dtype=bool) | np.eye(N, k=1, dtype=bool))
    with Evaluator(fgsv.game.as_game(game), on_error=0.0) as evaluator:
        evaluator(pairs)
        before = evaluator.meter
        evaluator.ends()
        begun = evaluator.meter
        evaluator(pairs[:5])
        between, of_run = evaluator.meter - before, evaluator.spent_since(begun)
    assert (between.asked, between.evaluated, between.failures.coalitions) == (7, 7, 5)
    assert (of_run.asked, of_run.evaluated, of_run.failures.coalitions) == (7, 7, 5)
    assert 0 < between.seconds < evaluator.meter.seconds
    assert before.failures.coalitions == N - 1


def test_a_run_counts_its_own_failures_on_an_evaluator_that_is_used_again():
    game = Watched(fails=lambda masks: masks.sum(axis=1) == 5)
    with Evaluator(fgsv.game.as_game(game), on_error=0.0) as evaluator:
        first, second = (fgsv.value(evaluator, GROUPS, budget=200, seed=seed) for seed in (1, 2))
        all_of_them = evaluator.meter.failures
    alone = fgsv.value(game, GROUPS, budget=200, seed=2, on_error=0.0)
    assert second.failures.coalitions == alone.failures.coalitions
    assert first.failures.coalitions + second.failures.coalitions == all_of_them.coalitions


def test_an_audit_out_of_time_says_what_it_spent():
    def slow(masks):
        time.sleep(0.02)
        return SumOfUnanimity(N)(masks)

    valuation = fgsv.value(SumOfUnanimity(N), GROUPS, budget=100)
    with Evaluator(fgsv.Game(slow, N, batch_size=8)) as evaluator, evaluator.within(0.2):
        audited = fgsv.audit.audit(evaluator, valuation)
    assert any("time ran out" in warning for warning in audited.warnings)
    assert audited.n_evaluations == evaluator.meter.asked > 0


def test_an_interrupted_lookup_counts_nothing_twice(tmp_path):
    class Interrupted(Ledger):
        looks = 0

        def find(self, game, coalitions):
            self.looks += 1
            if self.looks > 1:
                raise KeyboardInterrupt
            return super().find(game, coalitions)

    game = fgsv.game.as_game(Watched())
    with Interrupted(tmp_path / "run.db") as ledger, Evaluator(game, ledger=ledger) as evaluator:
        evaluator.ends()
        with pytest.raises(KeyboardInterrupt):
            evaluator(Coalitions.from_masks(np.eye(N, dtype=bool)))
        assert evaluator.meter.asked == 2
