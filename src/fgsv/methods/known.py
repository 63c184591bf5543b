"""Evaluations of a game that are known before a run begins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions
from fgsv.types import Floats, Ints, Masks


@dataclass(frozen=True, eq=False)
class Related:
    """Evaluations of an earlier game with players who have left; without them, coalitions are worth about as much."""

    n_players: int
    """The n players of the present game, and after them those who have left."""
    packed: NDArray[np.uint8]
    """(k, n_players / 8): the coalitions as bits, in increasing order; each was drawn."""
    values: Floats
    """(k, q)"""
    run: Ints
    """(k,): which earlier run drew it, as in `Known`."""

    def masks(self) -> Masks:
        """Return the coalitions as a (k, n_players) boolean array."""
        return np.unpackbits(self.packed, axis=1, count=self.n_players).astype(bool)


@dataclass(frozen=True, eq=False)
class Known:
    """Evaluations of a game that are known before a run: m distinct coalitions, in an order that is always the same.

    Between two games of one frame, a coalition whose players are in both is worth the same.
    """

    n_players: int
    packed: NDArray[np.uint8]
    """(m, n / 8): the coalitions as bits, in increasing order."""
    values: Floats
    """(m, q)"""
    run: Ints
    """(m,): which earlier run drew it, or -1 if only its value is known."""
    runs_had: Masks
    """(r, n): the players of the present game that each of those runs had too; the others have joined since."""
    had: Masks
    """(n,): the players that the most recent of the earlier games had too."""
    n_left: int
    """Players of that game who have left."""
    n_recorded: int
    """Evaluations of the same frame that were found, including those with players who have left."""
    notes: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    """Digests of the names of the providers in the most recent run; empty if it did not record them."""
    owners: tuple[str, ...] = ()
    """(n,): the provider of each player in that run, "" if it had no such player; empty if it did not record them."""
    lost: frozenset[str] = frozenset()
    """The providers in that run some of whose players have left."""
    versions: tuple[Mapping[str, str], ...] = ()
    """The versions of Python, fgsv and libraries that the evaluations were made with."""
    related: Related | None = None
    """Draws with players who have left, if there are any."""

    def with_values(self, change: Callable[[Floats], Floats]) -> Known:
        """Return the same coalitions with other values: `change` takes (m, q) and returns (m, q')."""
        related = self.related and replace(self.related, values=change(self.related.values))
        return replace(self, values=change(self.values), related=related)

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def n_joined(self) -> int:
        """Players that the most recent of the earlier games did not have."""
        return int((~self.had).sum())

    def masks(self, rows: Any = slice(None)) -> Masks:
        """Return the coalitions, or some of them, as an (m, n) boolean array."""
        return np.unpackbits(self.packed[rows], axis=1, count=self.n_players).astype(bool)

    def find(self, coalitions: Coalitions) -> Ints:
        """Return the row of each coalition, -1 where it is not known."""
        if not len(self):
            return np.full(len(coalitions), -1)
        keys = as_keys(self.packed)
        wanted = as_keys(np.packbits(coalitions.masks(), axis=1))
        rows = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[rows] == wanted, rows, -1)

    @cached_property
    def sha256(self) -> str:
        """The hash of everything that a run can learn from it."""
        arrays: list[NDArray[Any]] = [self.packed, self.values, self.run, self.runs_had]
        if self.related is not None:
            arrays += [self.related.packed, self.related.values, self.related.run]
        digest = hashlib.sha256(json.dumps([self.n_players, [each.shape for each in arrays]]).encode())
        for each in arrays:
            digest.update(np.ascontiguousarray(each, dtype=each.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()


def as_keys(packed: NDArray[np.uint8]) -> NDArray[np.void]:
    """Return (m,) keys of (m, w) bytes, which compare like the bytes."""
    return np.ascontiguousarray(packed).view(f"V{packed.shape[1]}")[:, 0]
