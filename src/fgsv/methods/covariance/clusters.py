"""Clusters of draws that were made of each other, and so are left out together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgsv.methods.covariance.process import Solved
from fgsv.types import Floats, Ints, Masks


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which draws are left out together: complements, a draw and its partner, a base and what newcomers made of it.

    Clusters are drawn independently of each other. Most of them have one member.
    """

    of: Ints
    """(m,): the cluster of each known row, named by one of its rows."""

    @classmethod
    def linked(cls, m: int, links: Iterable[tuple[Ints, Ints]]) -> Clusters:
        """Return the clusters of m rows; a link has rows and those that they were made of."""
        found = np.arange(m)
        for rows, others in links:
            found[rows] = others
        while (found != found[found]).any():
            found = found[found]
        return cls(found)

    @cached_property
    def members(self) -> Ints:
        """(m, g): all rows of the cluster of each row, and -1 where there are fewer than in others."""
        order = np.argsort(self.of, kind="stable")
        count = np.bincount(self.of, minlength=len(order))
        first = np.cumsum(count) - count
        found = np.full((len(order), count.max(initial=1)), -1)
        found[self.of[order], np.arange(len(order)) - first[self.of[order]]] = order
        return found[self.of]

    def left_out(self, solved: Solved, rows: Ints, wanted: Ints) -> tuple[Floats, Floats]:
        """Return (r, w, q): utilities less what is predicted of them without the cluster of each row.

        `wanted` (r, w) are members of the cluster. The other array, (m, q), is how much smaller the sum of r times
        the loads becomes if each time one of the clusters is left out.
        """
        root, loads, members = solved.root, solved.loads, self.members[rows]
        found = np.zeros((*members.shape, loads.shape[1]))
        taken_out = np.zeros_like(loads)
        n_members = (members >= 0).sum(axis=1)
        for g in np.unique(n_members):
            some = np.flatnonzero(n_members == g)
            here = members[some, :g]
            columns = root[:, here.reshape(-1)].reshape(len(root), len(some), g)
            inverse = np.einsum("mra,mrb->rab", columns, columns)
            found[some, :g] = np.linalg.solve(inverse, loads[here])
            taken_out += columns.reshape(len(root), -1) @ found[some, :g].reshape(-1, loads.shape[1])
        place = (members[:, None, :] == wanted[:, :, None]).argmax(axis=2)
        return np.take_along_axis(found, place[:, :, None], axis=1), root.T @ taken_out

    def sums(self, rows: Ints, terms: Floats) -> Floats:
        """Return (g, n, q): terms (r, n, q), one for each of these rows, summed over each cluster."""
        each, place = np.unique(self.of[rows], return_inverse=True)
        found = np.zeros((len(each), *terms.shape[1:]))
        np.add.at(found, place, terms)
        return found

    def folds(self, draws: Ints, apart: Masks, n_folds: int) -> list[Ints]:
        """Divide draws (d,) into parts, clusters together; those that are `apart` (m,) are spread by themselves.

        A cluster comes where the last of its members does, so that the last draws are spread over the parts.
        """
        last = np.full(len(self.of), -1)
        last[self.of[draws]] = np.arange(len(draws))
        names = np.flatnonzero(last >= 0)
        names = names[np.argsort(last[names], kind="stable")]
        turn_of = np.full(len(self.of), -1)
        for some in (names[apart[names]], names[~apart[names]]):
            turn_of[some] = np.arange(len(some)) % n_folds
        turns = turn_of[self.of[draws]]
        return [draws[turns == turn] for turn in range(n_folds)]
