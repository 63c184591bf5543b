"""Cutting a client's rows into shards, which stay the same when the client splits along them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgsv.checks import check_type, whole_number
from fgsv.types import Ints


def shards(rows: Sequence[Any] | np.ndarray, *, size: int, key: bytes) -> list[Ints]:
    """Cut rows into shards of a fixed size, in the order of a keyed hash of their contents.

    A client that trains on each shard and sends an update for each has one player per shard. If its shards are
    divided between two clients, each of these cuts the same shards again, so the players stay the same.

    Args:
        rows: (n, d) numbers, labels among them, or n texts or bytes; of the same type for all clients.
        size: Rows of a shard, the same for all clients. The last shard of a client may have fewer.
        key: 16 to 64 bytes, the same for all clients, drawn after all have fixed their rows: a client that knows the
            key can choose which rows come together.

    Returns:
        The positions of each shard's rows.

    Raises:
        ValueError, TypeError: An argument is wrong.

    Examples:
        >>> [part.tolist() for part in shards(["a", "b", "c", "d", "e"], size=2, key=b"drawn afterwards")]
        [[2, 1], [3, 4], [0]]

    """
    size = whole_number("size", size, least=1)
    check_type(key, bytes, "bytes as key", "secrets.token_bytes(16) draws some")
    if not 16 <= len(key) <= 64:
        raise ValueError(f"key must have 16 to 64 bytes, got {len(key)}")
    contents = [np.asarray(row.encode("utf-8", "surrogatepass") if isinstance(row, str) else row) for row in rows]
    if any(content.dtype.hasobject for content in contents):
        raise TypeError("rows must hold numbers, texts or bytes")
    digests = [hashlib.blake2b(content.tobytes(), key=key).digest() for content in contents]
    order = sorted(range(len(digests)), key=digests.__getitem__)
    return [np.array(order[start : start + size]) for start in range(0, len(order), size)]
