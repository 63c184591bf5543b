"""A month of answers: which are drawn, and what the shares in these say of all.

Notation of this file (N answers, n draws, K publishers):

    f_a      fee of answer a
    s_a      (K,) shares of the publishers in answer a; they sum to one, or to zero if it has nothing to share
    m_a      (K,) what is expected of s_a without a model: a combination of equal parts of its publishers and of their
             parts by tokens that were ingested, which are known of all answers
    R        royalties, (K,): the sum over all answers of f_a s_a

Answers are drawn in proportion to their fees, so every draw stands for the same amount of fees, its `step`, and

    R = sum over all answers of f_a m_a  +  sum over draws of step (s_a - m_a)

has no bias, whatever m is, if its coefficients are learned from other answers: the month is cut into two random
halves, and each learns them from the draws of the other (a regression estimator with cross-fitted coefficients;
Särndal, Swensson and Wretman, 1992, chapter 6). An estimate of s_a without bias serves as well as s_a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fgsv.types import Floats, Ints

FEW = 10
"""With fewer draws of a publisher, their own spread says too little of its error."""


@dataclass(frozen=True, eq=False)
class Month:
    """What is known of all answers of a month before any is valued."""

    fees: Floats
    """(N,) positive."""
    tokens: Any
    """(N, K) sparse: positive where a publisher has a passage in an answer."""
    strata: Ints
    """(N,) numbers of the strata."""
    queries: Ints
    """(N,) numbers of the queries: the same for answers of the same query."""

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """Two (N, K) sparse matrices whose rows sum to one: equal parts of an answer's publishers, and by tokens."""
        return _by_rows(self.tokens.sign()), _by_rows(self.tokens)

    def draw(self, rows: Ints, n_draws: int, rng: np.random.Generator) -> Draws:
        """Draw from these answers in proportion to their fees.

        Along a line of all answers in random order, each as long as its fee, those of a stratum and of a query side
        by side, the draws are equally spaced from a random start: each stratum, and each query, is drawn as often as
        its fees say, but for one. An answer that is drawn for certain stands apart from others to its query.
        """
        fees = self.fees[rows]
        if n_draws >= len(rows):
            return Draws(rows, self.strata[rows], np.arange(len(rows)), fees, *np.zeros((2, len(rows))))
        step = fees.sum() / n_draws
        query = np.where(fees < step, self.queries[rows], self.queries.max() + 1 + np.arange(len(rows)))
        order = np.lexsort((rng.random(len(rows)), rng.permutation(query.max() + 1)[query], self.strata[rows]))
        points = (rng.random() + np.arange(n_draws)) * step
        hits = order[np.minimum(np.searchsorted(np.cumsum(fees[order]), points, side="right"), len(rows) - 1)]
        units = query[hits]
        times = np.bincount(units)[units]
        due = np.bincount(query, fees)[units] / step
        left = np.where(due < 1, 1 - due, due % 1 * (1 - due % 1) / times**2)
        of_several = np.bincount(query)[units] > 1
        left[of_several & (times == 1)] = 1.0
        return Draws(rows[hits], self.strata[rows[hits]], units, np.full(n_draws, step), left, of_several * 1.0)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from a half of a month, (n,) each; an answer with a large fee may be drawn more than once."""

    answers: Ints
    strata: Ints
    queries: Ints
    steps: Floats
    """The fees that a draw stands for."""
    left: Floats
    """The part of its query's square that chance leaves uncertain: almost 1 if few answers are drawn, 1 if its other
    answers may differ and none is drawn."""
    spread: Floats
    """1 if draws of other answers to its query tell how these differ, else 0."""


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

    @property
    def widest(self) -> int:
        """The publisher with the largest error."""
        return int(self.stderr.argmax())

    def draws_to_narrow(self, factor: float) -> int | None:
        """Return how many answers would make the widest interval narrower by a factor; None if not even all would.

        The variance between answers falls with 1/n - 1/N, what evaluations add with 1/n.
        """
        variance, within = self.covariance[self.widest, self.widest], self.within[self.widest]
        between = (variance - within) / max(1e-300, 1 / self.n_draws - 1 / self.n_answers)
        needed = (between + within * self.n_draws) / (variance / factor**2 + between / self.n_answers or 1.0)
        return int(np.ceil(needed)) if needed <= self.n_answers else None


def estimated(
    month: Month,
    half_of: Ints,
    draws: Sequence[Draws],
    shares: Sequence[Floats],
    errors: Sequence[Sequence[tuple[Sequence[int], Floats]]],
) -> Royalties:
    """Return the royalties of a month.

    A publisher of few drawn answers gets the error that all publishers' residuals let one expect of it, if that is
    larger than what its own say.

    Args:
        month: All its answers.
        half_of: (N,) the half of each.
        draws: The draws from each half.
        shares: Of each half, (n, K) unbiased shares in the drawn answers.
        errors: Of each half and draw, the publishers (k,) of an answer, and the (k, k) covariance of their shares due
            to evaluations.

    """
    n_publishers = month.tokens.shape[1]
    values, within, expected_of_all = np.zeros((3, n_publishers))
    covariance = np.zeros((n_publishers, n_publishers))
    freedom = 0
    for half, mine in enumerate(draws):
        others = np.column_stack([part[draws[1 - half].answers].toarray().ravel() for part in month.parts])
        one, two = np.linalg.lstsq(others, shares[1 - half].ravel(), rcond=None)[0]
        expected = one * month.parts[0] + two * month.parts[1]
        of_draws = expected[mine.answers].toarray()
        residuals = shares[half] - of_draws
        fees = month.fees * (half_of == half)
        values += expected.T @ fees + mine.steps @ residuals
        scale = (residuals**2).sum() / max(_spread_of(of_draws).sum(), 1e-300) * (mine.steps * mine.left).mean()
        expected.data = _spread_of(expected.data)
        expected_of_all += scale * (expected.T @ fees)
        for stratum in np.unique(mine.strata):
            apart = _apart(mine, np.flatnonzero(mine.strata == stratum), residuals)
            covariance += apart.T @ apart
        freedom += len(mine.answers) - len(np.unique(mine.strata))
        squares = mine.steps**2 * np.bincount(mine.answers)[mine.answers]  # drawn twice, it has the same error twice
        known = 1 - np.maximum(mine.left, mine.spread)  # of errors that are not in the spread of the draws
        for square, part, (publishers, error) in zip(squares, known, errors[half], strict=True):
            covariance[np.ix_(publishers, publishers)] += part * square * error
            within[publishers] += square * np.diag(error)
    drawn = np.concatenate([each.answers for each in draws])
    few = month.tokens[drawn].getnnz(axis=0) < FEW
    covariance[few, few] = np.maximum(covariance[few, few], expected_of_all[few])
    return Royalties(values, covariance, within, max(1.0, freedom), len(month.fees), len(drawn))


def _apart(draws: Draws, rows: Ints, residuals: Floats) -> Floats:
    """Return (., K) deviations whose squares add up to the variance of the sum over the draws of a stratum.

    Hájek's approximation for draws without replacement, exact for equal fees: each query deviates from the mean of
    all, and `left` of that is uncertain; and where several answers to it were drawn, each from its own mean.
    """
    queries, first, query, counts = np.unique(draws.queries[rows], True, True, True)
    left = draws.left[rows][first]
    sums = np.zeros((len(queries), residuals.shape[1]))
    np.add.at(sums, query.ravel(), residuals[rows])
    mean = left @ sums / (left @ counts or 1.0)
    between = (sums - counts[:, None] * mean) * np.sqrt(left * len(counts) / max(1, len(counts) - 1))[:, None]
    inside = residuals[rows] - (sums / counts[:, None])[query.ravel()]
    inside *= np.sqrt(counts / np.maximum(1, counts - 1))[query.ravel(), None]
    return np.asarray(draws.steps[rows[0]] * np.concatenate([between, inside]))


def _spread_of(expected: Floats) -> Floats:
    """Return the variances of shares, but for a factor, from what is expected of them."""
    return np.asarray(np.maximum(expected * (1 - expected), 0.0))


def _by_rows(matrix: Any) -> Any:
    """Return a sparse matrix whose rows sum to one."""
    return sparse.diags(1 / np.asarray(matrix.sum(axis=1)).ravel()) @ matrix
