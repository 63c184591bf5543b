"""The training plan: which player is trained on when, in every coalition."""

import numpy as np
import pytest

pytest.importorskip("torch")

from fgsv.utilities.diffusion.game import training_plan


def test_a_plan_visits_every_member_once_an_epoch_in_one_order():
    masks = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=bool)
    plan = training_plan(masks, epochs=3, batch=2, seed=1)
    assert plan.n_steps.tolist() == [9, 6, 3, 0]
    assert [plan.n_active(step) for step in range(9)] == [3, 3, 3, 2, 2, 2, 1, 1, 1]
    seen = {}
    for row, mask in enumerate(masks):
        for epoch in range(3):
            times = np.flatnonzero((plan.epochs[:, row] == epoch) & (np.arange(9) < plan.n_steps[row]))
            players = plan.players[times, row][plan.valid[times, row]].tolist()
            assert sorted(players) == np.flatnonzero(mask).tolist()
            seen[row, epoch] = players
    for epoch in range(3):  # the members of a smaller coalition come in the order of the larger one
        assert seen[1, epoch] == [player for player in seen[0, epoch] if masks[1, player]]
    assert seen[0, 0] != seen[0, 1]
    with pytest.raises(ValueError, match="sorted by decreasing number"):
        training_plan(masks[::-1], epochs=3, batch=2, seed=1)
