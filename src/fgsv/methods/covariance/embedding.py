"""Low-rank player embedding: utility is quadratic in the members' sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from fgsv.types import Floats, Ints, Masks

Singles = NDArray[np.float32]

_RANK = 8
"""Dimensions; six and twelve were slightly worse."""
_KNOTS = 8
"""Sizes at which the curvature is fitted."""
_PENALTY = 2.0
"""Chosen once on sums of unanimity games, a ridge regression and pure noise; half of it would learn noise."""
_ITERATIONS = 40
"""Iterations of L-BFGS: it need not converge, because any positions make a valid surrogate."""
_ITERATIONS_AGAIN = 12
"""Those from an earlier fit."""
_VANISHED = 1e-3
"""Fraction of the squared length of a fresh dimension below which one of an earlier fit begins anew."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """g(S) = sum over k of d_k(s) (z_k^2 - E z_k^2) + e_k(s) z_k, z = V'x, where x is S's indicator, standardised.

    A model learns from its data through sums over them: sufficient statistics, gradients. While these move little
    the utility is a quadratic function of the sums, and a few directions carry most of it. That is a matrix of
    interactions between players of low rank, which takes some thousand draws to learn, not one for each pair.
    """

    positions: Floats
    """(n, k): V, with mean zero over the players."""
    bends: Floats
    """(knots, k, q): d_k at sizes that are equally spaced in logit(s/n), linear between them; one for each output."""
    slopes: Floats
    """(knots, k, q): e_k."""

    @classmethod
    def nothing(cls, n_players: int, n_outputs: int) -> Embedding:
        """Return an embedding with all players in one place.

        In one dimension, not in none: NumPy's einsum over an axis without entries reads past the end of its operands.
        """
        return cls(np.zeros((n_players, 1)), *np.zeros((2, _KNOTS, 1, n_outputs)))

    def __call__(self, standardised: Singles, hats: Singles) -> Singles:
        """Return (m, q) values g(S)."""
        single = (part.astype(np.float32) for part in (self.positions, self.bends, self.slopes))
        fitted, *_ = _forward(standardised.T, hats, *single)
        return fitted

    def covariances(self, weights: Floats) -> Floats:
        """Return (n, q): the sum over the sizes s of weights (n - 1, q) times E[(1{i in S} - s/n) g(S)].

        Moments of a sample without replacement: E[(1{i in S} - s/n) z_k] = v_ik sqrt(s (n - s) / n) / (n - 1), and
        with z_k^2 instead (v_ik^2 - mean v_k^2) (n - 2s) / ((n - 1) (n - 2)).
        """
        n = len(self.positions)
        sizes = np.arange(1, n)
        hats = size_hats(n, sizes).astype(float)
        linear = weights * np.sqrt(sizes * (n - sizes) / n)[:, None] / (n - 1)
        squared = weights * (n - 2 * sizes)[:, None] / ((n - 1) * (n - 2))
        squares = self.positions**2
        by_slope = np.einsum("sb,bkq,sq->kq", hats, self.slopes, linear, optimize=True)
        by_bend = np.einsum("sb,bkq,sq->kq", hats, self.bends, squared, optimize=True)
        return self.positions @ by_slope + (squares - squares.mean(axis=0)) @ by_bend


def standardise(masks: Masks, sizes: Ints) -> Singles:
    """Return (m, n) indicators of the coalitions, each with mean zero and norm one."""
    n = masks.shape[1]
    scale = 1 / np.sqrt(sizes * (n - sizes) / n)
    rows = masks * scale.astype(np.float32)[:, None]
    rows -= (scale * sizes / n).astype(np.float32)[:, None]
    return rows


def size_hats(n: int, sizes: Ints) -> Singles:
    """Return (m, knots) weights that interpolate between the knots, linearly in logit(s/n)."""
    end = np.log(n - 1)
    place = (np.log(sizes / (n - sizes)) / end + 1) / 2 * (_KNOTS - 1)
    return np.maximum(0, 1 - np.abs(place[:, None] - np.arange(_KNOTS))).astype(np.float32)


def embed(standardised: Singles, hats: Singles, targets: Singles, last: Embedding | None = None) -> Embedding:
    """Fit an embedding to (m, q) targets of about unit variance by penalised least squares, from the `last` one on.

    The penalty grows as the largest singular value that noise alone would have, so that noise is not embedded.
    """
    (m, n), q = standardised.shape, targets.shape[1]
    start, iterations = _starting_point(n, q), _ITERATIONS
    if last is not None and last.positions.shape == start.positions.shape:
        start, iterations = _revived(last, start), _ITERATIONS_AGAIN
    shapes = [start.positions.shape, start.bends.shape, start.slopes.shape]
    cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    penalty = _PENALTY * (1 + np.sqrt(m / n))
    by_player = np.ascontiguousarray(standardised.T)  # products with few vectors are fastest from the left

    def unpack(parameters: Floats) -> list[Floats]:
        return [part.reshape(shape) for part, shape in zip(np.split(parameters, cuts), shapes, strict=True)]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        positions, bends, slopes = (part.astype(np.float32) for part in unpack(parameters))
        fitted, z, squares, bend, slope = _forward(by_player, hats, positions, bends, slopes)
        error = fitted - targets
        pull = np.einsum("mq,mkq->mk", error, 2 * bend * z[:, :, None] + slope)
        shift = np.einsum("mq,mkq->k", error, bend) * 2 / (n - 1)
        at_knots = (hats[:, :, None] * error[:, None, :]).reshape(m, -1)
        by_knot = [(inner.T @ at_knots).reshape(-1, _KNOTS, q).swapaxes(0, 1) for inner in (squares, z)]
        gradients = [(pull.T @ standardised).T - shift * positions, *by_knot]
        gradient = np.concatenate([part.ravel() for part in gradients]).astype(float) + penalty * parameters
        return 0.5 * float((error.astype(float) ** 2).sum() + penalty * parameters @ parameters), gradient

    first = np.concatenate([start.positions.ravel(), start.bends.ravel(), start.slopes.ravel()])
    best = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    positions, bends, slopes = unpack(best.x)
    return Embedding(positions - positions.mean(axis=0), bends, slopes)  # the mean is rounding


def _starting_point(n: int, q: int) -> Embedding:
    """Return an arbitrary but fixed starting point."""
    rng = np.random.default_rng(0)
    rank = min(_RANK, n - 1)
    positions = 0.3 * rng.standard_normal((n, rank))
    bends = np.broadcast_to(0.5 * rng.standard_normal((1, rank, q)), (_KNOTS, rank, q))
    return Embedding(positions - positions.mean(axis=0), bends, np.zeros((_KNOTS, rank, q)))


def _revived(last: Embedding, fresh: Embedding) -> Embedding:
    """Return the last embedding, with fresh dimensions for those that vanished: they would stay so."""
    lives = (last.positions**2).sum(axis=0) > _VANISHED * (fresh.positions**2).sum(axis=0)
    column = lives[:, None]
    return Embedding(
        np.where(lives, last.positions, fresh.positions),
        np.where(column, last.bends, fresh.bends),
        np.where(column, last.slopes, fresh.slopes),
    )


def _forward(
    by_player: Singles, hats: Singles, positions: Singles, bends: Singles, slopes: Singles
) -> tuple[Singles, Singles, Singles, Singles, Singles]:
    """Return g (m, q) of (n, m) coalitions, and on the way z and z^2 - E z^2 (m, k), d and e (m, k, q)."""
    z = (positions.T @ by_player).T
    bend, slope = (np.tensordot(hats, curves, axes=1) for curves in (bends, slopes))
    squares = z**2 - (positions**2).sum(axis=0) / (len(positions) - 1)
    fitted = np.einsum("mk,mkq->mq", squares, bend) + np.einsum("mk,mkq->mq", z, slope)
    return fitted, z, squares, bend, slope
