"""Nearest neighbours for many sets of rows at once: the k nearest members of each set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Floats, Ints
from fgsv.utilities.batched.scaling import scales
from fgsv.utilities.data import Data
from fgsv.utilities.row_sets import CHUNK_BYTES, RowSets
from fgsv.utilities.scores import Need, Predictions

_TABLE_BYTES = 512 * 2**20
"""Up to this size, tables of all rows in order of distance are kept; above it, distances are computed each time."""
_MANY = 10**9
"""Users are told if one evaluation computes at least this many distances, about ten seconds."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The k nearest neighbours by Euclidean distance; sets of fewer than k rows use all their rows.

    Ties in distance go to the row that comes first in the data.
    """

    X: Floats
    X_test: Floats
    votes: NDArray[Any]
    """(n + 1,) the class or number of each row; the last entry, for row n, counts for nothing."""
    n_classes: int
    """0 for a regression."""
    n_neighbours: int
    order: NDArray[np.int32] | None
    """(t, n + 1) rows from the nearest to the farthest of each test point, then n; None if it would be too large."""
    place: NDArray[np.int32] | None
    """(t, n + 1) the place of each row in that order; row n, which pads lists, comes last."""
    scaling: str | None = None
    """What each feature is divided by in the set, before distances are taken; then there is no order of all rows."""

    name: ClassVar[str] = "nearest neighbours by batched look-up"
    lists_members: ClassVar[bool] = True

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes for each set, whatever its length, and for each row of a set."""
        per_point = 64 * self.n_neighbours + 16 * max(self.n_classes, 1)
        n_test = len(self.X_test)
        per_row = 0 if self.scaling is None else 32 * self.X.shape[1]
        return len(self.X) + n_test * per_point, (12 if self.order is not None else 24) * n_test + per_row

    @property
    def remark(self) -> str:
        """A note for the user before the first evaluation; empty if distances are few or known."""
        n_test = len(self.X_test)
        n_rows = len(self.X)
        if self.order is not None or n_test * n_rows < _MANY:
            return ""
        return f"an evaluation compares {n_test:,} test rows with up to {n_rows:,}: fewer test rows make it faster"

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Let the nearest members of each set vote on every test point."""
        fitted = np.ones(len(sets), dtype=bool)
        votes = np.take(self.votes, self.nearest(sets))
        n_voters = np.minimum(sets.sizes, self.n_neighbours)[:, None]
        if not self.n_classes:
            return Predictions(fitted, values=votes.sum(axis=2) / n_voters)
        counts = np.stack([(votes == code).sum(axis=2, dtype=np.int32) for code in range(self.n_classes)])
        probabilities = None
        if needs & {"probabilities", "ranks"}:
            probabilities = np.moveaxis(counts / n_voters, 0, 2)
        return Predictions(
            fitted,
            labels=counts.argmax(axis=0),
            probabilities=probabilities,
            ranks=None if probabilities is None else probabilities[:, :, 1],
        )

    def nearest(self, sets: RowSets) -> Ints:
        """Return (m, t, k) rows, the nearest members of each set in any order; n where there are fewer than k."""
        n_rows = len(self.X)
        k = self.n_neighbours
        # walking outwards looks at about three times k n / s rows, more slowly than at the s members
        if self.order is not None and int(sets.sizes.min()) ** 2 > 8 * k * n_rows:
            return self._nearest_outwards(sets)
        members = sets.explicit().table(n_rows)
        if members.shape[1] <= k:
            return np.broadcast_to(members[:, None, :], (len(sets), len(self.X_test), members.shape[1]))
        if self.order is None or self.place is None:
            return self._nearest_by_distance(members)
        places = np.take(self.place, members, axis=1)
        places.partition(k - 1, axis=2)
        return _look_up(self.order, places[:, :, :k].transpose(1, 0, 2))

    def _nearest_outwards(self, sets: RowSets) -> Ints:
        """Walk outwards from each test point until k members are met, after about k n / s rows."""
        assert self.order is not None
        n_rows = len(self.X)
        k = self.n_neighbours
        expected = k * n_rows / float(sets.sizes.min())
        n_steps = min(n_rows, int(expected * (1 + 4 / np.sqrt(k))) + 1)
        while True:
            walk = self.order[:, :n_steps].reshape(-1)
            met = np.take(sets.inside(n_rows), walk, axis=1).reshape(len(sets), len(self.X_test), n_steps)
            counts = met.sum(axis=2, dtype=np.int32)
            if counts.min() >= k:
                break
            n_steps = min(n_rows, 2 * n_steps)
        # the members met, walk by walk; the nearest are the first k of each walk
        steps = np.flatnonzero(met)
        first = (np.cumsum(counts) - counts.reshape(-1))[:, None] + np.arange(k)
        return _look_up(self.order, (steps[first] % n_steps).reshape(*counts.shape, k))

    def _nearest_by_distance(self, members: Ints) -> Ints:
        counted = members < len(self.X)
        rows = np.concatenate([self.X, np.zeros((1, self.X.shape[1]))])[members]
        points = self.X_test
        if self.scaling is not None:
            scale = scales(self.scaling, rows, counted)[:, None, :]
            first = rows[:, :1]  # distances from a member lose fewer digits than distances from zero
            rows = (rows - first) / scale
            points = (points - first) / scale
        squares = np.where(counted, (rows**2).sum(axis=2), np.inf)[:, None, :]
        k = self.n_neighbours
        nearest = np.empty((len(members), len(self.X_test), k), dtype=members.dtype)
        step = max(1, CHUNK_BYTES // (24 * members.size))  # all distances of one large set may fill the memory
        for first_point in range(0, len(self.X_test), step):
            some = slice(first_point, first_point + step)
            gaps = squares - 2 * points[..., some, :] @ rows.transpose(0, 2, 1)
            found = np.argpartition(gaps, k - 1, axis=2)[:, :, :k]
            nearest[:, some] = np.take_along_axis(members[:, None, :], found, axis=2)
        return nearest


def _look_up(order: NDArray[np.int32], places: NDArray[np.integer]) -> Ints:
    """(m, t, k) places in the (t, n + 1) orders -> the rows there."""
    offsets = np.arange(len(order))[:, None] * order.shape[1]
    return np.take(order.reshape(-1), places + offsets).astype(np.int64)


def twin(model: Any, data: Data, *, scaling: str | None = None) -> Neighbours | str:
    """Return the batched twin of a KNeighbors model, or the reason why there is none.

    Args:
        model: With its settings; whether it was fitted does not matter.
        data: The rows, padding included.
        scaling: What a scaler before the model divides by in every set (`scaling.SCALERS`); None: nothing.

    """
    if model.weights != "uniform":
        return f"weights is {model.weights!r}"
    if not (model.metric == "euclidean" or (model.metric == "minkowski" and model.p == 2)) or model.metric_params:
        return "the distance is not Euclidean"
    return neighbours(data, int(model.n_neighbors), scaling)


def neighbours(data: Data, n_neighbours: int, scaling: str | None = None) -> Neighbours:
    """Return the neighbours of the test rows among the training rows, with tables of distances if they fit.

    Args:
        data: The rows, padding included.
        n_neighbours: Neighbours that vote, k; fewer where a set has fewer rows.
        scaling: What each feature is divided by in every set; then no table of distances holds for all sets.

    """
    X, X_test = data.features()
    fits = scaling is None and 8 * X.shape[0] * X_test.shape[0] <= _TABLE_BYTES
    order, place = _distance_order(X, X_test) if fits else (None, None)
    # centred, so that distances computed without the tables lose fewer digits
    shift = X.mean(axis=0) if scaling is None else np.zeros(X.shape[1])
    votes = np.append(data.y, -1) if data.n_classes else np.append(data.y, 0.0)
    return Neighbours(X - shift, X_test - shift, votes, data.n_classes, n_neighbours, order, place, scaling)


def _distance_order(X: Floats, X_test: Floats) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (t, n + 1) rows in order of distance from each test point, and the place of each row in that order."""
    n_rows = len(X)
    order = np.full((len(X_test), n_rows + 1), n_rows, dtype=np.int32)
    place = order.copy()
    for point, row in enumerate(X_test):
        order[point, :n_rows] = np.argsort(((X - row) ** 2).sum(axis=1), kind="stable")
        place[point, order[point, :n_rows]] = np.arange(n_rows)
    return order, place
