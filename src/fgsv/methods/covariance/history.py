"""All evaluations so far: the data that the surrogate is fitted to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions
from fgsv.types import Floats, Ints, Masks

_CHUNK = 8192


class History:
    """Rows of all evaluations in draw order: size, values, the proxy's values, part, and packed members if kept."""

    def __init__(self, n_players: int, n_outputs: int, n_bands: int = 0, *, keep_masks: bool) -> None:
        self.n_players = n_players
        self._packed = _Rows(np.zeros((0, -(-n_players // 8)), dtype=np.uint8)) if keep_masks else None
        self._sizes = _Rows(np.zeros(0, dtype=np.int32))
        self._parts = _Rows(np.zeros(0, dtype=np.int8))
        self._values = _Rows(np.zeros((0, n_outputs)))
        self._proxies = _Rows(np.zeros((0, n_bands, n_outputs)))
        self._forecasts: _Rows | None = None

    def __len__(self) -> int:
        return len(self._sizes.filled)

    def add(
        self, coalitions: Coalitions, values: Floats, proxies: Floats, parts: Ints, forecasts: Floats | None = None
    ) -> None:
        """Append the rows of a round; part -1 marks enumerated coalitions. All rounds have forecasts, or none has."""
        self._sizes.append(coalitions.sizes)
        self._parts.append(parts)
        self._values.append(values)
        self._proxies.append(proxies)
        if forecasts is not None:
            self._forecasts = self._forecasts or _Rows(np.zeros_like(values[:0]))
            self._forecasts.append(forecasts)
        if self._packed is not None:
            self._packed.append(np.packbits(coalitions.masks(), axis=1))

    @property
    def sizes(self) -> Ints:
        """The size of each row, (m,)."""
        return self._sizes.filled

    @property
    def parts(self) -> NDArray[np.int8]:
        """The part of each row, (m,): stream and replicate."""
        return self._parts.filled

    @property
    def values(self) -> Floats:
        """The utilities, (m, q)."""
        return self._values.filled

    @property
    def unforeseen(self) -> Floats:
        """The utilities less what was forecast of them, (m, q)."""
        return self.values if self._forecasts is None else self.values - self._forecasts.filled

    def foresee(self, forecasts: Floats | None) -> None:
        """Go on as if this had been forecast of all rows so far, (m, q), or nothing."""
        self._forecasts = None if forecasts is None else _Rows(forecasts, len(forecasts))

    @property
    def proxies(self) -> Floats:
        """The proxy's values, (m, k, q)."""
        return self._proxies.filled

    def masks(self, rows: Ints | slice) -> Masks:
        """Return the members of some rows, (k, n)."""
        assert self._packed is not None
        return np.unpackbits(self._packed.filled[rows], axis=1, count=self.n_players).view(bool)

    def draws_since(self, first: int) -> Iterator[tuple[slice, tuple[Coalitions, Floats, Floats, Ints]]]:
        """Yield rows from `first` on, in chunks: which they are; coalitions, unforeseen values, proxies and parts."""
        unforeseen = self.unforeseen
        for start in range(first, len(self), _CHUNK):
            rows = slice(start, min(start + _CHUNK, len(self)))
            coalitions = Coalitions.from_masks(self.masks(rows))
            yield rows, (coalitions, unforeseen[rows], self.proxies[rows], self.parts[rows].astype(np.int64))


def evenly(count: int, most: int) -> Ints:
    """Return all of 0..count-1, or `most` of them, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


class _Rows:
    """A growing array; its capacity doubles, so the cost of appending is linear."""

    def __init__(self, array: NDArray[np.generic], length: int = 0) -> None:
        self._array, self._length = array, length

    @property
    def filled(self) -> NDArray:  # type: ignore[type-arg]
        return self._array[: self._length]

    def append(self, rows: NDArray[np.generic]) -> None:
        end = self._length + len(rows)
        if end > len(self._array):
            grown = np.empty((max(end, 2 * len(self._array)), *self._array.shape[1:]), dtype=self._array.dtype)
            grown[: self._length] = self.filled
            self._array = grown
        self._array[self._length : end] = rows
        self._length = end
