"""Which coalitions the first evaluations go to: draws without replacement, by a law that is fixed for an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import comb
from typing import Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.types import Floats, Ints, Masks

ENDS_FIRST = 20
"""Up to this many players, two of three of the first draws have size 1 or n - 1, until these are all known: within 64
evaluations."""
_FILLED = 4.0
"""A cell with fewer unseen coalitions than this many times its expected draws is a stratum of its own."""
_SPARE = 16
_ENUMERATED = 0.75
"""A stratum that is expected to lose at least this fraction of its unseen coalitions is completed."""
_LISTED = 50_000
"""If a size has up to this many coalitions, those of its cells are listed and taken in random order; else drawn."""
RELATED = 0.6
"""The spread to expect of the difference of two residuals, of a draw and its partner, relative to that of one."""
_TRIES = 10_000


@dataclass(frozen=True, eq=False)
class Cells:
    """Coalitions by size and, where players have joined since earlier runs, by the latest of their members to join.

    There are L * (n + 1) cells: first those of sizes 0..n among the oldest players, last those with somebody of the
    latest to join. Where nobody has joined, a cell is a size.
    """

    joined: Ints
    """(n,): 0 for the players of the oldest run, up to L - 1 for the latest to join."""

    @property
    def n(self) -> int:
        """Players."""
        return len(self.joined)

    @property
    def n_levels(self) -> int:
        """How often players joined, and one."""
        return 1 + int(self.joined.max())

    @cached_property
    def sizes(self) -> Ints:
        """(c,): the size of each cell."""
        return np.tile(np.arange(self.n + 1), self.n_levels)

    @cached_property
    def counts(self) -> Floats:
        """(c,): how many coalitions each cell has."""
        there = [int((self.joined <= level).sum()) for level in range(self.n_levels)]
        before = [None, *there]
        return np.array(
            [
                float(comb(now, s) - (0 if ago is None else comb(ago, s)))
                for now, ago in zip(there, before, strict=False)
                for s in range(self.n + 1)
            ]
        )

    @cached_property
    def of_size(self) -> Floats:
        """(c,): how many coalitions have the size of each cell."""
        return counts(self.n)[self.sizes]

    def of(self, masks: Masks) -> Ints:
        """Return (m,): the cell of each coalition."""
        return np.asarray((masks * self.joined).max(axis=1) * (self.n + 1) + masks.sum(axis=1))

    def bases(self, masks: Masks) -> Masks:
        """Return (m, n): each coalition without the latest of its members to join."""
        latest = (masks * self.joined).max(axis=1, keepdims=True, initial=0)
        return np.asarray(masks & (self.joined < latest))

    def unseen(self, known: Ints) -> Floats:
        """Return (c,): how many coalitions of each cell are not known, from how many are."""
        return np.maximum(self.counts - known, 0.0)

    def known(self, masks: Masks) -> Ints:
        """Return (c,): how many of these coalitions are in each cell."""
        return np.bincount(self.of(masks), minlength=len(self.sizes))


@dataclass(frozen=True, eq=False)
class Law:
    """How an epoch draws. The open cells are divided into strata, and every stratum gets a fixed part of the draws.

    Stratum 0 holds the cells with plenty of coalitions: each of its draws has an independent cell. A cell that may
    run out of coalitions is a stratum of its own. Within a cell a draw is uniform among the coalitions not yet known.
    Hence, given all other draws of the epoch, a draw is in a cell with the stratum's probability of it, and uniform
    among the coalitions of that cell that are not known without it.

    If draws come in pairs, stratum 0 draws a coalition and then its complement, and the same holds of a pair given
    all other draws: in the difference of the two what is the same for both cancels, such as interactions of two.
    """

    cells: Cells
    stratum_of: Ints
    """(c,): the stratum of each cell; -1 where every coalition is known."""
    within: Floats
    """(c,): the probability of each cell within its stratum."""
    targets: Floats
    """(k,): each stratum's part of the draws."""
    known: Ints
    """(c,): known coalitions of each cell before the epoch."""
    pairs: bool = False
    """Whether stratum 0 is drawn in pairs of complements; s and n - s are then equally probable, and cells sizes."""
    bins: int = 0
    """How many strata are bins, in which draws of earlier runs have partners (`beginning.Partners`); they come last
    but one, and the last stratum draws partners for all of them."""
    bases: bool = False
    """Whether draws of stratum 0 with newcomers are made of draws of earlier runs (`newcomers.Bases`)."""

    @property
    def n_strata(self) -> int:
        """How many strata there are; stratum 0 may be empty."""
        return len(self.targets)

    def to_dict(self) -> dict[str, Any]:
        """Return the law as JSON can hold it; where nobody has joined, cells are sizes."""
        joined = {"joined_of_player": self.cells.joined.tolist()} if self.cells.n_levels > 1 else {}
        bins = ({"bins": self.bins} if self.bins else {}) | ({"bases": True} if self.bases else {})
        return (
            joined
            | bins
            | {
                "stratum_of_size": self.stratum_of.tolist(),
                "probability_within_stratum": self.within.tolist(),
                "part_of_stratum": self.targets.tolist(),
                "known_of_size": self.known.tolist(),
                "pairs": self.pairs,
            }
        )

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Law:
        """Read what `to_dict` wrote."""
        joined = document.get("joined_of_player", [0] * (len(document["stratum_of_size"]) - 1))
        return cls(
            Cells(np.array(joined, dtype=np.int64)),
            np.array(document["stratum_of_size"], dtype=np.int64),
            np.array(document["probability_within_stratum"], dtype=float),
            np.array(document["part_of_stratum"], dtype=float),
            np.array(document["known_of_size"], dtype=np.int64),
            document.get("pairs", False),
            document.get("bins", 0),
            document.get("bases", False),
        )

    def resembles(self, other: Law) -> bool:
        """Say whether two laws differ by little more than rounding."""
        return (
            (self.pairs, self.bins, self.bases) == (other.pairs, other.bins, other.bases)
            and np.array_equal(self.cells.joined, other.cells.joined)
            and np.array_equal(self.stratum_of, other.stratum_of)
            and np.array_equal(self.known, other.known)
            and np.allclose(self.within, other.within, atol=1e-2)
            and np.allclose(self.targets, other.targets, atol=1e-2)
        )

    def is_bin(self, stratum: Ints) -> Masks:
        """Say which strata are bins."""
        return np.asarray(
            (stratum >= self.n_strata - 1 - self.bins) & (stratum < self.n_strata - 1) & (self.bins > 0)
        )

    def n_drawn(self, masks: Masks) -> Ints:
        """Return (k,): how many draws of an epoch each stratum has; those in bins are partners."""
        strata = self.stratum_of[self.cells.of(masks)]
        strata = np.where(self.is_bin(strata), self.n_strata - 1, strata)
        return np.bincount(strata, minlength=self.n_strata)

    def next_stratum(self, drawn: Ints, unseen: Floats) -> int | None:
        """Return the stratum of the next draw: first those without any, then where it lowers the variance most.

        `drawn` (k,) counts the draws of the epoch, `unseen` (k,) what is left in each stratum. A stratum with m
        draws has a variance a^2/m: the best parts are proportional to a, and one more draw takes off a^2/(m(m + 1)).
        """
        left = unseen > 0
        if not left.any():
            return None
        waiting = np.flatnonzero(left & (drawn == 0))
        if len(waiting):
            return int(waiting[0])
        return int(np.argmax(np.where(left, self.targets**2 / np.maximum(drawn * (drawn + 1), 1), -1.0)))


@lru_cache(maxsize=8)
def counts(n: int) -> Floats:
    """Return (n + 1,): C(n, s)."""
    return np.array([float(comb(n, s)) for s in range(n + 1)])


def first_law(n: int, base: Floats, length: int) -> Law:
    """Return the law of the first epoch, which knows nothing but the two ends, and draws pairs."""
    cells = Cells(np.zeros(n, dtype=np.int64))
    known = np.zeros(n + 1, dtype=np.int64)
    known[[0, n]] = 1
    wanted = (base + base[::-1]) / (2 * base.sum())
    if n <= ENDS_FIRST:
        wanted = np.where(np.isin(np.arange(1, n), (1, n - 1)), 0.0, wanted)
        wanted = wanted / (3 * wanted.sum()) if wanted.any() else wanted
        wanted[[0, -1]] = 1 / 3
    own = (1, n - 1) if n <= ENDS_FIRST else ()
    law = divided(cells, np.concatenate([[0.0], wanted, [0.0]]), known, length, own=own)
    return replace(law, pairs=True)


def divided(
    cells: Cells,
    wanted: Floats,
    known: Ints,
    length: int,
    own: Sequence[int] = (),
    *,
    bins: Sequence[Ints] = (),
    complete_first: bool = False,
) -> Law:
    """Return the law that gives each cell its part (c,) of `length` draws; those in `own` are strata of their own.

    A cell with fewer coalitions than its part is completed: by the end of the epoch, or first. `bins` are cells in
    which draws of earlier runs have partners.
    """
    unseen = cells.unseen(known)
    stratum_of, within = np.full(len(unseen), -1), np.zeros(len(unseen))
    opened = np.flatnonzero((unseen > 0) & (cells.sizes % cells.n > 0))
    expected = length * wanted[opened] / wanted[opened].sum()
    binned = np.isin(opened, np.concatenate(bins) if len(bins) else ())
    few = ((unseen[opened] < _FILLED * expected + _SPARE) | np.isin(opened, own)) & ~binned
    plenty = opened[~few & ~binned]
    stratum_of[plenty] = 0
    targets = [float(expected[~few & ~binned].sum()) / length]
    if len(plenty):
        within[plenty] = wanted[plenty] / wanted[plenty].sum()
    for cell, draws in zip(opened[few], expected[few], strict=True):
        stratum_of[cell], within[cell] = len(targets), 1.0
        left = float(unseen[cell])
        part = left if draws > _ENUMERATED * left else float(draws)
        targets.append((max(part, float(draws)) if complete_first else part) / length)
    for some in bins:
        stratum_of[some], within[some] = len(targets), wanted[some] / wanted[some].sum()
        targets.append(0.0)
    if len(bins):
        targets.append(RELATED * float(expected[binned].sum()) / length)
    return Law(cells, stratum_of, within, np.array(targets), known.copy(), bins=len(bins))


def most_strata(cells: Cells, length: int) -> int:
    """Return how many strata a law of `length` draws may have, whatever parts the cells are given."""
    inner = cells.counts[cells.sizes % cells.n > 0]
    return 1 + int((inner < _FILLED * length + _SPARE).sum())


class Sampler:
    """Draws coalitions that are not yet known, by a law."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._seen: set[bytes] = set()
        self._queues: dict[int, tuple[int, Masks]] = {}
        self.waiting: Masks = np.zeros((0, n), dtype=bool)
        """(1, n): the complement of the last draw, where it is to be the next one; else nothing."""
        self._waiting_before = self.waiting
        self.partners: Masks = np.zeros((0, n), dtype=bool)
        """(p, n): what to draw in bins, in this order."""
        self.bases: Masks = np.zeros((0, n), dtype=bool)
        """(p, n): draws of earlier runs to which newcomers may be added, each once."""

    def add(self, masks: Masks) -> None:
        """Mark coalitions as known."""
        self._seen.update(row.tobytes() for row in np.packbits(masks, axis=1))

    def new_epoch(self) -> None:
        """Forget the order in which strata are filled."""
        self._queues.clear()
        self.waiting = self._waiting_before = self.waiting[:0]

    def rewind(self) -> None:
        """Forget the last round, which is to be drawn again."""
        self._queues.clear()
        self.waiting = self._waiting_before

    def draw(
        self, law: Law, drawn: Ints, count: int, rng: np.random.Generator, without: Masks | None = None
    ) -> Masks:
        """Return up to `count` unknown coalitions, (m, n); `drawn` (k,) counts the draws of the epoch so far.

        Those in `without` (k, n) are about to be known; where there are any, strata are filled in a new order.
        """
        n, drawn = self._n, drawn.copy()
        unseen = np.zeros(law.n_strata)
        opened = law.stratum_of >= 0
        np.add.at(unseen, law.stratum_of[opened], law.cells.unseen(law.known)[opened])
        if law.bins:
            unseen[-1 - law.bins :] = 0
            unseen[-1] = len(self.partners)
        cumulative = np.cumsum(law.within * (law.stratum_of == 0))
        self._waiting_before = self.waiting
        taken: set[bytes] = set()
        if without is not None and len(without):
            taken.update(row.tobytes() for row in np.packbits(without, axis=1))
            self._queues.clear()
        rows: list[Masks] = []
        base_cells = law.cells.of(self.bases) if law.bases else np.zeros(0, dtype=np.int64)
        while len(rows) < count:
            stratum = law.next_stratum(drawn, unseen - drawn)
            if stratum is None:
                break
            if law.bins and stratum == law.n_strata - 1:
                row = self.partners[drawn[stratum]]
            elif stratum > 0:
                cell = int(np.flatnonzero(law.stratum_of == stratum)[0])
                row = self._next_of(law.cells, cell, int(drawn[stratum]), taken, rng)
            elif len(self.waiting):
                row, self.waiting = self.waiting[0], self.waiting[:0]
            else:
                row = self._unseen(law.cells, cumulative, taken, rng, pairs=law.pairs)
                row = self._on_base(row, law.cells, base_cells, rng) if law.bases else row
                self.waiting = ~row[None] if law.pairs else self.waiting
            taken.add(np.packbits(row).tobytes())
            rows.append(row)
            drawn[stratum] += 1
        return np.array(rows, dtype=bool).reshape(-1, n)

    def _next_of(self, cells: Cells, cell: int, n_drawn: int, taken: set[bytes], rng: np.random.Generator) -> Masks:
        """Return the next draw of a cell: from a list in random order, if there are few enough to list."""
        if cells.of_size[cell] > _LISTED:
            return self._unseen(cells, np.cumsum(np.arange(len(cells.sizes)) == cell), taken, rng)
        if cell not in self._queues:
            self._queues[cell] = n_drawn, self._shuffled(cells, cell, taken, rng)
        begun, queue = self._queues[cell]
        return queue[n_drawn - begun]

    def _on_base(self, row: Masks, cells: Cells, base_cells: Ints, rng: np.random.Generator) -> Masks:
        """Return a draw whose base is one of `bases`, if one is left in the cell; `base_cells` (p,) is -1 if used."""
        base = cells.bases(row[None])[0]
        fitting = np.flatnonzero(base_cells == cells.of(base[None])[0])
        if not base.any() or not len(fitting):
            return row
        chosen = rng.choice(fitting)
        base_cells[chosen] = -1
        return (row & ~base) | self.bases[chosen]

    def _shuffled(self, cells: Cells, cell: int, taken: set[bytes], rng: np.random.Generator) -> Masks:
        """Return all unseen coalitions of a cell in random order."""
        masks = Coalitions.of_size(self._n, int(cells.sizes[cell])).masks()
        masks = masks[cells.of(masks) == cell]
        known = self._seen | taken
        new = np.array([row.tobytes() not in known for row in np.packbits(masks, axis=1)], dtype=bool)
        return masks[new][rng.permutation(int(new.sum()))]

    def _unseen(
        self, cells: Cells, cumulative: Floats, taken: set[bytes], rng: np.random.Generator, *, pairs: bool = False
    ) -> Masks:
        """Return an unknown coalition, its cell drawn by `cumulative` (c,); in pairs, its complement is unknown."""
        for _ in range(_TRIES):
            cell = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
            size, level = int(cells.sizes[cell]), cell // (self._n + 1)
            there = np.flatnonzero(cells.joined <= level)
            latest = cells.joined == level
            row = np.zeros(self._n, dtype=bool)
            for _ in range(_TRIES):
                row[:] = False
                row[there[rng.permutation(len(there))[:size]]] = True
                keys = {np.packbits(each).tobytes() for each in ((row, ~row) if pairs else (row,))}
                if (level == 0 or row[latest].any()) and not keys & self._seen and not keys & taken:
                    return row
        raise RuntimeError("no coalition is left to draw: this is a bug in fgsv")


def some_of_level(cells: Cells, level: int, rng: np.random.Generator) -> tuple[Ints, Masks]:
    """Return (k,) sizes, and random coalitions of a level, as many of each of these sizes."""
    n, there, latest = cells.n, np.flatnonzero(cells.joined <= level), np.flatnonzero(cells.joined == level)
    most = min(len(there), n - 1)
    some = np.unique(np.rint(np.linspace(1, most, min(most, 63))).astype(np.int64))
    sizes = np.repeat(some, 24 if n <= 64 else 8)
    order = rng.permuted(np.tile(there, (len(sizes), 1)), axis=1)
    masks = np.zeros((len(sizes), n), dtype=bool)
    np.put_along_axis(masks, order, np.arange(len(there)) < sizes[:, None], axis=1)
    if level:  # somebody of the latest is in; which of them, matters little here
        missing = np.flatnonzero(~masks[:, latest].any(axis=1))
        masks[missing, order[missing, 0]] = False
        masks[missing, rng.choice(latest, len(missing))] = True
    return some, masks
