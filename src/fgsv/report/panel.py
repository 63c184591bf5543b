"""Data of the what-if panel: the players' values and their replicates, small enough for a page."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgsv.partition import Partition
from fgsv.payout import Payout
from fgsv.types import Floats
from fgsv.valuation import Valuation, t_quantile

MOST_UNITS = 2**50
"""Largest amount, in units of its currency, that numbers of a page count without rounding."""
MOST_BYTES = 5_000_000
"""Largest size of the replicates before base64: with more, the page would be too large to send."""


@dataclass(frozen=True)
class Panel:
    """The data of the what-if panel, and what it can do with them."""

    data: dict[str, Any]
    has_players: bool
    """Whether single players can be moved; if not, groups can only be merged and renamed."""
    words: str
    """What the reader should know about the data."""


def panel_of(
    valuation: Valuation, confidence: float, *, aggregate_only: bool, payout: Payout | None = None
) -> Panel | None:
    """Return the data of the panel.

    Args:
        valuation: What the panel regroups.
        confidence: Confidence level of its intervals.
        aggregate_only: Whether to leave out the values of single players.
        payout: Whose terms split the amount again. Default: shares only.

    Returns:
        The panel; None if the values cannot be regrouped or their errors are unknown.

    """
    if valuation.grouped or valuation.player_values is None:
        return None
    if np.isnan(valuation.stderr).any() or (valuation.deviations is None and not valuation.exact):
        return None
    partition = valuation.partition
    players = valuation.player_values.reshape(partition.n_players, -1)
    deviations = _deviations(valuation, players)
    sizes: Floats | None = None  # 1 for each player
    reason = _why_groups_only(valuation, deviations, aggregate_only)
    if reason is None:
        owner = partition.codes
        words = "" if valuation.exact else "The intervals here are rounded and can differ slightly from those above."
    else:
        deviations = np.stack([partition.sums(each.astype(float)) for each in deviations])
        sizes = partition.sizes
        players = valuation.values.reshape(partition.n_groups, -1)
        owner = np.arange(partition.n_groups)
        words = f"{reason}, so providers can be merged and renamed here, but not split."
    scales, levels = quantized(deviations)
    data = {
        "confidence": confidence,
        "quantile": _quantile(valuation, confidence),
        "money": None if payout is None else _money(payout),
        "total": np.atleast_1d(valuation.total).tolist(),
        "efficient": valuation.efficient,
        "names": [str(name) for name in valuation.names],
        "owner": _base64(owner.astype("<i4")),
        "sizes": None if sizes is None else _base64(sizes.astype("<f8")),
        "values": [_base64(column.astype("<f8")) for column in players.T],
        "deviations": [_base64(levels[:, :, output]) for output in range(levels.shape[2])],
        "scales": [scales[:, output].tolist() for output in range(levels.shape[2])],
    }
    return Panel(data, reason is None, words)


def _deviations(valuation: Valuation, players: Floats) -> NDArray[np.floating]:
    """Return (R, n, q) deviations of the players' shares, in units of the utility, those of all known errors."""
    deviations = valuation.deviations
    if deviations is None:  # the values are exact
        deviations = np.zeros((1, *players.shape), dtype=np.float32)
    each = Partition.of(None, len(players))
    shares = players / valuation.total
    parts = [deviations]
    if valuation.seed_noise is not None:
        parts.append(valuation.seed_noise.deviations(each, shares))
    if valuation.knows_test_rows and valuation.test_rows is not None:
        parts.append(valuation.test_rows.deviations(each, shares))
    return deviations if len(parts) == 1 else np.concatenate(parts)


def _quantile(valuation: Valuation, confidence: float) -> float:
    """Return by how much deviations are multiplied; with several errors it is the largest of any group."""
    quantile = float(t_quantile(confidence, valuation.degrees_of_freedom))
    others = [each for each in (valuation.seed_deviations, valuation.test_deviations) if each is not None]
    if not others:
        return quantile
    shape = valuation.values.shape
    variance = valuation.stderr**2 + sum((each**2).sum(axis=0).reshape(shape) for each in others)
    quantile = 0.0 if valuation.exact else quantile
    reach = valuation.share_half_width(confidence) * valuation.total
    return float(np.max(reach / np.sqrt(np.where(variance > 0, variance, 1.0)), initial=quantile))


def _money(payout: Payout) -> dict[str, Any] | None:
    """Return the terms of a payout for the page; None for amounts that its numbers cannot count exactly."""
    units = {
        name: None if money is None else int(money / payout.unit)
        for name, money in (("floor", payout.terms.floor), ("cap", payout.terms.cap))
    }
    amounts = [int(amount / payout.unit) for amount in payout.amounts]
    if sum(amounts) > MOST_UNITS:
        return None
    unit = str(payout.unit)
    return {"amounts": amounts, "unit": unit, "currency": payout.currency, "clip": payout.terms.clip, **units}


def _why_groups_only(valuation: Valuation, deviations: NDArray[np.floating], aggregate_only: bool) -> str | None:
    """Return why the panel has no single players, or None if it has them."""
    if aggregate_only:
        return "This page leaves out the values of single players"
    if not valuation.partition.is_disjoint:
        return "Some players belong to several providers"
    if deviations.size * 2 > MOST_BYTES:
        return f"The values of {valuation.partition.n_players:,} single players would make this page too large"
    return None


def quantized(deviations: NDArray[np.floating]) -> tuple[Floats, NDArray[np.int16]]:
    """Return (R, q) scales and (R, n, q) 16-bit integers: their products approximate the (R, n, q) deviations.

    The largest deviation of a replicate becomes 32767, so each is rounded by at most 1.6e-5 of the largest.
    """
    largest = np.abs(deviations).max(axis=1, keepdims=True).astype(float)
    scales = np.where(largest > 0, largest / 32767, 1.0)
    return scales[:, 0], np.rint(deviations / scales).astype("<i2")


def _base64(array: NDArray[Any]) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
