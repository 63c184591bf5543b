"""Repeats: notice a game that gives two values to one coalition of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions, describe
from fgsv.game import Game
from fgsv.types import Floats
from fgsv.valuation.settings import failure_value

SLOTS = 2**16
"""Coalitions remembered, each in the slot of its key until another one takes it: 1 MiB."""
TOLERANCE = 0.01
"""Fraction of the range of all values that two answers may differ by, unless the game's rows are independent."""


class Repeats:
    """Compares the values of coalitions that a run happens to draw again; it evaluates nothing."""

    def __init__(self, game: Game, ends: Floats, on_error: str | float) -> None:
        self._tolerance = 0.0 if game.independent_rows else TOLERANCE
        self._filler = failure_value(on_error)
        self._weights = np.random.default_rng(0).integers(2**64, size=game.n_players, dtype=np.uint64)
        self._keys = np.zeros(SLOTS, dtype=np.uint64)
        self._means = np.full(SLOTS, np.nan)
        self._range = np.sort(ends.mean(axis=1))
        self._n_repeated = self._n_different = 0
        self._largest, self._first = 0.0, ""

    def add(self, coalitions: Coalitions, values: Floats) -> None:
        """Compare the (m, q) values of a round with each other and with earlier ones, by their means."""
        means = values.mean(axis=1)
        if self._filler is not None:  # a coalition may fail with its batch, and not in another one
            means = np.where((values == self._filler).any(axis=1), np.nan, means)
        keys = self._keys_of(coalitions)
        slots = (keys % np.uint64(SLOTS)).astype(np.int64)
        _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
        first = firsts[inverse]
        known = self._keys[slots] == keys
        gaps = np.abs(means - np.where(known, self._means[slots], means[first]))
        self._keys[slots], self._means[slots] = keys, means
        both = np.append(means[~np.isnan(means)], self._range)
        self._range = np.array([both.min(), both.max()])
        different = np.flatnonzero(gaps > self._tolerance * np.ptp(self._range))
        self._n_repeated += int(((known | (first < np.arange(len(keys)))) & ~np.isnan(gaps)).sum())
        self._n_different += len(different)
        if len(different):
            self._first = self._first or describe(coalitions, int(different[0]))
            self._largest = max(self._largest, float(gaps[different].max()))

    def _keys_of(self, coalitions: Coalitions) -> NDArray[np.uint64]:
        """Return the sum of a random 64-bit number for each member, modulo 2^64."""
        sums = np.append(np.uint64(0), np.cumsum(self._weights[coalitions.listed], dtype=np.uint64))
        listed = sums[coalitions.starts[1:]] - sums[coalitions.starts[:-1]]
        return np.where(coalitions.inverted, self._weights.sum(dtype=np.uint64) - listed, listed)

    @property
    def note(self) -> str | None:
        """The warning about a random game; None if nothing was noticed."""
        if not self._n_different:
            return None
        return (
            f"the game is not deterministic: {self._n_different} of {self._n_repeated} coalitions that were "
            f"evaluated again had another value, off by up to {self._largest / np.ptp(self._range):.2g} of "
            "the range of all values; "
            f"the first is {self._first}"
        )
