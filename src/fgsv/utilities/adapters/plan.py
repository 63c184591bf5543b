"""The mini-batches of many coalitions that are trained at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.types import Ints, Masks


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """The mini-batches of B coalitions, in decreasing order of their number of steps, T for the first.

    In an epoch, the samples of a coalition come in the order that all samples have: coalitions that share samples are
    trained on them in the same order.
    """

    n_steps: Ints
    """(B,)."""
    samples: Ints
    """(T, B, b): the samples of each mini-batch; any sample where `valid` is False."""
    epochs: Ints
    """(T, B)."""
    valid: Masks
    """(T, B, b): whether a sample counts; the last mini-batch of an epoch may be short."""

    def n_active(self, step: int) -> int:
        """Return how many coalitions, counted from the first, are still in training at a step."""
        return int((self.n_steps > step).sum())


def n_steps(sizes: Ints, epochs: int, batch: int, steps: int | None = None) -> Ints:
    """Return the number of training steps of coalitions, epochs * ceil(s / batch), or `steps` for all that have any.

    >>> n_steps(np.array([0, 1, 4, 5, 120]), epochs=10, batch=4).tolist()
    [0, 10, 10, 20, 300]
    >>> n_steps(np.array([0, 1, 120]), epochs=10, batch=4, steps=50).tolist()
    [0, 50, 50]

    Args:
        sizes: (m,) samples of each coalition, s.
        epochs: Passes over a coalition's samples.
        batch: Samples in a mini-batch.
        steps: Steps of every coalition but the empty one, whatever its samples; None: by epochs.

    """
    by_epochs: Ints = epochs * -(-sizes // batch)
    return by_epochs if steps is None else np.where(sizes > 0, steps, 0)


def training_plan(masks: Masks, orders: Ints, batch: int, steps: int | None = None) -> TrainingPlan:
    """Plan the training of coalitions, sorted by decreasing number of steps, in mini-batches.

    Args:
        masks: (B, n) the samples of each coalition.
        orders: (epochs, n) a permutation of the samples for each epoch.
        batch: Samples in a mini-batch, b.
        steps: Steps of every coalition, in as many epochs as it needs; None: every coalition takes all epochs.

    Raises:
        ValueError: A coalition takes more steps than the one before it.

    """
    sizes = masks.sum(axis=1)
    taken = n_steps(sizes, len(orders), batch, steps)
    if (np.diff(taken) > 0).any():
        raise ValueError("coalitions must be sorted by decreasing number of steps, the largest first")
    n = masks.shape[1]
    per_epoch = np.maximum(1, -(-sizes // batch))
    times = np.arange(taken.max(initial=0))[:, None]
    epochs = np.minimum(times // per_epoch, len(orders) - 1)
    places = (times % per_epoch * batch)[:, :, None] + np.arange(batch)
    valid = (places < sizes[:, None]) & (times < taken)[:, :, None]
    samples = np.empty(places.shape, dtype=np.int64)
    for epoch, order in enumerate(orders):
        step, row = np.nonzero(epochs == epoch)
        some, position = np.unique(row, return_inverse=True)  # large coalitions are in few of the epochs
        # samples of the coalition first, in the order of the epoch
        members = order[np.argsort(~masks[some][:, order], axis=1, kind="stable")]
        samples[step, row] = members[position[:, None], np.minimum(places[step, row], n - 1)]
    return TrainingPlan(taken, samples, epochs, valid)
