"""Values and errors of groups: sums over their players."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation.units import unit_of


def group_sums(
    partition: Partition,
    players: Floats,
    deviations: NDArray[np.floating] | None,
    *,
    total: Floats | None,
    exact: bool,
) -> tuple[Floats, Floats]:
    """Return (K, q) values and standard errors of the groups from (n, q) values of the players."""
    values = partition.sums(players)
    if total is not None and partition.n_groups == 1:
        return total[None, :].copy(), np.zeros_like(values)  # the total is known without rounding
    if exact:
        return values, np.zeros_like(values)
    if deviations is None:
        return values, np.full_like(values, np.nan)
    unit = 1.0 if deviations.dtype == np.float32 else unit_of(deviations)
    variance = np.zeros_like(values)
    for deviation in deviations:
        variance += partition.sums(deviation.astype(float) / unit) ** 2
    return values, np.sqrt(variance) * unit


MOST_DEVIATIONS = 64
"""Rows of deviations that a valuation keeps."""


def compressed(deviations: NDArray[np.floating] | None) -> NDArray[np.floating] | None:
    """Return at most 64 deviations: more of them are added up with random signs, which keeps variances on average."""
    if deviations is None or len(deviations) <= MOST_DEVIATIONS:
        return deviations
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (MOST_DEVIATIONS, len(deviations)))
    return np.tensordot(signs / np.sqrt(MOST_DEVIATIONS), deviations, 1).astype(deviations.dtype)
