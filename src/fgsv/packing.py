"""Packed coalitions: a batch as bytes, the same bytes for the same coalitions on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions

BITS, MEMBERS, LEFT_OUT = 0, 1, 2
"""The first byte of a packed coalition: what follows are bits, a list of members, or of those left out."""
BITS_ONLY = 1024
"""Up to so many players every coalition is packed as bits: 128 bytes, and no loop over coalitions."""


def canonical(coalitions: Coalitions) -> Coalitions:
    """Return the same coalitions with the shorter list each (of members, at half of all), in increasing order.

    A game that is given lists may add in their order; in one order alone it has the same bits again.
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

    A coalition is one byte that says how it is written, and bits or a list of 32-bit numbers, whichever is
    shorter (bits for few players). It does not depend on the batch, so that it can be found in another one.
    """
    if coalitions.n_players <= BITS_ONLY:
        bits = np.packbits(coalitions.masks(), axis=1)
        flagged = np.concatenate([np.full((len(bits), 1), BITS, np.uint8), bits], axis=1)
        return _header(np.full(len(bits), flagged.shape[1])) + flagged.tobytes()
    return join(_rows(canonical(coalitions)))


def _rows(coalitions: Coalitions) -> list[bytes]:
    n, starts = coalitions.n_players, coalitions.starts.tolist()
    listed = coalitions.listed.astype("<i4")
    rows = []
    for row, inverted in enumerate(coalitions.inverted.tolist()):
        if 32 * (starts[row + 1] - starts[row]) < n:
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


def _ends(batch: bytes) -> NDArray[np.int64]:
    """Return where each coalition of a batch ends, preceded by where the first one begins."""
    count = n_rows(batch)
    lengths = np.frombuffer(batch, "<i4", count, offset=4)
    ends = 4 + 4 * count + np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if ends[-1] != len(batch):
        raise ValueError(f"a packed batch of {ends[-1]} bytes has {len(batch)}")
    return ends


def unpack(n_players: int, batch: bytes) -> Coalitions:
    """Return the coalitions of a batch, in canonical form.

    >>> unpack(3, pack(Coalitions.from_masks([[True, False, True]]))).masks().tolist()
    [[True, False, True]]
    """
    if n_players <= BITS_ONLY:
        ends = _ends(batch)
        bits = np.frombuffer(batch, np.uint8, offset=int(ends[0])).reshape(len(ends) - 1, -1)[:, 1:]
        return Coalitions.from_masks(np.unpackbits(bits, axis=1, count=n_players).astype(bool))
    lists, inverted = [], []
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
