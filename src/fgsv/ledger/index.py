"""An index in memory of where each coalition was evaluated, for independent rows: 16 bytes a coalition."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from fgsv.types import Ints

ROW_BITS = 24
"""A place is a batch number followed by this many bits for the row in it."""
MOST_NEW = 2**16


class Rows:
    """Sorted keys with their places; the newest stay in a dictionary until there are many.

    A table in the file would be rewritten at every commit: hashes are in random order, so each call's rows touch
    all its pages. This index is built from the batches on first use.
    """

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, np.int64)
        self._places: Ints = np.empty(0, np.int64)
        self._new: dict[int, int] = {}

    def add(self, batch: int, rows: Collection[bytes], failed: Collection[int] = ()) -> None:
        """Add the coalitions of a batch; the newest place wins, but a failure never hides a value."""
        keys = _keys(rows)
        first = batch << ROW_BITS
        places = dict(zip(keys, range(first, first + len(keys)), strict=True))
        if failed:
            worse = [key for row, key in enumerate(keys) if row in failed]
            for key in self._find(worse):
                places.pop(key, None)
        self._new |= places
        if len(self._new) > MOST_NEW:
            self._sort()

    def _sort(self) -> None:
        keys = np.concatenate([self._keys, np.fromiter(self._new, np.int64, len(self._new))])
        places = np.concatenate([self._places, np.fromiter(self._new.values(), np.int64, len(self._new))])
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], places[order]
        is_last = np.append(keys[1:] != keys[:-1], True)
        self._keys, self._places = keys[is_last], places[is_last]
        self._new = {}

    def find(self, rows: Collection[bytes]) -> dict[int, list[tuple[bytes, int]]]:
        """Return batches, and in each the coalitions that may be found there with their rows.

        Keys are 64 bits of a hash, so callers must compare the coalition itself. If two share a key, one is hidden.
        """
        by_key = dict(zip(_keys(rows), rows, strict=True))
        found: dict[int, list[tuple[bytes, int]]] = {}
        for key, place in self._find(by_key).items():
            found.setdefault(place >> ROW_BITS, []).append((by_key[key], place & (2**ROW_BITS - 1)))
        return found

    def _find(self, keys: Collection[int]) -> dict[int, int]:
        wanted = np.fromiter(keys, np.int64, len(keys))
        found: dict[int, int] = {}
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            hit = self._keys[at] == wanted
            found = dict(zip(wanted[hit].tolist(), self._places[at[hit]].tolist(), strict=True))
        return found | {key: self._new[key] for key in keys if key in self._new}


def _keys(rows: Iterable[bytes]) -> list[int]:
    return list(map(hash, rows))  # keyed anew in each process, as this index is, so that no file can forge clashes
