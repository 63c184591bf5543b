"""The values that are stated, and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.methods.gp.choice import CANDIDATES, FEW_PLAYERS, candidates, posterior
from fgsv.methods.gp.fitting import BLOCK, BLOCKS
from fgsv.methods.gp.kernel import COMMON, Kernel
from fgsv.methods.gp.sampler import Sampler
from fgsv.methods.gp.smoother import BASIS, Smoother, coefficients
from fgsv.types import Floats, Ints, Masks

MARGIN = 0.15
"""Added to kappa: what is not known of the scale of the posterior."""


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What is known of a game: m distinct coalitions, the two ends among them."""

    masks: Masks
    """(m, n), or more columns where coalitions have players who have left."""
    values: Floats
    """(m, q): utilities, less a trend whose values are known."""
    features: Floats
    """(m, p): a proxy's, less the same."""
    drawn: Masks
    """(m,): by a law; the others were chosen, or known before."""
    expected: Floats
    """(n + 1,): draws expected of each size."""
    stated: slice
    """The outputs whose errors count: the others are folds of the test rows."""

    def __post_init__(self) -> None:
        assert len(self.masks) == len(self.values) == len(self.drawn)

    def sizes(self) -> Ints:
        """Return (m,)."""
        return np.asarray(self.masks.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Values:
    """What is stated, besides the values of the trend."""

    values: Floats
    """(n, q)"""
    deviations: Floats
    """(R, n, q): a root of the covariance of their errors."""
    freedom: float
    correction: float
    """a: 0 for predictions, 1 for corrected values."""


class Weighing:
    """The part of coalitions that each evaluation stands for: Horvitz-Thompson weights and what is left unknown."""

    def __init__(self, kernel: Kernel, data: Evaluations, unknown: Floats) -> None:
        target = kernel.target
        n, sizes = target.n, data.sizes()
        present = ~data.masks[:, n:].any(axis=1)
        unknown_of = np.where(present, unknown[np.minimum(sizes, n)], np.inf)
        self.used = data.drawn & (unknown_of > 0)
        stands_for = np.zeros(len(sizes))
        used = sizes[self.used]
        stands_for[self.used] = (unknown[used] + 1) / data.expected[used]
        self.weights = stands_for[:, None] * coefficients(kernel, data.masks)
        """(m, n): c"""
        self.left = np.where(present, (unknown / target.counts)[np.minimum(sizes, n)], 1.0)
        """(m,): the part of the coalitions of a size that is unknown."""
        self.n_free = int(np.count_nonzero(unknown_of))

    def by_draws(self, residuals: Floats) -> Floats:
        """Return (m, 1, q): factors of c_j in the deviations of C."""
        return residuals / np.sqrt(np.where(self.used, self.left, 1.0))[:, None]


def stated(kernel: Kernel, sampler: Sampler, data: Evaluations, rng: np.random.Generator) -> Values:
    """Return V = (1 - a) P + a C, and its error.

    The error of P is (kappa + MARGIN)^2 lambda Sigma: Sigma is the posterior covariance of the values, and lambda the
    sum of |h_j|^2 rho_j^2 over that of |h_j|^2 var(rho_j), which scales what the kernel expects of the jackknife to
    the jackknife. Beyond BASIS evaluations the error of V is the jackknife itself (known as HC3 in regression): the
    sum of d_j d_j', d_j = kappa rho_j [(1 - a) h_j + a c_j]. kappa = 1 + (number of parameters) / (number of
    evaluations that they are fitted to), after Akaike's final prediction error: parameters that were fitted to T_j
    make rho_j too small. Predictions that shrink all differences between players in common have an error that the
    process takes for independent ones: by how much C moves P along itself is a further deviation, times 1 - a.
    """
    target, m = kernel.target, len(data.values)
    unknown = sampler.unknown
    found = Smoother.of(kernel, data.masks, data.values)
    weighing = Weighing(kernel, data, unknown)
    kappa = 1 + (COMMON + kernel.n) / max(1.0, m / 2, float(min(weighing.n_free, BLOCK * BLOCKS)))
    influences = found.influences if target.has_drift else found.influences - _mean(found.influences)
    drawn = data.drawn[:, None] / max(1, int(np.count_nonzero(data.drawn)))
    moved = (weighing.weights - drawn * found.influences).T @ found.residuals
    a = max(0.0, 1 - BASIS / m)
    values = found.prediction + a * moved
    shrunk = (1 - a) * _along(found.prediction - found.prediction.mean(axis=0), moved)[None]
    if found.variances is not None:
        h = influences * np.sqrt(weighing.left + 1 / (1 + weighing.n_free))[:, None]
        squares = (h**2).sum(axis=1)
        scale = (found.residuals.T * squares) @ found.residuals / max(squares @ found.variances, 1e-300)
        some, weights = candidates(target, CANDIDATES * (1 + (target.n <= FEW_PLAYERS)), rng)
        covariance = posterior(kernel, sampler.is_free(some), some, weights, data.masks, found.influences, unknown)
        deviations = (kappa + MARGIN) * _of_outputs(root(covariance), scale, data.stated)
        freedom = 2 * _freedom(squares, found.residuals[:, data.stated])
    else:
        by_prediction = (1 - a) * kappa * np.sqrt(weighing.left)[:, None] * found.residuals
        by_draws = a * kappa * weighing.by_draws(found.residuals)
        deviations = _summed(data.stated, (influences, by_prediction), (weighing.weights, by_draws))
        squares = (1 - a) ** 2 * weighing.left * (influences**2).sum(axis=1)
        squares += a**2 * (weighing.weights**2).sum(axis=1)
        freedom = _freedom(squares, found.residuals[:, data.stated])
    return Values(values, np.concatenate([deviations, shrunk]), freedom, a)


def unbiased(kernels: list[Kernel], values: list[Floats], folds: Ints, sampler: Sampler, data: Evaluations) -> Values:
    """Return C and its error. Draws of fold k are corrected with the parameters of `kernels[k]`, fitted to others.

    `values` are the utilities less the trend of each fold; the values of a trend are weighted by `parts_of(folds)`.
    """
    weighing = Weighing(kernels[0], data, sampler.unknown)
    count = max(1, np.count_nonzero(weighing.used))
    corrected = np.zeros((kernels[0].target.n, data.values.shape[1]))
    residuals = np.zeros_like(data.values)
    for k, part in enumerate(parts_of(folds, len(kernels))):
        if not part:
            continue
        mine = folds == k
        found = Smoother.of(kernels[k], data.masks, values[k])
        each = weighing.weights[mine] - found.influences[mine] / count
        corrected += part * found.prediction + each.T @ found.residuals[mine]
        residuals[mine] = found.residuals[mine]
    by_draws = weighing.by_draws(residuals)
    squares = (weighing.weights**2).sum(axis=1)
    deviations = _summed(data.stated, (weighing.weights, by_draws))
    return Values(corrected, deviations, _freedom(squares, by_draws[:, data.stated]), 1.0)


def parts_of(folds: Ints, count: int) -> Floats:
    """Return (count,): the part of the draws in each fold; all in the first if there are none."""
    numbers = np.bincount(folds[folds >= 0], minlength=count).astype(float)
    return numbers / numbers.sum() if numbers.any() else np.eye(count)[0]


def root(covariance: Floats) -> Floats:
    """Return (n, n): deviations whose sum of squares is the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)


def _of_outputs(of_players: Floats, scale: Floats, stated: slice) -> Floats:
    """Return (R, n, q) deviations of all outputs, from (n, n) of an output whose (q, q) `scale` is the identity.

    Those of stated outputs are joint: errors of their weighted sums follow. Those of folds are for each fold alone.
    """
    by_output = np.diag(np.sqrt(np.diag(scale)))
    joint = root(scale[stated, stated]) if len(scale[stated]) > 1 else by_output[stated, stated]
    n_stated = len(joint)
    rows = np.zeros((n_stated, *scale.shape[:1]))
    rows[:, stated] = joint
    rows[0, n_stated:] = np.diag(by_output)[n_stated:]
    return np.concatenate([of_players[:, :, None] * row for row in rows])


def _summed(stated: slice, *terms: tuple[Floats, Floats]) -> Floats:
    """Return (R, n, q): a root of the sum over rows j of d_j d_j', d_j the sum of factors times row.

    Each of the terms has (m, n) rows and (m, q) factors. Deviations of stated outputs are joint, as above.
    """
    n, q = terms[0][0].shape[1], terms[0][1].shape[1]
    n_stated = len(range(q)[stated])
    rows = [np.sum([factors[:, k, None] * each for each, factors in terms], axis=0) for k in range(q)]
    together = np.concatenate(rows[:n_stated], axis=1)
    found = np.zeros((n * n_stated, n, q))
    found[..., :n_stated] = root(together.T @ together).reshape(-1, n_stated, n).swapaxes(1, 2)
    for k in range(n_stated, q):
        found[:n, :, k] = root(rows[k].T @ rows[k])
    return found


def _freedom(squares: Floats, residuals: Floats) -> float:
    """Return how many rows there are in effect, given (m,) squared weights and (m, q) residuals."""
    energy = squares[:, None] * residuals**2
    total = energy.sum(axis=0)
    rows = total**2 / np.maximum((energy**2).sum(axis=0), 1e-300)
    rows = rows[total > 0]
    return max(1.0, float(rows.min())) if len(rows) else np.inf


def _along(directions: Floats, moves: Floats) -> Floats:
    """Return (n, q): the projection of each move on its direction."""
    part = (directions * moves).sum(axis=0) / np.maximum((directions**2).sum(axis=0), 1e-300)
    return np.asarray(directions * part)


def _mean(rows: Floats) -> Floats:
    return rows.mean(axis=1, keepdims=True)
