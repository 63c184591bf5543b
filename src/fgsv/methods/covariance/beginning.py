"""What a run starts from: draws of earlier runs that count as its own, and others that have partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgsv.methods.covariance.design import Cells, Law
from fgsv.methods.covariance.partners import Partners
from fgsv.methods.known import Known
from fgsv.types import Floats, Ints, Masks

OLD_DRAWS = 4
"""Draws of earlier runs that make a size a stratum of its own, in which they count beside new ones; or a bin."""
MOST_KNOWN = 4000
"""Coalitions of earlier runs that are used, by default: to learn from them takes seconds and a gigabyte."""
MOST_LEVELS = 3
"""Limit on the sets of players of earlier runs that are told apart."""
PLENTY = 1e4
"""Coalitions that a cell has, at least, where draws have partners: hardly one of them is drawn twice."""


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a run starts from, as far as it is used: first what is only known, then what was drawn."""

    masks: Masks
    values: Floats
    n_memos: int
    """Coalitions that are known, but no draws in a stratum of their own."""
    cells: Cells
    related: Masks
    """(k, n + l): draws with players who have left, l of them."""
    related_values: Floats
    bins: tuple[Ints, ...]
    """The cells of each bin."""
    sources: Ints
    """(r,): the draws that may have partners, as rows of `masks`, from the end those of `related`."""
    seed: list[int]

    @classmethod
    def nothing(cls, ends: Floats, n: int) -> Beginning:
        """Return the beginning of a run of n players that knows nothing but the utilities at both ends."""
        masks, none = np.zeros((0, n), dtype=bool), np.zeros(0, dtype=np.int64)
        return cls(masks, ends[:0], 0, Cells(np.zeros(n, dtype=np.int64)), masks, ends[:0], (), none, [])

    @classmethod
    def of(cls, known: Known, seed: int, most: int = MOST_KNOWN, *, related: bool = True) -> Beginning:
        """Return what is used of what is known, `most` coalitions; `related` ones have players who have left.

        A coalition that was drawn uniformly among those of its size, and happens to avoid those who have left, is
        uniform among the coalitions of its size of the players who were there then and are now: a cell, if nobody
        joined before the run whom another run did not have.
        """
        masks, n = known.masks(), known.n_players
        joined, latest = _levels(known)
        cells = Cells(joined)
        cell = cells.of(masks)
        drawn = cell // (n + 1) <= latest[known.run]
        rng = np.random.default_rng([seed, len(known)])
        order = rng.permutation(np.flatnonzero(masks.sum(axis=1) % n > 0))
        others, their_values = np.zeros((0, n), dtype=bool), known.values[:0]
        if related and known.related is not None:
            every = known.related.masks()
            usable = np.flatnonzero(cells.of(every[:, :n]) // (n + 1) <= latest[known.related.run])
            some = rng.permutation(usable)
            others, their_values = every[some], known.related.values[some]
        whole = cells.counts == cells.known(masks)
        whole &= np.cumsum(np.where(whole, cells.counts, 0)) <= most / 2
        here = cell[order]
        used, their_used = _used(cells.sizes[here], drawn[order], whole[here], others[:, :n].sum(axis=1), most)
        order, others, their_values = order[used], others[their_used], their_values[their_used]
        valid = order[drawn[order]]
        bins = _bins(cells, masks[valid], others[:, :n])
        by_cell = np.bincount(cell[valid], minlength=len(cells.sizes))
        by_cell[np.concatenate(bins) if bins else []] = 0
        own = drawn & (by_cell[cell] >= OLD_DRAWS)
        order = order[np.argsort(own[order], kind="stable")]
        sources = np.append(np.flatnonzero(drawn[order]), np.arange(-len(others), 0)) if bins else np.zeros(0, int)
        return cls(
            masks[order],
            known.values[order],
            int((~own[order]).sum()),
            cells,
            others,
            their_values,
            bins,
            sources,
            [seed, len(known), 1],
        )

    def candidates(self, before: int) -> Ints:
        """Return the draws to which newcomers may be added: those in strata of their own, and in bins.

        They are rows of what is known, after `before` others, and from its end if players have left.
        """
        binned = np.isin(self.cells.of(self._without_leavers), np.concatenate(self.bins) if self.bins else ())
        some = np.union1d(np.arange(self.n_memos, len(self.masks)), self.sources[binned])
        return np.append(before + some[some >= 0], some[some < 0])

    @property
    def _without_leavers(self) -> Masks:
        """(r, n): the sources."""
        return np.concatenate([self.masks, self.related[:, : self.cells.n]])[self.sources]

    def partners(self, law: Law, before: int) -> Partners:
        """Return a partner for each source of a bin, by the law of the bin; `before` rows are known before these."""
        rng = np.random.default_rng([*self.seed, 1])
        n, cells = self.cells.n, self.cells
        here = self._without_leavers
        seen = {row.tobytes() for row in np.packbits(self.masks, axis=1)}
        rows, masks, same = [], [], []
        for some in self.bins:
            for i in np.flatnonzero(np.isin(cells.of(here), some)):
                size = int(cells.sizes[rng.choice(some, p=law.within[some])])
                source = int(self.sources[i])
                found = _resembling(here[i], cells.joined == 0, size, rng)
                key = np.packbits(found).tobytes()
                is_same = source >= 0 and bool((found == here[i]).all())
                if key in seen and not is_same:
                    continue
                seen.add(key)
                rows.append(source if source < 0 else before + source)
                masks.append(found)
                same.append(is_same)
        order = rng.permutation(len(rows))
        return Partners(
            np.array(rows, dtype=np.int64)[order],
            np.array(masks, dtype=bool).reshape(-1, n)[order],
            np.array(same, dtype=bool)[order],
        )


def _used(sizes: Ints, drawn: Masks, whole: Masks, of_related: Ints, most: int) -> tuple[Ints, Ints]:
    """Return which known coalitions are used, and which related ones, whose sizes count who is here.

    First come cells that are known as a whole; then draws, the same part of each size, those of the game itself
    before related ones; at last what is known, but was not drawn.
    """
    m, size = len(sizes), np.append(sizes, of_related)
    some = np.append(drawn & ~whole, np.ones(len(of_related), dtype=bool))
    turn = np.full(len(size), 2.0)
    turn[:m][whole] = 0.0
    for each in np.unique(size[some]):
        rows = np.flatnonzero(some & (size == each))
        turn[rows] = np.arange(1, len(rows) + 1) / len(rows)
    used = np.argsort(turn, kind="stable")[:most]
    return used[used < m], used[used >= m] - m


def _bins(cells: Cells, valid: Masks, related: Masks) -> tuple[Ints, ...]:
    """Divide the cells where draws of the game itself are few into bins with at least four draws that resemble them.

    These are the larger sizes: almost every large coalition of the earlier game has somebody who has left. Cells with
    newcomers are in no bin: what is known of them comes from new draws alone, so that one draw less would matter.
    What is chosen depends on the sizes of draws alone.
    """
    n = cells.n
    n_valid, n_related = (cells.known(each)[: n + 1] for each in (valid, related))
    possible = cells.counts[: n + 1] >= PLENTY
    good = (n_valid >= OLD_DRAWS) & (n_valid >= n_related)
    gain = np.cumsum(np.where(possible, np.where(good, -1, 1), 0)[::-1])[::-1]
    first = int(np.argmax(gain))
    sizes = np.flatnonzero(possible & (np.arange(n + 1) >= first))
    count = n_valid + n_related
    if gain[first] <= 0 or count[sizes].sum() < OLD_DRAWS:
        return ()
    last, bins = 0, []
    for i in range(len(sizes)):
        if count[sizes[last : i + 1]].sum() >= OLD_DRAWS:
            bins.append(sizes[last : i + 1])
            last = i + 1
    bins[-1] = np.append(bins[-1], sizes[last:])
    return tuple(bins)


def _resembling(mask: Masks, there: Masks, size: int, rng: np.random.Generator) -> Masks:
    """Return a uniform coalition of this size of the players who are `there`, with as much of `mask` as fits."""
    inside, outside = np.flatnonzero(mask & there), np.flatnonzero(~mask & there)
    kept = rng.permutation(inside)[:size]
    found = np.zeros(len(mask), dtype=bool)
    found[kept] = True
    found[rng.permutation(outside)[: size - len(kept)]] = True
    return found


def _levels(known: Known) -> tuple[Ints, Ints]:
    """Return (n,) when each player joined, and for each run the last level that it had: -1 if it is no use.

    Runs are of use if of any two one had all the players of the other; those with the most draws come first.
    """
    n_draws = np.bincount(known.run[known.run >= 0], minlength=len(known.runs_had))
    chain: list[Masks] = []
    for number in np.argsort(-n_draws, kind="stable"):
        had = known.runs_had[number]
        new = had.any() and not any(np.array_equal(had, each) for each in chain)
        nested = all((had <= each).all() or (had >= each).all() for each in chain)
        if new and nested and len(chain) < MOST_LEVELS:
            chain.append(had)
    chain.sort(key=lambda each: int(each.sum()))
    joined = sum((~each for each in chain), np.zeros(known.n_players, dtype=np.int64))
    had_level = [[i for i, each in enumerate(chain) if np.array_equal(each, had)] for had in known.runs_had]
    return np.asarray(joined), np.array([each[0] if each else -1 for each in had_level] + [-1])
