"""What learning gains: the variance that was predicted, and the error beside that of independent draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgsv.methods.covariance.correction import Correction
from fgsv.methods.covariance.epochs import Epoch
from fgsv.methods.covariance.forecast import Additive, Forecast
from fgsv.methods.covariance.history import History
from fgsv.methods.covariance.sizes import mean_and_spread
from fgsv.semivalue import SizeWeights
from fgsv.types import Floats, Ints
from fgsv.valuation.learned import NOTHING, Learned

LEAST = 32
"""Draws that tell how well others like them are predicted."""
ROUNDING = 1e-6
"""Spread within sizes, relative to the range of utilities, that may be rounding: squares lose half of the digits."""


@dataclass(frozen=True, eq=False)
class Predicted:
    """How well draws were predicted by what was learned from others."""

    what: str
    squares: Floats
    """(2, q): sums of squares of utilities about the mean of their size, and of what was left of them."""


def predicted_in(
    history: History,
    forecast: Forecast | Additive | None,
    epochs: Iterable[Epoch | None],
    opening: Correction | None,
) -> Predicted | None:
    """Return how well the draws of the first of these epochs were predicted, or those of the opening."""
    for epoch in epochs:
        if epoch is not None and epoch.surrogate is not None and sum(map(len, epoch.residuals)) >= LEAST:
            left, explained = np.concatenate(epoch.residuals), np.concatenate(epoch.explained)
            seen, what = left + epoch.outlook.trust * explained, epoch.surrogate.what
            if forecast is not None and epoch.foreseen.any():
                rows = epoch.first + np.flatnonzero(history.parts[epoch.first :] >= 0)[: len(left)]
                sizes, forecasts = history.sizes[rows], (history.values - history.unforeseen)[rows]
                seen += forecasts - mean_and_spread(history.n_players, sizes, forecasts)[0][sizes - 1]
                what = f"{forecast.what}, then {what}"
            return Predicted(what, np.stack([(each**2).sum(axis=0) for each in (seen, left)]))
    return None if opening is None else Predicted(Forecast.what, opening.squares)


def learned(
    predicted: Predicted | None,
    ends: Floats,
    sizes: Ints,
    values: Floats,
    weights: SizeWeights,
    deviations: NDArray[np.floating],
) -> Learned:
    """Return what was learned from m draws of these sizes and values; `deviations` (R, n, q) are the estimate's.

    With the best allocation to sizes, the squared error of m independent draws, summed over players, is

        [sum_s r(s) sqrt(gain(s)^2 s (n - s) / n + drift(s)^2 n)]^2 / m

    where r(s) is the standard deviation of utilities of size s. No method knows r beforehand, so this is a comparison
    with an oracle. Outputs that vary within sizes by no more than rounding are left out.
    """
    what = NOTHING if predicted is None else predicted.what
    if len(values) < LEAST:
        return Learned(what, None, None)
    n = deviations.shape[1]
    s = np.arange(1, n)
    _, spread = mean_and_spread(n, sizes, values, ends)
    alone = (np.sqrt(weights.gain**2 * s * (n - s) / n + weights.drift**2 * n) @ spread) ** 2 / len(values)
    varies = spread.max(axis=0) > ROUNDING * np.ptp(np.concatenate([ends, values]), axis=0)
    error = _mean_ratio((deviations.astype(float) ** 2).sum(axis=(0, 1)), alone, varies) ** 0.5
    left = None if predicted is None else predicted.squares[:, : len(varies)]
    explained = np.nan if left is None else 1 - _mean_ratio(left[1], left[0], varies)
    known = [float(each) if np.isfinite(each) else None for each in (explained, error)]
    return Learned(what, *known)


def _mean_ratio(above: Floats, below: Floats, varies: NDArray[np.bool_]) -> float:
    """Return the mean of a ratio over those outputs that vary; NaN if there are none."""
    there = varies & (below > 0)
    return float((above[there] / below[there]).mean()) if there.any() else np.nan
