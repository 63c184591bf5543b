"""The estimator of the default method: an opening, then epochs of growing length, in streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions, draw_blocks
from fgsv.methods.covariance import surrogate
from fgsv.methods.covariance.correction import Correction, opening_share, short_of_one_miss, with_opening
from fgsv.methods.covariance.epochs import N_REPLICATES, N_STREAMS, PARTS, Epoch, Outlook, Sums, means
from fgsv.methods.covariance.foresight import Foresight
from fgsv.methods.covariance.gains import learned, predicted_in
from fgsv.methods.covariance.history import History, evenly
from fgsv.methods.covariance.influence import bundles, scales
from fgsv.methods.covariance.opening import Opening
from fgsv.methods.covariance.proxy import Proxy, beyond, coefficients
from fgsv.methods.covariance.sizes import mean_and_spread
from fgsv.methods.covariance.sums import Enumerated, check_finite, sums_by_part
from fgsv.methods.covariance.surrogate import Surrogate
from fgsv.methods.covariance.target import Target, costs, in_groups
from fgsv.methods.method import Draws, Problem
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Ints
from fgsv.valuation import Estimate

if TYPE_CHECKING:
    from fgsv.methods.covariance.covariance import Covariance

GROWTH = 4
"""An epoch ends when the draws of the run have grown by this factor."""
EXPLORE = 0.05
"""Fraction of the draws whose sizes do not depend on earlier values."""
REFIT = 0.5, 0.75
"""The surrogate is fitted again after this fraction of the rows so far, or of the draws once fits take longer."""
LEAST_WEIGHED = 256
"""Draws of an epoch that can tell whether a forecast is of use."""


class CovarianceEstimator:
    """Epochs of growing length, each with a fixed allocation and streams that cross-fit a surrogate.

    What is subtracted in a stream is learned from earlier epochs and the other streams: given those, every draw is
    unbiased. An estimate combines the current epoch and the previous one; earlier ones would add more noise than they
    remove. Weights of epochs are fixed before their draws, unless a sum over players is found.
    """

    def __init__(
        self, settings: Covariance, problem: Problem, proxy: Proxy | None, opening: Opening | None = None
    ) -> None:
        n, q = problem.n_players, problem.ends.shape[1]
        self._n_folds, self._n_stated = problem.n_folds, problem.n_stated
        self._settings, self._n, self._ends = settings, n, problem.ends
        self._efficient = problem.semivalue == SHAPLEY
        self._target = Target.of(problem.semivalue, n)
        self._weights, self._base = self._target.weights, self._target.base(costs(problem))
        self._proxy = proxy or Proxy.nothing(n, q)
        n_bands = self._proxy.values.shape[1]
        few = n <= surrogate.MOST_PLAYERS
        self._learning = settings.surrogate and n >= 4 and few
        self._fitting = self._learning or (n_bands > 0 and few)
        self._may_add_up = self._learning and not n_bands and not settings.whole_rounds
        # the opening, as long as it lasts, and then its estimate
        self._opening = self._opened_by = opening
        self._opened: tuple[Correction, Floats] | None = None
        # what is known
        self._history = History(n, q, n_bands, keep_masks=few)
        self._gram = surrogate.Gram()
        self._foresight = Foresight(self._history, problem.ends, problem.n_folds)
        self._enumerated = Enumerated(self._weights, n, n_bands, q)
        self._to_enumerate: list[int] = []
        # counts, and after how many draws the epoch ends
        self._n_evaluations, self._n_draws, self._end = 2, 0, PARTS
        self._n_permutations = np.zeros(N_STREAMS, dtype=np.int64)
        # the epoch before the current one, its sums, and the last epoch whose law was given to a ledger
        self._closed: Epoch | None = None
        self._before = Sums.nothing(n, n_bands, q)
        self._announced: Epoch | None = None
        if n > 1:
            rise = problem.ends[1] - problem.ends[0]
            straight = problem.ends[0] + np.outer(np.arange(1, n) / n, rise)
            spread = np.where(rise == 0, 1.0, np.abs(rise)) * self._proxy.spread
            self._epoch = self._open(Outlook(np.zeros((n_bands, q)), straight, spread, spread, trust=np.ones(q)))
            self._without = self._epoch  # the epoch that begins if the budget has no room for an enumeration

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round: of the opening, every coalition of a size, or of the current epoch."""
        if self._opening is not None:
            if self._opening.n_evaluations < self._opening.end:
                return self._opening.draw(rng)
            self._take_over(self._opening, rng.spawn(1)[0])
        if self._enumerated.all:
            return None
        if self._to_enumerate:
            whole = Coalitions.of_size(self._n, self._to_enumerate[0])
            if self._settings.whole_rounds:
                return Draws(whole)
            self._without = self._following()
            return Draws(whole, instead=self._round(self._without, rng))
        return self._round(self._epoch, rng)

    def _round(self, epoch: Epoch, rng: np.random.Generator) -> Draws:
        """Draw, in each stream, sizes systematically from the allocation and subsets in balanced blocks."""
        count = self._settings.draws_per_round(self._n_draws, self._n) // N_STREAMS
        n_permutations = self._n_permutations
        cumulative = np.cumsum(epoch.allocation)
        quantiles = (np.arange(count) + rng.random((N_STREAMS, 1))) / count * cumulative[-1]
        sizes = np.minimum(1 + np.searchsorted(cumulative, quantiles, side="right"), self._n - 1)
        coalitions, permutation = draw_blocks(self._n, sizes, rng)
        permutation = permutation.reshape(sizes.shape)
        permutation -= permutation[:, :1]
        replicate = (n_permutations[:, None] + permutation) % N_REPLICATES
        self._n_permutations = n_permutations + permutation[:, -1] + 1
        plan = (np.arange(N_STREAMS)[:, None] * N_REPLICATES + replicate).reshape(-1)
        order = rng.permuted(np.arange(len(plan)).reshape(N_STREAMS, count), axis=1).T.reshape(-1)  # streams in turn

        def follow(law: Mapping[str, Any], rng: np.random.Generator) -> Draws:
            epoch.follow(law)
            self._n_permutations = n_permutations
            return self._round(epoch, rng)

        whole = self._settings.whole_rounds
        return Draws(coalitions, plan, self._law(epoch), follow, None if whole else order)

    def _law(self, epoch: Epoch) -> dict[str, Any] | None:
        """Return the law of an epoch at its first round, where learning or a later run depends on it."""
        if epoch is self._announced or self._n > surrogate.MOST_PLAYERS:
            return None
        self._announced = epoch
        return epoch.law

    def update(self, draws: Draws, values: Floats) -> None:
        """Take in a round: draws of the opening, every coalition of a size, or draws of the current epoch."""
        if self._opening is not None:
            self._opening.update(draws, values)
            return
        self._n_evaluations += len(values)
        self._proxy.keep_ahead(self._n_evaluations)
        proxies = self._proxy.evaluate(draws.coalitions)
        if draws.plan is None:
            self._take_enumerated(draws.coalitions, values, proxies)
            if not self._to_enumerate and not self._enumerated.all:
                self._epoch = self._following()
            return
        if self._to_enumerate:  # the budget had no room for it
            self._to_enumerate.clear()
            self._epoch = self._without
        self._history.add(draws.coalitions, values, proxies, draws.plan, self._foresight(draws.coalitions))
        self._n_draws += len(values)
        if self._fitting and len(self._history) >= self._epoch.refit_at:
            self._refit()
        else:
            self._add(draws.coalitions, self._history.unforeseen[-len(values) :], proxies, draws.plan)
        if self._n_draws >= self._end:
            self._close()

    def estimate(self) -> Estimate:
        """Return the player values and the deviations of the replicates."""
        if self._opening is not None:
            return self._opening.estimate()
        constant = self._weights.full * (self._ends[1] - self._ends[0])
        constant += (self._weights.full - self._weights.empty) * self._ends[0]
        if self._enumerated.all:
            return Estimate(constant + self._enumerated.values, exact=True, efficient=self._efficient)
        totals, beta, deviations, share = self._of_epochs(self._counted())
        freedom = float(max(1, min(PARTS, self._n_draws) - N_STREAMS))
        if self._opened is not None:
            opened, its_beta = self._opened
            totals, beta = (1 - share) * totals + share * opened.values, (1 - share) * beta + share * its_beta
            deviations, freedom = with_opening(share, opened, deviations, freedom, self._n_stated)
        values = constant + totals + (self._proxy.values * beta).sum(axis=1)
        check_finite(values)
        deviations = self._proxy.add_errors(deviations, beta)
        history, before = self._history, self._opened and self._opened[0]
        predicted = predicted_in(history, self._foresight.forecast, [self._epoch, self._closed], before)
        stated = slice(self._n_stated)
        ends, utilities = self._ends[:, stated], history.values[:, stated]
        found = learned(predicted, ends, history.sizes, utilities, self._weights, deviations[..., stated])
        return Estimate(values, deviations, None, freedom, efficient=self._efficient, learned=found)

    def _of_epochs(
        self, counted: list[tuple[Epoch | None, Sums]]
    ) -> tuple[Floats, Floats, NDArray[np.float32], Floats]:
        """Return totals, coefficients of the proxy and deviations of the epochs after the opening.

        The last array, (q,), is the share of the opening in the estimate.
        """
        epochs = [sums for _, sums in counted]
        totals, beta, deviations = means(epochs)
        deviations = np.concatenate([deviations, self._of_one_miss(counted)])
        share = np.zeros(self._ends.shape[1])
        if self._opened is not None:
            known = any(epoch.knows_its_error for epoch in epochs)
            share = opening_share(self._opened[0].deviations, deviations.astype(float)) if known else share + 1
        return totals, beta, deviations, share

    def _counted(self) -> list[tuple[Epoch | None, Sums]]:
        """Return the epochs that an estimate combines, with their sums.

        An epoch with too few draws to know its error is left out if the other one knows its own.
        """
        epochs = [(self._closed, self._before), (self._epoch, self._epoch.summed(self._foresight.freshness))]
        return [(epoch, sums) for epoch, sums in epochs if sums.knows_its_error] or epochs

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value, all else held fixed; None if unknown."""
        if self._opening is not None:
            return self._opening.influence(partition)
        if self._n > surrogate.MOST_PLAYERS or self._n_stated > 1:
            return None
        counted = [] if self._enumerated.all else self._counted()
        *_, shares = self._of_epochs(counted) if counted else (np.zeros(1),)
        share = shares[:1]
        scaled = self._scales(counted, 1 - share)
        found = scaled[:, None] * in_groups(partition, self._history.masks(slice(None)), self._weights)
        if self._opened_by is not None and counted:
            found[: self._opened_by.n_evaluations - 2] += share * self._opened_by.corrections_by(partition)
        return found

    def _scales(self, counted: list[tuple[Epoch | None, Sums]], share: Floats | float) -> Floats:
        """Return (m,): the factor of each draw's coefficients, where the epochs have this share in the estimate."""
        mass = sum(sums.mass for _, sums in counted) or 1.0
        shares = [(epoch, share * sums.mass / mass) for epoch, sums in counted if epoch is not None]
        return scales(self._history, shares, self._enumerated.sizes, self._opened_by)

    def _of_one_miss(self, counted: list[tuple[Epoch | None, Sums]]) -> NDArray[np.float32]:
        """Return (R, n, q): deviations of one miss as large as in the opening, if the draws missed less, by luck."""
        epochs = {id(epoch): epoch for epoch, _ in counted if epoch is not None}  # both may be the closed one
        residuals = np.concatenate([*(each for epoch in epochs.values() for each in epoch.residuals), self._ends[:0]])
        lacking = short_of_one_miss(residuals, self._foresight.missed)
        if not lacking.any():
            return np.zeros((0, self._n, len(lacking)), dtype=np.float32)
        bundled = bundles(self._target.coefficients(self._history.masks(slice(None))), self._scales(counted, 1.0))
        return (bundled[:, :, None] * lacking).astype(np.float32)

    @property
    def n_known(self) -> int:
        """Evaluations of earlier runs that are used."""
        return self._opened_by.n_known if self._opened_by else 0

    # --- epochs

    def _take_over(self, opening: Opening, rng: np.random.Generator) -> None:
        """Begin the first epoch where the opening ends: its utilities are known, and its estimate stays."""
        self._opening = None
        self._n_evaluations, self._n_draws = opening.n_evaluations, opening.n_evaluations - 2
        for size in np.flatnonzero(opening.complete[1 : self._n]) + 1:
            rows = np.flatnonzero(opening.sizes == size)
            whole = Coalitions.from_masks(opening.masks[rows])
            self._enumerated.add(int(size), whole, opening.values[rows], opening.proxies[rows])
        draws = Coalitions.from_masks(opening.masks[2:]), opening.values[2:], opening.proxies[2:]
        self._history.add(*draws, np.full(self._n_draws, -1))
        while self._end <= self._n_draws:
            self._end *= GROWTH
        if self._enumerated.all:
            return
        if (forecast := opening.forecast()) is not None:
            self._foresight.begin(forecast, self._enumerated.sampled)
        self._opened = opening.combined()
        spread = np.tile(opening.uncertainty(rng)[:, None], self._ends.shape[1])
        self._epoch = self._open(replace(self._look_ahead(), residual_spread=spread))

    def _open(self, outlook: Outlook, learned: Surrogate | None = None) -> Epoch:
        """Return an epoch without draws; what was `learned` before serves until its first fit."""
        n, q = self._n, self._ends.shape[1]
        epoch = Epoch(
            outlook,
            self._allocate(outlook.residual_spread),
            first=len(self._history),
            betas=np.broadcast_to(outlook.beta, (N_STREAMS, *outlook.beta.shape)),
            intercepts=np.broadcast_to(outlook.intercept, (N_STREAMS, *outlook.intercept.shape)),
            surrogate=learned,
            foreseen=self._foresight.player_values(self._target, self._enumerated.sampled),
            known=np.zeros((n, q)),
            total=np.zeros((n, q)),
            sums=np.zeros((PARTS, n, q), dtype=np.float32),
            counts=np.zeros(PARTS),
            explained=[],
            residuals=[],
            refit_at=0 if learned is None else self._next_fit(),
        )
        epoch.known = self._known(epoch)
        return epoch

    def _close(self) -> None:
        """End the epoch, and choose the sizes worth enumerating before the next one."""
        self._before, self._closed = self._epoch.summed(), self._epoch
        allocation = self._allocate(self._epoch.outlook.residual_spread)
        if self._epoch.counts.sum() >= LEAST_WEIGHED:
            self._choose_forecast()
        while self._end <= self._n_draws:  # a round may be larger than the first epochs
            self._end *= GROWTH
        # decided by what was known before the epoch: it determines how many draws the next one gets within a budget,
        # hence the weight of this one, which must not depend on its own draws
        planned = (GROWTH - 1) * self._n_draws
        expected = planned * allocation
        for short in range(1, self._n // 2 + 1):
            if comb(self._n, short) > planned:
                break
            for size in sorted({short, self._n - short}):
                if not self._enumerated.sizes[size - 1] and comb(self._n, short) <= expected[size - 1]:
                    self._to_enumerate.append(size)
        if not self._to_enumerate:
            self._epoch = self._following()

    def _choose_forecast(self) -> None:
        """Drop the opening's forecast if draws were predicted better without it; take up a sum if that is better."""
        if (without := self._foresight.weigh(self._epoch, self._sampled_base)) is not None:
            self._epoch = self._closed = without
        if self._may_add_up and (found := self._foresight.better_sum(self._epoch, self._sampled_base)) is not None:
            # the next epoch takes over the trust of this outlook
            self._epoch = replace(self._epoch, surrogate=None, outlook=self._look_ahead())
            self._foresight.take_up(found)

    @property
    def _sampled_base(self) -> Floats:
        """(n - 1,): `_base` where a size is still sampled."""
        return np.where(self._enumerated.sizes, 0.0, self._base)

    def _following(self) -> Epoch:
        """Return the next epoch, opened by all that is known."""
        outlook = self._look_ahead()
        # the previous epoch's surrogate serves until there is a better one: it has not seen this epoch; but with a
        # proxy, whose coefficients have changed, it would model something else
        return self._open(outlook, None if outlook.beta.size else self._epoch.surrogate)

    def _look_ahead(self) -> Outlook:
        """Return what all draws so far predict for the next epoch."""
        history, epoch = self._history, self._epoch
        beta = coefficients(history.sizes, history.values, history.proxies, self._base)
        values = beyond(history.unforeseen, history.proxies, beta)
        intercept, spread = self._proxy.mean_and_spread(history.sizes, values, self._foresight.unforeseen_ends)
        if epoch.surrogate is None:
            return Outlook(beta, intercept, spread, residual_spread=spread, trust=epoch.outlook.trust)
        sizes = history.sizes[epoch.owners(history.parts) >= 0]
        residuals, explained = np.concatenate(epoch.residuals), np.concatenate(epoch.explained)
        _, residual_spread = mean_and_spread(self._n, sizes, residuals, shape=self._proxy.spread)
        trust = epoch.surrogate.trust(sizes, explained, residuals + epoch.outlook.trust * explained)
        return Outlook(beta, intercept, spread, residual_spread, trust)

    def _allocate(self, spread: Floats) -> Floats:
        """Return q(s), proportional to gain(s) r(s) sqrt(s (n - s)) / sqrt(cost), a little of it without r.

        Several outputs count equally, each in units of its own error; the folds of the test rows do not.
        """
        base = self._sampled_base
        best = base[:, None] * spread[:, : self._n_stated]
        best = np.sqrt(((best / best.sum(axis=0)) ** 2).mean(axis=1))
        return EXPLORE * base / base.sum() + (1 - EXPLORE) * best / best.sum()

    # --- what a round adds

    def _add(self, coalitions: Coalitions, values: Floats, proxies: Floats, parts: Ints, fitted: Any = None) -> None:
        """Add the weighted residuals of draws to the epoch's sums; `fitted` is what the surrogate knows of them."""
        epoch, sizes, streams = self._epoch, coalitions.sizes, parts // N_REPLICATES
        residuals = beyond(values, proxies, epoch.betas[streams]) - epoch.intercepts[streams, sizes - 1]
        if epoch.surrogate is not None:
            explained = epoch.surrogate.explained(coalitions.masks(), sizes, streams, fitted)
            epoch.explained.append(explained)
            residuals -= epoch.outlook.trust * explained
        scale = 1 / epoch.allocation[sizes - 1]
        gains = scale * self._weights.gain[sizes - 1]
        shifts = scale * self._weights.drift[sizes - 1] - gains * sizes / self._n
        moved = gains[:, None] * residuals, shifts[:, None] * residuals
        added = sums_by_part(coalitions, *moved, parts, self._n_folds)
        epoch.add(parts, residuals, added)

    def _refit(self) -> None:
        """Refit the surrogate to everything so far, and correct all draws of the epoch with it."""
        epoch, history = self._epoch, self._history
        owners = epoch.owners(history.parts)
        unforeseen, ends = history.unforeseen, self._foresight.unforeseen_ends
        betas, intercepts = [], []
        for stream in range(N_STREAMS):
            others = owners != stream
            sizes, utilities, proxies = history.sizes[others], unforeseen[others], history.proxies[others]
            beta = coefficients(sizes, utilities, proxies, self._base)
            intercept, _ = self._proxy.mean_and_spread(sizes, beyond(utilities, proxies, beta), ends)
            betas.append(beta)
            intercepts.append(intercept)
        epoch.betas, epoch.intercepts = np.stack(betas), np.stack(intercepts)
        fitted = np.full((len(history), self._n_stated), np.nan, dtype=np.float32)
        if self._learning:
            rows = evenly(len(history), surrogate.MOST_ROWS)
            sizes = history.sizes[rows]
            values = [beyond(unforeseen[rows], history.proxies[rows], beta) for beta in betas]
            epoch.surrogate = surrogate.cross_fit(
                history.masks(rows),
                sizes,
                np.stack(values) - epoch.intercepts[:, sizes - 1],
                owners[rows],
                epoch.outlook.spread,
                self._gram,
                epoch.surrogate,
                self._n_folds,
            )
            fitted[rows] = epoch.surrogate.fitted
        epoch.refit_at = self._next_fit()
        epoch.known = self._known(epoch)
        epoch.clear()
        for places, draws in history.draws_since(epoch.first):
            self._add(*draws, fitted[places])

    def _next_fit(self) -> int:
        """Return the rows of the history at which the surrogate is to be fitted again."""
        rows = len(self._history)
        return rows + int(REFIT[0] * rows if rows <= surrogate.DIRECT else REFIT[1] * self._n_draws)

    def _known(self, epoch: Epoch) -> Floats:
        """Return (n, q): the enumerated sizes and the closed form of what is subtracted, except the proxy."""
        sampled = self._enumerated.sampled
        beta, intercept = epoch.betas.mean(axis=0), epoch.intercepts.mean(axis=0)
        known = (
            epoch.foreseen
            + beyond(self._enumerated.values, self._enumerated.proxies, beta)
            + (self._weights.drift * sampled) @ intercept
        )
        if epoch.surrogate is not None:
            known += epoch.outlook.trust * epoch.surrogate.player_values(self._weights, sampled)
        return known

    def _take_enumerated(self, coalitions: Coalitions, values: Floats, proxies: Floats) -> None:
        """Add the exact contribution of a whole size, which is no longer sampled."""
        size = self._to_enumerate.pop(0)
        self._history.add(coalitions, values, proxies, np.full(len(values), -1), self._foresight(coalitions))
        self._enumerated.add(size, coalitions, values, proxies)
