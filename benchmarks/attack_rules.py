"""Rules that share out the pot, and detectors of look-alikes: what `benchmarks.attacks` compares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

import fgsv
from benchmarks.attack_worlds import Scores, World
from fgsv.audit.copies import Copies, copies_of, find_copies
from fgsv.partition import Partition

RULES = ("GSV", "FGSV", "first holder", "co-owned", "quotient", "precedence")
REMEDIES = RULES[2:]
SPACES = ("rows", "model")
"""Where look-alikes are sought: in the rows, each feature in standard deviations, or as the model sees them."""
THRESHOLDS = (0.1, 0.25, 0.4, 0.6, 0.8)
"""Look-alikes are closer than this, in medians of the distance to the nearest neighbour."""
AUDIT = ("rows", "audit")
"""The detector of `fgsv value --audit`."""


def detectors(thresholds: tuple[float, ...] = THRESHOLDS) -> list[tuple[str, str]]:
    """Return the spaces and thresholds that are compared, in words."""
    return [AUDIT, *((space, f"{threshold:g}") for space in SPACES for threshold in thresholds)]


def detect(world: World, space: str, threshold: str) -> Copies:
    """Return the look-alikes in a market, whoever has them."""
    owners = Partition.of([world.owners[unit] for unit in world.units])
    if (space, threshold) == AUDIT:
        return find_copies(world.X, world.y, owners)
    exact = find_copies(world.X, world.y, owners, tolerance=0).clusters
    points = _points(world, space)
    tree = cKDTree(points)
    nearest = tree.query(points, k=2)[0][:, 1]
    radius = float(threshold) * float(np.median(nearest[nearest > 0]))
    pairs = tree.query_pairs(radius, output_type="ndarray").reshape(-1, 2).T
    return copies_of(owners, pairs, exact)


def _points(world: World, space: str) -> np.ndarray:
    """Return the rows as points whose distances count, with other classes out of reach."""
    spread = world.X.std(axis=0)
    points = world.X[:, spread > 0] / spread[spread > 0]
    if space == "model":
        model = world.fitted()
        weights = np.abs(model.coef_).reshape(-1, world.X.shape[1]).mean(axis=0) if hasattr(model, "coef_") else 1.0
        points = world.X * weights / (1.0 if world.source.classes else world.y.std())
    target = 1e6 * world.y if world.source.classes else world.y / world.y.std()
    return np.column_stack([points, target])


@dataclass(frozen=True, eq=False)
class Players:
    """Sets of rows that are players, who owns which part of each, and which row each row descends from."""

    rows: np.ndarray
    """(n, rows) masks."""
    ownership: np.ndarray
    """(n, K)"""
    origin: np.ndarray | None = None
    """(rows,) a row counts only beside its origin; None: every row counts."""

    def shares(self, scores: Scores) -> np.ndarray:
        """Return the (K,) parts of U(N) - U(0)."""
        chosen = self.rows.any(axis=1)
        rows, ownership = self.rows[chosen].astype(float), self.ownership[chosen]

        def game(masks: np.ndarray) -> np.ndarray:
            sets = masks.astype(float) @ rows > 0
            return scores(sets if self.origin is None else sets & sets[:, self.origin])

        found = fgsv.exact(fgsv.Game(game, len(rows)))
        assert found.player_values is not None
        return ownership.T @ found.player_values / float(found.total)


def players_of(rule: str, world: World, copies: Copies) -> Players:
    """Return the players of a rule; rows that look alike are those of `copies`."""
    names, units = world.names, world.units
    owner_of_unit = np.array([names.index(name) for name in world.owners])
    owned = np.eye(len(names))[owner_of_unit]
    rows = units == np.arange(len(world.owners))[:, None]
    if rule == "GSV":
        return Players(owner_of_unit[units] == np.arange(len(names))[:, None], np.eye(len(names)))
    if rule == "FGSV":
        return Players(rows, owned)
    if rule == "precedence":
        return Players(rows, owned, copies.origin)
    if rule == "quotient":
        return _quotient(rows, copies.clusters, owned)
    kept = rows & copies.kept
    if rule == "first holder":
        return Players(kept, owned)
    shared = copies.remedy("share", units)  # of the players that keep a row, in the order of their first
    assert shared.ownership is not None
    left = list(dict.fromkeys(units[copies.kept].tolist()))
    return Players(kept[left], shared.ownership[:, [shared.names.index(name) for name in names]])


def _quotient(rows: np.ndarray, clusters: np.ndarray, owned: np.ndarray) -> Players:
    """Return the players merged into classes, whose members own them in equal parts for each row.

    Two are in one class if half of the rows of the smaller look like rows of the other.
    """
    has = (rows @ (clusters[:, None] == np.arange(clusters.max() + 1))) > 0
    alike = rows.astype(int) @ has[:, clusters].T  # (n, n): rows of one that look like rows of the other
    sizes = rows.sum(axis=1)
    smaller = np.where(sizes[:, None] <= sizes, alike, alike.T)
    found = connected_components(2 * smaller >= np.minimum(sizes[:, None], sizes), directed=False)[1]
    merged = found == np.arange(found.max() + 1)[:, None]
    parts = merged * sizes
    return Players(merged @ rows, parts @ owned / parts.sum(axis=1, keepdims=True))
