"""What evaluations say: predictions of the values, leave-one-out residuals and influences, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from fgsv.methods.gp.fitting import inverted
from fgsv.methods.gp.kernel import Kernel
from fgsv.types import Floats, Ints, Masks

BASIS = 2048
"""Up to so many evaluations f interpolates all of them; then it is a combination of so many kernel functions."""
LEARNED = 16_384
"""Evaluations, at the most, from which f is learned; others only correct it."""
AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Smoother:
    """P, rho and h from m evaluations of q outputs."""

    prediction: Floats
    """(n, q): P"""
    residuals: Floats
    """(m, q): rho"""
    influences: Floats
    """(m, n): h"""
    variances: Floats | None
    """(m,): of the residuals, as the kernel has them; None where f does not interpolate."""

    @classmethod
    def of(cls, kernel: Kernel, masks: Masks, values: Floats) -> Smoother:
        """Return what the (m, q) values say, with this kernel."""
        return (exact if len(values) <= BASIS else sparse)(kernel, masks, values)


def precision(kernel: Kernel, masks: Masks) -> Floats:
    """Return (m, m): the inverse of the evaluations' covariance matrix."""
    matrix = kernel(masks, masks)
    matrix[np.diag_indices(len(masks))] += kernel.own(masks.sum(axis=1))
    inverse, _ = inverted(matrix)
    if inverse is None:
        raise FloatingPointError("the covariance matrix of the evaluations has no inverse: this is a mistake in fgsv")
    return inverse


def exact(kernel: Kernel, masks: Masks, values: Floats) -> Smoother:
    """Interpolate: with K the covariance matrix, rho_j = (K^-1 U)_j / (K^-1)_jj."""
    inverse = precision(kernel, masks)
    solved = inverse @ values
    integrals = kernel.player_values(masks)
    integrals += kernel.own(masks.sum(axis=1))[:, None] * coefficients(kernel, masks)
    variances = 1 / np.diag(inverse)
    return Smoother(integrals.T @ solved, solved * variances[:, None], inverse @ integrals, variances)


def sparse(kernel: Kernel, masks: Masks, values: Floats, n_basis: int = BASIS) -> Smoother:
    """Combine k(., B), B some of the evaluations (FITC: Snelson and Ghahramani, 2006).

    What the basis leaves of each utility's variance counts as its own part: U = f + e with f = V'z, V = L^-1 k(B, T),
    L L' = k(B, B), z standard normal and e independent, of variances D.
    """
    weights = coefficients(kernel, masks)
    basis = masks[evenly(len(values), n_basis)]
    among = kernel(basis, basis)
    among[np.diag_indices(len(basis))] *= 1 + 1e-6
    lower = cholesky(among, lower=True, overwrite_a=True)
    learned = evenly(len(values), LEARNED)
    sizes = masks[learned].sum(axis=1)
    across = solve_triangular(lower, kernel(basis, masks[learned]), lower=True, overwrite_b=True)
    own = kernel.own(sizes) + np.maximum(kernel.variance(sizes) - (across**2).sum(axis=0), 0.0)
    inner = (across / own) @ across.T
    inner[np.diag_indices(len(basis))] += 1
    second = cholesky(inner, lower=True, overwrite_a=True)
    across = solve_triangular(second, across, lower=True, overwrite_b=True)
    z = across @ (values[learned] / own[:, None])
    leverage = np.zeros(len(values))
    leverage[learned] = (across**2).sum(axis=0) / own
    fitted = np.empty_like(values)
    fitted[learned] = across.T @ z
    others = np.setdiff1d(np.arange(len(values)), learned, assume_unique=True)
    of_basis = solve_triangular(lower, solve_triangular(second, z, lower=True, trans="T"), lower=True, trans="T")
    integrals = kernel.player_values(basis)
    known = np.zeros_like(integrals)
    for start in range(0, len(others), AT_ONCE):
        rows = others[start : start + AT_ONCE]
        block = kernel(masks[rows], basis)
        fitted[rows] = block @ of_basis
        known += block.T @ weights[rows]
    inner = solve_triangular(lower, np.hstack([integrals, integrals - known]), lower=True, overwrite_b=True)
    integrals, unknown = np.hsplit(solve_triangular(second, inner, lower=True, overwrite_b=True), 2)
    prediction = integrals.T @ z + weights.T @ (values - fitted)
    influences = weights
    influences[learned] += across.T @ (unknown - across @ weights[learned]) / own[:, None]
    return Smoother(prediction, (values - fitted) / (1 - leverage)[:, None], influences, None)


def coefficients(kernel: Kernel, masks: Masks) -> Floats:
    """Return (m, n): W(T), nothing for coalitions with players who have left."""
    n = kernel.target.n
    weights = kernel.target.coefficients(masks[:, :n])
    if masks.shape[1] > n:
        weights[masks[:, n:].any(axis=1)] = 0.0
    return weights


def evenly(m: int, most: int) -> Ints:
    """Return at most so many of m rows, evenly spaced."""
    return np.arange(m) if m <= most else np.unique(np.linspace(0, m - 1, most).astype(int))
