"""Forecasts: what the process of an opening predicts of every coalition, and whether that is of use later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.estimators.covariance.correction import Target, player_values, widened
from fgsv.estimators.covariance.design import Cells
from fgsv.estimators.covariance.epochs import N_STREAMS
from fgsv.estimators.covariance.history import History
from fgsv.estimators.covariance.process import Process
from fgsv.estimators.covariance.sizes import mean_and_spread
from fgsv.estimators.covariance.surrogate import Surrogate, cross_fit
from fgsv.types import Floats, Ints, Masks

_BLOCK = 1024
"""Coalitions that are forecast at a time."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """f(S) = line(s) + sum over T of a_T k(S, T): the mean of a process, given the utilities of coalitions T."""

    process: Process
    taught: Masks
    """(m, n + l): T; l players of the process have left."""
    loads: Floats
    """(m, q): a"""
    ends: Floats
    """(2, q): the utilities of nobody and of all n players, between which the line runs."""
    left_out: Floats
    """(m, q): what is forecast of each T from all the others."""

    @classmethod
    def of(cls, process: Process, taught: Masks, values: Floats, ends: Floats, n: int) -> Forecast:
        """Return the forecast from (m, q) utilities less the line, in a game of n players."""
        root, _ = process.inverse_root(taught)
        loads = root.T @ (root @ values)
        left_out = values - loads / (root**2).sum(axis=0)[:, None]
        return cls(process, taught, loads, ends, left_out + line(ends, taught.sum(axis=1), n))

    def __call__(self, masks: Masks) -> Floats:
        """Return (m, q) forecasts for coalitions of the n players."""
        found = line(self.ends, masks.sum(axis=1), masks.shape[1])
        for start in range(0, len(masks), _BLOCK):
            block = widened(masks[start : start + _BLOCK], self.taught[:0])
            found[start : start + _BLOCK] += self.process.covariance(block, self.taught) @ self.loads
        return found

    def player_values(self, target: Target, sampled: Masks) -> Floats:
        """Return (n, q): the players' values of f, from the sampled sizes, `sampled` (n - 1,)."""
        part_of_cell = np.where(np.pad(sampled, 1), 0, -1)
        cells = Cells(np.zeros(target.n, dtype=np.int64))
        values = player_values(self.process, self.taught, self.loads[None], part_of_cell, target, cells)
        straight = line(self.ends, np.arange(1, target.n), target.n)
        return values + (target.weights.drift * sampled) @ straight


@dataclass(frozen=True, eq=False)
class Trial:
    """How well a surrogate predicts draws of which it has not seen the stream."""

    surrogate: Surrogate
    explained: Floats
    """(d, q): what it predicts of each draw, as a deviation from the mean of its size."""
    residuals: Floats
    """(d, q): what is left of it."""
    error: Floats
    """(q,): the error to expect of as many draws, in some unit."""

    @classmethod
    def of(cls, history: History, values: Floats, ends: Floats, owners: Ints, base: Floats) -> Trial:
        """Fit a surrogate to (m, q) values, and predict the draws: `owners` (m,) has their streams, else -1.

        With r(s) the standard deviation of what is left at a size, the error is the sum over sizes of base(s) r(s).
        """
        n, sizes, masks = history.n_players, history.sizes, history.masks(slice(None))
        mean, spread = mean_and_spread(n, sizes, values, ends)
        deviations = values - mean[sizes - 1]
        found = cross_fit(masks, sizes, np.stack([deviations] * N_STREAMS), owners, spread)
        drawn = owners >= 0
        explained = found.explained(masks[drawn], sizes[drawn], owners[drawn], found.fitted[drawn])
        residuals = deviations[drawn] - explained
        return cls(found, explained, residuals, base @ mean_and_spread(n, sizes[drawn], residuals)[1])


def line(ends: Floats, sizes: Ints, n: int) -> Floats:
    """Return (m, q): the straight line between the values at both ends, at some sizes."""
    share = (sizes / n)[:, None]
    return np.asarray((1 - share) * ends[0] + share * ends[1])
