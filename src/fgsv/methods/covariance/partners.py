"""Partners: draws of earlier runs with players who have left, each with a draw of this game that resembles it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgsv.methods.covariance.clusters import Clusters
from fgsv.methods.covariance.design import Law
from fgsv.methods.covariance.process import Solved
from fgsv.methods.covariance.target import Target
from fgsv.types import Floats, Ints, Masks


@dataclass(frozen=True, eq=False)
class Partners:
    """Draws R of earlier runs that are not draws of this game, each with a draw T of it that resembles R.

    T is R without the players who have left, and with as few other changes at random as its size needs. It is uniform
    in its cell, whose size is drawn by the law of the bin. So in a bin the mean of T's residual is that of R's over
    all partners, which are known, and that of their difference over those that are evaluated.
    """

    rows: Ints
    """(p,): where R is among the known coalitions, from their end if players of it have left."""
    masks: Masks
    """(p, n): T"""
    same: Masks
    """(p,): whether T is R."""

    @property
    def asked(self) -> Ints:
        """The partners whose T is to be evaluated, in the order in which they are."""
        return np.flatnonzero(~self.same)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Partners R and T, as far as T is evaluated."""

    partners: Partners
    law: Law
    new: Ints
    """(e,): the rows of the T that are evaluated: of the first e that are `asked`."""

    @cached_property
    def cell(self) -> Ints:
        """(p,): the cell of T."""
        return self.law.cells.of(self.partners.masks)

    @cached_property
    def evaluated(self) -> Ints:
        """(p,): the row of T; -1 where it is not known, or is R."""
        found = np.full(len(self.cell), -1)
        found[self.partners.asked[: len(self.new)]] = self.new
        return found

    @property
    def factor(self) -> float:
        """How many differences each known one stands for."""
        return len(self.partners.asked) / max(1, len(self.new))

    @property
    def ready(self) -> bool:
        """Whether a difference is known, where one is needed."""
        return len(self.new) > 0 or not len(self.partners.asked)

    def links(self, m: int) -> tuple[Ints, Ints]:
        """Return the rows of the T that are evaluated, and those of their R, of m rows."""
        return self.new, self.partners.rows[self.partners.asked[: len(self.new)]] % m

    def terms(
        self, target: Target, solved: Solved, clusters: Clusters, draws: Ints, stratum: int
    ) -> tuple[Ints, Floats, Floats]:
        """Return the rows of the R in a bin among `draws`, (r,), what their pairs add to values, and `taken_out`.

        What a pair adds is (r, n, q); for the last array see `Clusters.left_out`.
        """
        bin = np.flatnonzero(self.law.stratum_of[self.cell] == stratum)
        rows = self.partners.rows[bin] % len(solved.loads)
        mine = np.isin(rows, draws)
        bin_size, bin, rows = len(bin), bin[mine], rows[mine]
        both = np.stack([rows, np.where(self.evaluated[bin] >= 0, self.evaluated[bin], rows)], axis=1)
        left_out, taken_out = clusters.left_out(solved, rows, both)
        old, new = left_out[:, 0], left_out[:, 1]
        residuals = old + self.factor * (new - old)
        cells, cell = self.law.cells, self.cell[bin]
        share = cells.counts[cell] / cells.of_size[cell] / self.law.within[cell] / bin_size
        weights = target.coefficients(self.partners.masks[bin])
        return rows, (share[:, None] * weights)[:, :, None] * residuals[:, None, :], taken_out
