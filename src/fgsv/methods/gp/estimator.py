"""The order of a run: what is drawn when, which evaluations that may depend on, and what is stated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.enumeration import enumerated, numbered
from fgsv.methods.gp.choice import choose
from fgsv.methods.gp.fits import NO_FOLD, Fits
from fgsv.methods.gp.fitting import fitted, prior_kernel
from fgsv.methods.gp.kernel import Kernel
from fgsv.methods.gp.proxy import Proxy
from fgsv.methods.gp.sampler import Sampler
from fgsv.methods.gp.schedule import CHOSEN, EXPLORE, round_end, stage
from fgsv.methods.gp.smoother import Smoother
from fgsv.methods.gp.trend import Saturating, saturating, trust
from fgsv.methods.gp.values import Evaluations, Values, parts_of, stated, unbiased
from fgsv.methods.method import Draws, OtherLaw, Problem
from fgsv.methods.target import Target
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import Estimate

if TYPE_CHECKING:
    from fgsv.methods.gp.gp import GP

ENDS_FIRST = 20
"""Up to so many players, coalitions of one player and of all but one come first."""
ENDS_AFTER = 16
"""With `unbiased`, they come after so many: what is drawn before leaves no values without draws."""
ENDS_LATER = 64
"""Of more players, up to 64, predictions know them after so many evaluations: before, others say more."""
FOLDED = 256
"""With `unbiased`: up to so many evaluations parameters are fitted in four folds, then in two."""
SAME = 1e-3
"""Parameters, logarithms mostly, that differ by less than this may differ by rounding on another processor."""


@dataclass(frozen=True, eq=False)
class Plan:
    """How the coalitions of a round came about."""

    drawn: Masks
    """(m,): by the law."""
    expected: Floats
    """(n + 1,): draws expected of each size."""

    def __getitem__(self, rows: Ints) -> Plan:
        """Return the plan of the first rows only: the rest was beyond the budget."""
        drawn = self.drawn[rows]
        return Plan(drawn, self.expected * drawn.sum() / max(1, self.drawn.sum()))


class GPEstimator:
    """A run of the default method. Counts of evaluations include the two ends, and exclude what was known before."""

    def __init__(self, method: GP, problem: Problem, proxy: Proxy) -> None:
        n = problem.n_players
        self._method, self._problem, self._proxy, self._seed = method, problem, proxy, problem.seed
        self._target = Target(n, problem.semivalue)
        self._costs = np.ones(n + 1)
        if problem.cost is not None:
            self._costs[1:n] = problem.cost(np.arange(1, n))
        self._sampler = Sampler(self._target)
        masks, self._known = _known(problem, related=not proxy.n_features)
        self.n_known = len(masks) - 2
        """Evaluations known before the run, which it learns from."""
        self._masks = self._all_masks = masks
        """(m, n): the coalitions whose values are there; those and the ones drawn since."""
        self._features = proxy.features(masks[:, :n])
        self._drawn = np.zeros(len(masks), dtype=bool)
        self._expected = np.zeros(n + 1)
        self._sampler.take(masks[~masks[:, n:].any(axis=1), :n])
        self._fits = Fits(self._target, masks.shape[1], self.n_known, method.parameters)
        singles_first = (method.singles_first or n <= ENDS_FIRST) and not method.unbiased
        self._first = self._singles() if singles_first else masks[:0, :n]
        self._estimated: Estimate | None = None

    # --- what is drawn

    def _singles(self) -> Masks:
        """Return what is evaluated first: unknown coalitions of one player, and with few of them of all but one."""
        rng = np.random.default_rng(self._seed)
        one = np.eye(self._target.n, dtype=bool)
        first = rng.permutation(one)
        if len(one) <= ENDS_FIRST:
            first = np.concatenate([first, ~rng.permutation(one)])
        return first[self._sampler.take(first)]

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far."""
        return len(self._masks) - self.n_known

    @property
    def _n_drawn(self) -> int:
        """Draws so far, the ends among them."""
        return len(self._all_masks) - self.n_known

    @property
    def needs(self) -> int:
        """Of how many first evaluations the next draws must know the values."""
        return max(stage(self._n_drawn)[1], 2 if self.n_known else 0)

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Return the next coalitions; None if every one is known."""
        if not len(self._first) and self._sampler.is_done:
            return None
        return self._draw(rng, recorded=None)

    def _draw(self, rng: np.random.Generator, recorded: Mapping[str, Any] | None) -> Draws:
        n, done = self._target.n, self._n_drawn
        wanted = round_end(done) - done
        first, rest = self._first[:wanted], self._first[wanted:]
        self._first = rest
        kernel = self._kernel_of_draws(recorded)
        chosen = self._masks[:0, :n]
        begin, end, most_players = CHOSEN
        if not self._method.unbiased and n <= most_players and begin <= done and len(self._all_masks) < end:
            known = np.concatenate([self._all_masks, self._widened(first)])
            among = None if recorded is None else _unpacked(recorded["chosen"], n)
            chosen = choose(kernel, self._sampler, known, (wanted - len(first)) // 2, rng, self._costs, among)
        law = self._sampler.law(kernel.scale[: n + 1], EXPLORE, self._costs)
        count = wanted - len(first) - len(chosen)
        most, after = (ENDS_FIRST, ENDS_AFTER) if self._method.unbiased else (most_players, ENDS_LATER)
        later = self._target.semivalue == SHAPLEY and not self._method.singles_first
        ends = n <= most and done >= after and (self._method.unbiased or later)
        some, expected = self._sampler.draw(law, count, rng, ends=ends)
        masks = np.concatenate([first, chosen, some])
        before, self._all_masks = self._all_masks, np.concatenate([self._all_masks, self._widened(masks)])

        def follow(law: Mapping[str, Any], rng: np.random.Generator) -> Draws:
            self._first = np.concatenate([first, rest])  # a law that was refused may have undone it already
            self._all_masks = before
            self._sampler.release(masks[len(first) :])
            return self._draw(rng, law)

        return Draws(
            Coalitions.from_masks(masks),
            plan=Plan(np.arange(len(masks)) >= len(first) + len(chosen), expected),
            law={"parameters": kernel.theta.tolist(), "chosen": _packed(chosen)},
            follow=follow,
            order=np.arange(len(masks)),
        )

    def _kernel_of_draws(self, recorded: Mapping[str, Any] | None) -> Kernel:
        """Return the kernel that decides the next draws; the recorded one, if it differs by rounding alone."""
        if (
            self._method.parameters is not None or not self.needs
        ):  # fitted elsewhere; or not yet: ends may be under way
            return prior_kernel(self._target, self._masks.shape[1])
        fit = self._fits.of(self._data, self.needs)
        if recorded is not None:
            theta = np.asarray(recorded["parameters"], dtype=float)
            if theta.shape != fit.kernel.theta.shape or not np.allclose(theta, fit.kernel.theta, rtol=0, atol=SAME):
                raise OtherLaw("the recorded parameters are not those that the recorded utilities lead to")
            fit = self._fits.replaced(self.needs, replace(fit, kernel=Kernel(self._target, theta)))
        return fit.kernel

    def update(self, draws: Draws, values: Floats) -> None:
        """Take in the values of a round."""
        masks = draws.coalitions.masks()
        self._masks = np.concatenate([self._masks, self._widened(masks)])
        self._values = np.concatenate([self._values, values])
        self._features = np.concatenate([self._features, self._proxy.features(masks)])
        self._drawn = np.concatenate([self._drawn, draws.plan.drawn])
        self._expected = self._expected + draws.plan.expected
        self._estimated = None

    def _widened(self, masks: Masks) -> Masks:
        """Return coalitions of the players, as coalitions of all coordinates."""
        return np.pad(masks, ((0, 0), (0, self._masks.shape[1] - masks.shape[1])))

    # --- what is learned

    @property
    def _ends(self) -> Floats:
        return self._problem.ends

    @property
    def _stated(self) -> slice:
        """Outputs that are not folds of the test rows, which decide nothing."""
        return slice(self._problem.n_stated)

    @cached_property
    def _values(self) -> Floats:
        """(m, q): utilities so far, first those of the ends and those that were known."""
        return self._ends if self._known is None else np.concatenate([self._ends, self._known])

    @property
    def _data(self) -> Evaluations:
        """What is known, less the straight line in the size between U(0) and U(N)."""
        empty, whole = self._ends
        above = self._values - empty - (whole - empty) * (self._masks.sum(axis=1) / self._target.n)[:, None]
        return Evaluations(self._masks, above, self._features, self._drawn, self._expected, self._stated)

    # --- what is stated

    def estimate(self) -> Estimate:
        """Return V, or exact values if every coalition is known."""
        if self._estimated is None:
            self._estimated = self._estimate()
        return self._estimated

    def _estimate(self) -> Estimate:
        target, n = self._target, self._target.n
        efficient = target.semivalue == SHAPLEY
        present = ~self._masks[:, n:].any(axis=1)
        evaluated = Sampler(target)  # what was drawn and not evaluated is unknown
        evaluated.take(self._masks[present, :n])
        if evaluated.is_done:
            return enumerated(numbered(self._masks[present, :n], self._values[present]), target.semivalue)
        found, level, beta = (self._unbiased if self._method.unbiased else self._predicted)(evaluated, self._data)
        line = self._ends[0] + np.arange(n + 1)[:, None] / n * (self._ends[1] - self._ends[0])
        values = found.values + level + target.of_sizes(line)
        if efficient:
            values += (self._ends[1] - self._ends[0]) / n - values.mean(axis=0)
        deviations = np.concatenate([found.deviations, self._proxy.errors(beta, len(self._masks))])
        return Estimate(
            values,
            deviations.astype(np.float32),
            degrees_of_freedom=found.freedom,
            efficient=efficient,
            correction=found.correction,
        )

    def _predicted(self, evaluated: Sampler, data: Evaluations) -> tuple[Values, Floats, Floats]:
        """Return V of what lies above line and proxy, the values of the proxy (n, q), and its coefficients."""
        fit = self._fits.of(data, self.n_evaluations)
        rng = np.random.default_rng([self._seed, len(self._masks), 2])
        found = stated(fit.kernel, evaluated, replace(data, values=fit.rest(data)), rng)
        if self._proxy.n_features:
            return found, self._proxy.values(len(self._masks)) @ fit.beta, fit.beta
        moved, trusted = np.zeros_like(found.values), np.zeros(found.values.shape[1])
        for output, trend in self._saturating().items():
            rise = self._ends[1, output] - self._ends[0, output]
            rest = self._values[:, [output]] - self._ends[0, output] - trend(self._masks)[:, None]
            refitted = fitted(prior_kernel(self._target), self._masks, rest)
            beside = Smoother.of(refitted, self._masks, rest).prediction[:, 0] + trend.player_values()
            moved[:, output] = beside - rise / self._target.n - found.values[:, output]
            trusted[output] = trust(refitted, rest[:, 0], fit.kernel, data.values[:, output], self._masks)
        by_trend = np.sqrt(trusted) * moved[None]  # an error that the process knows nothing of
        deviations = np.concatenate([found.deviations, by_trend]) if moved.any() else found.deviations
        values = found.values + trusted * moved
        return replace(found, values=values, deviations=deviations), np.zeros_like(moved), fit.beta

    def _saturating(self) -> dict[int, Saturating]:
        """Return a trend for each output that may have one."""
        if self._target.semivalue != SHAPLEY or self._masks.shape[1] > self._target.n:
            return {}
        worth = (self._values - self._ends[0])[:, self._stated]
        rises = (self._ends[1] - self._ends[0])[self._stated]
        found = {k: saturating(self._masks, worth[:, k], float(rise)) for k, rise in enumerate(rises)}
        return {k: trend for k, trend in found.items() if trend is not None}

    def _unbiased(self, evaluated: Sampler, data: Evaluations) -> tuple[Values, Floats, Floats]:
        """Return the same for C, whose parameters are fitted to other draws than those they correct."""
        unknown = evaluated.unknown[np.minimum(data.sizes(), self._target.n)]
        used = data.drawn & (unknown > 0)
        count = 1 if self._method.parameters is not None else 4 if self.n_evaluations <= FOLDED else 2
        folds = np.where(used, np.cumsum(used) % count, NO_FOLD)
        fits = [self._fits.of(data, self.n_evaluations, fold, folds) for fold in range(count)]
        found = unbiased([fit.kernel for fit in fits], [fit.rest(data) for fit in fits], folds, evaluated, data)
        beta = np.tensordot(parts_of(folds, count), np.stack([fit.beta for fit in fits]), 1)
        return found, self._proxy.values(len(self._masks)) @ beta, beta

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value, all else fixed; None with several outputs."""
        if self._values[:, self._stated].shape[1] > 1:
            return None
        kernel = self._fits.of(self._data, self.n_evaluations).kernel
        influences = Smoother.of(kernel, self._masks, self._data.values).influences
        return partition.sums(influences[self.n_known + 2 :].T).T


def _packed(masks: Masks) -> list[str]:
    return [row.tobytes().hex() for row in np.packbits(masks, axis=1)]


def _unpacked(rows: Sequence[str], n: int) -> Masks:
    packed = np.frombuffer(bytes.fromhex("".join(rows)), np.uint8).reshape(len(rows), (n + 7) // 8)
    return np.unpackbits(packed, axis=1, count=n).astype(bool)


def _known(problem: Problem, *, related: bool) -> tuple[Masks, Floats | None]:
    """Return the ends and the other coalitions that are known before the run, those with players who have left last.

    And the values of the others.
    """
    n, known = problem.n_players, problem.known
    ends = np.array([[False], [True]]).repeat(n, axis=1)
    if known is None:
        return ends, None
    masks = known.masks()
    inner = masks.sum(axis=1) % n > 0
    masks = np.concatenate([ends, masks[inner]])
    values = known.values[inner]
    if related and known.related is not None:
        others = known.related.masks()
        masks = np.concatenate([np.pad(masks, ((0, 0), (0, others.shape[1] - n))), others])
        values = np.concatenate([values, known.related.values])
    return masks, values
