"""The estimator of the default method: an opening, then epochs of growing length, in streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions, draw_blocks
from fgsv.estimators.covariance import surrogate
from fgsv.estimators.covariance.correction import Correction, opening_share, with_opening
from fgsv.estimators.covariance.epochs import N_REPLICATES, N_STREAMS, PARTS, Epoch, Outlook, Sums
from fgsv.estimators.covariance.forecast import Additive, Forecast, expected_error, learned_without, ratios
from fgsv.estimators.covariance.gains import learned, predicted_in
from fgsv.estimators.covariance.history import History, evenly
from fgsv.estimators.covariance.influence import bundles, scales
from fgsv.estimators.covariance.opening import Opening
from fgsv.estimators.covariance.proxy import Proxy, beyond, coefficients
from fgsv.estimators.covariance.sizes import mean_and_spread
from fgsv.estimators.covariance.sums import check_finite, sums_by_part
from fgsv.estimators.covariance.surrogate import Surrogate
from fgsv.estimators.covariance.target import Target, in_groups
from fgsv.estimators.method import Draws, Problem
from fgsv.partition import Partition
from fgsv.semivalue import SHAPLEY, SizeWeights
from fgsv.types import Floats, Ints
from fgsv.valuation import Estimate

if TYPE_CHECKING:
    from fgsv.estimators.covariance.covariance import Covariance

GROWTH = 4
"""An epoch ends when the draws of the run have grown by this factor."""
FRESHNESS = 2.0
"""Weight of a draw relative to one of the previous epoch, whose allocation and surrogate were worse; at least."""
EXPLORE = 0.05
"""Fraction of the draws whose sizes do not depend on earlier values."""
REFIT = 0.5, 0.75
"""The surrogate is fitted again after this fraction of the rows so far, or of the draws once fits take longer."""
LEAST_WEIGHED = 256
"""Draws of an epoch that can tell whether a forecast is of use."""
WORTH_A_SUM = 1.25
"""A sum becomes the forecast if it divides the error that was left by at least this; on noise it does not."""


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
        self._settings, self._n, self._ends, self._n_evaluations = settings, n, problem.ends, 2
        self._opening = self._record = opening
        self._opened: tuple[Correction, Floats] | None = None  # the estimate of the opening, once that has ended
        self._proxy = proxy or Proxy.nothing(n, q)
        n_bands = self._proxy.values.shape[1]
        self._efficient = problem.semivalue == SHAPLEY
        self._weights = SizeWeights.of(problem.semivalue, n)
        self._sizes, self._target = np.arange(1, n), Target.of(problem.semivalue, n)
        self._forecast: Forecast | Additive | None = None
        # whether that of the opening was judged, by how much it is off, and the weight of a draw of the epoch
        self._weighed, self._missed, self._freshness = False, np.zeros(q), FRESHNESS
        cost = np.ones(n - 1) if problem.cost is None else np.asarray(problem.cost(self._sizes), dtype=float)
        self._base = self._weights.gain * np.sqrt(self._sizes * (n - self._sizes)) / np.sqrt(cost)
        self._learning = settings.surrogate and 4 <= n <= surrogate.MOST_PLAYERS
        self._fitting = self._learning or (n_bands > 0 and n <= surrogate.MOST_PLAYERS)
        self._may_add_up = self._learning and not n_bands and not settings.whole_rounds
        self._history = History(n, q, n_bands, keep_masks=n <= surrogate.MOST_PLAYERS)
        self._gram = surrogate.Gram()
        self._exact = np.zeros((n, q))  # what the enumerated sizes contribute
        self._exact_proxy = np.zeros((n, n_bands, q))
        self._enumerated = np.zeros(n - 1, dtype=bool)
        self._to_enumerate: list[int] = []
        self._announced: Epoch | None = None
        self._n_draws, self._end = 0, PARTS
        self._n_permutations = np.zeros(N_STREAMS, dtype=np.int64)
        self._closed: Epoch | None = None  # the epoch whose sums are those before the current one
        self._share = np.zeros(q)  # the weight of the opening in the last estimate
        self._before = Sums(0.0, np.zeros((n, q)), np.zeros((n_bands, q)), np.zeros((PARTS, n, q), dtype=np.float32))
        if n > 1:
            rise = problem.ends[1] - problem.ends[0]
            straight = problem.ends[0] + np.outer(self._sizes / n, rise)
            spread = np.where(rise == 0, 1.0, np.abs(rise)) * self._proxy.spread
            self._epoch = self._open(Outlook(np.zeros((n_bands, q)), straight, spread, spread, trust=np.ones(q)))

    def draw(self, rng: np.random.Generator) -> Draws | None:
        """Draw a round: of the opening, every coalition of a size, or of the current epoch."""
        if self._opening is not None:
            if self._opening.n_evaluations < self._opening.end:
                return self._opening.draw(rng)
            self._take_over(self._opening, rng.spawn(1)[0])
        if self._enumerated.all():
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
        count, n_permutations = (
            self._settings.draws_per_round(self._n_draws, self._n) // N_STREAMS,
            self._n_permutations,
        )
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
            if not self._to_enumerate and not self._enumerated.all():
                self._epoch = self._following()
            return
        if self._to_enumerate:  # the budget had no room for it
            self._to_enumerate.clear()
            self._epoch = self._without
        self._history.add(draws.coalitions, values, proxies, draws.plan, self._foresee(draws.coalitions))
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
        if self._enumerated.all():
            return Estimate(constant + self._exact, exact=True, efficient=self._efficient)
        counted = self._counted()
        epochs = [sums for _, sums in counted]
        mass = sum(epoch.mass for epoch in epochs) or 1.0
        totals, beta = np.zeros_like(self._exact), np.zeros_like(self._before.betas)
        deviations = np.zeros_like(self._before.deviations)
        for epoch in epochs:
            totals += epoch.totals
            beta += epoch.betas / mass
            deviations += epoch.deviations
        totals /= mass
        deviations *= np.float32(1 / mass)
        deviations = np.concatenate([deviations, self._of_one_miss(counted)])
        freedom = float(max(1, min(PARTS, self._n_draws) - N_STREAMS))
        if self._opened is not None:
            (opened, its_beta), share = self._opened, np.ones(self._exact.shape[1])
            if any(epoch.knows_its_error for epoch in epochs):
                share = opening_share(opened.deviations, deviations.astype(float))
            self._share = share
            totals, beta = (1 - share) * totals + share * opened.values, (1 - share) * beta + share * its_beta
            deviations, freedom = with_opening(share, opened, deviations, freedom)
        values = constant + totals + (self._proxy.values * beta).sum(axis=1)
        check_finite(values)
        deviations = self._proxy.add_errors(deviations, beta)
        history, before = self._history, self._opened and self._opened[0]
        predicted = predicted_in(history, self._forecast, [self._epoch, self._closed], before)
        found = learned(predicted, self._ends, history.sizes, history.values, self._weights, deviations)
        return Estimate(values, deviations, None, freedom, efficient=self._efficient, learned=found)

    def _counted(self) -> list[tuple[Epoch | None, Sums]]:
        """Return the epochs that an estimate combines, with their sums.

        An epoch with too few draws to know its error is left out if the other one knows its own.
        """
        epochs = [(self._closed, self._before), (self._epoch, self._summed(self._freshness))]
        return [(epoch, sums) for epoch, sums in epochs if sums.knows_its_error] or epochs

    def influence(self, partition: Partition) -> Floats | None:
        """Return (m, K): how much each draw moves each group's value, all else held fixed; None if unknown."""
        if self._opening is not None:
            return self._opening.influence(partition)
        if self._n > surrogate.MOST_PLAYERS or self._exact.shape[1] > 1:
            return None
        self.estimate()
        counted = [] if self._enumerated.all() else self._counted()
        scaled = self._scales(counted, 1 - self._share)
        found = scaled[:, None] * in_groups(partition, self._history.masks(slice(None)), self._weights)
        if self._record is not None and counted:
            found[: self._record.n_evaluations - 2] += self._share * self._record.corrections_by(partition)
        return found

    def _scales(self, counted: list[tuple[Epoch | None, Sums]], share: Floats | float) -> Floats:
        """Return (m,): the factor of each draw's coefficients, where the epochs have this share in the estimate."""
        mass = sum(sums.mass for _, sums in counted) or 1.0
        shares = [(epoch, share * sums.mass / mass) for epoch, sums in counted if epoch is not None]
        return scales(self._history, shares, self._enumerated, self._record)

    def _of_one_miss(self, counted: list[tuple[Epoch | None, Sums]]) -> NDArray[np.float32]:
        """Return (R, n, q): deviations of one miss as large as in the opening, if the draws missed less, by luck."""
        epochs = {id(epoch): epoch for epoch, _ in counted if epoch is not None}  # both may be the closed one
        residuals = np.concatenate([*(each for epoch in epochs.values() for each in epoch.residuals), self._ends[:0]])
        lacking = (self._missed**2 - (residuals**2).sum(axis=0)) / max(1, len(residuals))
        if not (lacking > 0).any():
            return np.zeros((0, *self._exact.shape), dtype=np.float32)
        bundled = bundles(self._target.coefficients(self._history.masks(slice(None))), self._scales(counted, 1.0))
        return (bundled[:, :, None] * np.sqrt(np.maximum(0.0, lacking))).astype(np.float32)

    @property
    def n_known(self) -> int:
        """Evaluations of earlier runs that are used."""
        return self._record.n_known if self._record else 0

    # --- epochs

    def _take_over(self, opening: Opening, rng: np.random.Generator) -> None:
        """Begin the first epoch where the opening ends: its utilities are known, and its estimate stays."""
        self._opening = None
        self._n_evaluations, self._n_draws = opening.n_evaluations, opening.n_evaluations - 2
        for size in np.flatnonzero(opening.complete[1 : self._n]) + 1:
            rows = np.flatnonzero(opening.sizes == size)
            whole = Coalitions.from_masks(opening.masks[rows])
            self._add_exact(int(size), whole, opening.values[rows], opening.proxies[rows])
        self._forecast = None if self._enumerated.all() else opening.forecast()
        forecasts = None if self._forecast is None else self._forecast.left_out[2 : opening.n_evaluations]
        draws = Coalitions.from_masks(opening.masks[2:]), opening.values[2:], opening.proxies[2:]
        self._history.add(*draws, np.full(self._n_draws, -1), forecasts)
        if forecasts is not None:
            sampled = ~self._enumerated[self._history.sizes - 1]
            self._missed = np.sqrt((self._history.unforeseen[sampled] ** 2).mean(axis=0))
        while self._end <= self._n_draws:
            self._end *= GROWTH
        if self._enumerated.all():
            return
        self._opened = opening.combined()
        spread = np.tile(opening.uncertainty(rng)[:, None], self._ends.shape[1])
        self._epoch = self._open(replace(self._look_ahead(), residual_spread=spread))

    def _foresee(self, coalitions: Coalitions) -> Floats | None:
        """Return what is forecast of coalitions, if there is a forecast."""
        return None if self._forecast is None else self._forecast(coalitions.masks())

    @property
    def _unforeseen_ends(self) -> Floats:
        forecasts = self._foresee(Coalitions.ends(self._n))
        return self._ends if forecasts is None else self._ends - forecasts

    def _open(self, outlook: Outlook, learned: Surrogate | None = None) -> Epoch:
        n, q = self._exact.shape
        nothing, sampled = np.zeros((n, q)), ~self._enumerated
        epoch = Epoch(
            outlook,
            self._allocate(outlook.residual_spread),
            first=len(self._history),
            betas=np.broadcast_to(outlook.beta, (N_STREAMS, *outlook.beta.shape)),
            intercepts=np.broadcast_to(outlook.intercept, (N_STREAMS, *outlook.intercept.shape)),
            surrogate=learned,
            foreseen=nothing if self._forecast is None else self._forecast.player_values(self._target, sampled),
            known=nothing,
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
        self._before, self._closed = self._summed(), self._epoch
        if self._epoch.counts.sum() >= LEAST_WEIGHED:
            if isinstance(self._forecast, Forecast) and not self._weighed:
                self._weigh_forecast()
            if self._may_add_up:
                self._try_additive()
        while self._end <= self._n_draws:  # a round may be larger than the first epochs
            self._end *= GROWTH
        # decided by what was known before the epoch: it determines how many draws the next one gets within a budget,
        # hence the weight of this one, which must not depend on its own draws
        planned = (GROWTH - 1) * self._n_draws
        expected = planned * self._allocate(self._epoch.outlook.residual_spread)
        for short in range(1, self._n // 2 + 1):
            if comb(self._n, short) > planned:
                break
            for size in sorted({short, self._n - short}):
                if not self._enumerated[size - 1] and comb(self._n, short) <= expected[size - 1]:
                    self._to_enumerate.append(size)
        if not self._to_enumerate:
            self._epoch = self._following()

    def _weigh_forecast(self) -> None:
        """Keep the forecast only if the draws of the epoch are predicted better with it than without."""
        self._weighed = True
        ends = self._unforeseen_ends, self._ends
        if (without := learned_without(self._history, self._epoch, *ends, self._sampled_base)) is not None:
            self._forecast, self._epoch, self._closed = None, without, without
            self._history.foresee(None)

    @property
    def _sampled_base(self) -> Floats:
        """(n - 1,): `_base` where a size is still sampled."""
        return np.where(self._enumerated, 0.0, self._base)

    def _try_additive(self) -> None:
        """Forecast by what each player adds, if that leaves far less than what was learned in the epoch."""
        history, epoch, base = self._history, self._epoch, self._sampled_base
        drawn = history.sizes[epoch.first :][history.parts[epoch.first :] >= 0]
        found = Additive.of(history, self._ends)
        left = expected_error(self._n, history.sizes, history.values - found.left_out, base)
        gain = ratios(
            expected_error(self._n, drawn, np.concatenate(epoch.residuals), base), left, history.values, base
        )
        self._freshness = FRESHNESS
        if len(gain) and np.log(gain).mean() > np.log(WORTH_A_SUM) and gain.min() > 1 / WORTH_A_SUM:
            self._epoch = replace(epoch, surrogate=None, outlook=self._look_ahead())  # whose trust the next one has
            self._forecast, self._freshness = found, max(FRESHNESS, float(gain.min()) ** 2)
            history.foresee(found.left_out)

    def _following(self) -> Epoch:
        """Return the next epoch, opened by all that is known."""
        outlook = self._look_ahead()
        # the previous epoch's surrogate serves until there is a better one: it has not seen this epoch; but with a
        # proxy, whose coefficients have changed, it would model something else
        return self._open(outlook, None if outlook.beta.size else self._epoch.surrogate)

    def _summed(self, weight: float = 1.0) -> Sums:
        """Return the sums of the current epoch, and the deviation of each replicate from the mean of its stream.

        Each draw counts as `weight` draws.
        """
        epoch = self._epoch
        count = weight * epoch.counts.sum()
        by_stream = epoch.counts.reshape(N_STREAMS, N_REPLICATES)
        fraction = (by_stream / np.maximum(by_stream.sum(axis=1, keepdims=True), 1)).astype(np.float32)
        deviations = np.empty(epoch.sums.shape, dtype=np.float32)
        for stream in range(N_STREAMS):
            parts = slice(stream * N_REPLICATES, (stream + 1) * N_REPLICATES)
            total = epoch.sums[parts].sum(axis=0)
            # the mean is the replicates' own: 1 - sum of squares is (R - 1) / R where they are equal
            freedom = 1 - float((fraction[stream] ** 2).sum())
            scale = np.float32(weight / np.sqrt(freedom) if freedom > 1e-6 else np.nan)
            deviations[parts] = scale * (epoch.sums[parts] - fraction[stream][:, None, None] * total)
        totals = weight * epoch.total + count * epoch.known
        return Sums(count, totals, count * epoch.betas.mean(axis=0), deviations)

    def _look_ahead(self) -> Outlook:
        """Return what all draws so far predict for the next epoch."""
        history, epoch = self._history, self._epoch
        beta = coefficients(history.sizes, history.values, history.proxies, self._base)
        values = beyond(history.unforeseen, history.proxies, beta)
        intercept, spread = self._proxy.mean_and_spread(history.sizes, values, self._unforeseen_ends)
        if epoch.surrogate is None:
            return Outlook(beta, intercept, spread, residual_spread=spread, trust=epoch.outlook.trust)
        sizes = history.sizes[epoch.first :][history.parts[epoch.first :] >= 0]
        residuals, explained = np.concatenate(epoch.residuals), np.concatenate(epoch.explained)
        _, residual_spread = mean_and_spread(self._n, sizes, residuals, shape=self._proxy.spread)
        trust = epoch.surrogate.trust(sizes, explained, residuals + epoch.outlook.trust * explained)
        return Outlook(beta, intercept, spread, residual_spread, trust)

    def _allocate(self, spread: Floats) -> Floats:
        """Return q(s), proportional to gain(s) r(s) sqrt(s (n - s)) / sqrt(cost), a little of it without r.

        Several outputs count equally, each in units of its own error.
        """
        base = self._sampled_base
        best = base[:, None] * spread
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
        added = sums_by_part(coalitions, gains[:, None] * residuals, shifts[:, None] * residuals, parts)
        for rows, sums in added:
            epoch.sums[rows] += sums
            epoch.total += sums.sum(axis=0)
        epoch.counts += np.bincount(parts, minlength=PARTS)
        epoch.residuals.append(residuals)

    def _refit(self) -> None:
        """Refit the surrogate to everything so far, and correct all draws of the epoch with it."""
        epoch, history = self._epoch, self._history
        owners = history.parts.astype(np.int64) // N_REPLICATES
        owners[: epoch.first] = -1
        unforeseen, ends = history.unforeseen, self._unforeseen_ends
        betas, intercepts = [], []
        for stream in range(N_STREAMS):
            others = owners != stream
            sizes, utilities, proxies = history.sizes[others], unforeseen[others], history.proxies[others]
            beta = coefficients(sizes, utilities, proxies, self._base)
            intercept, _ = self._proxy.mean_and_spread(sizes, beyond(utilities, proxies, beta), ends)
            betas.append(beta)
            intercepts.append(intercept)
        epoch.betas, epoch.intercepts = np.stack(betas), np.stack(intercepts)
        fitted = np.full(history.values.shape, np.nan, dtype=np.float32)
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
            )
            fitted[rows] = epoch.surrogate.fitted
        epoch.refit_at = self._next_fit()
        epoch.known = self._known(epoch)
        epoch.total[:] = 0
        epoch.sums[:] = 0
        epoch.counts[:] = 0
        epoch.explained.clear()
        epoch.residuals.clear()
        for places, draws in history.draws_since(epoch.first):
            self._add(*draws, fitted[places])

    def _next_fit(self) -> int:
        rows = len(self._history)
        return rows + int(REFIT[0] * rows if rows <= surrogate.DIRECT else REFIT[1] * self._n_draws)

    def _known(self, epoch: Epoch) -> Floats:
        """Return (n, q): the enumerated sizes and the closed form of what is subtracted, except the proxy."""
        sampled = ~self._enumerated
        beta, intercept = epoch.betas.mean(axis=0), epoch.intercepts.mean(axis=0)
        known = (
            epoch.foreseen
            + beyond(self._exact, self._exact_proxy, beta)
            + (self._weights.drift * sampled) @ intercept
        )
        if epoch.surrogate is not None:
            known += epoch.outlook.trust * epoch.surrogate.player_values(self._weights, sampled)
        return known

    def _take_enumerated(self, coalitions: Coalitions, values: Floats, proxies: Floats) -> None:
        """Add the exact contribution of a whole size, which is no longer sampled."""
        size = self._to_enumerate.pop(0)
        self._history.add(coalitions, values, proxies, np.full(len(values), -1), self._foresee(coalitions))
        self._add_exact(size, coalitions, values, proxies)

    def _add_exact(self, size: int, coalitions: Coalitions, values: Floats, proxies: Floats) -> None:
        gain, drift = self._weights.gain[size - 1], self._weights.drift[size - 1]
        for exact, utilities in ((self._exact, values), (self._exact_proxy, proxies.reshape(len(values), -1))):
            mean = utilities.mean(axis=0)  # this cancels, and subtracting it first loses fewer digits
            gains = gain / len(values) * (utilities - mean)
            one = np.zeros(len(values), dtype=np.int64)
            [(_, sums)] = sums_by_part(coalitions, gains, -size / self._n * gains, one)
            exact += (sums[0] + drift * mean).reshape(exact.shape)
        self._enumerated[size - 1] = True
