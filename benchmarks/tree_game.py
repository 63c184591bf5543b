"""One prediction of boosted trees as a game of its features, whose Shapley values have a closed form."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import beta

from fgsv.types import Floats, Masks

BLOCK = 512
"""Coalitions that are evaluated at a time."""


@dataclass(frozen=True, eq=False)
class TreePrediction:
    """U(S): the mean prediction for a row with the features in S, all others taken from background rows.

    A leaf is reached if certain features are known and certain others are not: a term v 1{A in S, no B in S}. Its
    Shapley value is v B(a, b + 1) for the a players of A, and -v B(a + 1, b) for the b players of B.
    """

    known: NDArray[np.float32]
    """(n, l): 1 for the features in A of each term."""
    hidden: NDArray[np.float32]
    """(n, l): 1 for those in B."""
    worth: Floats
    """(l,): v"""

    @classmethod
    def of(cls, model: Any, row: Floats, background: Floats) -> TreePrediction:
        """Return the game of a prediction of scikit-learn's GradientBoostingRegressor, less its constant."""
        worth: dict[tuple[frozenset[int], frozenset[int]], float] = defaultdict(float)
        for tree in (each.tree_ for each in model.estimators_[:, 0]):
            for other in background:
                _collect(tree, row, other, model.learning_rate / len(background), worth)
        terms = [term for term in worth if term[0] or term[1]]
        members = np.zeros((2, len(row), len(terms)), dtype=np.float32)
        for place, term in enumerate(terms):
            for side, features in zip(members, term, strict=True):
                side[list(features), place] = 1.0
        known, hidden = members
        return cls(known, hidden, np.array([worth[term] for term in terms]))

    @property
    def n_players(self) -> int:
        """The number of features."""
        return len(self.known)

    @property
    def shapley(self) -> Floats:
        """The Shapley value of each feature."""
        a, b = self.known.sum(axis=0), self.hidden.sum(axis=0)
        to_known, to_hidden = (np.where(c > 0, beta(np.maximum(c, 1), d + 1), 0.0) for c, d in ((a, b), (b, a)))
        return np.asarray(self.known @ (self.worth * to_known) - self.hidden @ (self.worth * to_hidden))

    def __call__(self, masks: Masks) -> Floats:
        """Return the (m,) predictions."""
        balance, full = self.known - self.hidden, self.known.sum(axis=0)
        blocks = (masks[start : start + BLOCK] for start in range(0, len(masks), BLOCK))
        return np.concatenate([(block.astype(np.float32) @ balance == full) @ self.worth for block in blocks])


def _collect(tree: Any, row: Floats, other: Floats, scale: float, worth: dict[Any, float]) -> None:
    """Add the terms of a tree for a row and one background row."""
    open_nodes = [(0, frozenset[int](), frozenset[int]())]
    while open_nodes:
        node, known, hidden = open_nodes.pop()
        feature, left, right = tree.feature[node], tree.children_left[node], tree.children_right[node]
        if left < 0:
            worth[known, hidden] += scale * float(tree.value[node, 0, 0])
            continue
        by_row, by_other = (left if each[feature] <= tree.threshold[node] else right for each in (row, other))
        if by_row == by_other:
            open_nodes.append((by_row, known, hidden))
            continue
        if feature not in hidden:
            open_nodes.append((by_row, known | {feature}, hidden))
        if feature not in known:
            open_nodes.append((by_other, known, hidden | {feature}))


def friedman_prediction(n: int) -> TreePrediction:
    """Return one prediction of 150 trees of depth four, fitted to a nonlinear function of half of n features."""
    from sklearn.ensemble import GradientBoostingRegressor

    rng = np.random.default_rng(n)
    X = rng.random((2000, n))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y += X[:, 5 : n // 2] @ rng.normal(size=max(0, n // 2 - 5)) + 3 * X[:, 6] * X[:, 7] * X[:, 8]
    model = GradientBoostingRegressor(n_estimators=150, max_depth=4, subsample=0.5, max_features=0.3, random_state=0)
    return TreePrediction.of(model.fit(X, y), X[7], X[rng.choice(len(X), 10)])
