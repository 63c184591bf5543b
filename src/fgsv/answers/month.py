"""A month of answers: which are drawn, and what the shares in these say of all.

Notation of this file (N answers, n draws, K publishers):

    f_a      fee of answer a
    s_a      (K,) shares of the publishers in answer a; they sum to one, or to zero if it has nothing to share
    x_a      (K,) tokens of each publisher that were ingested for it: known of all answers
    R        royalties, (K,): the sum over all answers of f_a s_a

Answers are drawn in proportion to their fees, so every draw stands for the same amount of fees, its `step`. From
m(x_a), what tokens let one expect of s_a, it follows that

    R = sum over all answers of f_a m(x_a)  +  sum over draws of step (s_a - m(x_a))

has no bias, whatever m is, if m was learned from other answers: the month is cut into two random halves, and each
learns m from the other's draws (a regression estimator with cross-fitted coefficients; Särndal, Swensson and Wretman,
1992, chapter 6). An estimate of s_a without bias serves as well as s_a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fgsv.types import Floats, Ints

HALVES = 2
FEW = 10
"""With fewer draws of a publisher, their own spread says too little of its error."""
SHRINKAGE = 4.0
"""Drawn answers of a publisher that count as much as what is expected of any publisher."""


@dataclass(frozen=True, eq=False)
class Month:
    """What is known of all answers of a month before any is valued."""

    fees: Floats
    """(N,)"""
    tokens: Any
    """(N, K) sparse: positive where a publisher has a passage in an answer."""
    strata: Ints
    """(N,) numbers of the strata."""
    queries: Ints
    """(N,) numbers of the queries: the same for answers of the same query."""

    @cached_property
    def features(self) -> tuple[Any, Any]:
        """Two (N, K) sparse matrices whose rows sum to one: equal parts of an answer's publishers, and by tokens."""
        equal = self.tokens.sign()
        return _by_rows(equal), _by_rows(self.tokens)

    def halves(self, rng: np.random.Generator) -> Ints:
        """Return (N,) a random half for each query."""
        half = rng.permutation(int(self.queries.max()) + 1) % HALVES
        return np.asarray(half[self.queries])

    def draw(self, rows: Ints, n_draws: int, rng: np.random.Generator) -> Draws:
        """Draw from these answers in proportion to their fees, within each stratum as much as its fees say.

        Along a line of all answers in random order, those of a query side by side and each as long as its fee, the
        draws are equally spaced from a random start. A query that is due more than twice is a stratum of its own.
        """
        rows = rows[self.fees[rows] > 0]
        if n_draws >= len(rows):
            each = np.arange(len(rows))
            return Draws(rows, each, each, self.fees[rows], np.zeros(len(rows)))
        fees = self.fees[rows]
        pairs = np.column_stack([self.strata[rows], self.queries[rows]])
        query = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
        often = np.bincount(query, fees)[query] >= 2 * fees.sum() / n_draws
        keys = np.column_stack([pairs[:, 0], np.where(often, query, -1)])
        cells = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        units = np.where(often, len(rows) + np.arange(len(rows)), query)
        amounts = np.bincount(cells, fees).astype(float)
        n_units = np.bincount(np.unique(np.column_stack([cells, units]), axis=0)[:, 0])
        counts = _allotted(amounts, n_draws, n_units)
        steps = amounts / counts
        order = np.lexsort((rng.random(len(rows)), rng.permutation(2 * len(rows))[units], cells))
        cell = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(n_draws) - np.repeat(np.cumsum(counts) - counts, counts)
        points = (np.cumsum(amounts) - amounts)[cell] + (rng.random(len(counts))[cell] + number) * steps[cell]
        hits = order[np.minimum(np.searchsorted(np.cumsum(fees[order]), points, side="right"), len(rows) - 1)]
        of_several = np.bincount(units)[units[hits]] > 1
        left = np.where(of_several, 1.0, _left(fees[hits] / steps[cell]))
        return Draws(rows[hits], cell, units[hits], steps[cell], left)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from a half of a month, (n,) each; an answer with a large fee may be drawn more than once."""

    answers: Ints
    cells: Ints
    """What was drawn apart: a stratum, or a query that is asked often."""
    units: Ints
    """What was drawn as one: the answers of a query, or a single answer."""
    steps: Floats
    """The fees that a draw stands for."""
    left: Floats
    """The part of the variance that is left after drawing without replacement: 1 if most answers are not drawn."""


@dataclass(frozen=True, eq=False)
class Expected:
    """m: equal parts, moved towards parts by tokens, and on to tokens times what each publisher's are worth."""

    part: float
    """Of the fees, what is shared at all."""
    worth: Floats
    """(K,) of a publisher's tokens, beside others'."""
    moves: Floats
    """(2,) the coefficients."""

    @classmethod
    def learned(cls, month: Month, draws: Draws, shares: Floats) -> Expected:
        """Return what draws with (n, K) shares lead to expect of other answers."""
        by_tokens = month.features[1][draws.answers]
        shared = shares.sum(axis=1)
        total = np.asarray(by_tokens.multiply(shared[:, None]).sum(axis=0)).ravel()
        worth = np.maximum(shares.sum(axis=0) + SHRINKAGE * shared.mean(), 0.0) / (total + SHRINKAGE)
        part = float(shared.mean())
        start, *moved = (each.toarray().ravel() for each in _moves(month, draws.answers, worth))
        target = (shares - part * start.reshape(shares.shape)).ravel()
        moves = np.linalg.lstsq(part * np.column_stack(moved), target, rcond=None)[0]
        return cls(part, worth, moves)

    def of(self, month: Month, rows: Ints) -> Any:
        """Return (m, K) sparse: the expected shares in some answers."""
        start, *moved = _moves(month, rows, self.worth)
        return self.part * (start + sum(move * each for move, each in zip(self.moves, moved, strict=True)))


@dataclass(frozen=True, eq=False)
class Royalties:
    """R and its error, in units of the fees."""

    values: Floats
    """(K,)"""
    covariance: Floats
    """(K, K)"""
    within: Floats
    """(K,) the part of the variances that is due to evaluations, the rest being due to the choice of answers."""
    freedom: float
    n_answers: int
    """Of the month."""
    n_draws: int

    @property
    def stderr(self) -> Floats:
        """(K,) standard errors."""
        return np.sqrt(np.diag(self.covariance))

    def draws_to_narrow(self, factor: float) -> int:
        """Return how many answers would make the widest interval narrower by a factor; all of them if none would.

        The variance between answers falls with 1/n - 1/N, what evaluations add with 1/n.
        """
        widest = int(self.stderr.argmax())
        variance, within = self.covariance[widest, widest], self.within[widest]
        n = self.n_draws
        between = (variance - within) * n / max(1e-300, 1 - n / self.n_answers)
        wanted = variance / factor**2 + between / self.n_answers
        return min(self.n_answers, int(np.ceil((between + within * n) / max(wanted, 1e-300))))


def estimated(
    month: Month,
    half_of: Ints,
    draws: Sequence[Draws],
    shares: Sequence[Floats],
    covariances: Sequence[Sequence[tuple[Ints, Floats]]],
    *,
    by_tokens: bool = True,
) -> Royalties:
    """Return the royalties of a month.

    A publisher of few drawn answers gets the error that all publishers' residuals let one expect of it, if that is
    larger than what its own say.

    Args:
        month: All its answers.
        half_of: (N,) the half of each.
        draws: The draws from each half.
        shares: Of each half, (n, K) unbiased shares in the drawn answers.
        covariances: Of each half and draw, the publishers (k,) of an answer, and the (k, k) covariance of their
            shares due to evaluations.
        by_tokens: Whether to expect anything from tokens; if not, the plain estimator.

    """
    n_publishers = month.tokens.shape[1]
    values = np.zeros(n_publishers)
    covariance = np.zeros((n_publishers, n_publishers))
    within = np.zeros(n_publishers)
    of_all = np.zeros(n_publishers)
    freedom = 0
    for half, (mine, own) in enumerate(zip(draws, shares, strict=True)):
        other = 1 - half
        residuals = own
        if by_tokens:
            expected = Expected.learned(month, draws[other], shares[other])
            rows = np.flatnonzero(half_of == half)
            of_rows, of_draws = expected.of(month, rows), expected.of(month, mine.answers).toarray()
            values += of_rows.T @ month.fees[rows]
            residuals = own - of_draws
            scale = (residuals**2).sum() / max(_spread_of(of_draws).sum(), 1e-300)
            of_rows.data = _spread_of(of_rows.data)
            of_all += scale * (mine.steps * mine.left).mean() * (of_rows.T @ month.fees[rows])
        values += mine.steps @ residuals
        for cell in np.unique(mine.cells):
            spread, n_units = _spread(mine, np.flatnonzero(mine.cells == cell), residuals)
            covariance += spread.T @ spread
            freedom += n_units - 1
        repeats = np.unique(mine.answers, return_inverse=True, return_counts=True)
        for draw, (publishers, error) in enumerate(covariances[half]):
            # an answer that was drawn twice has the same error twice
            part = mine.steps[draw] ** 2 * repeats[2][repeats[1].ravel()[draw]] * error
            covariance[np.ix_(publishers, publishers)] += (1 - mine.left[draw]) * part
            within[publishers] += np.diag(part)
    n_draws = sum(len(each.answers) for each in draws)
    drawn = month.tokens[np.concatenate([each.answers for each in draws])].getnnz(axis=0)
    covariance[np.diag_indices(n_publishers)] += np.where(
        drawn < FEW, np.maximum(of_all - np.diag(covariance), 0.0), 0.0
    )
    return Royalties(values, covariance, within, max(1.0, freedom), len(month.fees), n_draws)


def _spread(draws: Draws, rows: Ints, residuals: Floats) -> tuple[Floats, int]:
    """Return (units, K) deviations of a cell's sum, whose squares add up to its variance, and the number of units.

    Hájek's approximation for draws without replacement, exact for equal fees: each unit deviates from the cell's
    mean, and `left` of that is uncertain.
    """
    kinds, unit, counts = np.unique(draws.units[rows], return_inverse=True, return_counts=True)
    unit = unit.ravel()
    left = np.zeros(len(kinds))
    left[unit] = draws.left[rows]
    sums = np.zeros((len(kinds), residuals.shape[1]))
    np.add.at(sums, unit, residuals[rows])
    mean = left @ sums / max(left @ counts, 1e-300)
    apart = sums - counts[:, None] * mean
    known = np.sqrt(left * len(kinds) / max(1, len(kinds) - 1))
    return draws.steps[rows[0]] * known[:, None] * apart, len(kinds)


def _spread_of(expected: Floats) -> Floats:
    """Return the variances of shares, but for a factor, from what is expected of them."""
    share = np.clip(expected, 0.0, 1.0)
    return np.asarray(share * (1 - share))


def _moves(month: Month, rows: Ints, worth: Floats) -> tuple[Any, Any, Any]:
    """Return (m, K) sparse: equal parts, and the moves from these to parts by tokens, and on to their worth."""
    equal, by_tokens = (each[rows] for each in month.features)
    weighted = _by_rows(by_tokens @ sparse.diags(np.maximum(worth, 1e-9)))
    return equal, by_tokens - equal, weighted - by_tokens


def _by_rows(matrix: Any) -> Any:
    """Return a sparse matrix whose rows sum to one."""
    return sparse.diags(1 / np.asarray(matrix.sum(axis=1)).ravel()) @ matrix


def _allotted(amounts: Floats, count: int, units: Ints) -> Ints:
    """Return how many of `count` draws each amount gets: in proportion, but two at least if it has so many units."""
    fewest = np.minimum(2, units)
    if fewest.sum() > count:
        raise ValueError(f"{count} draws are too few for {len(units)} strata: two are needed in each")
    more = np.maximum(0.0, amounts / amounts.sum() * count - fewest)
    ideal = fewest + more / (more.sum() or 1.0) * (count - fewest.sum())
    found = np.floor(ideal).astype(int)
    found[np.argsort(found - ideal, kind="stable")[: count - int(found.sum())]] += 1
    return found


def _left(due: ArrayLike) -> Floats:
    """Return the part of a unit's square that its chance leaves uncertain, if it is due so many times."""
    due = np.asarray(due)
    rest = due % 1
    return np.where(due < 1, 1 - due, rest * (1 - rest))
