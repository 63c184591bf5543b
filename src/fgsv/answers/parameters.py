"""Parameters of the kernel that answers have in common: fitted to some, they serve others, and bias none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from fgsv.methods.gp.fitting import cost, prior, prior_kernel
from fgsv.methods.gp.kernel import COMMON
from fgsv.methods.target import Target
from fgsv.types import Floats, Masks

NOTHING_LEARNED = (0.0,) * COMMON
MOST_RUNS = 100
"""Answers to which parameters are fitted: more of them hardly move them."""
FARTHEST = 3.0
"""Standard deviations of the prior that a parameter may move."""
STEPS = 25


def learned(runs: Sequence[tuple[Masks, Floats]]) -> tuple[float, ...]:
    """Return the parameters under which these runs are most likely together, with the prior counted once.

    Args:
        runs: Of each answer, (m, n) coalitions, the empty and the full one among them, and their (m,) utilities.

    Returns:
        What `GP(parameters=...)` takes.

    """
    used = [runs[k] for k in np.unique(np.linspace(0, len(runs) - 1, MOST_RUNS).astype(int))] if runs else []
    data = [(Target(masks.shape[1]), masks, _standard(masks, values)) for masks, values in used if values.std() > 0]
    if not data:
        return NOTHING_LEARNED
    deviations = prior(1)[1][:COMMON]

    def together(moved: Floats) -> tuple[float, Floats]:
        off = moved / deviations
        fit = 0.5 * float(off @ off)
        gradient = off / deviations
        for target, masks, values in data:
            one, slope = cost(prior_kernel(target, moved=moved).theta, target, masks, values)
            fit += one - 0.5 * float(off @ off)
            gradient = gradient + slope[:COMMON] - off / deviations
        return fit, gradient

    bounds = [(-FARTHEST * each, FARTHEST * each) for each in deviations]
    found = minimize(
        together, np.zeros(COMMON), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}
    )
    return tuple(found.x.tolist())


def _standard(masks: Masks, values: Floats) -> Floats:
    """Return (m, 1) utilities above the line between U(0) and U(N), scaled as a fit of one run scales them."""
    sizes = masks.sum(axis=1)
    empty, whole = (values[sizes == size][0] for size in (0, masks.shape[1]))
    above = values - empty - (whole - empty) * sizes / masks.shape[1]
    return ((above - above.mean()) / (above.std() or 1.0))[:, None]
