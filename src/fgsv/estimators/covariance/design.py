"""Which coalitions the first evaluations go to: draws without replacement, by a law that is fixed for an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.types import Floats, Ints, Masks

ENDS_FIRST = 32
"""Up to this many players, two of three of the first draws have size 1 or n - 1, until these are all known."""
_FILLED = 4.0
"""A size with fewer unseen coalitions than this many times its expected draws is a stratum of its own."""
_SPARE = 16
_ENUMERATED = 0.75
"""A stratum that is expected to lose at least this fraction of its unseen coalitions is completed."""
_LISTED = 50_000
"""Up to this many coalitions of a size are listed and taken in random order; of more, they are drawn."""
_TRIES = 10_000


@dataclass(frozen=True, eq=False)
class Law:
    """How an epoch draws. The open sizes are divided into strata, and every stratum gets a fixed part of the draws.

    Stratum 0 holds the sizes with plenty of coalitions: each of its draws has an independent size. A size that may
    run out of coalitions is a stratum of its own. Within a size a draw is uniform among the coalitions not yet known.
    Hence, given all other draws of the epoch, a draw is of size s with the stratum's probability of s, and uniform
    among the coalitions of that size that are not known without it.

    If draws come in pairs, stratum 0 draws a coalition and then its complement, and the same holds of a pair given
    all other draws: in the difference of the two what is the same for both cancels, such as interactions of two.
    """

    stratum_of: Ints
    """(n + 1,): the stratum of each size; -1 where every coalition is known."""
    within: Floats
    """(n + 1,): the probability of each size within its stratum."""
    targets: Floats
    """(k,): each stratum's part of the draws."""
    known: Ints
    """(n + 1,): known coalitions of each size before the epoch."""
    pairs: bool = False
    """Whether stratum 0 is drawn in pairs of complements; s and n - s are then equally probable."""

    @property
    def n_strata(self) -> int:
        """How many strata there are; stratum 0 may be empty."""
        return len(self.targets)

    def to_dict(self) -> dict[str, Any]:
        """Return the law as JSON can hold it."""
        return {
            "stratum_of_size": self.stratum_of.tolist(),
            "probability_within_stratum": self.within.tolist(),
            "part_of_stratum": self.targets.tolist(),
            "known_of_size": self.known.tolist(),
            "pairs": self.pairs,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Law:
        """Read what `to_dict` wrote."""
        return cls(
            np.array(document["stratum_of_size"], dtype=np.int64),
            np.array(document["probability_within_stratum"], dtype=float),
            np.array(document["part_of_stratum"], dtype=float),
            np.array(document["known_of_size"], dtype=np.int64),
            document.get("pairs", False),
        )

    def resembles(self, other: Law) -> bool:
        """Say whether two laws differ by little more than rounding."""
        return (
            self.pairs == other.pairs
            and np.array_equal(self.stratum_of, other.stratum_of)
            and np.array_equal(self.known, other.known)
            and np.allclose(self.within, other.within, atol=1e-2)
            and np.allclose(self.targets, other.targets, atol=1e-2)
        )

    def next_stratum(self, drawn: Ints, unseen: Floats) -> int | None:
        """Return the stratum of the next draw: first those without any, then the one that is most behind.

        `drawn` (k,) counts the draws of the epoch, `unseen` (k,) what is left in each stratum.
        """
        left = unseen > 0
        if not left.any():
            return None
        waiting = np.flatnonzero(left & (drawn == 0))
        if len(waiting):
            return int(waiting[0])
        parts = np.where(left, self.targets, 0.0)
        parts /= parts.sum()
        return int(np.argmax(np.where(left, parts * (drawn[left].sum() + 1) - drawn, -np.inf)))


@lru_cache(maxsize=8)
def counts(n: int) -> Floats:
    """Return (n + 1,): C(n, s)."""
    return np.array([float(comb(n, s)) for s in range(n + 1)])


def unseen_counts(n: int, known: Ints) -> Floats:
    """Return (n + 1,): how many coalitions of each size are not known."""
    return np.maximum(counts(n) - known, 0.0)


def first_law(n: int, base: Floats, length: int) -> Law:
    """Return the law of the first epoch, which knows nothing but the two ends, and draws pairs."""
    known = np.zeros(n + 1, dtype=np.int64)
    known[[0, n]] = 1
    wanted = (base + base[::-1]) / (2 * base.sum())
    if n <= ENDS_FIRST:
        wanted = np.where(np.isin(np.arange(1, n), (1, n - 1)), 0.0, wanted)
        wanted = wanted / (3 * wanted.sum()) if wanted.any() else wanted
        wanted[[0, -1]] = 1 / 3
    law = divided(n, wanted, known, length, own=(1, n - 1) if n <= ENDS_FIRST else ())
    return replace(law, pairs=True)


def divided(n: int, wanted: Floats, known: Ints, length: int, own: tuple[int, ...] = ()) -> Law:
    """Return the law that gives size s a part wanted(s) of `length` draws, (n - 1,) for the sizes 1..n-1."""
    unseen = unseen_counts(n, known)
    stratum_of, within = np.full(n + 1, -1), np.zeros(n + 1)
    sizes = np.flatnonzero(unseen[1:n] > 0) + 1
    expected = length * wanted[sizes - 1] / wanted[sizes - 1].sum()
    few = (unseen[sizes] < _FILLED * expected + _SPARE) | np.isin(sizes, own)
    plenty = sizes[~few]
    stratum_of[plenty] = 0
    targets = [float(expected[~few].sum()) / length]
    if len(plenty):
        within[plenty] = wanted[plenty - 1] / wanted[plenty - 1].sum()
    for size, draws in zip(sizes[few], expected[few], strict=True):
        stratum_of[size], within[size] = len(targets), 1.0
        left = float(unseen[size])
        targets.append((left if draws > _ENUMERATED * left else float(draws)) / length)
    return Law(stratum_of, within, np.array(targets), known.copy())


class Sampler:
    """Draws coalitions that are not yet known, by a law."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._seen: set[bytes] = set()
        self._queues: dict[int, tuple[int, Masks]] = {}
        self._partner: Masks | None = None  # the complement of the last draw, where it is to be the next one

    def add(self, masks: Masks) -> None:
        """Mark coalitions as known."""
        self._seen.update(row.tobytes() for row in np.packbits(masks, axis=1))

    def new_epoch(self) -> None:
        """Forget the order in which strata are filled."""
        self._queues.clear()
        self._partner = None

    def draw(self, law: Law, drawn: Ints, count: int, rng: np.random.Generator) -> Masks:
        """Return up to `count` unknown coalitions, (m, n); `drawn` (k,) counts the draws of the epoch so far."""
        n, drawn = self._n, drawn.copy()
        unseen = np.zeros(law.n_strata)
        opened = law.stratum_of >= 0
        np.add.at(unseen, law.stratum_of[opened], unseen_counts(n, law.known)[opened])
        cumulative = np.cumsum(law.within * (law.stratum_of == 0))
        taken: set[bytes] = set()
        rows: list[Masks] = []
        while len(rows) < count:
            stratum = law.next_stratum(drawn, unseen - drawn)
            if stratum is None:
                break
            if stratum > 0:
                size = int(np.flatnonzero(law.stratum_of == stratum)[0])
                if unseen[stratum] > _LISTED:
                    row = self._unseen(np.cumsum(np.arange(n + 1) == size), taken, rng)
                else:
                    if size not in self._queues:
                        self._queues[size] = int(drawn[stratum]), self._shuffled(size, rng)
                    begun, queue = self._queues[size]
                    row = queue[int(drawn[stratum]) - begun]
            elif self._partner is not None:
                row, self._partner = self._partner, None
            else:
                row = self._unseen(cumulative, taken, rng)
                self._partner = ~row if law.pairs else None
            taken.add(np.packbits(row).tobytes())
            rows.append(row)
            drawn[stratum] += 1
        return np.array(rows, dtype=bool).reshape(-1, n)

    def _shuffled(self, size: int, rng: np.random.Generator) -> Masks:
        """Return all unseen coalitions of a size in random order."""
        masks = Coalitions.of_size(self._n, size).masks()
        new = np.array([row.tobytes() not in self._seen for row in np.packbits(masks, axis=1)])
        return masks[new][rng.permutation(int(new.sum()))]

    def _unseen(self, cumulative: Floats, taken: set[bytes], rng: np.random.Generator) -> Masks:
        for _ in range(_TRIES):
            size = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
            row = np.zeros(self._n, dtype=bool)
            for _ in range(_TRIES):
                row[:] = False
                row[rng.permutation(self._n)[:size]] = True
                key = np.packbits(row).tobytes()
                if key not in self._seen and key not in taken:
                    return row
        raise RuntimeError("no coalition is left to draw: this is a bug in fgsv")
