"""Regression-adjusted maximum sample reuse (Witter, Liu and Musco 2025), which neither pyDVL nor shapiq has.

Boosted trees learn the utility; their player values are known in closed form, and every sampled coalition corrects
every player's value by what the trees that have not seen it miss.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.peers import Counted

FOLDS = 5


def run_regression_msr(make: Callable[[int], Any], game: Counted, budget: int, seed: int) -> np.ndarray:
    """Return the player values; `make` returns an untrained regression by LightGBM."""
    n = game.game.n_players
    rng = np.random.default_rng(seed)
    total = float(game(np.ones((1, n), dtype=bool))[0])
    # sizes as in KernelSHAP, each coalition with its complement
    by_size = 1 / (np.arange(1, n) * np.arange(n - 1, 0, -1))
    norm = by_size.sum()
    sizes = rng.choice(np.arange(1, n), p=by_size / norm, size=(budget - game.count) // 2)
    masks = rng.permuted(np.arange(n) < sizes[:, None], axis=1)
    fold = np.tile(np.arange(len(masks)) % FOLDS, 2)
    masks = np.concatenate([masks, ~masks])
    utilities = game(masks)
    values = np.zeros(n)
    for left_out in range(FOLDS):
        known, new = fold != left_out, fold == left_out
        model = make(seed).fit(masks[known].astype(float), utilities[known])
        missed = utilities[new] - model.predict(masks[new].astype(float))
        # a member's weight is 1 / (s q(s)), that of one who is not in it -1 / ((n - s) q(s))
        values += norm * (n * (masks[new].T @ missed) - masks[new].sum(axis=1) @ missed) / len(masks)
        values += values_of_trees(model.booster_.dump_model()["tree_info"], n) / FOLDS
    return values + (total - values.sum()) / n


def values_of_trees(trees: list[dict[str, Any]], n_players: int) -> np.ndarray:
    """Return the Shapley values of the sum of trees over indicators of membership, as LightGBM dumps them.

    A leaf is reached by the coalitions that hold all of some players and none of some others.
    """
    values = np.zeros(n_players)

    def visit(node: dict[str, Any], held: frozenset[int], kept_out: frozenset[int]) -> None:
        if "leaf_value" in node:
            depth = len(held) + len(kept_out)
            if held:
                values[list(held)] += node["leaf_value"] / (depth * comb(depth - 1, len(kept_out)))
            if kept_out:
                values[list(kept_out)] -= node["leaf_value"] / (depth * comb(depth - 1, len(held)))
            return
        player = node["split_feature"]
        visit(node["left_child"], held, kept_out | {player})
        visit(node["right_child"], held | {player}, kept_out)

    for tree in trees:
        visit(tree["tree_structure"], frozenset(), frozenset())
    return values
