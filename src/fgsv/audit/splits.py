"""Splits: the ways in which a provider could split into several companies, and what measuring them costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.checks import as_list
from fgsv.partition import Partition
from fgsv.types import Floats, Ints

WAYS = ("evenly", "at random", "by class", "one by one", "found by search")
PARTS = (2, 3, 5)
MOST_APART = 12
"""Groups of up to this many players are also split into single players."""
SEARCHED = 12
"""Splits tried in the search for the worst one."""
FEWEST_SETS = 8
"""Minimum number of sets of other groups at which a split is measured."""
FEWEST_PAIRS = 3
"""Minimum number of pairs (a set of parts and its complement) at each of them."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Which splits of a group are measured; a split assigns every member the number of its part, from 0."""

    ways: Sequence[str] = WAYS
    parts: Sequence[int] = PARTS
    classes: Any = None
    """One for each player, for splits by class."""
    player_values: Floats | None = None
    """What the search for the worst split sorts players by."""

    def __post_init__(self) -> None:
        unknown = [way for way in as_list(self.ways, "ways must be a list of kinds of splits") if way not in WAYS]
        if unknown:
            raise ValueError(f"unknown kind of split {unknown[0]!r}: expected one of {', '.join(WAYS)}")
        check_parts(self.parts)

    def named(self, members: Ints, rng: np.random.Generator) -> list[tuple[str, Ints]]:
        """Return the splits that are possible for a group, each with its way; none if it has one member."""
        return self._possible(self.ways, members, rng)

    def candidates(self, members: Ints, rng: np.random.Generator) -> list[Ints]:
        """Return splits to search for the worst: evenly, by class, and cut anywhere, by value or by chance."""
        n = len(members)
        numbers = self._numbers(members)
        if "found by search" not in self.ways or not numbers:
            return []
        found = [labels for _, labels in self._possible(("evenly", "by class", "one by one"), members, rng)]
        by_value = None if self.player_values is None else np.argsort(-self.player_values[members])
        while len(found) < SEARCHED:
            order = rng.permutation(n) if by_value is None or len(found) % 2 else by_value
            k = numbers[len(found) % len(numbers)]
            cuts = np.sort(rng.choice(n - 1, k - 1, replace=False)) + 1
            labels = np.empty(n, dtype=np.int64)
            labels[order] = np.searchsorted(cuts, np.arange(n), side="right")
            found.append(labels)
        return found[:SEARCHED]

    def dearest(self, partition: Partition) -> int:
        """Return the evaluations that the most expensive group takes at least.

        They depend on the number of its members and of its classes only.
        """
        self._check(partition)
        rng = np.random.default_rng(0)
        dearest = 1
        for group in self._one_of_each(partition):
            members = partition.members(group)
            measured = [labels for _, labels in self.named(members, rng)]
            searching = 0
            if candidates := self.candidates(members, rng):
                measured.append(max(candidates, key=np.max))
                searching = cost(candidates, 1)
            dearest = max(dearest, FEWEST_SETS * (searching + cost(measured, FEWEST_PAIRS)))
        return dearest

    def _possible(self, ways: Sequence[str], members: Ints, rng: np.random.Generator) -> list[tuple[str, Ints]]:
        n = len(members)
        found = [
            (way, labels)
            for way in ("evenly", "at random", "by class")
            if way in ways
            for k in self._numbers(members)
            if (labels := self._of(way, k, members, rng)) is not None
        ]
        if "one by one" in ways and 1 < n <= MOST_APART and n not in self.parts:
            found.append(("one by one", np.arange(n)))
        return found

    def _numbers(self, members: Ints) -> list[int]:
        """Return the numbers of parts that a group has enough members for."""
        return [k for k in self.parts if k <= len(members)]

    def _of(self, way: str, k: int, members: Ints, rng: np.random.Generator) -> Ints | None:
        evenly = np.arange(len(members)) % k
        if way == "evenly":
            return evenly
        if way == "at random":
            return rng.permutation(evenly)
        if self.classes is None:
            return None
        _, codes, counts = np.unique(np.asarray(self.classes)[members], return_inverse=True, return_counts=True)
        ranks = np.argsort(np.argsort(-counts, kind="stable"))
        return np.minimum(ranks[codes], k - 1) if len(counts) >= k else None

    def _check(self, partition: Partition) -> None:
        """Raise an error if classes or values are not those of its players."""
        for name in ("classes", "player_values"):
            each = getattr(self, name)
            if each is not None and np.shape(each) != (partition.n_players,):
                raise ValueError(
                    f"{name} must have an entry for each of the {partition.n_players} players, got shape "
                    f"{np.shape(each)}"
                )

    def _one_of_each(self, partition: Partition) -> list[int]:
        """Return a group of each size and number of classes, by which its splits cost the same."""
        groups = divisible(partition)
        kinds = [partition.sizes]
        if self.classes is not None:
            held = np.unique(np.stack([partition.codes, np.unique(self.classes, return_inverse=True)[1]]), axis=1)
            kinds.append(np.bincount(held[0], minlength=partition.n_groups).astype(float))
        first = np.unique(np.stack(kinds)[:, groups], axis=1, return_index=True)[1]
        return list(groups[np.sort(first)].tolist())


def check_parts(parts: Any) -> None:
    """Raise an error unless these are numbers of companies to split into."""
    expected = "parts must be numbers of companies, 2 or more, such as [2, 3, 5]"
    numbers = as_list(parts, expected)
    whole = all(isinstance(number, int | np.integer) for number in numbers)
    if not numbers or not whole or min(numbers) < 2:
        raise ValueError(f"{expected}, got {parts!r:.200}")


def divisible(partition: Partition) -> Ints:
    """Return the groups that could split."""
    return np.flatnonzero(partition.sizes > 1)


def n_parts(labels: Ints) -> int:
    """Return the number of parts of a split."""
    return int(labels.max()) + 1


def all_pairs(count: int) -> int:
    """Return how many pairs there are of a set of so many parts and its complement, without the empty set."""
    return int(2 ** min(count - 1, 62) - 1)


def cost(splits: Sequence[Ints], pairs: int) -> int:
    """Return the evaluations at one set of other groups: without and with the group, and the pairs of each split."""
    return 2 + 2 * sum(min(pairs, all_pairs(n_parts(labels))) for labels in splits)
