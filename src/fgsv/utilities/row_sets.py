"""Row sets: the training rows behind a batch of coalitions, cut into chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions
from fgsv.partition import Partition, called
from fgsv.types import Ints, Masks

CHUNK_BYTES = 32 * 2**20
"""How much memory the arrays of one chunk may take: large enough for BLAS, small enough for the cache."""

_BUCKETS_PER_DOUBLING = 4


@dataclass(frozen=True, eq=False)
class RowSets:
    """A batch of m sets of training rows, each the shorter of two lists: the rows in it, or those left out.

    Rows `0 .. n_rows - 1` are data. Rows from `n_rows` on are padding, only in sets that list their members.
    """

    n_rows: int
    listed: Ints
    starts: Ints
    """Set j lists `listed[starts[j]:starts[j + 1]]`; m + 1 entries."""
    inverted: Masks

    def __len__(self) -> int:
        return len(self.inverted)

    @property
    def n_listed(self) -> Ints:
        """How many rows each set lists."""
        return np.diff(self.starts)

    @property
    def sizes(self) -> Ints:
        """How many rows each set has."""
        return np.where(self.inverted, self.n_rows - self.n_listed, self.n_listed)

    def take(self, positions: NDArray[np.integer] | Masks) -> RowSets:
        """Return the sets at the given positions, in that order."""
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        lengths = self.n_listed[positions]
        starts = _starts(lengths)
        entries = np.repeat(self.starts[positions] - starts[:-1], lengths) + np.arange(starts[-1])
        return RowSets(self.n_rows, self.listed[entries], starts, self.inverted[positions])

    def explicit(self) -> RowSets:
        """Return the same sets, all of them as lists of the rows in them; this pays for the large ones."""
        if not self.inverted.any():
            return self
        large = np.flatnonzero(self.inverted)
        left = self.take(large)
        inside = np.ones((len(large), self.n_rows), dtype=bool)
        inside[np.repeat(np.arange(len(large)), left.n_listed), left.listed] = False
        starts = _starts(self.sizes)
        listed = np.empty(starts[-1], dtype=np.int64)
        is_large = np.repeat(self.inverted, self.sizes)
        listed[is_large] = np.nonzero(inside)[1]
        listed[~is_large] = self.take(~self.inverted).listed
        return RowSets(self.n_rows, listed, starts, np.zeros(len(self), dtype=bool))

    def table(self, filler: int) -> Ints:
        """Return the lists as the rows of an (m, longest) array, short ones filled up with `filler`."""
        lengths = self.n_listed
        table = np.full((len(self), int(lengths.max(initial=0))), filler, dtype=np.int64)
        table[np.arange(table.shape[1]) < lengths[:, None]] = self.listed
        return table

    def inside(self, n_total: int) -> Masks:
        """Return an (m, n_total) array that says which rows, padding included, are in each set."""
        inside = np.zeros((len(self), n_total), dtype=bool)
        inside[np.repeat(np.arange(len(self)), self.n_listed), self.listed] = True
        inside[self.inverted, : self.n_rows] ^= True
        return inside

    def counts(self, codes: Ints, n_codes: int) -> Ints:
        """Count the rows of each set by code: (m, n_codes), at the cost of the lists."""
        cells = np.repeat(np.arange(len(self)), self.n_listed) * n_codes + codes[self.listed]
        counts = np.bincount(cells, minlength=len(self) * n_codes).reshape(len(self), n_codes)
        total = np.bincount(codes[: self.n_rows], minlength=n_codes)
        return np.where(self.inverted[:, None], total - counts, counts)

    def chunks(self, lengths: Ints, bytes_fixed: int, bytes_per_row: int) -> Iterator[Ints]:
        """Yield positions of sets of about equal `lengths`, as many as `CHUNK_BYTES` have room for.

        A set costs `bytes_fixed`, and `bytes_per_row` for each of its `lengths`. Sets of one chunk differ by
        a fifth in length at the most, so that a set of eight rows costs eight rows whatever the others are;
        where rows cost nothing, chunks are full.
        """
        buckets = np.ceil(_BUCKETS_PER_DOUBLING * np.log2(np.maximum(lengths, 4)))
        order = np.argsort(buckets, kind="stable")
        edges = np.flatnonzero(np.diff(buckets[order])) + 1
        for bucket in np.split(order, edges if bytes_per_row else []) if len(order) else []:
            each = bytes_fixed + bytes_per_row * int(lengths[bucket].max())
            step = max(1, CHUNK_BYTES // max(each, 1))
            for first in range(0, len(bucket), step):
                yield bucket[first : first + step]


@dataclass(frozen=True, eq=False)
class Units:
    """Which rows each player stands for: a row each, or the rows of a unit (a patient, a document)."""

    n_rows: int
    rows: Ints | None = None
    """The rows, unit after unit; None where each row is a player of its own."""
    starts: Ints | None = None

    @classmethod
    def of(cls, units: object, n_rows: int) -> Units:
        """Read one label for each row; units stand in order of their first appearance."""
        if units is None:
            return cls(n_rows)
        try:
            partition = Partition.of(units)
        except ValueError as error:
            raise ValueError(str(error).replace("groups", "units", 1)) from None
        if not partition.is_disjoint:
            raise ValueError("units must hold one label for each row of X")
        if partition.n_players != n_rows:
            raise ValueError(f"{called('units', units)} has {partition.n_players} labels, but X has {n_rows} rows")
        codes = partition.codes
        return cls(n_rows, np.argsort(codes, kind="stable"), _starts(np.bincount(codes)))

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return self.n_rows if self.starts is None else len(self.starts) - 1

    def row_sets(self, coalitions: Coalitions) -> RowSets:
        """Return the rows of each coalition, or those left out where it lists the players left out."""
        listed = coalitions.listed.astype(np.int64)
        if self.starts is None or self.rows is None:
            return RowSets(self.n_rows, listed, coalitions.starts, coalitions.inverted)
        players = RowSets(self.n_rows, self.rows, self.starts, np.zeros(self.n_players, dtype=bool)).take(listed)
        return RowSets(self.n_rows, players.listed, players.starts[coalitions.starts], coalitions.inverted)


def slices(coalitions: Coalitions, n_rows: int) -> Iterator[slice]:
    """Yield consecutive ranges of coalitions whose rows, listed and copied, take about `CHUNK_BYTES` at most."""
    n_entries = CHUNK_BYTES // 32 * coalitions.n_players // n_rows
    first = 0
    while first < len(coalitions):
        room = coalitions.starts[first] + n_entries
        last = max(first + 1, int(np.searchsorted(coalitions.starts, room, side="right")) - 1)
        yield slice(first, last)
        first = last


def pad(sets: RowSets, min_size: int) -> RowSets:
    """Return the sets, those smaller than `min_size` filled up with the first of the padding rows."""
    small = sets.sizes < min_size
    if not small.any():
        return sets
    short = sets.take(small).explicit()
    added = min_size - short.sizes
    lengths = sets.n_listed.copy()
    lengths[small] = min_size
    starts = _starts(lengths)
    listed = np.empty(starts[-1], dtype=np.int64)
    is_small = np.repeat(small, lengths)
    listed[~is_small] = sets.take(~small).listed
    table = np.empty((len(short), min_size), dtype=np.int64)
    is_padding = np.arange(min_size) >= short.sizes[:, None]
    table[~is_padding] = short.listed
    table[is_padding] = sets.n_rows + np.arange(added.sum()) - np.repeat(np.cumsum(added) - added, added)
    listed[is_small] = table.reshape(-1)
    return RowSets(sets.n_rows, listed, starts, sets.inverted & ~small)


def _starts(lengths: NDArray[np.integer]) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
