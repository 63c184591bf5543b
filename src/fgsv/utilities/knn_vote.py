"""The nearest-neighbour vote: a game with Shapley values in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fgsv.checks import whole_number
from fgsv.coalitions import Coalitions
from fgsv.types import Floats, Ints
from fgsv.utilities.batched.neighbours import Neighbours, neighbours
from fgsv.utilities.data import Data, Given, Kind, read
from fgsv.utilities.fingerprint import fingerprint
from fgsv.utilities.row_sets import Units, as_masks, slices


@dataclass(frozen=True, eq=False)
class KNNVote:
    """A coalition's worth is the fraction of its k nearest neighbours that vote right, averaged over test points.

    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> game = KNNVote(X, ["a", "b", "b", "a"], X_test=[[0.2]], y_test=["a"], n_neighbors=2)
    >>> game([[True, True, False, False], [False, False, False, False]]).tolist()
    [0.5, 0.0]
    >>> game.shapley.round(4).tolist()
    [0.4167, -0.0833, -0.0833, 0.25]

    With j running over the k nearest members of the coalition, or all of them if there are fewer:

        classification:  U(S) = (1/k) sum_j 1{y_j = y_test}
        regression:      U(S) = -( (1/k) sum_j (y_j - m) - (y_test - m) )^2,   m the mean of y

    The sum is divided by k whatever the size of the coalition: an empty place among the k votes wrong, or for the
    mean. `fgsv.utility(KNeighborsClassifier())` is another game: it divides by min(k, |S|) and lets the majority
    decide. Dividing by k makes `shapley` exact in O(n log n) for each test point: fast enough to value a million
    rows, and to serve as a proxy for any other model of the same data.
    """

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    n_neighbors: int = 5
    regression: bool = False

    batch_size: ClassVar[int] = 2048
    """Number of coalitions that are best evaluated in one call."""

    def __post_init__(self) -> None:
        whole_number("n_neighbors", self.n_neighbors, least=1)
        if not self._data.is_dense:
            raise ValueError("KNNVote needs X to be a dense array of numbers")

    @cached_property
    def _data(self) -> Data:
        """The rows, with labels as positions of classes, or as differences from the mean of y."""
        kind = Kind("KNNVote(regression=False)", not self.regression, takes_one_class=True)
        data = read(kind, Given(self.X, self.y, self.X_test, self.y_test))
        if not self.regression:
            return data
        return replace(data, y=data.y - data.y.mean(), y_test=data.y_test - data.y.mean())

    @property
    def n_players(self) -> int:
        """Number of players: the rows of X."""
        return self._data.n_rows

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of the data and the settings."""
        data = self._data
        parts = [*data.features(), data.y, data.y_test, data.classes, self.n_neighbors]
        return fingerprint("nearest-neighbour vote 1", parts)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return neighbours(self._data, self.n_neighbors)

    def __call__(self, masks: ArrayLike) -> Floats:
        """Evaluate the coalitions in the rows of an (m, n) boolean array: (m,)."""
        return self.evaluate_lists(Coalitions.from_masks(as_masks(masks, self.n_players)))

    def evaluate_lists(self, coalitions: Coalitions) -> Floats:
        """Evaluate coalitions given as lists: (m,)."""
        values = np.empty(len(coalitions))
        for some in slices(coalitions, self.n_players):
            values[some] = self._evaluate(coalitions[some])
        return values

    def _evaluate(self, coalitions: Coalitions) -> Floats:
        y_test = self._data.y_test
        values = np.full(len(coalitions), -float((y_test**2).mean()) if self.regression else 0.0)
        sets = Units(self.n_players).row_sets(coalitions)
        nonempty = np.flatnonzero(sets.sizes > 0)
        sets = sets.take(nonempty)
        learner = self._neighbours
        for chunk in sets.chunks(sets.sizes, *learner.memory):
            votes = np.take(learner.votes, learner.nearest(sets.take(chunk)))
            if self.regression:
                worth = -((votes.sum(axis=2) / self.n_neighbors - y_test) ** 2)
            else:
                worth = (votes == y_test[:, None]).sum(axis=2) / self.n_neighbors
            values[nonempty[chunk]] = worth.mean(axis=1)
        return values

    @cached_property
    def shapley(self) -> Floats:
        """The exact Shapley value of each row, (n,), in O(n log n) for each test point.

        Let the rows be sorted by distance, with ranks i from 1, and let p_i = min(k, i) / i be the probability that
        a random coalition without i leaves it a place among the k. For votes v, the values of ranks i and i + 1
        differ by (v_i - v_{i+1}) p_i / k (Jia et al. 2019). The square of a sum adds pairs of places, whose
        probabilities are in `_pair_chances`.
        """
        X, X_test = self._data.features()
        y = self._data.y
        total = np.zeros(self.n_players)
        for row, truth in zip(X_test, self._data.y_test, strict=True):
            order = np.argsort(((X - row) ** 2).sum(axis=1), kind="stable")
            if self.regression:
                total[order] += _regression_values(y[order], truth, self.n_neighbors)
            else:
                total[order] += _classification_values((y[order] == truth).astype(float), self.n_neighbors)
        return total / len(X_test)


def _classification_values(votes: Floats, k: int) -> Floats:
    """Return the Shapley values of rows in order of distance, for U = (sum of the first k votes) / k."""
    rank = np.arange(1, len(votes) + 1)
    steps = (votes - np.append(votes[1:], 0)) * np.minimum(k, rank) / (rank * k)
    return np.cumsum(steps[::-1])[::-1]


def _regression_values(y: Floats, truth: float, k: int) -> Floats:
    """Return the Shapley values of rows in order of distance, for U = -((sum of the first k) / k - truth)^2.

    Replacing rank i + 1 by rank i in a coalition that leaves them a place changes U by
    -(y_i - y_{i+1}) / k * ((y_i + y_{i+1} + 2 Q) / k - 2 truth), with Q the sum over the other places.
    """
    n = len(y)
    rank = np.arange(1, n + 1)
    chance = np.minimum(k, rank) / rank
    after = np.append(y[1:], 0)
    before_sum = np.cumsum(y) - y
    # rows from rank i + 2 on, each with the probability of its own rank, as rank i takes a place before them
    late = y * _pair_chances(rank - 1, k)
    late_sum = np.append(np.cumsum(late[::-1])[::-1], [0, 0])[2:]
    others = _pair_chances(rank, k) * before_sum + late_sum
    steps = -(y - after) / k * (((y + after) / k - 2 * truth) * chance + 2 * others / k)
    return np.cumsum(steps[::-1])[::-1]


def _pair_chances(rank: Ints, k: int) -> Floats:
    """Return the probability that a random coalition has a given nearer row and still leaves rank i a place.

    It is the integral over x in (0, 1) of x P(Binomial(i - 2, x) <= k - 2), which is M (M + 1) / (2 i (i - 1)) with
    M = min(k, i) - 1.
    """
    places = np.minimum(k, rank) - 1
    return places * (places + 1) / np.maximum(2 * rank * (rank - 1), 1)
