"""What the what-if panel computes from: the players' values and their replicates, small enough for a page."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Floats
from fgsv.valuation import Valuation, t_quantile

MOST_BYTES = 5_000_000
"""Of replicates before base64; a page with more would be too large to send."""


@dataclass(frozen=True)
class Panel:
    """The panel's data, whether its players are points or whole groups, and words that say so."""

    data: dict[str, Any]
    has_players: bool
    words: str


def panel_of(valuation: Valuation, confidence: float, *, aggregate_only: bool) -> Panel | None:
    """Return the data of the panel; None where values cannot be regrouped or their errors are unknown."""
    if valuation.grouped or valuation.player_values is None or np.isnan(valuation.stderr).any():
        return None
    n = valuation.partition.n_players
    players = valuation.player_values.reshape(n, -1)
    deviations = valuation.deviations
    if deviations is None:  # exact values
        deviations = np.zeros((1, *players.shape), dtype=np.float32)
    points: Floats | None = None  # one each
    fits = deviations.size * 2 <= MOST_BYTES
    has_players = not aggregate_only and fits and valuation.partition.is_disjoint
    if has_players:
        owner = valuation.partition.codes
        words = "The replicates are stored with 16 bits, which changes an interval by less than a thousandth of it."
    else:
        sums = valuation.partition.sums
        deviations = np.stack([sums(each.astype(float)) for each in deviations])
        points, players = valuation.partition.sizes, valuation.values.reshape(valuation.partition.n_groups, -1)
        owner = np.arange(valuation.partition.n_groups)
        words = "Single points are left out of this page, so whole groups move and no group can be split."
        if not aggregate_only and not fits:
            words += f" ({n:,} points would make it too large.)"
    scales, levels = quantized(deviations)
    data = {
        "confidence": confidence,
        "quantile": float(t_quantile(confidence, valuation.degrees_of_freedom)),
        "total": np.atleast_1d(valuation.total).tolist(),
        "names": [str(name) for name in valuation.names],
        "owner": _base64(owner.astype("<i4")),
        "points": None if points is None else _base64(points.astype("<f8")),
        "values": [_base64(column.astype("<f8")) for column in players.T],
        "deviations": [_base64(levels[:, :, output]) for output in range(levels.shape[2])],
        "scales": [scales[:, output].tolist() for output in range(levels.shape[2])],
    }
    return Panel(data, has_players, words)


def quantized(deviations: NDArray[np.floating]) -> tuple[Floats, NDArray[np.int16]]:
    """Return (R, q) scales and (R, n, q) whole numbers of 16 bits whose products are the deviations, nearly.

    The largest deviation of a replicate becomes 32767, so the rounding is at most 1.5e-5 of it.
    """
    largest = np.abs(deviations).max(axis=1, keepdims=True).astype(float)
    scales = np.where(largest > 0, largest / 32767, 1.0)
    return scales[:, 0], np.rint(deviations / scales).astype("<i2")


def _base64(array: NDArray[Any]) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
