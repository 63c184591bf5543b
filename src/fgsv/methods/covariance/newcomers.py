"""Draws with newcomers, made of draws of earlier runs: what is known of these takes off much of their error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fgsv.coalitions import log_choose
from fgsv.methods.covariance.design import Cells
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import Sample
from fgsv.methods.covariance.target import Target
from fgsv.semivalue import SizeWeights
from fgsv.types import Floats, Ints, Masks

RARE = 0.01
"""The part of a cell's coalitions that are known, at most, where draws in it are bases."""
EXPECTED = 32
"""The pairs of a draw and its base that what is expected of them counts for, beside those that are known."""


def may_be_bases(masks: Masks, cells: Cells) -> Masks:
    """Say which draws of earlier runs, without who has left, may be bases.

    Somebody joined later, and their cell has many others. If several are the same, it is the first of them.
    """
    cell = cells.of(masks)
    few = cells.known(masks) <= RARE * cells.counts
    once = np.zeros(len(masks), dtype=bool)
    once[np.unique(np.packbits(masks, axis=1), axis=0, return_index=True)[1]] = True
    return np.asarray(once & few[cell] & (cell // (cells.n + 1) < cells.n_levels - 1))


@dataclass(frozen=True, eq=False)
class Bases:
    """Draws R of earlier runs to which newcomers are added, in place of those who have left.

    A coalition T with newcomers is drawn uniformly in its cell. Then its base, which is T without the latest of its
    members to join, is replaced by a draw R of the same cell as the base, not used before, as long as there is one;
    by R without those who have left, if players of it have. T is as uniform as it was. Let g(R) be the residual of R
    when it is predicted from all else that was known before the new draws. A multiple of it,

        x(T) = c g(R)

    resembles T's residual, and the mean of x over all T is known, a sum over all R. So x(T) is subtracted from the
    residual of every draw, and its mean is added. There is no bias if c does not depend on the draw: it is learned
    from the draws of other folds, and what R is for a draw is then uniform among those that they did not use.
    """

    process: Process
    taught: Masks
    """(m, n + l): all that was known before the new draws."""
    n_related: int
    """How many of these, the last ones, have players who have left."""
    inverse: Floats
    """(m, m): that of the covariance of these."""
    rows: Ints
    """(p,): where the R are among all that is known, from its end if players of it have left."""
    cell: Ints
    """(p,)"""
    masks: Masks
    """(p, n): R without those who have left."""
    c: Floats
    """(p,)"""

    @classmethod
    def of(
        cls, process: Process, taught: Masks, n_related: int, rows: Ints, cells: Cells, rng: np.random.Generator
    ) -> Bases:
        """Return the bases, `rows` of the coalitions that teach a process.

        c is the root of the weight of R in what the process predicts for T: the mean over the R of a cell, those with
        players who have left apart. The process has seen no two coalitions as close as R and T, and takes too much
        for the part of their own.
        """
        root, _ = process.inverse_root(taught)
        larger, inverse = taught[rows], root.T @ root
        larger[:, cells.n :] = False
        masks = larger[:, : cells.n].copy()
        cell = cells.of(masks)
        level = cell[:, None] // (cells.n + 1) + 1
        latest = cells.joined == level
        share = masks.sum(axis=1) / (cells.joined < level).sum(axis=1)
        added = latest & (rng.random(masks.shape) < share[:, None])
        added[np.arange(len(rows)), (latest * rng.random(masks.shape)).argmax(axis=1)] |= ~added.any(axis=1)
        larger[:, : cells.n] |= added
        weight = (process.covariance(larger, taught) * inverse[rows]).sum(axis=1)
        kind = 2 * cell + (rows < 0)
        by_kind = np.bincount(kind, weight) / np.maximum(np.bincount(kind), 1)
        return cls(process, taught, n_related, inverse, rows, cell, masks, np.sqrt(np.clip(by_kind[kind], 0.0, 1.0)))

    @property
    def n_known(self) -> int:
        """How many coalitions were known, besides those with players who have left."""
        return len(self.taught) - self.n_related

    def before(self, values: Floats) -> Floats:
        """Return the utilities of `taught`, out of all that are known now."""
        return np.delete(values, np.arange(self.n_known, len(values) - self.n_related), axis=0)

    def controls(self, values: Floats) -> Floats:
        """Return (p, q): what x(T) is for each R, from the utilities (m, q) of `taught`."""
        return np.asarray(self.c[:, None] * (self.inverse[self.rows] @ values) / self.own[:, None])

    @property
    def own(self) -> Floats:
        """(p,): one over the variance that is expected of each residual."""
        return np.asarray(self.inverse[self.rows, self.rows])

    def in_folds(self, masks: Masks, values: Floats, base_of: Ints, folds: Sequence[Ints]) -> list[Bases]:
        """Return the bases for each fold of draws: those that others do not use, with c by what the others say.

        What is regressed on x(T) is the residual of T when it is predicted from all that was known, without R.
        """
        made = self.n_known + np.flatnonzero(base_of[self.n_known :] >= 0)
        place, old = self.places(base_of[made], len(values)), self.before(values)
        base, x = self.rows[place], self.controls(old)
        larger = np.zeros((len(made), self.taught.shape[1]), dtype=bool)
        larger[:, : masks.shape[1]] = masks[made]
        covariance = self.process.covariance(larger, self.taught)
        weight = (covariance * self.inverse[base]).sum(axis=1)
        alone = self.inverse[base] @ old / self.own[place][:, None]
        residuals = values[made] - covariance @ (self.inverse @ old) + weight[:, None] * alone
        expected = (self.own[:, None] * x**2).mean(axis=0)
        scale = self.own[place][:, None] / np.where(expected > 0, expected, np.inf)
        both, squares = ((scale * each * x[place]).mean(axis=1) for each in (residuals, x[place]))
        used, kind = self.places(base_of[base_of >= 0], len(values)), (self.rows < 0).astype(int)
        found = []
        for fold in folds:
            others = ~np.isin(made, fold)
            by_kind = (np.bincount(kind[place[others]], each[others], minlength=2) for each in (both, squares))
            factor = np.divide(*(EXPECTED + each for each in by_kind))
            free = ~np.isin(np.arange(len(kind)), used) | np.isin(np.arange(len(kind)), place[~others])
            c = np.clip(factor, 0.0, 1.5)[kind[free]] * self.c[free]
            found.append(replace(self, rows=self.rows[free], cell=self.cell[free], masks=self.masks[free], c=c))
        return found

    def base_of(self, masks: Masks, first: int, cells: Cells) -> Ints:
        """Return (m,): the row of the base of each coalition from `first` on; -1 if it has none."""
        m, found = len(masks) + self.n_related, np.full(len(masks), -1)
        later = first + np.flatnonzero((masks[first:] & (cells.joined > 0)).any(axis=1))
        row_of = dict(zip((each.tobytes() for each in np.packbits(self.masks, axis=1)), self.rows % m, strict=True))
        for row, key in zip(later, np.packbits(cells.bases(masks[later]), axis=1), strict=True):
            found[row] = row_of.pop(key.tobytes(), -1)
        return found

    def unused(self, masks: Masks, first: int, cells: Cells) -> Masks:
        """Return (p, n): the bases of which no coalition, from `first` on, was made."""
        return self.masks[~np.isin(self.rows % (len(masks) + self.n_related), self.base_of(masks, first, cells))]

    def places(self, base_of: Ints, m: int) -> Ints:
        """Return which R is in each of these rows, of m; -1 stays as it is."""
        return np.where(base_of >= 0, np.searchsorted(self.rows % m, base_of), -1)

    def terms(self, target: Target, sample: Sample, values: Floats, draws: Ints) -> tuple[Ints, Floats, Floats]:
        """Return how values change if x is subtracted at draws T, and its mean added: an (n, q) sum of terms.

        First come the rows of the T and then of all R, (r,), and the terms (r, n, q) that belong to them.
        """
        assert sample.base_of is not None
        cells, n_drawn, x = sample.cells, sample.n_drawn[0], self.controls(self.before(values))
        drawn = sample.drawn(0, draws)
        rows = drawn[(drawn >= self.n_known) & (sample.cell[drawn] > cells.n)]  # with newcomers
        larger, base = sample.masks[rows], self.places(sample.base_of[rows], len(values))
        off = -self.subtracted(x, larger, base, target.coefficients(larger), target.weights, cells)
        off *= (sample.stands_for[rows] / n_drawn)[:, None, None]
        with_newcomers = (sample.open_stratum_of == 0) & (np.arange(len(sample.unseen)) > cells.n)
        parts = np.where(with_newcomers, (sample.unseen + 1) / cells.of_size, 0.0)
        on = self.added(parts * len(drawn) / n_drawn, target.weights, cells)[:, :, None] * x[:, None, :]
        rows = np.append(rows, self.rows % len(values))
        return rows, np.concatenate([off, on]), off.sum(axis=0) + on.sum(axis=0)

    def subtracted(
        self, x: Floats, draws: Masks, place: Ints, weights: Floats, sizes: SizeWeights, cells: Cells
    ) -> Floats:
        """Return (d, n, q): x(T) times the coefficients (d, n) of draws T.

        `x` (p, q) has x(T) for each R, and `place` (d,) says which R it is. If it is none (-1), although others of
        its cell are bases, the mean over these takes the place of x(T).
        """
        found = weights[:, :, None] * np.pad(x, ((0, 1), (0, 0)))[place][:, None, :]
        base = cells.bases(draws)
        cell = cells.of(base)
        for each in np.flatnonzero((place < 0) & np.isin(cell, self.cell)):
            rows = np.flatnonzero(self.cell == cell[each])
            moved = sizes.gain[draws[each].sum() - 1] * (self.masks[rows].astype(float) - base[each])
            found[each] = (weights[each] + moved).T @ x[rows] / len(rows)
        return np.asarray(found)

    def added(self, parts: Floats, sizes: SizeWeights, cells: Cells) -> Floats:
        """Return (p, n): what x(T) of each R counts in the mean over all T; `parts` (c,) are the weights of cells."""
        n, found = cells.n, np.zeros(self.masks.shape)
        gain, drift = (np.concatenate([[0.0], each, [0.0]]) for each in (sizes.gain, sizes.drift))
        for rows, larger, part, latest, k in self._made(cells):
            s = cells.sizes[larger]
            part = part * parts[larger] / len(rows)
            same = part @ (drift[s] - gain[s] * s / n) + latest * (part @ (gain[s] * k)) / latest.sum()
            found[rows] += (part @ gain[s]) * self.masks[rows] + same
        return found

    def _made(self, cells: Cells) -> Iterator[tuple[Ints, Ints, Floats, Masks, Ints]]:
        """Yield the R of each cell, the cells of T that k of the latest make of it, and the part of these so made."""
        n = cells.n
        for cell in np.unique(self.cell):
            rows, size = np.flatnonzero(self.cell == cell), int(cells.sizes[cell])
            for level in range(int(cell) // (n + 1) + 1, cells.n_levels):
                latest = cells.joined == level
                k = np.arange(1, min(int(latest.sum()), n - 1 - size) + 1)
                larger = level * (n + 1) + size + k
                ways = np.exp(log_choose(int(latest.sum()), k))
                yield rows, larger, ways * cells.counts[cell] / cells.counts[larger], latest, k
