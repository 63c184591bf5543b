"""Partitions: which group each player belongs to, or which fractions of it belong to each group."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Floats, Ints
from fgsv.words import counted, some

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Partition:
    """Players by group: one label each, or an (n, K) matrix of ownership whose rows sum to one.

    >>> clinics = Partition.of(["north", "south", "north", "east"])
    >>> clinics.names, clinics.sizes.tolist()
    (('north', 'south', 'east'), [2.0, 1.0, 1.0])

    Groups are in order of first appearance (or of the mapping's keys, or of the matrix's columns).
    """

    names: tuple[Hashable, ...]
    owners: NDArray[Any]
    """(n,) the position of each player's group in `names`, or (n, K) the shares of the groups in each player."""
    players: tuple[Hashable, ...] | None = field(default=None, metadata={"saved": False})
    """The players' names, if they have any. Not saved: they may be those of people."""

    @classmethod
    def of(cls, groups: Any, n_players: int | None = None, players: Sequence[Hashable] | None = None) -> Partition:
        """Read the groups of players.

        Args:
            groups: One label for each player, a mapping name -> indices, an (n, K) ownership matrix, a partition, or
                None: each player is its own group. With the names of the players also a mapping player -> group; and
                labels with an index of their own, such as a column of a data frame, are put in the players' order.
            n_players: Checked, if given; None needs it.
            players: The players' names.

        Raises:
            ValueError: A player has no group, or several; labels are missing; shares do not sum to one.

        Examples:
            >>> Partition.of({"bob": "south", "ann": "north"}, players=["ann", "bob"]).names
            ('north', 'south')

        """
        if players is not None and not isinstance(groups, cls):
            named = cls.of(_in_order(groups, players), len(players))
            return replace(named, players=tuple(players))
        groups = list(groups) if isinstance(groups, Iterator | ValuesView) else groups
        if isinstance(groups, Partition):
            partition = groups
        elif groups is None:
            if n_players is None:
                raise ValueError(
                    "groups=None makes each player a group of its own, but the number of players is unknown: "
                    "pass labels, or wrap the callable as fgsv.Game(fn, n_players)"
                )
            partition = cls(tuple(range(n_players)), np.arange(n_players))
        elif isinstance(groups, Set) or not isinstance(groups, Iterable):
            raise ValueError(
                "groups must be one label per player in order, a mapping of names to indices, an (n, K) "
                f"matrix, or None; got {type(groups).__name__}"
            )
        elif isinstance(groups, Mapping):
            partition = _from_mapping(groups, n_players)
        elif (matrix := _as_matrix(groups)) is not None:
            partition = _from_ownership(matrix, getattr(groups, "columns", None))
        else:
            partition = _from_labels(groups)
        if n_players is not None and partition.n_players != n_players:
            letters = "; a text has a label in each letter: give a list of labels" if isinstance(groups, str) else ""
            raise ValueError(f"groups describes {partition.n_players} players, but the game has {n_players}{letters}")
        return partition

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return len(self.names)

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self.owners)

    @property
    def is_disjoint(self) -> bool:
        """Whether each player belongs to exactly one group."""
        return self.owners.ndim == 1

    @property
    def codes(self) -> Ints:
        """For each player the position of its group in `names`."""
        if not self.is_disjoint:
            raise ValueError("some players are co-owned, so they have no single group")
        return self.owners

    @property
    def ownership(self) -> Floats | None:
        """(n, K) shares of each player, or None if each player belongs to one group."""
        return None if self.is_disjoint else self.owners

    @cached_property
    def sizes(self) -> Floats:
        """How many players each group has; co-owned players count as fractions."""
        return self.sums(np.ones(self.n_players))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of which players are together, whatever the groups' names."""
        return hashlib.sha256(np.ascontiguousarray(self.owners).tobytes()).hexdigest()[:16]

    def sums(self, values: NDArray[np.floating]) -> Floats:
        """Return the sum over each group of an (n, ...) array, as (K, ...).

        Each sum adds its own players in their order and nothing else, so no other group's split can change it.
        """
        flat = np.asarray(values).reshape(self.n_players, -1)
        if not self.is_disjoint:
            # group by group: in a matrix product, the rounding of each sum would depend on the other groups
            sums = np.stack([(share[:, None] * flat).sum(axis=0) for share in self.owners.T])
        else:
            columns = [np.bincount(self.codes, weights=column, minlength=self.n_groups) for column in flat.T]
            sums = np.stack(columns, axis=1)
        return sums.reshape(self.n_groups, *np.shape(values)[1:])

    def of_parts(self, player_of: Ints) -> Partition:
        """Return the partition of parts into which players are divided, by the player that each belongs to."""
        return Partition(self.names, self.owners[player_of])

    def members(self, group: int) -> Ints:
        """Return the players of one group, by its position in `names`."""
        return np.flatnonzero(self.codes == group)


_LABELS = 'these are labels, give a list, or one column, such as table["clinic"]'
_LISTS = "these are lists of players, give a mapping from names to lists"


def names_in(index: Any) -> tuple[Hashable, ...] | None:
    """Return the names in the index of a data frame or series; None if it only counts, or repeats names."""
    if index is None or callable(index) or not index.is_unique:
        return None
    names = tuple(index)
    return None if names == tuple(range(len(names))) else names


def _in_order(groups: Any, players: Sequence[Hashable]) -> Any:
    """Return groups that are given by the names of players in their order; anything else as it is."""
    if isinstance(groups, Mapping):
        if not players or any(np.ndim(each) or isinstance(each, Set) for each in groups.values()):
            return groups
        given: Mapping[Any, Any] = groups
    elif getattr(groups, "ndim", 0) == 1 and (own := names_in(getattr(groups, "index", None))) is not None:
        given = dict(zip(own, groups, strict=True))
    else:
        return groups
    known = set(players)
    wrong = [f"no group for player {name!r}" for name in players if name not in given]
    wrong += [f"there is no player {name!r}" for name in given if name not in known]
    if wrong:
        raise ValueError(f"groups does not match the players: {some(wrong, 3)}")
    return [given[name] for name in players]


def _as_matrix(groups: Any) -> Floats | None:
    """Return `groups` as an ownership matrix if it is two-dimensional, else None."""
    if not hasattr(groups, "shape") and not (len(groups) and isinstance(groups[0], (list, np.ndarray))):
        return None
    if len(getattr(groups, "shape", (0, 0))) != 2:
        return None
    try:
        return np.asarray(groups, dtype=float)
    except (TypeError, ValueError) as error:
        meant = _LABELS if hasattr(groups, "shape") else _LISTS
        raise ValueError(f"an ownership matrix must contain numbers: {error}; if {meant}") from None


def by_text(names: Sequence[Hashable], items: Iterable[T]) -> dict[str, T]:
    """Return items by the text of their names, as files have them; two names that read the same are an error."""
    found = dict(zip(map(str, names), items, strict=True))
    if len(found) < len(names):
        same = next(name for name, other in pairwise(sorted(names, key=str)) if str(name) == str(other))
        raise ValueError(f"two groups are both called {str(same)!r}, such as 1 and '1': give them different names")
    return found


def called(argument: str, labels: Any) -> str:
    """Return an argument's name for an error message, with its column if known."""
    column = getattr(labels, "name", None)
    return argument if column is None else f"{argument} (column {column!r})"


def read_labels(labels: Any, argument: str) -> list[Any]:
    """Return labels as a list; raise an error that counts the missing ones."""
    listing = getattr(labels, "tolist", None) or getattr(labels, "to_pylist", None)  # the latter of pyarrow
    listed = list(labels) if listing is None else listing()
    kind = labels.dtype.kind if isinstance(getattr(labels, "dtype", None), np.dtype) else "O"
    if kind in "biuSU":
        missing = []
    elif kind == "f":
        missing = np.flatnonzero(np.isnan(labels)).tolist()
    else:
        missing = [i for i, label in enumerate(listed) if label is None or _is_nan(label)]
    if missing:
        raise ValueError(
            f"{called(argument, labels)} has {counted(len(missing), 'missing label')}, the first in row {missing[0]}"
        )
    return listed


def _from_labels(groups: Any) -> Partition:
    labels = read_labels(groups, "groups")
    if not labels:
        raise ValueError("groups is empty: expected one label for each player")
    codes: dict[Hashable, int] = {}
    try:
        positions = np.fromiter((codes.setdefault(label, len(codes)) for label in labels), np.int64, len(labels))
    except TypeError as error:
        raise ValueError(f"groups must be labels such as names or numbers ({error})") from None
    return Partition(tuple(codes), positions)


def _is_nan(label: Any) -> bool:
    """Say whether a label is a missing value (numpy's and pandas' do not equal themselves)."""
    try:
        return bool(label != label)
    except TypeError:  # pandas.NA has no truth value
        return True


def _from_mapping(groups: Mapping[Any, Any], n_players: int | None) -> Partition:
    if not groups:
        raise ValueError("groups is empty: expected a mapping of names to indices")
    lists = []
    for name, members in groups.items():
        indices = np.atleast_1d(np.asarray(list(members) if isinstance(members, Set) else members))
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        if indices.size == 0:
            raise ValueError(f"group {name!r} has no players")
        if not np.issubdtype(indices.dtype, np.integer) or indices.min() < 0:
            raise ValueError(f"group {name!r} must list players by index, 0 to n - 1")
        lists.append(indices.astype(np.int64))
    listed = np.concatenate(lists)
    n = int(listed.max()) + 1 if n_players is None else n_players
    if listed.max() >= n:
        raise ValueError(f"groups names player {listed.max()}, but the players are 0 to {n - 1}")
    counts = np.bincount(listed, minlength=n)
    if counts.max() > 1:
        twice = np.flatnonzero(counts > 1)
        raise ValueError(
            f"groups lists {counted(len(twice), 'player')} more than once, the first is player {twice[0]}; for "
            "shared ownership pass an (n, K) matrix whose rows sum to 1"
        )
    if counts.min() == 0:
        nowhere = np.flatnonzero(counts == 0)
        raise ValueError(
            f"groups leaves out {counted(len(nowhere), 'player')}, the first is player {nowhere[0]}; put them into "
            "a group, or pass an (n, K) ownership matrix"
        )
    codes = np.empty(n, dtype=np.int64)
    for code, indices in enumerate(lists):
        codes[indices] = code
    return Partition(tuple(groups), codes)


def _from_ownership(matrix: Floats, columns: Any) -> Partition:
    if matrix.size == 0:
        raise ValueError("groups is empty: expected an (n, K) ownership matrix")
    absent = np.flatnonzero(np.isnan(matrix).any(axis=1))
    if len(absent):
        raise ValueError(f"groups has missing shares in {counted(len(absent), 'row')}, the first is row {absent[0]}")
    if matrix.min() < 0 or matrix.max() > 1 + 1e-9:
        raise ValueError(f"an ownership matrix must contain shares between 0 and 1; if {_LISTS}")
    sums = matrix.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-9)
    if len(wrong):
        raise ValueError(
            f"each row of an ownership matrix must sum to 1, but that of player {wrong[0]} sums to "
            f"{sums[wrong[0]]:.10g} ({len(wrong):,} such rows)"
        )
    names = tuple(range(matrix.shape[1])) if columns is None else tuple(columns)
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise ValueError(f"the ownership matrix has two columns named {twice!r}: give each group one column")
    if ((matrix == 0) | (matrix == 1)).all():
        return Partition(names, matrix.argmax(axis=1))
    return Partition(names, matrix)
