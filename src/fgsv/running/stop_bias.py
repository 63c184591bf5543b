"""Stop bias: corrects the values and errors of a run that stopped because an error had become small enough.

A sample that happens to lack large utilities has a small error and stops early; one that has them goes on and dilutes
them. So values are biased at a stop if the distribution of utilities is skewed and has heavy tails. Let h_r be the
share of replicate r in the variance that the run stopped at. The others alone would have stopped at about 1 - h_r of
the evaluations, whatever r had drawn by then. Giving each replicate the weight 1 / (1 - h_r) removes its own effect
on the stop: the values move by a third moment of the replicates. Measured about the mean of a few replicates, that
moment is too small by a known factor, and is divided by it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Floats
from fgsv.valuation import Valuation

SKEWNESS_LEFT = 6 / np.sqrt(8 * 7)
"""The fraction of skewness that replicates show about the mean of P = 8 of them: (P - 2) / sqrt(P (P - 1)). The
default method has that many in each stream."""
LEAST_SHARE = 1e-6
"""The least share of the other replicates in an error. If one replicate has all of it, errors grow a thousandfold
and meet no target."""


def stop_shares(valuation: Valuation, widths: Floats) -> Floats | None:
    """Return (R,): the share of each replicate in the variance of the value that has the largest width.

    `widths` are (K,) or (K, q). None if the method has no replicates, or nothing varied.
    """
    deviations = valuation.group_deviations
    if deviations is None or valuation.exact:
        return None
    widest = int(np.argmax(widths))
    if not valuation.stderr.reshape(-1)[widest] > 0:
        return None
    own = np.abs(deviations.reshape(len(deviations), -1)[:, widest])
    squares = (own / own.max()) ** 2
    return np.asarray(squares / squares.sum())


def without_stop_bias(valuation: Valuation, shares: Floats | None) -> Valuation:
    """Return the valuation as if each replicate had been stopped by the others alone.

    With d_r the deviation of a replicate and w_r = h_r / (1 - h_r) / SKEWNESS_LEFT, the values move by the sum of
    w_r d_r, and the deviations become sqrt(1 + w_r) d_r. Both are linear in the players, so groups stay sums.
    """
    deviations: NDArray[np.floating] | None = valuation.deviations
    if shares is None or deviations is None or valuation.player_values is None or len(deviations) != len(shares):
        return valuation
    more = shares / np.maximum(1 - shares, LEAST_SHARE) / SKEWNESS_LEFT
    moved = np.zeros(deviations.shape[1:])
    for deviation, weight in zip(deviations, more, strict=True):
        moved += deviation.astype(float) * weight
    if valuation.efficient:
        moved -= moved.mean(axis=0)  # zero but for the rounding of deviations
    scale = np.sqrt(1 + more).astype(deviations.dtype)
    found = replace(
        valuation,
        player_values=valuation.player_values + moved.reshape(valuation.player_values.shape),
        deviations=deviations * scale[:, None, None],
        grouped=False,
        stop_shares=shares,
    )
    return replace(found.regroup(valuation.partition), grouped=valuation.grouped)
