"""Merkle trees of SHA-256, as RFC 6962 (Certificate Transparency) defines them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\x00" + leaf).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Tree:
    """The tree over a list of leaves, with a proof that each of them is in it.

    >>> tree = Tree([b"north", b"south", b"east"])
    >>> root_of_path(b"east", 2, 3, tree.path(2)) == tree.root
    True
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        level = [leaf_hash(leaf) for leaf in leaves]
        self._levels = [level]
        while len(level) > 1:
            pairs = [_node(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
            level = [*pairs, *level[2 * len(pairs) :]]  # one without a partner moves up as it is
            self._levels.append(level)

    def __len__(self) -> int:
        """Return the number of leaves."""
        return len(self._levels[0])

    @property
    def root(self) -> bytes:
        """The hash that stands for all leaves and their order."""
        return self._levels[-1][0] if len(self) else sha256().digest()

    def path(self, number: int) -> list[bytes]:
        """Return the inclusion proof of a leaf: the hashes that lead from it to the root."""
        if not 0 <= number < len(self):
            raise IndexError(f"the tree has {len(self)} leaves, there is no number {number}")
        hashes = []
        for level in self._levels[:-1]:
            if number ^ 1 < len(level):
                hashes.append(level[number ^ 1])
            number >>= 1
        return hashes


def root_of_path(leaf: bytes, number: int, n_leaves: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that an inclusion proof leads to.

    Args:
        leaf: What is said to be in the tree.
        number: Its number, from 0.
        n_leaves: How many leaves the tree has.
        path: The hashes that lead from it to the root: `Tree.path`.

    Returns:
        The root; None if no tree of so many leaves has such a proof.

    """
    if not 0 <= number < n_leaves:
        return None
    found, last, hashes = leaf_hash(leaf), n_leaves - 1, list(path)
    while last:
        if number & 1 or number < last:
            if not hashes:
                return None
            other = hashes.pop(0)
            found = _node(other, found) if number & 1 else _node(found, other)
        number, last = number >> 1, last >> 1
    return None if hashes else found
