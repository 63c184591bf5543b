"""What a process predicts by itself: player values without a correction, and the errors to expect of them."""

from __future__ import annotations

import numpy as np

from fgsv.methods.covariance.design import Cells, some_of_level
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import widened
from fgsv.methods.covariance.target import Target
from fgsv.types import Floats, Masks


def predict(
    target: Target, cells: Cells, masks: Masks, values: Floats, process: Process, related: Masks | None = None
) -> Floats:
    """Return (n, q): what a process predicts from all that is known, uncorrected, so biased and of unknown error."""
    cell = cells.of(masks)
    complete = cells.unseen(cells.known(masks)) == 0
    part_of_cell = np.where(complete | (cells.sizes % target.n == 0), -1, 0)
    everything = masks if related is None else widened(masks, related)
    solved = process.solve(everything, values)
    inside = np.flatnonzero(part_of_cell[cell] == 0)
    by_own = (solved.own[: len(masks)] / cells.of_size[cell])[inside, None] * solved.loads[inside]
    found = process.player_values(everything, solved.loads[None], part_of_cell, target.log_weights, cells)
    return (
        found
        + target.exact(masks, values[: len(masks)], cells, complete)
        + target.coefficients(masks[inside]).T @ by_own
    )


def uncertainty(process: Process, taught: Masks, cells: Cells, rng: np.random.Generator) -> Floats:
    """Return (c,): the root mean squared error to expect of predictions from coalitions `taught`, in each cell."""
    root, _ = process.inverse_root(taught)
    found = np.zeros((cells.n_levels, cells.n + 1))
    for level in range(cells.n_levels):
        sizes, masks = some_of_level(cells, level, rng)
        wider = widened(masks, taught[:0])
        explained = ((root @ process.covariance(taught, wider)) ** 2).sum(axis=0)
        variance = np.maximum(process.variance(wider) - explained, 1e-12).reshape(len(sizes), -1).mean(axis=1)
        found[level] = np.interp(np.arange(cells.n + 1), sizes, np.sqrt(variance))
    return found.reshape(-1)
