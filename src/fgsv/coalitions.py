"""Coalitions: batches of sets of players, stored as short lists, drawn by size, and packed into bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.types import Floats, Ints, Masks


@dataclass(frozen=True, eq=False)
class Coalitions:
    """A batch of m coalitions of n players, each the shorter of two lists: its members, or those left out.

    >>> two = Coalitions.from_masks([[True, False, False, False], [True, True, False, True]])
    >>> two.sizes.tolist(), two.listed.tolist(), two.inverted.tolist()
    ([1, 3], [0, 2], [False, True])
    >>> two.masks().sum(axis=1).tolist()
    [1, 3]

    In a game of a million players most coalitions are small: a list takes a few bytes, where an (m, n) array of
    booleans would take gigabytes.
    """

    n_players: int
    listed: NDArray[np.int32]
    """The listed players, coalition after coalition."""
    starts: Ints
    """Coalition j lists `listed[starts[j]:starts[j + 1]]`; m + 1 entries."""
    inverted: Masks
    """If True, the listed players are the ones left out."""

    def __len__(self) -> int:
        return len(self.inverted)

    def __getitem__(self, rows: slice) -> Coalitions:
        """Return consecutive coalitions as a batch, without copying the lists."""
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise ValueError("coalitions can only be sliced in steps of one")
        last = max(first, last)
        starts = self.starts[first : last + 1]
        return Coalitions(
            self.n_players,
            self.listed[starts[0] : starts[-1]],
            starts - starts[0],
            self.inverted[first:last],
        )

    def take(self, rows: Ints) -> Coalitions:
        """Return the coalitions of these rows, in that order."""
        lengths = self.n_listed[rows]
        starts = starts_of(lengths)
        entries = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Coalitions(self.n_players, self.listed[entries], starts, self.inverted[rows])

    @property
    def n_listed(self) -> Ints:
        """How many players each coalition lists."""
        return np.diff(self.starts)

    @property
    def sizes(self) -> Ints:
        """How many members each coalition has."""
        return np.where(self.inverted, self.n_players - self.n_listed, self.n_listed)

    @property
    def rows(self) -> Ints:
        """For each entry of `listed`, the coalition that lists it."""
        return np.repeat(np.arange(len(self)), self.n_listed)

    def masks(self) -> Masks:
        """Return the coalitions as an (m, n) boolean array."""
        masks = np.zeros((len(self), self.n_players), dtype=bool)
        masks[self.rows, self.listed] = True
        masks[self.inverted] ^= True
        return masks

    def members(self, row: int) -> Ints:
        """Return the members of one coalition, in increasing order."""
        return np.flatnonzero(self[row : row + 1].masks()[0])

    @classmethod
    def from_masks(cls, masks: ArrayLike) -> Coalitions:
        """Return the coalitions of an (m, n) boolean array."""
        masks = np.asarray(masks, dtype=bool)
        n = masks.shape[1]
        inverted = 2 * masks.sum(axis=1) > n
        rows, players = np.nonzero(masks ^ inverted[:, None])
        starts = starts_of(np.bincount(rows, minlength=len(masks)))
        return cls(n, players.astype(np.int32), starts, inverted)

    @classmethod
    def from_lists(cls, n_players: int, lists: Iterable[NDArray[np.integer]], inverted: ArrayLike) -> Coalitions:
        """Return coalitions from one list of players each.

        >>> Coalitions.from_lists(4, [np.array([2]), np.array([0, 3])], [False, True]).sizes.tolist()
        [1, 2]

        Args:
            n_players: n.
            lists: m lists of players; those of equal length may be the rows of an array.
            inverted: (m,) whether a list has the players left out.

        """
        lists = list(lists)
        starts = np.cumsum([0, *(len(players) for players in lists)], dtype=np.int64)
        listed = np.concatenate(lists) if lists else np.empty(0)
        return cls(n_players, listed.astype(np.int32), starts, np.asarray(inverted, dtype=bool))

    @classmethod
    def ends(cls, n_players: int) -> Coalitions:
        """Return the empty coalition and the full one."""
        return cls(n_players, np.empty(0, np.int32), np.zeros(3, np.int64), np.array([False, True]))

    @classmethod
    def of_size(cls, n_players: int, size: int) -> Coalitions:
        """Return every coalition of one size, in lexicographic order of the shorter list."""
        short = min(size, n_players - size)
        count = comb(n_players, short)
        listed = np.fromiter(
            (player for players in combinations(range(n_players), short) for player in players),
            dtype=np.int32,
            count=count * short,
        )
        starts = np.arange(count + 1, dtype=np.int64) * short
        return cls(n_players, listed, starts, np.full(count, 2 * size > n_players))

    @classmethod
    def concatenate(cls, batches: Sequence[Coalitions]) -> Coalitions:
        """Return the coalitions of several batches as one."""
        offsets = np.cumsum([0, *(len(batch.listed) for batch in batches)])
        starts = [batch.starts[:-1] + offset for batch, offset in zip(batches, offsets, strict=False)]
        return cls(
            batches[0].n_players,
            np.concatenate([batch.listed for batch in batches]),
            np.concatenate([*starts, offsets[-1:]]),
            np.concatenate([batch.inverted for batch in batches]),
        )


def starts_of(lengths: NDArray[np.integer]) -> Ints:
    """Return (m + 1,): where each of m lists starts, one after the other, and where the last one ends.

    >>> starts_of(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def describe(coalitions: Coalitions, row: int) -> str:
    """Describe a coalition by its size and its first ten members."""
    members = coalitions.members(row)
    shown = ", ".join(map(str, members[:10].tolist())) + (", ..." if len(members) > 10 else "")
    return f"the coalition of size {len(members)} with members [{shown}]"


def log_choose(n: ArrayLike, k: ArrayLike) -> Floats:
    """Return the logarithm of the binomial coefficient C(n, k), for arrays."""
    from scipy.special import gammaln  # workers do without it: it is half of the time they take to start

    n = np.asarray(n)
    k = np.asarray(k)
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def draw_blocks(n_players: int, sizes: NDArray[np.integer], rng: np.random.Generator) -> tuple[Coalitions, Ints]:
    """Draw one uniform coalition of each given size; those of one size are blocks of random permutations.

    Coalitions of one size in one stream cut a permutation into disjoint lists (of members, or of those left out,
    whichever is shorter), so that together they cover the players evenly.

    Args:
        n_players: n.
        sizes: (m,), or (J, m) for J streams, between 1 and n - 1, in each stream in order.
        rng: Draws the permutations.

    Returns:
        The coalitions, stream after stream, and for each the number of its permutation: coalitions of different
        permutations are independent.

    """
    changes = np.diff(np.atleast_2d(sizes), axis=1, prepend=0) != 0
    sizes = sizes.reshape(-1)
    shorts = np.minimum(sizes, n_players - sizes)
    starts = starts_of(shorts)
    first = np.flatnonzero(changes)
    counts = np.diff(first, append=len(sizes))
    # each coalition's place: its permutation, and where its block begins there
    row_in_size = np.arange(len(sizes)) - np.repeat(first, counts)
    blocks = n_players // shorts
    per_size = -(-counts // blocks[first])
    permutation = row_in_size // blocks + np.repeat(np.cumsum(per_size) - per_size, counts)
    begin = row_in_size % blocks * shorts
    if n_players <= _WHOLE:
        listed = np.empty(starts[-1], dtype=np.int32)
        some = max(1, _AT_ONCE // n_players)
        cuts = np.searchsorted(permutation, np.arange(0, permutation[-1] + some + 1, some))
        for first_row, last_row in pairwise(cuts):
            rows = slice(first_row, last_row)
            number = permutation[rows] - permutation[first_row]
            # eight bytes each: numpy permutes four-byte entries at half the speed
            everyone = np.broadcast_to(np.arange(n_players, dtype=np.int64), (number[-1] + 1, n_players))
            permuted = rng.permuted(everyone, axis=1).reshape(-1)
            places = np.arange(starts[first_row], starts[last_row])
            places += np.repeat(number * n_players + begin[rows] - starts[rows], shorts[rows])
            listed[starts[first_row] : starts[last_row]] = permuted[places]
    else:  # draw only the part of each permutation that is used
        last = np.flatnonzero(np.diff(permutation, append=permutation[-1] + 1))
        lengths = (begin + shorts)[last].tolist()
        listed = np.concatenate([rng.choice(n_players, length, replace=False) for length in lengths])
    return Coalitions(n_players, listed.astype(np.int32), starts, 2 * sizes > n_players), permutation


_WHOLE = 4096
"""Up to this many players, whole permutations are drawn many at once, which is faster than parts of each."""
_AT_ONCE = 2**20
"""Permutation entries drawn at once."""


# Packed coalitions: a batch as bytes, the same bytes for the same coalitions on every machine.

BITS = 0
"""The first byte of a packed coalition if bits follow."""
MEMBERS = 1
"""... if a list of members does."""
LEFT_OUT = 2
"""... if a list of those left out does."""
BITS_ONLY = 1024
"""Up to this many players every coalition is packed as bits: 128 bytes, and no loop over coalitions."""


def canonical(coalitions: Coalitions) -> Coalitions:
    """Return the same coalitions, each as the shorter list (of members in a tie) in increasing order.

    A game that takes lists may add in list order; a fixed order gives it the same bits every time.
    """
    twice = 2 * coalitions.n_listed
    n = coalitions.n_players
    if np.any((twice > n) | ((twice == n) & coalitions.inverted)):
        return Coalitions.from_masks(coalitions.masks())
    offsets = n * coalitions.rows
    listed = np.sort(offsets + coalitions.listed) - offsets  # one sort for all lists: each has its own range
    return Coalitions(n, listed.astype(np.int32), coalitions.starts, coalitions.inverted)


def pack(coalitions: Coalitions) -> bytes:
    """Return a batch as bytes: how many coalitions, the length of each in bytes, and each of them in turn.

    >>> pack(Coalitions.from_masks([[True, False, True]])).hex(" ")
    '01 00 00 00 02 00 00 00 00 a0'

    A coalition is one byte that names its format, then bits or a list of 32-bit numbers, whichever is shorter
    (bits for few players). Its bytes do not depend on the batch, so it can be found in another one.
    """
    if coalitions.n_players <= BITS_ONLY:
        bits = np.packbits(coalitions.masks(), axis=1)
        flagged = np.concatenate([np.full((len(bits), 1), BITS, np.uint8), bits], axis=1)
        return _header(np.full(len(bits), flagged.shape[1])) + flagged.tobytes()
    return join(_rows(canonical(coalitions)))


def _rows(coalitions: Coalitions) -> list[bytes]:
    starts = coalitions.starts.tolist()
    listed = coalitions.listed.astype("<i4")
    rows = []
    for row, inverted in enumerate(coalitions.inverted.tolist()):
        if 32 * (starts[row + 1] - starts[row]) < coalitions.n_players:
            flag = LEFT_OUT if inverted else MEMBERS
            rows.append(bytes([flag]) + listed[starts[row] : starts[row + 1]].tobytes())
        else:
            rows.append(bytes([BITS]) + np.packbits(coalitions[row : row + 1].masks()).tobytes())
    return rows


def _header(lengths: NDArray[np.integer]) -> bytes:
    return np.concatenate([[len(lengths)], lengths]).astype("<i4").tobytes()


def join(rows: Sequence[bytes]) -> bytes:
    """Return the batch of these packed coalitions."""
    return _header(np.array([len(row) for row in rows], dtype=np.int64)) + b"".join(rows)


def split(batch: bytes) -> list[bytes]:
    """Return the packed coalitions of a batch, one by one."""
    ends = _ends(batch).tolist()
    return [batch[start:end] for start, end in pairwise(ends)]


def n_rows(batch: bytes) -> int:
    """Return how many coalitions a batch has."""
    return int.from_bytes(batch[:4], "little")


def _ends(batch: bytes) -> Ints:
    """Return where each coalition of a batch ends, preceded by where the first one begins."""
    count = n_rows(batch)
    lengths = np.frombuffer(batch, "<i4", count, offset=4)
    ends = 4 + 4 * count + np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if ends[-1] != len(batch):
        raise ValueError(f"a packed batch is damaged: expected {ends[-1]} bytes, got {len(batch)}")
    return ends


def unpack(n_players: int, batch: bytes) -> Coalitions:
    """Return the coalitions of a batch, in canonical form.

    >>> unpack(3, pack(Coalitions.from_masks([[True, False, True]]))).masks().tolist()
    [[True, False, True]]
    """
    if n_players <= BITS_ONLY:
        return Coalitions.from_masks(unpack_masks(n_players, batch))
    lists = []
    inverted = []
    for row in split(batch):
        if row[0] == BITS:
            bits = np.frombuffer(row, np.uint8, offset=1)
            one = Coalitions.from_masks(np.unpackbits(bits, count=n_players)[None, :])
            lists.append(one.listed)
            inverted.append(bool(one.inverted[0]))
        else:
            lists.append(np.frombuffer(row, "<i4", offset=1))
            inverted.append(row[0] == LEFT_OUT)
    return Coalitions.from_lists(n_players, lists, inverted)


def unpack_masks(n_players: int, batch: bytes) -> Masks:
    """Return the coalitions of a batch as an (m, n) boolean array: `unpack(...).masks()`, but faster."""
    if n_players > BITS_ONLY:
        return unpack(n_players, batch).masks()
    ends = _ends(batch)
    bits = np.frombuffer(batch, np.uint8, offset=int(ends[0])).reshape(len(ends) - 1, -1)[:, 1:]
    return np.unpackbits(bits, axis=1, count=n_players).astype(bool)
