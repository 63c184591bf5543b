"""Targets: no run stops at an error that it cannot know yet."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import fgsv
from benchmarks import stops
from fgsv.games import Airport, SumOfUnanimity, WeightedMajority
from fgsv.running.stopping import NOTHING_VARIED, Precision, StandardError
from fgsv.valuation import Estimate, Reason, Valuation

pytestmark = pytest.mark.slow

VOTE = WeightedMajority([12, 9, 8, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 1], 38)
GROUPS = np.arange(14) % 4


@pytest.mark.parametrize("seed", [23, 36])
def test_a_vote_does_not_stop_before_its_errors_are_seen(seed):
    truth = np.array([VOTE.shapley[k == GROUPS].sum() for k in range(4)])
    stopped = fgsv.value(VOTE, GROUPS, seed=seed, precision=0.15)
    assert stopped.end.reason is Reason.TARGET
    assert stopped.stderr.min() > 0
    np.testing.assert_array_less(np.abs(stopped.values - truth), 4 * stopped.stderr)


@dataclass(frozen=True)
class Seen:
    """A run as a rule sees it."""

    valuation: Valuation
    n_evaluations: int = 120
    last_look: int = 100
    seconds: float = 0.0
    round_seconds: float = 0.0


@pytest.mark.parametrize("rule", [Precision(0.02), StandardError(0.02)])
def test_enough_is_known_before_a_target_counts(rule):
    known = fgsv.value(SumOfUnanimity(20), np.arange(20) % 4, budget=400)
    shares, small = known.values / known.total, np.full(4, 1e-5)
    groups = Estimate(shares[:, None], stderr=small[:, None], degrees_of_freedom=known.degrees_of_freedom)
    known = replace(known, ends=np.array([0.0, 1.0]), estimate=replace(groups, of_groups=True))
    soon = 152 if isinstance(rule, Precision) else 77

    def seen(**changed):
        record = {"n_evaluations": changed.pop("n_evaluations")} if "n_evaluations" in changed else {}
        return replace(known, estimate=replace(known.estimate, **changed), **record)

    def is_met(**changed):
        return rule(Seen(seen(**changed))) is not None

    assert is_met()
    assert is_met(n_evaluations=soon)
    assert not is_met(n_evaluations=soon - 1)
    assert is_met(degrees_of_freedom=4)  # far within the target
    assert not is_met(degrees_of_freedom=np.nan)
    nearly = 0.95 * known.estimate.stderr / rule.ratio(known)
    assert is_met(stderr=nearly)
    few = {"degrees_of_freedom": 2, "stderr": 0.95 * known.estimate.stderr / rule.ratio(seen(degrees_of_freedom=2))}
    assert not is_met(**few)
    assert not is_met(**few, n_evaluations=16 * soon - 1)
    assert is_met(**few, n_evaluations=16 * soon)  # many evaluations make up for it
    assert not is_met(stderr=np.full(4, np.nan))
    nothing = {"stderr": np.zeros(4)}
    assert not is_met(**nothing)
    assert not is_met(**nothing, n_evaluations=NOTHING_VARIED - 1)
    assert is_met(**nothing, n_evaluations=NOTHING_VARIED)
    assert is_met(**nothing, exact=True, n_evaluations=16)
    assert rule(Seen(known, n_evaluations=119)) is None  # the last look was too recent


def test_a_group_of_all_players_and_exact_values_need_no_more_evaluations():
    assert fgsv.value(SumOfUnanimity(30), np.zeros(30), precision=0.01).n_evaluations == 16
    assert fgsv.value(Airport([1.0, 2.0, 3.0]), precision=1e-9).exact


def test_a_budget_that_ends_too_soon_says_what_the_target_takes():
    short = fgsv.value(SumOfUnanimity(30), np.arange(30) % 3, precision=0.5, budget=34)
    assert short.end.reason is Reason.BUDGET
    assert "a precision of 0.5 would take about 66 evaluations" in short.end.detail


def test_a_target_that_is_missed_for_want_of_certainty_does_not_name_fewer_evaluations_than_were_made():
    game, options = SumOfUnanimity(16, seed=5), {"budget": 96, "learn": "sizes", "seed": 2}
    precision = 1.005 * fgsv.value(game, np.arange(16) % 3, **options).sampling_half_width().max()
    missed = fgsv.value(game, np.arange(16) % 3, precision=precision, **options)
    assert missed.degrees_of_freedom < 8
    assert missed.end.detail == (
        f"budget of 96 reached; a precision of {precision:g} would take more evaluations: errors are known only "
        "roughly so far"
    )


def test_intervals_hold_where_runs_stop(repeats):
    for game in repeats(["vote of 9"], list(stops.GAMES)):
        found = stops.repeat(game, repeats(0.1, 0.05), runs=repeats(8, 200), jobs=repeats(1, 2))
        assert found["coverage of all"] > repeats(0.75, 0.88), game
