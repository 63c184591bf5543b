"""Many players, or evaluations quicker than learning: the limit where only what each player adds can be learned.

    U(T)   = mean(t) + r(t) [x_T . beta + noise],  x_T the indicator of T, standardised: mean zero, norm one
    beta   ~ N(0, v) for each player: the limit of the kernel with many players, where correlations x_S . x_T are
             about 1 / sqrt(n), so that their higher powers cannot be learned
    v      by moments: E[y_i y_j x_i . x_j] = v E[(x_i . x_j)^2] = v / (n - 1), less its standard error
    f      = mean + trust r x . beta, beta by conjugate gradients on all rows but a fold's
    C_k    = sum over T of W(T) f_k(T) + sum over draws of other folds of W(T_j) (U - f_k)(T_j)
             + sum over draws of fold k of W(T_j) u_j / n_j (U - f_k)(T_j), for f_k fitted to the other folds:
             given these, T_j is uniform among the u_j coalitions of its size that they lack, of which fold k has n_j
    C      = the mean of C_k. Where coalitions may be drawn twice, u_j is C(n, t_j), and the second sum is left out
    error    sum of d_j d_j', d_j = W(T_j) C(n, t_j) / (draws of size t_j) (U - f)(T_j) sqrt(1 - part of the size
             that is drawn), in bundles with random signs

Unbiased but for the laws of draws, which follow from earlier utilities. Where evaluations are quicker than learning,
only means are learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from fgsv.coalitions import Coalitions, draw_blocks
from fgsv.methods.enumeration import enumerated, numbered
from fgsv.methods.gp.means import mean_and_spread
from fgsv.methods.gp.sampler import Sampler
from fgsv.methods.gp.schedule import EXPLORE, round_end, stage
from fgsv.methods.method import Draws, Problem
from fgsv.methods.target import Target
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate

LISTED = 40
"""Up to so many players no coalition is drawn twice; of more players, that would be rare."""
BUNDLES = 64
"""Of deviations; each draw is in one, with a random sign."""
FOLDS, STEPS = 4, 15
"""Of the regression on players, and steps of conjugate gradients."""
CLIP = 8.0
"""Utilities further from the mean of their size, in standard deviations, count as if so far."""
SURE = 8
"""Draws expected of a size from which every fold surely has some, so that their number divides their sum; where
fewer are expected, that expectation does."""
LEAST_LEARNED = 64
"""Evaluations below which nothing is learned."""
LEAST_VARIANCE = 0.002
"""Below this v is not worth learning."""
ENTRIES = 10_000_000
"""Numbers of indicators held at once."""


class LinearEstimator:
    """A run that learns means by size and, if it is to learn, what each player adds."""

    def __init__(self, problem: Problem, *, learn: bool) -> None:
        n = problem.n_players
        self._problem, self._learn = problem, learn
        self._target = Target(n, problem.semivalue)
        self._costs = np.ones(n + 1)
        if problem.cost is not None:
            self._costs[1:n] = problem.cost(np.arange(1, n))
        self._sampler = Sampler(self._target) if n <= LISTED else None
        if self._sampler is not None:
            self._sampler.take(Coalitions.ends(n).masks())
        self._n_drawn = 2
        """Draws so far, the ends among them."""
        self._rows = Rows(n)
        self._values: Floats = np.zeros((0, 0))
        self._expected: Floats = np.zeros(n + 1)
        self._models: dict[int, Model] = {}
        self._estimated: Estimate | None = None

    @property
    def _stated(self) -> slice:
        """Outputs that are not folds of the test rows, which decide nothing."""
        return slice(self._problem.n_stated)

    @property
    def needs(self) -> int:
        """Of how many first evaluations the next draws must know the values."""
        return stage(self._n_drawn)[1]

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the next coalitions; None if every one is known."""
        target, done = self._target, self._n_drawn
        wanted = round_end(done) - done
        law = self._law()
        if self._sampler is None:
            sizes = np.searchsorted(np.cumsum(law), (np.arange(wanted) + rng.random(wanted)) / wanted, side="right")
            coalitions, permutations = draw_blocks(target.n, np.clip(sizes, 1, target.n - 1), rng)
            expected = wanted * law
        elif self._sampler.is_done:
            return None
        else:
            masks, expected = self._sampler.draw(law, wanted, rng)
            coalitions = Coalitions.from_masks(masks)
            permutations = np.arange(len(masks))
        self._n_drawn += len(coalitions)
        return Draws(coalitions, plan=Expected(expected, permutations), order=rng.permutation(len(coalitions)))

    def _law(self) -> Floats:
        """Return (n + 1,): the part of each size in the next draws; outputs count equally."""
        target, left = self._target, np.ones((self._target.n + 1, 1))
        if self.needs >= LEAST_LEARNED:
            left = self._model(self.needs).left[:, self._stated]
        base = target.base_law / np.sqrt(self._costs)
        if self._sampler is not None:
            base = base * (self._sampler.unknown / target.counts)
        if not base.any():
            return base
        best = base[:, None] * left
        best = np.sqrt(((best / np.maximum(best.sum(axis=0), 1e-300)) ** 2).mean(axis=1))
        best = best if best.any() else base
        return EXPLORE * base / base.sum() + (1 - EXPLORE) * best / best.sum()

    def update(self, draws: Draws, values: Floats) -> None:
        """Take in the values of a round."""
        self._rows.add(draws.coalitions, draws.plan.permutations)
        self._values = np.concatenate([self._values, values]) if len(self._values) else values
        self._expected = self._expected + draws.plan.counts
        self._estimated = None

    def _model(self, n_evaluations: int) -> Model:
        """Return what the first so many evaluations say, at the last power of two."""
        at = 0 if n_evaluations < LEAST_LEARNED else 1 << (n_evaluations.bit_length() - 1)
        if at not in self._models:
            rows = max(0, at - 2)
            n_learned = self._problem.n_stated if self._learn else 0
            of_first = self._rows.first(rows), self._values[:rows]
            self._models[at] = fit(self._target, *of_first, self._problem.ends, n_learned)
        return self._models[at]

    def estimate(self) -> Estimate:
        """Return C."""
        if self._estimated is None:
            self._estimated = self._estimate()
        return self._estimated

    def _estimate(self) -> Estimate:
        target, n, ends = self._target, self._target.n, self._problem.ends
        efficient = target.semivalue == SHAPLEY
        sizes = self._rows.sizes
        if n <= LISTED and len(sizes) == 2**n - 2:
            masks = np.concatenate([Coalitions.ends(n).masks(), self._rows.masks()])[: 2**n]
            return enumerated(
                numbered(masks, np.concatenate([ends, self._values.reshape(-1, ends.shape[1])])[: 2**n]),
                target.semivalue,
            )
        learned = self._model(len(self._values) + 2)
        if not learned.beta.any():  # means are cheap: those of all draws
            learned = fit(target, self._rows, self._values, ends, n_learned=0)
        drawn = np.where(self._expected >= SURE, np.bincount(sizes, minlength=n + 1), self._expected)
        away = self._values[:, None] - learned.predicted(self._rows)
        values = learned.player_values(target) + self._corrections(away, drawn)
        if efficient:
            values += (ends[1] - ends[0]) / n - values.mean(axis=0)
        part = np.minimum(1.0, drawn / target.counts)
        residuals = _out_of_fold(away, self._rows.folds) / drawn[sizes, None]
        permutations = self._rows.permutations
        signs = np.random.default_rng([self._problem.seed, 1]).choice([-1.0, 1.0], permutations.max() + 1)
        spread = residuals * (signs[permutations] * np.sqrt(1 - part[sizes]))[:, None]
        deviations = self._rows.weighted(target, spread, permutations % BUNDLES)
        if efficient:
            deviations -= deviations.mean(axis=1, keepdims=True)
        energy = ((residuals[:, self._stated] * target.base_law[sizes, None]) ** 2).sum(axis=1)
        n_effective = energy.sum() ** 2 / max((energy**2).sum(), 1e-300)
        return Estimate(
            values,
            deviations.astype(np.float32),
            degrees_of_freedom=1 / (1 / BUNDLES + 1 / max(n_effective, 1.0)),
            efficient=efficient,
            correction=1.0,
        )

    def _corrections(self, away: Floats, drawn: Floats) -> Floats:
        """Return (n, q): what draws add to the sum of W(T) f(T); they are (m, FOLDS, q) away from each f_k."""
        target, rows = self._target, self._rows
        of_own = _out_of_fold(away, rows.folds)
        if self._sampler is None:
            added = of_own / drawn[rows.sizes, None]
        else:
            in_fold = np.zeros((FOLDS, target.n + 1))
            np.add.at(in_fold, (rows.folds, rows.sizes), 1.0)
            others = in_fold.sum(axis=0) - in_fold
            in_fold = np.where(self._expected >= SURE, in_fold, drawn / FOLDS)
            own = (1 - others / target.counts)[rows.folds, rows.sizes] / in_fold[rows.folds, rows.sizes]
            added = own[:, None] * of_own + (away.sum(axis=1) - of_own) / target.counts[rows.sizes, None]
            added /= FOLDS
        return rows.weighted(target, added, np.zeros(len(added), int))[0]


@dataclass(frozen=True, eq=False)
class Expected:
    """How many draws of each size to expect, and the permutation that each of them is cut from."""

    counts: Floats
    permutations: Ints

    def __getitem__(self, rows: Ints) -> Expected:
        """Return those of a random part of the draws."""
        return Expected(self.counts * len(rows) / max(1, len(self.permutations)), self.permutations[rows])


class Rows:
    """Coalitions as bits, and sums over their indicators."""

    def __init__(self, n: int, packed: Sequence[NDArray[np.uint8]] = ()) -> None:
        self.n, self._packed = n, list(packed)
        self.sizes: Ints = np.zeros(0, dtype=np.int64)
        self.permutations: Ints = np.zeros(0, dtype=np.int64)
        """(m,): coalitions of different permutations are independent."""
        self.folds: Ints = np.zeros(0, dtype=np.int64)
        """(m,): coalitions that depend on each other are of one fold; few players have each fold at each size."""

    def add(self, coalitions: Coalitions, permutations: Ints) -> None:
        """Add coalitions, with the numbers of their permutations among these."""
        self._packed += [np.packbits(part.masks(), axis=1) for part in self._parts(coalitions)]
        ranks = _ranks(np.concatenate([self.sizes, coalitions.sizes]))[len(self.sizes) :]
        self.sizes = np.concatenate([self.sizes, coalitions.sizes])
        first = self.permutations[-1] + 1 if len(self.permutations) else 0
        numbers = np.unique(permutations, return_inverse=True)[1] + first
        self.permutations = np.concatenate([self.permutations, numbers])
        self.folds = np.concatenate([self.folds, (ranks + coalitions.sizes if self.n <= LISTED else numbers) % FOLDS])

    def _parts(self, coalitions: Coalitions) -> Iterator[Coalitions]:
        step = max(1, ENTRIES // self.n)
        for start in range(0, len(coalitions), step):
            yield coalitions[start : start + step]

    def first(self, count: int) -> Rows:
        """Return the first so many."""
        packed, left = [], count
        for each in self._packed:
            packed.append(each[:left])
            left -= len(packed[-1])
        found = Rows(self.n, [each for each in packed if len(each)])
        found.sizes = self.sizes[:count]
        found.permutations = self.permutations[:count]
        found.folds = self.folds[:count]
        return found

    def without_folds(self) -> list[Masks]:
        """Return, for each fold, which rows are not in it."""
        return [self.folds != fold for fold in range(FOLDS)]

    def masks(self) -> Masks:
        """Return the coalitions as an (m, n) boolean array."""
        nothing = np.zeros((0, self.n), dtype=bool)
        return np.concatenate(
            [nothing, *(np.unpackbits(each, axis=1, count=self.n) for each in self._packed)]
        ).astype(bool)

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield slices of rows, and (rows, n) of zeros and ones."""
        start, step = 0, max(1, ENTRIES // self.n)
        for packed in self._packed:
            for first in range(0, len(packed), step):
                some = np.unpackbits(packed[first : first + step], axis=1, count=self.n).astype(np.float32)
                yield slice(start + first, start + first + len(some)), some
            start += len(packed)

    def root(self) -> Floats:
        """Return (m,): the norms of the indicators about their means."""
        return np.sqrt(np.maximum(self.sizes * (self.n - self.sizes) / self.n, 1e-9))

    def weighted(self, target: Target, weights: Floats, bundles: Ints) -> Floats:
        """Return (R, n, q): for each of R bundles, the sum over its rows of weights (m, q) times W(T) C(n, t)."""
        q = weights.shape[1]
        count = int(bundles.max(initial=0)) + 1
        scaled = weights * target.gain[self.sizes, None]
        everyone = weights * target.drift[self.sizes, None] - scaled * (self.sizes / self.n)[:, None]
        found = np.zeros((count * q, self.n))
        for rows, some in self.blocks():
            places = (bundles[rows, None] * q + np.arange(q)).reshape(-1)
            columns = np.repeat(np.arange(len(some)), q)
            picks = csr_matrix((scaled[rows].reshape(-1), (places, columns)), shape=(count * q, len(some)))
            found += picks @ some
            found += np.bincount(places, everyone[rows].reshape(-1), minlength=count * q)[:, None]
        return found.reshape(count, q, self.n).transpose(0, 2, 1)

    def onto(self, weights: Floats) -> Floats:
        """Return X' weights, (m, k) -> (n, k), for the standardised indicators X."""
        scaled = weights / self.root()[:, None]
        found = np.zeros((self.n, weights.shape[1]))
        for rows, some in self.blocks():
            found += some.T @ scaled[rows].astype(np.float32)
        return found - (scaled * (self.sizes / self.n)[:, None]).sum(axis=0)

    def times(self, beta: Floats) -> Floats:
        """Return X beta, (n, k) -> (m, k)."""
        found = np.empty((len(self.sizes), beta.shape[1]))
        for rows, some in self.blocks():
            found[rows] = some @ beta.astype(np.float32)
        return (found - np.outer(self.sizes / self.n, beta.sum(axis=0))) / self.root()[:, None]

    def normal(self, beta: Floats, on: Masks) -> Floats:
        """Return X' (on * X beta), in one pass."""
        total, share, squares = beta.sum(axis=0), self.sizes / self.n, self.root() ** 2
        found, everyone = np.zeros_like(beta), np.zeros(beta.shape[1])
        for rows, some in self.blocks():
            inner = (some @ beta.astype(np.float32) - np.outer(share[rows], total)) / squares[rows, None]
            inner = np.where(on[rows], inner, 0.0)
            found += some.T @ inner.astype(np.float32)
            everyone += share[rows] @ inner
        return found - everyone


@dataclass(frozen=True, eq=False)
class Model:
    """f, for q outputs: means and spreads by size, and what each player adds."""

    mean: Floats
    """(n + 1, FOLDS, q): of all rows but a fold's"""
    spread: Floats
    """(n + 1, FOLDS, q): r, of all rows but a fold's"""
    left: Floats
    """(n + 1, q): the spread that f leaves."""
    beta: Floats
    """(n, FOLDS, q): fitted to all rows but a fold's, times the trust in them; zeros if nothing is learned."""

    def predicted(self, rows: Rows) -> Floats:
        """Return (m, FOLDS, q): f without each fold."""
        each = self.mean[rows.sizes]
        if self.beta.any():
            inner = rows.times(self.beta.reshape(rows.n, -1)).reshape(each.shape)
            each = each + self.spread[rows.sizes] * inner
        return each

    def player_values(self, target: Target) -> Floats:
        """Return (n, q): the sum over T of W(T) f(T), ends apart."""
        n, s = target.n, np.arange(target.n + 1)
        mean = self.mean.mean(axis=1)
        found = np.broadcast_to(target.of_sizes(mean), (n, mean.shape[1]))
        factor = np.tensordot(target.gain * np.sqrt(s * (n - s) / n), self.spread, 1) / max(1, n - 1)
        return found + (factor * (self.beta - self.beta.mean(axis=0))).mean(axis=1)


def fit(target: Target, rows: Rows, values: Floats, ends: Floats, n_learned: int) -> Model:
    """Return what m evaluations (m, q) say; what players add is learned of the first so many outputs."""
    n, (m, q), sizes = target.n, values.shape, rows.sizes
    nothing = np.zeros((n, FOLDS, q))
    by_size = [_by_size(n, sizes[some], values[some], ends) for some in rows.without_folds()]
    mean, spread = (np.stack(each, axis=1) for each in zip(*by_size, strict=True))
    left = spread.mean(axis=1)
    if not n_learned or m < LEAST_LEARNED:
        return Model(mean, spread, left, nothing)
    learned = slice(n_learned)
    scale = np.maximum(spread[sizes][:, :, learned], 1e-300)
    of_fold = np.clip((values[:, None] - mean[sizes])[:, :, learned] / scale, -CLIP, CLIP)
    y = _out_of_fold(of_fold, rows.folds)
    square = np.maximum((y**2).sum(axis=0), 1e-300)
    v = ((rows.onto(y) ** 2).sum(axis=0) - square) * (n - 1) / (m * (m - 1.0)) / (square / m)
    v = np.minimum(v - np.sqrt(2 * n) / m, 0.98)
    if not (v > LEAST_VARIANCE).any():
        return Model(mean, spread, left, nothing)
    beta = ridge(rows, of_fold, (1 - v) / np.maximum(v, LEAST_VARIANCE)) * (v > LEAST_VARIANCE)
    inner = _out_of_fold(rows.times(beta.reshape(n, -1)).reshape(m, FOLDS, n_learned), rows.folds)
    trust = np.clip((inner * y).sum(axis=0) / np.maximum((inner**2).sum(axis=0), 1e-300), 0.0, 1.0)
    nothing[:, :, learned] = beta * trust
    unexplained = _out_of_fold(scale, rows.folds) * (y - trust * inner)
    left[:, learned] = _with_ends(mean_and_spread(n, sizes, unexplained)[1])
    return Model(mean, spread, left, nothing)


def ridge(rows: Rows, y: Floats, penalty: Floats) -> Floats:
    """Return (n, FOLDS, q): (X'X + penalty) beta = X'y, y (m, FOLDS, q), without the rows of each fold.

    By conjugate gradients.
    """
    m, _, q = y.shape
    on = np.repeat(rows.folds[:, None] != np.arange(FOLDS), q, axis=1)
    penalties = np.tile(penalty, FOLDS)
    residual = rows.onto(on * y.reshape(m, -1))
    beta, direction = np.zeros_like(residual), residual.copy()
    norm = first = (residual**2).sum(axis=0)
    for _ in range(STEPS):
        image = rows.normal(direction, on) + penalties * direction
        step = norm / np.maximum((direction * image).sum(axis=0), 1e-300)
        beta += step * direction
        residual -= step * image
        last, norm = norm, (residual**2).sum(axis=0)
        if (norm <= 1e-4 * first).all():
            break
        direction = residual + norm / np.maximum(last, 1e-300) * direction
    return beta.reshape(rows.n, FOLDS, q)


def _out_of_fold(each: Floats, folds: Ints) -> Floats:
    """Return (m, q) of (m, FOLDS, q): row j from the fit without the fold of j."""
    return each[np.arange(len(each)), folds]


def _ranks(sizes: Ints) -> Ints:
    """Return (m,): how many before it have the same size."""
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(sizes)) - np.searchsorted(ordered, ordered)
    return ranks


def _by_size(n: int, sizes: Ints, values: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Return (n + 1, q) means and spreads; a line between the ends and ones if nothing is known."""
    if not len(sizes):
        line = ends[0] + np.arange(n + 1)[:, None] / n * (ends[1] - ends[0])
        return line, np.ones_like(line)
    mean, spread = mean_and_spread(n, sizes, values, ends)
    return np.concatenate([ends[:1], mean, ends[1:]]), _with_ends(spread)


def _with_ends(spread: Floats) -> Floats:
    """Return (n + 1, q) of the (n - 1, q) of the sizes between the ends."""
    return np.concatenate([spread[:1], spread, spread[-1:]])
