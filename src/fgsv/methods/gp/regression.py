"""What evaluations of many players say: means and spreads by size, and what each player adds, by ridge regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.methods.gp.means import mean_and_spread
from fgsv.methods.gp.rows import FOLDS, Rows, out_of_fold
from fgsv.methods.target import Target
from fgsv.types import Floats, Ints

STEPS = 15
"""Of conjugate gradients."""
CLIP = 8.0
"""Utilities further from the mean of their size, in standard deviations, count as if so far."""
LEAST_LEARNED = 64
"""Evaluations below which nothing is learned."""
LEAST_VARIANCE = 0.002
"""Below this v is not worth learning."""


@dataclass(frozen=True, eq=False)
class Model:
    """f, for q outputs: means and spreads by size, and what each player adds."""

    mean: Floats
    """(n + 1, FOLDS, q): of all rows but a fold's"""
    spread: Floats
    """(n + 1, FOLDS, q): r, of all rows but a fold's"""
    left: Floats
    """(n + 1, q): the spread that f leaves."""
    beta: Floats
    """(n, FOLDS, q): fitted to all rows but a fold's, times the trust in them; zeros if nothing is learned."""

    def predicted(self, rows: Rows) -> Floats:
        """Return (m, FOLDS, q): f without each fold."""
        each = self.mean[rows.sizes]
        if self.beta.any():
            inner = rows.times(self.beta.reshape(rows.n, -1)).reshape(each.shape)
            each = each + self.spread[rows.sizes] * inner
        return each

    def player_values(self, target: Target) -> Floats:
        """Return (n, q): the sum over T of W(T) f(T), ends apart."""
        n, s = target.n, np.arange(target.n + 1)
        mean = self.mean.mean(axis=1)
        found = np.broadcast_to(target.of_sizes(mean), (n, mean.shape[1]))
        factor = np.tensordot(target.gain * np.sqrt(s * (n - s) / n), self.spread, 1) / max(1, n - 1)
        return found + (factor * (self.beta - self.beta.mean(axis=0))).mean(axis=1)


def fit(target: Target, rows: Rows, values: Floats, ends: Floats, n_learned: int) -> Model:
    """Return what m evaluations (m, q) say; what players add is learned of the first so many outputs."""
    n, (m, q), sizes = target.n, values.shape, rows.sizes
    nothing = np.zeros((n, FOLDS, q))
    by_size = [_by_size(n, sizes[some], values[some], ends) for some in rows.without_folds()]
    mean, spread = (np.stack(each, axis=1) for each in zip(*by_size, strict=True))
    left = spread.mean(axis=1)
    if not n_learned or m < LEAST_LEARNED:
        return Model(mean, spread, left, nothing)
    learned = slice(n_learned)
    scale = np.maximum(spread[sizes][:, :, learned], 1e-300)
    of_fold = np.clip((values[:, None] - mean[sizes])[:, :, learned] / scale, -CLIP, CLIP)
    y = out_of_fold(of_fold, rows.folds)
    square = np.maximum((y**2).sum(axis=0), 1e-300)
    v = ((rows.onto(y) ** 2).sum(axis=0) - square) * (n - 1) / (m * (m - 1.0)) / (square / m)
    v = np.minimum(v - np.sqrt(2 * n) / m, 0.98)
    if not (v > LEAST_VARIANCE).any():
        return Model(mean, spread, left, nothing)
    beta = ridge(rows, of_fold, (1 - v) / np.maximum(v, LEAST_VARIANCE)) * (v > LEAST_VARIANCE)
    inner = out_of_fold(rows.times(beta.reshape(n, -1)).reshape(m, FOLDS, n_learned), rows.folds)
    trust = np.clip((inner * y).sum(axis=0) / np.maximum((inner**2).sum(axis=0), 1e-300), 0.0, 1.0)
    nothing[:, :, learned] = beta * trust
    unexplained = out_of_fold(scale, rows.folds) * (y - trust * inner)
    left[:, learned] = _with_ends(mean_and_spread(n, sizes, unexplained)[1])
    return Model(mean, spread, left, nothing)


def ridge(rows: Rows, y: Floats, penalty: Floats) -> Floats:
    """Return (n, FOLDS, q): (X'X + penalty) beta = X'y, y (m, FOLDS, q), without the rows of each fold.

    By conjugate gradients.
    """
    m, _, q = y.shape
    on = np.repeat(rows.folds[:, None] != np.arange(FOLDS), q, axis=1)
    penalties = np.tile(penalty, FOLDS)
    residual = rows.onto(on * y.reshape(m, -1))
    beta, direction = np.zeros_like(residual), residual.copy()
    norm = first = (residual**2).sum(axis=0)
    for _ in range(STEPS):
        image = rows.normal(direction, on) + penalties * direction
        step = norm / np.maximum((direction * image).sum(axis=0), 1e-300)
        beta += step * direction
        residual -= step * image
        last, norm = norm, (residual**2).sum(axis=0)
        if (norm <= 1e-4 * first).all():
            break
        direction = residual + norm / np.maximum(last, 1e-300) * direction
    return beta.reshape(rows.n, FOLDS, q)


def _by_size(n: int, sizes: Ints, values: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Return (n + 1, q) means and spreads; a line between the ends and ones if nothing is known."""
    if not len(sizes):
        line = ends[0] + np.arange(n + 1)[:, None] / n * (ends[1] - ends[0])
        return line, np.ones_like(line)
    mean, spread = mean_and_spread(n, sizes, values, ends)
    return np.concatenate([ends[:1], mean, ends[1:]]), _with_ends(spread)


def _with_ends(spread: Floats) -> Floats:
    """Return (n + 1, q) of the (n - 1, q) of the sizes between the ends."""
    return np.concatenate([spread[:1], spread, spread[-1:]])
