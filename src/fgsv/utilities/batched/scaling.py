"""Scalers refitted for each of many sets of rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from fgsv.types import Floats, Masks

SCALERS: dict[type, str] = {StandardScaler: "deviation", MinMaxScaler: "range", MaxAbsScaler: "largest"}
"""Scaler -> what it divides each feature by. What it subtracts changes no distance and no variance."""


def scaling_of(scaler: Any) -> str | None:
    """Return what a scaler divides by, or None if it only subtracts; clipped features have no batched form."""
    return SCALERS[type(scaler)] if getattr(scaler, "with_std", True) else None


def scales(scaling: str | None, rows: Floats, counted: Masks) -> Floats:
    """Return (m, p): what each feature of the rows of m sets is divided by.

    >>> rows = np.array([[[1.0, 5.0], [3.0, 5.0], [9.0, 9.0]]])
    >>> counted = np.array([[True, True, False]])
    >>> [scales(scaling, rows, counted).tolist() for scaling in SCALERS.values()]
    [[[1.0, 1.0]], [[2.0, 1.0]], [[3.0, 5.0]]]

    A feature that does not vary is left as it is, by scikit-learn's own bounds.

    Args:
        scaling: A value of `SCALERS`: standard deviation, range, or largest absolute number; None: ones.
        rows: (m, L, p), short sets padded with anything.
        counted: (m, L) whether a row is in its set.

    """
    eps = np.finfo(float).eps
    present = counted[:, :, None]
    if scaling is None:
        return np.ones((rows.shape[0], rows.shape[2]))
    if scaling == "deviation":
        counts = counted.sum(axis=1)[:, None]
        mean = np.where(present, rows, 0.0).sum(axis=1) / counts
        variance = np.where(present, (rows - mean[:, None]) ** 2, 0.0).sum(axis=1) / counts
        constant = variance <= counts * eps * variance + (counts * mean * eps) ** 2
        return np.where(constant, 1.0, np.sqrt(variance))
    if scaling == "range":
        scale = np.where(present, rows, -np.inf).max(axis=1) - np.where(present, rows, np.inf).min(axis=1)
    else:
        scale = np.where(present, np.abs(rows), 0.0).max(axis=1)
    return np.where(scale < 10 * eps, 1.0, scale)
