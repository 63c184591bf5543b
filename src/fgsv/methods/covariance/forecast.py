"""Forecasts: what is predicted of every coalition before an epoch, so that its draws sample the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fgsv.methods.covariance.design import Cells
from fgsv.methods.covariance.embedding import size_hats
from fgsv.methods.covariance.history import History, evenly
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import widened
from fgsv.methods.covariance.sizes import mean_and_spread
from fgsv.methods.covariance.surrogate import MOST_ROWS
from fgsv.methods.covariance.target import Target
from fgsv.types import Floats, Ints, Masks

RIDGES = np.geomspace(1e-8, 1e6, 57)
"""Ridges that are tried."""
_BLOCK = 1024
"""Coalitions that are forecast at a time."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """f(S) = line(s) + sum over T of a_T k(S, T): the mean of a process, given the utilities of coalitions T."""

    what: ClassVar[str] = "a Gaussian process"
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
        solved = process.solve(taught, values)
        left_out = values - solved.loads / (solved.root**2).sum(axis=0)[:, None]
        return cls(process, taught, solved.loads, ends, left_out + line(ends, taught.sum(axis=1), n))

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
        loads, weights = self.loads[None], target.log_weights
        values = self.process.player_values(self.taught, loads, part_of_cell, weights, cells)
        straight = line(self.ends, np.arange(1, target.n), target.n)
        return values + (target.weights.drift * sampled) @ straight


@dataclass(frozen=True, eq=False)
class Additive:
    """f(S) = curve(s) + sum of w_i over the members of S: what each player adds, whoever else is there."""

    what: ClassVar[str] = "a sum over players"
    worth: Floats
    """(n, q): w, with mean zero over the players."""
    curve: Floats
    """(n + 1, q)"""
    left_out: Floats
    """(m, q): what is forecast of each coalition from all the others."""

    @classmethod
    def of(cls, history: History, ends: Floats) -> Additive:
        """Fit it to draws so far, at most `MOST_ROWS`, by ridge regression in units of the spread of each size.

        The ridge is the same for what is left out, and a coalition that was drawn twice tells of itself.
        """
        n, rows = history.n_players, evenly(len(history), MOST_ROWS)
        sizes, masks = history.sizes[rows], history.masks(rows)
        straight = line(ends, sizes, n)
        values = history.values[rows] - straight
        _, spread = mean_and_spread(n, sizes, values, 0 * ends)
        unit = np.sqrt(((spread / spread.mean(axis=0)) ** 2).mean(axis=1))[sizes - 1, None]
        by_size = _size_basis(n, sizes) / unit
        basis, weight, _ = np.linalg.svd(by_size, full_matrices=False)
        basis = basis[:, weight > 1e-8 * weight[0]]  # with few players some functions of the size are the same
        members, targets = (masks - (sizes / n)[:, None]) / unit, values / unit
        worth, leverage = _ridge(*(each - basis @ (basis.T @ each) for each in (members, targets)))
        worth -= worth.mean(axis=0)
        beyond = values - masks @ worth
        by_knot = np.linalg.lstsq(by_size, beyond / unit, rcond=None)[0]
        curve = line(ends, np.arange(n + 1), n)
        curve[1:n] += _size_basis(n, np.arange(1, n)) @ by_knot
        leverage += (basis**2).sum(axis=1)[:, None]
        residuals = beyond - _size_basis(n, sizes) @ by_knot
        left_out = straight + values - residuals / np.maximum(1 - leverage, 1e-3)
        if len(rows) == len(history):
            return cls(worth, curve, left_out)
        others = np.setdiff1d(np.arange(len(history)), rows)
        found = cls(worth, curve, np.empty_like(history.values))
        found.left_out[rows], found.left_out[others] = left_out, found(history.masks(others))
        return found

    def __call__(self, masks: Masks) -> Floats:
        """Return (m, q) forecasts."""
        return self.curve[masks.sum(axis=1)] + masks @ self.worth

    def player_values(self, target: Target, sampled: Masks) -> Floats:
        """Return (n, q): the players' values of f, from the sampled sizes, `sampled` (n - 1,)."""
        n, s = target.n, np.arange(1, target.n)
        scale = float((target.weights.gain * sampled) @ (s * (n - s))) / (n * (n - 1))
        return scale * self.worth + (target.weights.drift * sampled) @ self.curve[1:n]


def _ridge(columns: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Return (n, q) coefficients of (m, n) columns for (m, q) targets, and the (m, q) leverages of the rows.

    The ridge maximises the likelihood if coefficients and what is left are independent and normal.
    """
    squares, turned = np.linalg.eigh(columns.T @ columns)
    squares = np.maximum(squares, 0.0)[:, None]
    along, total = turned.T @ (columns.T @ targets), (targets**2).sum(axis=0)
    left = np.maximum(total - (1 / (squares + RIDGES)).T @ along**2, 1e-14 * total + 1e-300)
    cost = len(targets) * np.log(left) + np.log1p(squares / RIDGES).sum(axis=0)[:, None]
    shrunk = squares + RIDGES[cost.argmin(axis=0)]
    return turned @ (along / shrunk), (columns @ turned) ** 2 @ (1 / shrunk)


def _size_basis(n: int, sizes: Ints) -> Floats:
    """Return (m, k): functions of the size, a line and those that are linear in logit s between knots."""
    hats = size_hats(n, sizes).astype(float)
    return np.concatenate([hats / hats.sum(axis=1, keepdims=True), (sizes / n)[:, None]], axis=1)


def line(ends: Floats, sizes: Ints, n: int) -> Floats:
    """Return (m, q): the straight line between the values at both ends, at some sizes."""
    share = (sizes / n)[:, None]
    return np.asarray((1 - share) * ends[0] + share * ends[1])
