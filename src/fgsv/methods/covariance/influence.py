"""Influence: how much a draw counts in an estimate, which is linear in the utilities if all else is held fixed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgsv.methods.covariance.design import counts
from fgsv.methods.covariance.epochs import PARTS, Epoch
from fgsv.methods.covariance.history import History
from fgsv.methods.covariance.opening import Opening
from fgsv.types import Floats, Masks


def bundles(coefficients: Floats, scales: Floats) -> Floats:
    """Return (R, n): few rows with about the sum of squares that (m, n) coefficients have, each with its scale (m,).

    Their signs alternate: draws of one permutation are balanced, and would cancel.
    """
    found, place = np.zeros((PARTS, coefficients.shape[1])), np.arange(len(coefficients))
    signs = np.where(place // PARTS % 2, -1.0, 1.0)
    np.add.at(found, place % PARTS, (signs * scales)[:, None] * coefficients)
    return found


def scales(
    history: History, epochs: Sequence[tuple[Epoch, Floats | float]], enumerated: Masks, opening: Opening | None
) -> Floats:
    """Return (m,): the factor of each draw's coefficients in the estimate of the epochs.

    `epochs` are those that the estimate combines, with their shares: none if every size is `enumerated`, (n - 1,).
    A draw of an epoch stands for 1 / q(s) coalitions. A coalition of an enumerated size counts for itself, in the
    epochs that began after that.
    """
    sizes, drawn, n = history.sizes, history.parts >= 0, len(enumerated) + 1
    found, exact = np.zeros(len(history)), np.full(n - 1, float(not epochs))
    last = max((epoch.first for epoch, _ in epochs), default=0)
    for epoch, share in epochs:
        end = last if epoch.first < last else len(history)
        rows = epoch.first + np.flatnonzero(drawn[epoch.first : end])
        found[rows] += share / max(len(rows), 1) / epoch.allocation[sizes[rows] - 1]
        exact += share * (epoch.allocation == 0)
    # a size was enumerated by the opening, or at once after it
    n_opened, by_opening = 0, np.zeros(n + 1, dtype=bool)
    if opening is not None:
        n_opened, by_opening = opening.n_evaluations - 2, opening.complete
    early = np.arange(len(sizes)) < n_opened
    whole = np.flatnonzero(~drawn & enumerated[sizes - 1] & (by_opening[sizes] == early))
    found[whole] += exact[sizes[whole] - 1] / counts(n)[sizes[whole]]
    return found
