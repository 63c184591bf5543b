"""Targets and utilities beyond what a float can hold: a target that is not met, or an error before work is spent."""

import numpy as np
import pytest

import fgsv
from fgsv.games import SumOfUnanimity

GROUPS = np.arange(30) % 4


@pytest.mark.parametrize(
    "target", [{"precision": 1e-300}, {"precision": 5e-324}, {"stderr": 1e-160}, {"stderr": 1e-300}]
)
def test_a_target_too_small_to_square_is_one_that_the_budget_does_not_reach(target):
    found = fgsv.value(SumOfUnanimity(30), GROUPS, budget=100, **target)
    plain = fgsv.value(SumOfUnanimity(30), GROUPS, budget=100, precision=1e-9)
    assert found.values.tobytes() == plain.values.tobytes()
    assert f"would take all {2**30:,} evaluations" in found.end.detail
    roots = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1) + masks[:, 0]), 1100)
    many = fgsv.value(roots, budget=100, **target)
    assert "would take over 1e308 evaluations" in many.end.detail


def test_a_plan_for_such_a_target_is_a_number():
    plan = fgsv.plan(SumOfUnanimity(30), GROUPS, pilot=100)
    assert plan.evaluations_for(1e-300) == 2**30
    assert plan.evaluations_for(0.01) < 2**29


@pytest.mark.parametrize("run", [fgsv.value, fgsv.exact, fgsv.plan, fgsv.diagnose])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_ends_whose_difference_is_no_number_are_an_error_before_anything_else_is_evaluated(run, n_outputs):
    n_evaluated = 0

    def game(masks):
        nonlocal n_evaluated
        n_evaluated += len(masks)
        extreme = np.where(masks.all(axis=1), 1.7e308, -1.7e308)
        return np.stack([masks.sum(axis=1), extreme], axis=1)[:, -n_outputs:].squeeze()

    with pytest.raises(fgsv.GameError, match=r"too large for a number: U\(0\) = -1.7e\+308 and U\(N\) = 1.7e\+308"):
        run(fgsv.Game(game, 12))
    assert n_evaluated == 2


def test_utilities_near_the_largest_number_are_valued_where_their_differences_are_numbers():
    weights = np.arange(1.0, 11.0)
    found = fgsv.exact(fgsv.Game(lambda masks: 1.7e308 * (masks @ weights / weights.sum()), 10))
    np.testing.assert_allclose(found.shares(), weights / weights.sum(), rtol=1e-9)
