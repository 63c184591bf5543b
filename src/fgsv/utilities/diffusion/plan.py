"""Which images each coalition is trained on at each step, from one seed for all coalitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.types import Ints, Masks


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """The mini-batches of B coalitions, in decreasing order of their number of steps, T for the first.

    In an epoch, members come in the order of one permutation of all players. Coalitions that share members are thus
    trained on them in the same order and, as noise depends on (epoch, player), with the same noise.
    """

    n_steps: Ints
    """(B,): number of epochs times the mini-batches in a coalition."""
    players: Ints
    """(T, B, b): the player of each sample; any player where `valid` is False."""
    epochs: Ints
    """(T, B)."""
    valid: Masks
    """(T, B, b): whether a sample counts; the last mini-batch of an epoch may be short."""

    def n_active(self, step: int) -> int:
        """Return how many coalitions, counted from the first, are still in training at a step."""
        return int((self.n_steps > step).sum())


def n_steps(sizes: Ints, epochs: int, batch: int) -> Ints:
    """Return the number of training steps of coalitions of these sizes.

    >>> n_steps(np.array([0, 1, 4, 5, 120]), epochs=10, batch=4).tolist()
    [0, 10, 10, 20, 300]
    """
    steps: Ints = epochs * -(-sizes // batch)
    return steps


def training_plan(masks: Masks, epochs: int, batch: int, seed: int) -> TrainingPlan:
    """Plan the training of (B, n) coalitions, sorted by decreasing number of steps, in mini-batches of `batch`."""
    sizes = masks.sum(axis=1)
    steps = n_steps(sizes, epochs, batch)
    if (np.diff(steps) > 0).any():
        raise ValueError("coalitions must be sorted by decreasing number of steps, the largest first")
    n_coalitions, n = masks.shape
    rng = np.random.default_rng(seed)
    orders = np.stack([rng.permutation(n) for _ in range(epochs)])
    # members first, in the order of the epoch's permutation: (epochs, B, n)
    outside = np.stack([~masks[:, order] for order in orders])
    members = np.take_along_axis(orders[:, None, :], np.argsort(outside, axis=2, kind="stable"), axis=2)
    per_epoch = np.maximum(1, -(-sizes // batch))
    times = np.arange(steps.max(initial=0))[:, None]
    epoch = np.minimum(times // per_epoch, epochs - 1)
    places = (times % per_epoch * batch)[:, :, None] + np.arange(batch)
    valid = (places < sizes[:, None]) & (times < steps)[:, :, None]
    rows = np.arange(n_coalitions)[None, :, None]
    players = members[epoch[:, :, None], rows, np.minimum(places, n - 1)]
    return TrainingPlan(steps, players, epoch, valid)
