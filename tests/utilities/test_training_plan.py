"""The training plan: which player is trained on when, in every coalition."""

import numpy as np
import pytest
from heavy import Lazy, needs

pytestmark = [pytest.mark.torch, needs("torch")]
plans = Lazy("fgsv.utilities.adapters.plan")


ORDERS = np.stack([np.random.default_rng(1 + epoch).permutation(5) for epoch in range(3)])


def test_a_plan_visits_every_member_once_an_epoch_in_one_order():
    masks = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=bool)
    plan = plans.training_plan(masks, ORDERS, batch=2)
    assert plan.n_steps.tolist() == [9, 6, 3, 0]
    assert [plan.n_active(step) for step in range(9)] == [3, 3, 3, 2, 2, 2, 1, 1, 1]
    seen = {}
    for row, mask in enumerate(masks):
        for epoch in range(3):
            times = np.flatnonzero((plan.epochs[:, row] == epoch) & (np.arange(9) < plan.n_steps[row]))
            players = plan.samples[times, row][plan.valid[times, row]].tolist()
            assert sorted(players) == np.flatnonzero(mask).tolist()
            seen[row, epoch] = players
    for epoch in range(3):  # the members of a smaller coalition come in the order of the larger one
        assert seen[1, epoch] == [player for player in seen[0, epoch] if masks[1, player]]
    assert seen[0, 0] != seen[0, 1]
    with pytest.raises(ValueError, match="sorted by decreasing number"):
        plans.training_plan(masks[::-1], ORDERS, batch=2)


def test_with_a_number_of_steps_every_coalition_takes_so_many():
    masks = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 0, 0, 0]], dtype=bool)
    plan = plans.training_plan(masks, ORDERS, batch=2, steps=5)
    assert plan.n_steps.tolist() == [5, 5, 0]
    assert plan.epochs[:, :2].T.tolist() == [[0, 0, 0, 1, 1], [0, 0, 1, 1, 2]]
    expected = [player for order in ORDERS for player in order if masks[1, player]]
    assert plan.samples[:, 1][plan.valid[:, 1]].tolist() == expected[: plan.valid[:, 1].sum()]


def test_large_coalitions_are_not_sorted_for_epochs_that_they_do_not_reach(monkeypatch):
    rng = np.random.default_rng(0)
    masks = np.vstack([rng.random((7, 400)) < 0.9, np.arange(400) == 3])
    orders = np.stack([rng.permutation(400) for _ in range(50)])
    sorted_cells, argsort = [], np.argsort
    monkeypatch.setattr(np, "argsort", lambda a, **how: sorted_cells.append(np.size(a)) or argsort(a, **how))
    plan = plans.training_plan(masks, orders, batch=1, steps=50)
    assert sum(sorted_cells) == (8 + 49) * 400
    for row, mask in enumerate(masks):
        expected = [player for order in orders for player in order if mask[player]][:50]
        assert plan.samples[:, row, 0].tolist() == expected
