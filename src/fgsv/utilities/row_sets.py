"""Row sets: the training rows behind a batch of coalitions, cut into chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.coalitions import Coalitions, starts_of
from fgsv.partition import Partition, called, names_in
from fgsv.types import Ints, Masks

CHUNK_BYTES = 32 * 2**20
"""Memory for the arrays of one chunk: large enough for BLAS, small enough for the cache."""

_BUCKETS_PER_DOUBLING = 4


@dataclass(frozen=True, eq=False)
class RowSets:
    """A batch of m sets of training rows, each stored as a list of the rows in it, or of the rows left out.

    Rows `0 .. n_rows - 1` are data. Rows from `n_rows` on are padding; only sets that list their members have any.
    """

    n_rows: int
    listed: Ints
    starts: Ints
    """Set j lists `listed[starts[j]:starts[j + 1]]`; m + 1 entries."""
    inverted: Masks
    """(m,) whether a set lists the rows left out."""

    def __len__(self) -> int:
        return len(self.inverted)

    @property
    def n_listed(self) -> Ints:
        """(m,) number of rows that each set lists."""
        return np.diff(self.starts)

    @property
    def sizes(self) -> Ints:
        """(m,) number of rows in each set."""
        return np.where(self.inverted, self.n_rows - self.n_listed, self.n_listed)

    def take(self, positions: NDArray[np.integer] | Masks) -> RowSets:
        """Return the sets at the given positions, in that order."""
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        lengths = self.n_listed[positions]
        starts = starts_of(lengths)
        entries = np.repeat(self.starts[positions] - starts[:-1], lengths) + np.arange(starts[-1])
        return RowSets(self.n_rows, self.listed[entries], starts, self.inverted[positions])

    def explicit(self) -> RowSets:
        """Return the same sets, all as lists of the rows in them; large sets cost their full size."""
        if not self.inverted.any():
            return self
        starts = starts_of(self.sizes)
        listed = np.empty(starts[-1], dtype=np.int64)
        is_large = np.repeat(self.inverted, self.sizes)
        listed[is_large] = np.nonzero(self.take(self.inverted).inside(self.n_rows))[1]
        listed[~is_large] = self.take(~self.inverted).listed
        return RowSets(self.n_rows, listed, starts, np.zeros(len(self), dtype=bool))

    def table(self, filler: int) -> Ints:
        """Return the lists as the rows of an (m, longest) array, short ones padded with `filler`."""
        lengths = self.n_listed
        table = np.full((len(self), int(lengths.max(initial=0))), filler, dtype=np.int64)
        table[np.arange(table.shape[1]) < lengths[:, None]] = self.listed
        return table

    def inside(self, n_total: int) -> Masks:
        """Return an (m, n_total) mask of the rows, padding included, in each set."""
        inside = np.zeros((len(self), n_total), dtype=bool)
        inside[np.repeat(np.arange(len(self)), self.n_listed), self.listed] = True
        inside[self.inverted, : self.n_rows] ^= True
        return inside

    def counts(self, codes: Ints, n_codes: int) -> Ints:
        """Count the rows of each set by code: (m, n_codes). Costs the length of the lists."""
        cells = np.repeat(np.arange(len(self)), self.n_listed) * n_codes + codes[self.listed]
        counts = np.bincount(cells, minlength=len(self) * n_codes).reshape(len(self), n_codes)
        total = np.bincount(codes[: self.n_rows], minlength=n_codes)
        return np.where(self.inverted[:, None], total - counts, counts)

    def chunks(self, lengths: Ints, bytes_fixed: int, bytes_per_row: int) -> Iterator[Ints]:
        """Yield positions of sets of about equal length, as many as fit into `CHUNK_BYTES`.

        Sets of one chunk differ by at most a fifth in length, so that a set of eight rows costs eight rows whatever
        else is in the batch. Where rows take no memory, lengths do not matter, and chunks are full.

        Args:
            lengths: (m,) rows of each set that a learner looks at: those in it, or those that it lists.
            bytes_fixed: Memory of a set, whatever its length.
            bytes_per_row: Memory of each of these rows.

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
    """The rows of each player: one row, or the rows of a unit such as a patient or a document."""

    n_rows: int
    rows: Ints | None = None
    """The rows, unit after unit; None if each row is a player."""
    starts: Ints | None = None
    """Unit u has `rows[starts[u]:starts[u + 1]]`."""
    names: tuple[Hashable, ...] | None = None
    """The labels of the units, or the index of the rows; None for rows without one."""

    @classmethod
    def of(cls, units: object, n_rows: int, index: Any = None) -> Units:
        """Read one label for each row; units are in order of first appearance.

        Args:
            units: (n,) labels; None: each row is a player.
            n_rows: n.
            index: That of a data frame of the rows, whose labels name them if they are all different.

        Raises:
            ValueError: Labels are missing, or not one for each row.

        """
        if units is None:
            return cls(n_rows, names=names_in(index))
        try:
            partition = Partition.of(units)
        except ValueError as error:
            raise ValueError(str(error).replace("groups", "units", 1)) from None
        if not partition.is_disjoint:
            raise ValueError("units must have one label for each row of X: no row can be in two units")
        if partition.n_players != n_rows:
            raise ValueError(f"{called('units', units)} has {partition.n_players} labels, but X has {n_rows} rows")
        codes = partition.codes
        return cls(n_rows, np.argsort(codes, kind="stable"), starts_of(np.bincount(codes)), partition.names)

    @property
    def n_players(self) -> int:
        """Number of players."""
        return self.n_rows if self.starts is None else len(self.starts) - 1

    def groups_of_units(self, groups: Any) -> Any:
        """Return labels of rows as the partition of the units; anything else as it is."""
        if self.rows is None or self.starts is None:
            return groups
        if np.shape(groups) != (self.n_rows,) or self.n_rows == self.n_players:
            return groups
        by_row = Partition.of(groups)
        codes = by_row.codes[self.rows]
        first = codes[self.starts[:-1]]
        crossing = np.flatnonzero(codes != np.repeat(first, np.diff(self.starts)))
        if len(crossing):
            unit = int(np.searchsorted(self.starts, crossing[0], side="right")) - 1
            names = [repr(by_row.names[code]) for code in (first[unit], codes[crossing[0]])]
            raise ValueError(
                f"groups has a label for each of {self.n_rows} rows, and unit {unit} has rows of {names[0]} and of "
                f"{names[1]} (row {self.rows[crossing[0]]}): a unit is one player, so all its rows must be in one "
                "group"
            )
        return Partition(by_row.names, first)

    def chunks(
        self, coalitions: Coalitions, memory: tuple[int, int], *, by_members: bool = True, min_size: int = 0
    ) -> Iterator[tuple[Ints, RowSets]]:
        """Yield positions of coalitions that are not empty, and their rows, as many as fit into memory.

        Args:
            coalitions: Of the players.
            memory: Bytes of a set, whatever its length, and of each row that is looked at.
            by_members: Whether that is each row of a set; if not, those that it lists.
            min_size: Sets of fewer rows are padded.

        """
        for some in _slices(coalitions, self.n_rows):
            sets = self.row_sets(coalitions[some])
            if min_size:
                sets = _pad(sets, min_size)
            nonempty = np.flatnonzero(sets.sizes > 0)
            sets = sets.take(nonempty)
            for chunk in sets.chunks(sets.sizes if by_members else sets.n_listed, *memory):
                yield some.start + nonempty[chunk], sets.take(chunk)

    def row_sets(self, coalitions: Coalitions) -> RowSets:
        """Return the rows of each coalition; one stored by the players left out becomes the rows left out."""
        listed = coalitions.listed.astype(np.int64)
        if self.starts is None or self.rows is None:
            return RowSets(self.n_rows, listed, coalitions.starts, coalitions.inverted)
        players = RowSets(self.n_rows, self.rows, self.starts, np.zeros(self.n_players, dtype=bool)).take(listed)
        return RowSets(self.n_rows, players.listed, players.starts[coalitions.starts], coalitions.inverted)


def as_masks(given: ArrayLike, n_players: int) -> Masks:
    """Return coalitions as an (m, n) boolean array, or raise an error about its shape."""
    masks = np.asarray(given, dtype=bool)
    if masks.ndim != 2 or masks.shape[1] != n_players:
        raise ValueError(f"expected an (m, {n_players}) boolean array, got shape {masks.shape}")
    return masks


def _slices(coalitions: Coalitions, n_rows: int) -> Iterator[slice]:
    """Yield consecutive ranges of coalitions whose lists of rows, with copies, take about `CHUNK_BYTES` at most."""
    n_entries = CHUNK_BYTES // 32 * coalitions.n_players // n_rows
    first = 0
    while first < len(coalitions):
        room = coalitions.starts[first] + n_entries
        last = max(first + 1, int(np.searchsorted(coalitions.starts, room, side="right")) - 1)
        yield slice(first, last)
        first = last


def _pad(sets: RowSets, min_size: int) -> RowSets:
    """Return the sets; those smaller than `min_size` are filled up with the first padding rows."""
    small = sets.sizes < min_size
    if not small.any():
        return sets
    short = sets.take(small).explicit()
    places = np.arange(min_size)
    sizes = short.sizes[:, None]
    padded = sets.n_rows + places - sizes  # behind the rows of a set, the padding rows in turn
    padded[places < sizes] = short.listed
    lengths = np.where(small, min_size, sets.n_listed)
    starts = starts_of(lengths)
    listed = np.empty(starts[-1], dtype=np.int64)
    is_small = np.repeat(small, lengths)
    listed[~is_small] = sets.take(~small).listed
    listed[is_small] = padded.reshape(-1)
    return RowSets(sets.n_rows, listed, starts, sets.inverted & ~small)
