"""Parameters of the Gaussian process: the largest penalised likelihood of some evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from fgsv.methods.gp.kernel import COMMON, CURVE, JITTER, KNOTS, LENGTH, NUGGET, PRODUCT, RATE, SLOPE, Kernel, hats
from fgsv.methods.target import Target
from fgsv.types import Floats, Masks

BLOCK = 512
"""Evaluations to which parameters are fitted at once."""
BLOCKS = 8
"""Blocks, at the most, over which parameters are averaged."""
STEPS, FEWER_STEPS = 20, 12
"""Of a search; fewer while evaluations are fewer than twice the parameters, where more would follow chance, and for
whole blocks, where searches begin near their end."""
GRID = 2.0**24
"""Standardised utilities are multiples of 1 / GRID, far below the nugget: a search takes the same steps in any unit
of the utility, and does not amplify rounding."""
FARTHEST = 3.0
"""Standard deviations of the prior that common parameters of several games may move."""

PRIOR_MEAN = (0.0, 0.7, -1.0, 0.0, -6.0, 0.0)
PRIOR_DEVIATION = (2.0, 0.7, 3.0, 0.5, 2.0, 1.0)
BOUNDS = ((-12.0, 5.0), (-1.0, 3.0), (-14.0, 5.0), (-1.5, 1.5), (-14.0, 1.0), (-8.0, 1.0))
KNOT_DEVIATION = 0.3
PLAYER_DEVIATION = (0.7, 1.2)
"""Up to 64 players, and of more."""


@lru_cache(maxsize=8)
def prior(n: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the parameters, for n coordinates."""
    mean = np.concatenate([PRIOR_MEAN, np.zeros(KNOTS + n)])
    mean[RATE] = -np.log(n)
    players = np.full(n, PLAYER_DEVIATION[n > 64])
    return mean, np.concatenate([PRIOR_DEVIATION, np.full(KNOTS, KNOT_DEVIATION), players])


def prior_kernel(target: Target, coordinates: int | None = None, moved: ArrayLike = 0.0) -> Kernel:
    """Return the kernel at the means of the prior; those of common parameters may be `moved`."""
    theta = prior(coordinates or target.n)[0].copy()
    theta[:COMMON] += np.asarray(moved)
    return Kernel(target, theta)


def fitted(kernel: Kernel, masks: Masks, values: Floats) -> Kernel:
    """Return the kernel fitted to evaluations, (m, q), from the parameters of another one on.

    Beyond 512 evaluations its parameters are means of those fitted to random blocks of 512.
    """
    m = len(values)
    spread = values.std(axis=0)
    varies = spread > 1e-9 * np.abs(values).max(axis=0, initial=0.0)
    if not varies.any():
        return kernel
    standard = ((values - values.mean(axis=0)) / np.where(varies, spread, 1.0))[:, varies]
    standard = np.round(standard * GRID) / GRID
    blocks = max(1, min(BLOCKS, m // BLOCK))
    steps = STEPS if 2 * len(kernel.theta) <= m < BLOCK else FEWER_STEPS
    bounds = [*BOUNDS, *[(-1.0, 1.0)] * KNOTS, *[(-3.0, 3.0)] * kernel.n]
    options = {"maxiter": steps, "maxfun": 2 * steps}
    order = np.random.default_rng(m).permutation(m)
    found = []
    for rows in np.split(order[: blocks * BLOCK], range(BLOCK, blocks * BLOCK, BLOCK)):
        data = (kernel.target, masks[rows], standard[rows])
        found.append(minimize(cost, kernel.theta, data, "L-BFGS-B", True, bounds=bounds, options=options).x)
    return Kernel(kernel.target, np.mean(found, axis=0))


def fitted_together(runs: Sequence[tuple[Masks, Floats]]) -> tuple[float, ...]:
    """Return how far common parameters move from the prior's means if they are fitted to several games at once.

    It is what `GP(parameters=...)` takes. A run has (m, n) coalitions, the empty and the full one first, and their
    (m,) utilities, of which the straight line between U(0) and U(N) is left out.
    """
    deviations = prior(1)[1][:COMMON]
    games = []
    for masks, values in runs:
        above = values - values[0] - (values[1] - values[0]) * masks.mean(axis=1)
        if above.std() > 1e-9 * np.abs(values).max():
            games.append((Target(masks.shape[1]), masks, ((above - above.mean()) / above.std())[:, None]))

    def together(moved: Floats) -> tuple[float, Floats]:
        off = moved / deviations
        fits = [cost(prior_kernel(game[0], moved=moved).theta, *game) for game in games]
        gradient = sum(slope[:COMMON] for _, slope in fits) - (len(fits) - 1) * off / deviations
        return sum(fit for fit, _ in fits) - (len(fits) - 1) * 0.5 * float(off @ off), gradient

    bounds = np.outer(deviations, (-FARTHEST, FARTHEST))
    found = minimize(together, np.zeros(COMMON), jac=True, bounds=bounds, options={"maxiter": STEPS})
    return tuple(found.x.tolist())


def cost(theta: Floats, target: Target, masks: Masks, values: Floats) -> tuple[float, Floats]:
    """Return minus the log of likelihood times prior, and its gradient; outputs (m, q) count as one on average."""
    kernel = Kernel(target, theta)
    n, (m, q) = kernel.n, values.shape
    sizes = masks.sum(axis=1)
    curve, by_length = kernel.curve
    product = kernel.product(masks, masks)
    own = kernel.own(sizes)
    matrix = product + kernel.of_sizes[np.ix_(sizes, sizes)]
    matrix[np.diag_indices(m)] += own
    inverse, log_determinant = inverted(matrix)
    if inverse is None:
        return 1e10, np.zeros_like(theta)
    solved = inverse @ values
    slope = 0.5 * (inverse - solved @ solved.T / q)  # derivative by the matrix
    gradient = np.zeros_like(theta)
    has_size = (sizes == np.arange(n + 1)[:, None]).astype(float)
    by_sizes = has_size @ slope @ has_size.T
    gradient[CURVE] = (by_sizes * curve).sum()
    gradient[LENGTH] = (by_sizes * by_length).sum()
    product *= slope
    by_own = np.diag(slope) * (own - JITTER)
    rows = product.sum(axis=1)
    gradient[PRODUCT] = rows.sum()
    gradient[NUGGET] = by_own.sum()
    by_scale = 2 * np.bincount(sizes, rows + by_own, minlength=n + 1)
    gradient[SLOPE] = -by_scale @ np.log((np.arange(n + 1) + 1.0) / (n + 1.0))
    gradient[6:COMMON] = by_scale @ hats(n)
    members = masks.astype(float)
    gradient[COMMON:] = -2 * kernel.rates * (rows @ members - ((product @ members) * members).sum(axis=0))
    gradient[RATE] = gradient[COMMON:].sum()
    mean, deviation = prior(n)
    off = (theta - mean) / deviation
    fit = 0.5 * (log_determinant + (values * solved).sum() / q + off @ off)
    return float(fit), gradient + off / deviation


def inverted(matrix: Floats) -> tuple[Floats | None, float]:
    """Return the inverse of a covariance matrix, which is overwritten, and its log determinant; None without one."""
    lower, failed = dpotrf(matrix.T, lower=True, overwrite_a=True)
    if failed:
        return None, np.inf
    log_determinant = 2 * float(np.log(np.diag(lower)).sum())
    half = dpotri(lower, lower=True, overwrite_c=True)[0]  # above the diagonal zeros
    inverse = half + half.T
    inverse[np.diag_indices(len(half))] /= 2
    return inverse, log_determinant
