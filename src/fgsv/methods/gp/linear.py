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

from dataclasses import dataclass

import numpy as np

from fgsv.coalitions import Coalitions, draw_blocks
from fgsv.methods.enumeration import enumerated, numbered
from fgsv.methods.gp.regression import LEAST_LEARNED, Model, fit
from fgsv.methods.gp.rows import FOLDS, LISTED, Rows, out_of_fold
from fgsv.methods.gp.sampler import Sampler
from fgsv.methods.gp.schedule import EXPLORE, round_end, stage
from fgsv.methods.method import Draws, Problem
from fgsv.methods.target import Target
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Ints
from fgsv.valuation import Estimate

BUNDLES = 64
"""Of deviations; each draw is in one, with a random sign."""
SURE = 8
"""Draws expected of a size from which every fold surely has some, so that their number divides their sum; where
fewer are expected, that expectation does."""


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
        residuals = out_of_fold(away, self._rows.folds) / drawn[sizes, None]
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
        of_own = out_of_fold(away, rows.folds)
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
