"""Plans, and runs that are watched."""

import re
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import fgsv
from fgsv.cli.console import describe
from fgsv.evaluation.evaluator import Evaluator
from fgsv.game import as_game
from fgsv.planning import Limits, Plan, offer_of_units, plan_table, value_with_plan
from fgsv.planning.watching import PILOT_STARTED
from fgsv.running.stopping import LOOKS


def watched(game, limits, watch):
    with Evaluator(as_game(game)) as evaluator:
        return value_with_plan(evaluator, None, limits, watch, shown_as=lambda valuation: valuation)


def test_a_watcher_is_told_how_fast_a_run_is_and_how_many_workers_are_busy():
    watch = Watch()
    with joblib.parallel_config(backend="threading", n_jobs=3):
        watched(fgsv.games.SumOfUnanimity(24), Limits(budget=100), watch)
    assert re.fullmatch(r"[\de+.]+ evaluations a second, [0-3] of 3 workers busy", watch.pace)


class Watch:
    def __init__(self):
        self.plans, self.rounds = [], []

    def planned(self, plan, limits):
        self.plans.append(plan)

    def after_round(self, valuation, half_width, expected, pace):
        self.rounds.append((valuation.n_evaluations, valuation.is_estimate, expected))
        self.pace = pace


def test_an_enumeration_can_be_watched_beside_a_precision():
    watch = Watch()
    valuation, _ = watched(fgsv.Game(lambda masks: masks @ np.arange(1.0, 12), 11), Limits(2**11, 1e-9), watch)
    np.testing.assert_allclose(valuation.values, np.arange(1.0, 12))
    assert valuation.exact
    assert watch.rounds[-1][1]


def test_a_run_that_starts_from_another_is_planned_from_more_than_its_first_round(tmp_path):
    sums = fgsv.games.SumOfUnanimity(20)
    game = fgsv.Game(sums, 20, fingerprint="sums")
    fgsv.value(game, budget=300, ledger=tmp_path / "march.db", seed=1)
    watch = Watch()
    with Evaluator(game, start=tmp_path / "march.db") as evaluator:
        value_with_plan(evaluator, np.arange(20) % 4, Limits(budget=300), watch, shown_as=lambda valuation: valuation)
    assert watch.plans[0].n_known > 0
    assert watch.rounds[0][0] < PILOT_STARTED <= watch.plans[0].n_evaluations


def with_freedom(valuation, freedom):
    return replace(valuation, estimate=replace(valuation.estimate, degrees_of_freedom=freedom))


def test_a_plan_is_not_as_wide_as_the_few_draws_it_rests_on():
    found = fgsv.value(fgsv.games.SumOfUnanimity(64), np.arange(64) % 4, budget=100)
    few, many = (Plan.of(with_freedom(found, freedom), seconds=1.0).evaluations_for(0.01) for freedom in (2.0, 100.0))
    assert few == many


def test_a_plan_expects_the_evaluations_that_show_what_is_rare():
    game, groups = fgsv.games.SumOfUnanimity(64), np.arange(64) % 4
    found = fgsv.plan(game, groups, pilot=512)
    precision = found.half_width  # errors are small enough already
    taken = fgsv.value(game, groups, precision=precision).n_evaluations
    expected = found.evaluations_for(precision)
    assert 512 < 3 / precision <= expected <= taken
    assert taken < LOOKS * (1 + 1 / 8) * expected  # targets are checked that often, after rounds of an eighth
    assert replace(found, n_known=200).evaluations_for(precision) == found.evaluations_for(precision) - 200
    assert fgsv.plan(game, ["all"] * 64, pilot=100).evaluations_for(precision) == 100


def test_a_plan_knows_what_a_longer_run_takes_only_once():
    found = fgsv.value(fgsv.games.SumOfUnanimity(64), np.arange(64) % 4, budget=100)
    plan = Plan.of(found, seconds=18.0, first=(20, 10.0))  # 0.1 seconds for each of the last 80, 8 before the first
    assert plan.fixed_seconds == pytest.approx(8)
    assert plan.seconds_for(1000) == pytest.approx(108)
    assert plan.expected(Limits(max_seconds=58.0)) == 500
    assert plan.expected(Limits(max_seconds=5.0)) == 2  # U(0) and U(N)
    assert describe(plan, Limits(max_seconds=5.0)).startswith("plan: about 2 evaluations, 8 s,")
    assert Plan.of(found, seconds=18.0).seconds_for(1000) == pytest.approx(180)


def test_a_plan_of_all_coalitions_expects_no_more_than_these():
    plan = fgsv.plan(fgsv.games.Airport(np.arange(1.0, 9)))
    assert plan.exact
    for limits in (Limits(), Limits(budget=20_000), Limits(precision=0.01)):
        assert plan.expected(limits) == 2**8
        assert describe(plan, limits).startswith("plan: about 256 evaluations")
    assert plan.expected(Limits(budget=100)) == 100


def test_no_budget_of_a_plan_is_larger_than_all_coalitions():
    game = fgsv.Game(fgsv.games.SumOfUnanimity(9), 9)
    plan = fgsv.plan(game, pilot=64)
    assert fgsv.value(game, budget=2**9).exact
    assert fgsv.value(game, precision=1e-4).exact
    assert plan.evaluations_for(0.2) < plan.evaluations_for(1e-4) == 2**9
    assert plan.to_frame()[["evaluations", "half_width"]].to_numpy().tolist() == [[2**9, 0]]
    assert plan.half_width_after(20_000) == 0
    assert plan.seconds_for(20_000) == plan.seconds_for(2**9)
    assert plan.expected(Limits(budget=20_000)) == 2**9
    other = fgsv.plan(game, pilot=210, method="permutation")  # which never evaluates them all
    assert other.evaluations_for(1e-4) > 2**9


def test_a_plan_from_known_evaluations_lies_between_what_all_and_what_new_ones_say():
    plan = Plan(60, 4, 100, 1.0, half_width=0.1, confidence=0.95, n_known=1500)
    assert 0.1 * np.sqrt(100 / 400) < plan.half_width_after(400) < 0.1 * np.sqrt(1600 / 1900)
    needed = plan.evaluations_for(0.05)
    assert plan.half_width_after(needed) <= 0.05 < plan.half_width_after(needed - 1)
    fresh = replace(plan, n_known=0)
    assert fresh.half_width_after(400) == pytest.approx(0.05)
    assert fresh.evaluations_for(0.05) == 400


def test_a_plan_without_errors_expects_no_number_for_a_precision():
    plan = Plan(13, 13, 2048, 1.0, float("nan"), 0.95)
    assert plan.expected(Limits(precision=0.01)) is None
    assert plan.expected(Limits(budget=500, precision=0.01)) == 500
    with pytest.raises(ValueError, match="does not estimate its errors"):
        plan.evaluations_for(0.01)


def test_the_first_rounds_of_an_enumeration_are_no_estimates():
    rounds = list(fgsv.iterate(fgsv.games.Airport(np.arange(1.0, 14)), budget=2**13))
    assert [each.is_estimate for each in rounds] == [False, False, False, True]
    assert {each.method for each in rounds} == {"exact"}


def test_a_plan_of_several_outputs_speaks_of_each():
    weights = np.random.default_rng(0).normal(size=(40, 2)) + np.array([2, 1])

    def game(masks):
        return np.sqrt(np.maximum(masks @ weights, 0))

    labels = [i % 4 for i in range(40)]
    both = fgsv.plan(fgsv.Game(game, 40, outputs=("a", "b")), labels, pilot=200)
    pilot = fgsv.value(fgsv.Game(game, 40, outputs=("a", "b")), labels, budget=200)
    for column, name in enumerate(("a", "b")):
        widest = norm.ppf(0.975) * pilot.stderr[:, column].max() / pilot.total[column]
        assert both.by_output[name] == pytest.approx(widest)
        assert both.to_frame()[f"half_width_{name}"][0] == pytest.approx(
            both.by_output[name] * np.sqrt(both.n_evaluations / 1000)
        )
    assert both.half_width == max(both.by_output.values())
    assert fgsv.plan(lambda masks: masks.sum(axis=1), labels, pilot=200).by_output == {}


def test_a_precision_that_is_no_fraction_is_refused():
    with pytest.raises(ValueError, match=r"below 1, got 5: 5 percentage points are 0\.05"):
        Limits(precision=5)
    with pytest.raises(ValueError, match=r"below 1, got 100$"):
        fgsv.value(lambda masks: masks.sum(axis=1), [0, 1, 1], precision=100)
    plan = fgsv.plan(fgsv.games.SumOfUnanimity(20), pilot=100)
    for precision in (0, -0.1, "0.01"):
        with pytest.raises(ValueError, match="precision must be a positive number"):
            plan.evaluations_for(precision)


def test_no_half_width_is_expected_after_no_evaluations():
    plan = fgsv.plan(fgsv.games.SumOfUnanimity(20), pilot=100)
    with pytest.raises(ValueError, match="budget must be at least 1, got 0"):
        plan.half_width_after(0)
    for budget in ("1000", None, float("nan"), 99.5):
        for expected in (plan.half_width_after, plan.seconds_for):
            with pytest.raises(ValueError, match="budget must be a whole number, got"):
                expected(budget)


def test_where_nothing_is_shared_no_pilot_is_spent():
    evaluated = []

    def game(masks):
        evaluated.extend(masks)
        return -masks.sum(axis=1)

    with pytest.raises(ValueError, match=r"positive U\(N\) - U\(0\).*a run with a budget or a standard error"):
        fgsv.plan(fgsv.Game(game, 30), pilot=1_000)
    assert len(evaluated) == 16


def test_a_plan_shows_durations_with_units():
    plan = fgsv.plan(fgsv.games.SumOfUnanimity(20), pilot=64)
    *_, title, head, table = repr(plan).split("\n", 4)
    assert (title, head.split()) == (
        "The cost of precision, at 95% confidence",
        ["evaluations", "±", "share", "time"],
    )
    assert all(re.search(r"% +\S+ (s|min|h|days)$", line) for line in table.splitlines())
    assert "<th>time</th>" in plan._repr_html_()


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    words = ["rain", "wheat", "barley", "spring", "hay", "court", "judge", "law", "appeal", "mayor", "vote", "town"]
    rows = [
        (" ".join(rng.choice(words[3 * k : 3 * k + 6], 40)), "abc"[k], number % 3)
        for k in range(3)
        for number in range(9)
    ]
    frame = pd.DataFrame(rows, columns=["text", "by", "fold"])
    return fgsv.open_text(frame[frame["fold"] > 0], group="by", test=frame[frame["fold"] == 0])


def test_a_plan_for_few_evaluations_does_not_look_back_from_many(texts):
    run = fgsv.value(texts.game, texts.partition, budget=100)
    found = plan_table(texts, limits=Limits(budget=100))
    half_width = with_freedom(run, np.inf).sampling_half_width().max()
    assert 0 < found.test_rows <= run.test_half_width().max()
    assert found.n_evaluations == found.expected(Limits(budget=100)) == 100
    assert found.half_width_after(100) == pytest.approx(half_width)
    assert plan_table(texts, limits=Limits(budget=10**6), pilot=200).n_evaluations == 200


def test_a_plan_for_a_precision_ends_where_the_run_does(texts):
    limits = Limits(precision=0.02)
    run = fgsv.value(texts.game, texts.partition, precision=0.02)
    expected = plan_table(texts, limits=limits).expected(limits)
    assert 0.8 * expected < run.n_evaluations <= expected < 1024  # the run evaluates no coalition twice


def test_a_pilot_stops_at_the_precision_that_a_run_with_its_confidence_stops_at():
    """It once stopped at 95%, whatever confidence was asked for."""
    weights, turns = np.random.default_rng(0).random(64), np.random.default_rng(1).normal(size=64)
    game = fgsv.Game(lambda masks: np.sqrt(masks @ weights) + 0.5 * np.sin(masks @ turns), 64)
    groups, target = np.arange(64) % 4, {"precision": 0.05, "confidence": 0.5}
    run, surer = fgsv.value(game, groups, **target), fgsv.value(game, groups, precision=0.05)
    assert fgsv.plan(game, groups, pilot=2_000, **target).n_evaluations == run.n_evaluations < surer.n_evaluations


def test_a_plan_takes_no_budget():
    with pytest.raises(TypeError, match="pilot="):
        fgsv.plan(fgsv.games.SumOfUnanimity(20), budget=100)


def test_what_a_run_will_not_reach_is_foreseen_with_what_would():
    found = Plan(n_players=9000, n_groups=40, n_evaluations=2000, seconds=2.0, half_width=0.08, confidence=0.95)
    asked = []

    def offer(target, most):
        asked.append((target, most))
        return "unit_size=40 gets there in about 2 min"

    assert found.foresee(Limits(precision=0.05), offer=offer).foreseen == ()
    assert not asked
    (words,) = found.foresee(Limits(precision=0.001), offer=offer).foreseen
    assert words.startswith("this run needs about 13,000,000 evaluations (3.6 h) for ± 0.10%, but ends after about")
    assert words.endswith("1,000,000, with ± 0.36%; unit_size=40 gets there in about 2 min")
    assert asked == [(0.001, pytest.approx(12_800))]
    (words,) = found.foresee(Limits(budget=5000, precision=0.01)).foreseen
    assert "but ends after about 5,000" in words
    assert "nothing will be paid" not in words
    (words,) = found.foresee(Limits(budget=5000, precision=0.01), payable=0.1).foreseen
    assert "but ends after about 5,000, with ± 5.06%, so nothing will be paid" in words


def test_a_payout_that_will_be_refused_is_foreseen():
    found = Plan(9000, 40, n_evaluations=2000, seconds=2.0, half_width=0.08, confidence=0.95, test_rows=0.12)
    (words,) = found.foresee(Limits(budget=20_000), payable=0.1).foreseen
    assert "payments will probably be refused" in words
    assert "the test rows leave ± 12.00% alone, however long the run: bring more" in words
    assert replace(found, test_rows=0.02).foresee(Limits(budget=20_000), payable=0.1).foreseen == ()


def test_an_offer_of_units_is_measured_on_few_players():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=1500), "provider": rng.integers(5, size=1500)})
    frame["y"] = frame["a"] + rng.normal(size=1500)
    table = fgsv.open_table(frame, group="provider", target="y", model="ridge")
    size, game, partition = table.larger_players()
    assert partition.n_players == game.n_players <= 256
    assert partition.n_groups == 5
    offer = offer_of_units(table, Limits())
    assert f"unit_size={size} gets there in about" in offer(0.05, 3600.0)
    assert offer(0.05, 1e-3) == offer(1e-9, 3600.0) == ""  # where it is no faster, or takes too many
