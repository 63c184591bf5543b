"""Chance: which providers have more rows in common than rows drawn independently would have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import hypergeom

from fgsv.types import Floats, Ints, Masks

FALSE_ALARMS = 0.05
"""Probability, at most, that any pair of providers is reported if all rows were drawn independently."""


@dataclass(frozen=True, eq=False)
class Chance:
    """What K providers have in common, beside what chance explains."""

    likely: Masks
    """(K, K): pairs that have more in common than chance explains."""
    found: Floats
    """(K, K): how many rows of one provider are equal or nearly equal to a row of the other."""
    expected: Floats
    """(K, K): how many of them to expect if the rows were drawn independently."""

    @property
    def n_others(self) -> int:
        """How many rows look alike in the pairs that chance explains."""
        return int(np.triu(self.found, 1)[~self.likely].sum())


def compare(rows: csr_array, near: Ints) -> Chance:
    """Compare what two providers have in common with what each has in common with everybody else.

    `rows` (C, K + 1) is how many rows of each content each provider has, the last column those of the test rows;
    `near` (2, k) are pairs of contents that are nearly equal.

    Given the rows of provider g, a row of another provider h looks like one of them with the same probability as a
    row of anybody else, if rows are drawn independently. So the number of such rows, given all of them, is
    hypergeometric: its upper tail is the p-value, for equal rows and for those that are equal or nearly so, and
    Holm's correction is over both and all pairs. Anybody else are the other providers, the test rows, and half of
    g's own rows (which look like each other in pairs). A provider may repeat its own rows, so the larger p-value
    counts: that of all rows, or of different ones.
    """
    n_groups = rows.shape[1] - 1
    has = (rows > 0).astype(float)
    links = csr_array((np.ones(near.shape[1]), (near[0], near[1])), shape=(rows.shape[0],) * 2)
    nearby = (links + links.T) @ has
    by_size = np.argsort(-np.asarray(rows.sum(axis=0)).ravel()[:n_groups], kind="stable")
    larger, smaller = (by_size[places] for places in np.triu_indices(n_groups, 1))
    equal = (has, rows > 1)
    alike = ((has + nearby > 0).astype(float), (rows > 1) + (nearby > 0))
    p = np.zeros((2, len(larger)))
    found, expected = np.zeros((2, n_groups, n_groups))
    for kind, (seen, twice) in enumerate((equal, alike)):
        for counts in (has, rows):
            sizes = np.asarray(counts.sum(axis=0)).ravel()
            common = (counts.T @ seen).toarray()[:, :n_groups]
            np.fill_diagonal(common, np.asarray(counts.multiply(twice).sum(axis=0)).ravel() / 2)
            number = common[smaller, larger]
            others = sizes.sum() - sizes[larger] / 2 - sizes[smaller]
            theirs = common.sum(axis=0)[larger] - number
            p[kind] = np.maximum(p[kind], _tail(number, sizes[smaller], theirs, others))
    found[smaller, larger] = number
    expected[smaller, larger] = sizes[smaller] * theirs / others
    likely = np.zeros((n_groups, n_groups), dtype=bool)
    likely[smaller, larger] = _rejected(p).any(axis=0)
    return Chance(likely | likely.T, found + found.T, expected + expected.T)


def _tail(number: Floats, size: Floats, theirs: Floats, others: Floats) -> Floats:
    """Return the probability of so many of `size` rows or more, if of `others` rows `theirs` are like them."""
    others = np.floor(others)
    theirs = np.minimum(np.ceil(theirs), others)
    return np.asarray(hypergeom.sf(number - 1, size + others, number + theirs, size))


def _rejected(p: Floats) -> Masks:
    """Return which hypotheses Holm's procedure rejects, with `FALSE_ALARMS` for any that is true."""
    order = np.argsort(p, axis=None)
    rejectable = p.ravel()[order] <= FALSE_ALARMS / np.arange(p.size, 0, -1)
    rejected = np.zeros(p.size, dtype=bool)
    rejected[order] = np.logical_and.accumulate(rejectable)
    return rejected.reshape(p.shape)
