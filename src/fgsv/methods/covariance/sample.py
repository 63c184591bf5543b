"""What an epoch of the opening knows: its draws and all other known coalitions, and how much each draw counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgsv.methods.covariance.clusters import Clusters
from fgsv.methods.covariance.design import Cells, Law
from fgsv.methods.covariance.partners import Pairs, Partners
from fgsv.types import Floats, Ints, Masks


@dataclass(frozen=True, eq=False)
class Sample:
    """m known coalitions, the last of them drawn by the law of an epoch, and k related ones that teach the process.

    A row is one of these m + k coalitions. A stratum is open as long as a coalition of it is unknown: only open ones
    have to be estimated.
    """

    law: Law
    first: int
    """The rows from here on, up to m, are the draws of the epoch."""
    masks: Masks
    """(m, n)"""
    related: Masks | None = None
    """(k, n + l): coalitions with some of l players who have left."""
    partners: Partners | None = None
    """What is drawn in bins."""
    base_of: Ints | None = None
    """(m,): the row of the base that each draw was made of (`newcomers.Bases`), else -1."""

    @property
    def cells(self) -> Cells:
        """What the law divides into strata."""
        return self.law.cells

    @cached_property
    def everything(self) -> Masks:
        """(m + k, n + l): what a process learns from."""
        return self.masks if self.related is None else widened(self.masks, self.related)

    @cached_property
    def cell(self) -> Ints:
        """(m,): the cell of each coalition."""
        return self.cells.of(self.masks)

    @cached_property
    def unseen(self) -> Floats:
        """(c,): how many coalitions of each cell are not known."""
        return self.cells.unseen(self.cells.known(self.masks))

    @property
    def complete(self) -> Masks:
        """(c,): whether every coalition of a cell is known."""
        return np.asarray(self.unseen == 0)

    @cached_property
    def open_stratum_of(self) -> Ints:
        """(c,): the stratum of each cell, -1 where it is complete."""
        return np.where(self.complete, -1, self.law.stratum_of)

    @cached_property
    def stratum(self) -> Ints:
        """(m,): the stratum of each coalition, -1 where its cell is complete."""
        return self.open_stratum_of[self.cell]

    @cached_property
    def open_strata(self) -> Ints:
        """(o,): the strata with a coalition that is not known."""
        return np.unique(self.open_stratum_of[self.open_stratum_of >= 0])

    def drawn(self, stratum: int, rows: Ints) -> Ints:
        """Return which of these rows are coalitions of the game in an open stratum."""
        rows = rows[rows < len(self.masks)]
        return rows[self.stratum[rows] == stratum]

    @cached_property
    def pairs(self) -> Pairs | None:
        """The partners, if draws have any: what was drawn in bins is some of them."""
        if self.partners is None:
            return None
        new = self.first + np.flatnonzero(self.law.is_bin(self.law.stratum_of[self.cell[self.first :]]))
        return Pairs(self.partners, self.law, new)

    @cached_property
    def n_drawn(self) -> Ints:
        """(k,): draws in each open stratum; in bins, partners."""
        drawn = self.stratum[self.first :]
        found = np.bincount(drawn[drawn >= 0], minlength=self.law.n_strata)
        if self.pairs is not None:
            bins = self.law.is_bin(np.arange(self.law.n_strata))
            found[bins] = np.bincount(self.law.stratum_of[self.pairs.cell], minlength=self.law.n_strata)[bins]
        return found

    @property
    def ready(self) -> bool:
        """Whether every open stratum has a draw to correct it."""
        return bool(self.n_drawn[self.open_strata].all()) and (self.pairs is None or self.pairs.ready)

    @cached_property
    def clusters(self) -> Clusters:
        """Which rows are left out together: draws that were made of each other."""
        links, m = [], len(self.everything)
        if self.law.pairs:
            paired = self.first + np.flatnonzero(self.law.stratum_of[self.cell[self.first :]] == 0)
            links.append((paired[1::2], paired[::2]))
        if self.pairs is not None:
            links.append(self.pairs.links(m))
        if self.base_of is not None:
            made = np.flatnonzero(self.base_of >= 0)
            links.append((made, self.base_of[made]))
        return Clusters.linked(m, links)

    def folds(self, count: int) -> list[Ints]:
        """Divide the draws of open cells, and those of earlier runs with partners, into folds, clusters together.

        Where nothing is made of earlier draws, a draw stays in its fold when others follow.
        """
        m = len(self.everything)
        draws = np.arange(self.first, len(self.masks))
        if self.partners is not None:
            draws = np.append(self.partners.rows % m, draws)
        closed, paired = np.zeros((2, m), dtype=bool)
        closed[: len(self.masks)] = self.complete[self.cell]
        paired[: len(self.masks)] = self.law.pairs & (self.law.stratum_of[self.cell] == 0)
        return [fold[~closed[fold]] for fold in self.clusters.folds(draws, paired, count)]

    @cached_property
    def n_left(self) -> Floats:
        """(m,): the coalitions of a draw's cell that are not known without it, or its complement of the same size."""
        paired = self.law.pairs & (self.law.stratum_of[self.cell] == 0)
        return np.asarray(
            self.unseen[self.cell] + np.where(paired & (2 * self.cells.sizes[self.cell] == self.cells.n), 2, 1)
        )

    @cached_property
    def stands_for(self) -> Floats:
        """(m,): u / (p C(n, s)) for a draw of size s, which stands for the u left in a cell of probability p."""
        within = self.law.within[self.cell]
        return np.asarray(self.n_left / self.cells.of_size[self.cell] / np.where(within > 0, within, 1.0))

    @cached_property
    def filling(self) -> Floats:
        """(m,): the factor of a draw's standard deviation where its cell fills up: that of a finite population.

        If m of N coalitions are drawn, each stands for N - m others; but the variance of their sum is N (N - m) / m
        times that of one.
        """
        drawn, unseen = np.bincount(self.cell[self.first :], minlength=len(self.unseen)), self.unseen
        return np.asarray(np.sqrt(unseen * (unseen + drawn))[self.cell] / self.n_left)


def widened(masks: Masks, related: Masks) -> Masks:
    """Return (m + k, n + l): coalitions of the n players, who come first, and those with others who have left."""
    found = np.zeros((len(masks) + len(related), related.shape[1]), dtype=bool)
    found[: len(masks), : masks.shape[1]] = masks
    found[len(masks) :] = related
    return found
