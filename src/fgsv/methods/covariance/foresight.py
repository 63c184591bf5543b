"""Which forecast serves an epoch: the opening's until it is judged, a sum over players, or none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.covariance.epochs import N_STREAMS, Epoch
from fgsv.methods.covariance.forecast import Additive, Forecast
from fgsv.methods.covariance.history import History
from fgsv.methods.covariance.sizes import mean_and_spread
from fgsv.methods.covariance.surrogate import Surrogate, cross_fit
from fgsv.methods.covariance.target import Target
from fgsv.types import Floats, Ints, Masks

FRESHNESS = 2.0
"""Weight of a draw relative to one of the previous epoch, whose allocation and surrogate were worse; at least."""
WORTH_A_SUM = 1.25
"""A sum becomes the forecast if it divides the error that was left by at least this; on noise it does not."""


class Foresight:
    """The forecast of the current epoch, if there is one, and what is known of its quality.

    Its methods take a `base` (n - 1,), which weighs the errors of sizes: zero where a size is no longer sampled.
    """

    def __init__(self, history: History, ends: Floats, n_folds: int = 0) -> None:
        self._history, self._ends, self._n_folds = history, ends, n_folds
        self.forecast: Forecast | Additive | None = None
        self.missed: Floats = np.zeros(ends.shape[1])
        """(q,): how far off the forecast of the opening was, a root mean square."""
        self.weighed = False
        """Whether the forecast of the opening was judged."""
        self.freshness = FRESHNESS
        """The weight of a draw of the current epoch relative to one of the epoch before."""

    def __call__(self, coalitions: Coalitions) -> Floats | None:
        """Return (m, q): what is forecast of coalitions, if there is a forecast."""
        return None if self.forecast is None else self.forecast(coalitions.masks())

    @property
    def unforeseen_ends(self) -> Floats:
        """(2, q): what the forecast leaves of the utilities at both ends."""
        forecasts = self(Coalitions.ends(self._history.n_players))
        return self._ends if forecasts is None else self._ends - forecasts

    def player_values(self, target: Target, sampled: Masks) -> Floats:
        """Return (n, q): the players' values of the forecast, from the sampled sizes, `sampled` (n - 1,)."""
        nothing = np.zeros((target.n, self._ends.shape[1]))
        return nothing if self.forecast is None else self.forecast.player_values(target, sampled)

    def begin(self, forecast: Forecast, sampled: Masks) -> None:
        """Take up the forecast of the opening, whose evaluations are the history so far."""
        history, self.forecast = self._history, forecast
        history.foresee(forecast.left_out[2 : 2 + len(history)])
        self.missed = np.sqrt((history.unforeseen[sampled[history.sizes - 1]] ** 2).mean(axis=0))

    def weigh(self, epoch: Epoch, base: Floats) -> Epoch | None:
        """Drop the forecast of the opening if the draws of the epoch are predicted better without it.

        Return the epoch as if nothing had been forecast; None if the forecast stays, or was judged before.
        """
        if self.weighed or not isinstance(self.forecast, Forecast):
            return None
        self.weighed = True
        without = _learned_without(self._history, epoch, self.unforeseen_ends, self._ends, base, self._n_folds)
        if without is not None:
            self.forecast = None
            self._history.foresee(None)
        return without

    def better_sum(self, epoch: Epoch, base: Floats) -> Additive | None:
        """Return what each player adds, if that leaves far less than what was learned in the epoch.

        Then draws of this epoch count for less beside those of the next.
        """
        history, self.freshness = self._history, FRESHNESS
        found, drawn = Additive.of(history, self._ends), epoch.owners(history.parts) >= 0
        before = _expected_error(history.n_players, history.sizes[drawn], np.concatenate(epoch.residuals), base)
        left = _expected_error(history.n_players, history.sizes, history.values - found.left_out, base)
        gain = _ratios(before, left, history.values, base, self._n_folds)
        if not len(gain) or np.log(gain).mean() <= np.log(WORTH_A_SUM) or gain.min() <= 1 / WORTH_A_SUM:
            return None
        self.freshness = max(FRESHNESS, float(gain.min()) ** 2)
        return found

    def take_up(self, found: Additive) -> None:
        """Forecast by a sum from now on, and as if it had been so for the whole history."""
        self.forecast = found
        self._history.foresee(found.left_out)


def _learned_without(
    history: History, epoch: Epoch, left: Floats, ends: Floats, base: Floats, n_folds: int
) -> Epoch | None:
    """Return an epoch as if nothing had been forecast, if what is learned then predicts its draws better; or None.

    The draws of each stream are predicted from the others, with the forecasts and without them. `left` (2, q) is what
    forecasts leave of the values at both `ends`.
    """
    n, sizes, masks = history.n_players, history.sizes, history.masks(slice(None))
    owners = epoch.owners(history.parts)
    drawn = owners >= 0

    def learn(values: Floats, ends: Floats) -> tuple[Surrogate, Floats, Floats, Floats]:
        mean, spread = mean_and_spread(n, sizes, values, ends)
        deviations = values - mean[sizes - 1]
        found = cross_fit(masks, sizes, np.stack([deviations] * N_STREAMS), owners, spread, n_folds=n_folds)
        explained = found.explained(masks[drawn], sizes[drawn], owners[drawn], found.fitted[drawn])
        residuals = deviations[drawn] - explained
        return found, explained, residuals, _expected_error(n, sizes[drawn], residuals, base)

    *_, error = learn(history.unforeseen, left)
    found, explained, residuals, without = learn(history.values, ends)
    ratio = _ratios(without, error, history.values, base, n_folds)
    if not len(ratio) or np.log(ratio).mean() >= 0:
        return None
    outlook = replace(epoch.outlook, trust=np.ones(len(without)))
    return replace(epoch, outlook=outlook, surrogate=found, explained=[explained], residuals=[residuals])


def _expected_error(n: int, sizes: Ints, residuals: Floats, base: Floats) -> Floats:
    """Return (q,): the sum over sizes of base(s) r(s), with r(s) the standard deviation of (m, q) residuals."""
    return np.asarray(base @ mean_and_spread(n, sizes, residuals)[1])


def _ratios(above: Floats, below: Floats, values: Floats, base: Floats, n_folds: int) -> Floats:
    """Return (k,): the ratio of two expected errors (q,) for each output of (m, q) values that varies, bounded.

    The last `n_folds` outputs do not count.
    """
    above, below, values = (each[..., : each.shape[-1] - n_folds] for each in (above, below, values))
    spread = np.ptp(values, axis=0)
    varies = spread > 1e-9 * np.abs(values).max(axis=0)
    least = 1e-9 * base.sum() * spread[varies]
    return np.clip(np.maximum(above[varies], least) / np.maximum(below[varies], least), 1e-3, 1e3)
