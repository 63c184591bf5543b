"""Means of utilities by player and size, for the baselines that stratify."""

from __future__ import annotations

import numpy as np

from fgsv.types import Floats, Masks


def check_unseen(unseen: str) -> None:
    """Raise an error for an unknown rule for unseen means."""
    if unseen not in ("skip", "zero"):
        raise ValueError(f"unseen must be 'skip' or 'zero', got {unseen!r}")


class Strata:
    """For each size s = 1..n-1 and player i, the mean of what was added for coalitions of size s with i in them.

    Memory grows with n^2: these baselines keep a mean for each pair of player and size.
    """

    def __init__(self, n_players: int, n_outputs: int) -> None:
        self.counts = np.zeros((n_players - 1, n_players))
        self._sums = np.zeros((n_players - 1, n_players, n_outputs))

    def add(self, masks: Masks, values: Floats) -> None:
        """Take in (m, n) coalitions and their (m, q) values."""
        sizes = masks.sum(axis=1)
        order = np.argsort(sizes, kind="stable")
        rows, first = np.unique(sizes[order] - 1, return_index=True)
        members = masks[order].astype(float)
        self.counts[rows] += np.add.reduceat(members, first)
        for output, column in enumerate(values[order].T):
            self._sums[rows, :, output] += np.add.reduceat(members * column[:, None], first)

    @property
    def means(self) -> Floats:
        """(n - 1, n, q); zero where nothing was added."""
        return self._sums / np.maximum(self.counts, 1)[:, :, None]
