"""Proxies: what a cheap game explains of an expensive one need not be sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions, draw_blocks
from fgsv.game import GameError
from fgsv.methods.covariance.embedding import size_hats
from fgsv.methods.covariance.sizes import mean_and_spread
from fgsv.methods.method import Evaluate
from fgsv.types import Floats, Ints
from fgsv.valuation.units import unit_of

if TYPE_CHECKING:
    from fgsv.methods.method import Estimator


MEAN_SAMPLE = 2048
"""Evaluations for the mean of a proxy at each size."""
AHEAD = 128
"""Evaluations of a proxy's own run, at least this many times those of the game; at most twice as many."""
ENOUGH = 200_000
"""Limit on the evaluations of a proxy's own run, unless the game's is longer."""
_BAND_SPREAD = 0.5
"""Expected deviation of a band's coefficient from the overall one, relative to it."""
_MOST_BANDED = 4096
"""Beyond this many players one coefficient serves all sizes, to use the memory of one game only."""


@dataclass(eq=False)
class Proxy:
    """A cheap game that resembles the one to be valued: its mean at each size, and its departures from that.

    The departures are split into k bands of sizes, each a separate game worth nothing at both ends.
    """

    evaluate: Callable[[Coalitions], Floats]
    """(m,) coalitions -> (m, k, q) departures"""
    mean: Floats
    """(n + 1, q) for the sizes 0..n, from a sample: any curve would do, a better one leaves smaller departures."""
    spread: Floats
    """(n - 1, q): the expected relative spread of the game at each size, one on average."""
    values: Floats
    """(n, k, q): the players' values of the departures."""
    deviations: NDArray[np.floating] | None = None
    """(R, n, k, q): their errors, if they are estimates."""
    own_run: _OwnRun | None = None
    """The run that improves them, if they are estimates."""

    @classmethod
    def nothing(cls, n_players: int, n_outputs: int) -> Proxy:
        """Return the absence of a proxy: one without bands."""
        empty = np.zeros((n_players, 0, n_outputs))
        flat = np.zeros((n_players + 1, n_outputs))
        return cls(lambda coalitions: np.zeros((len(coalitions), 0, n_outputs)), flat, np.ones_like(flat[2:]), empty)

    def mean_and_spread(self, sizes: Ints, values: Floats, ends: Floats) -> tuple[Floats, Floats]:
        """Return h(s) and r(s) of a game, with h a multiple of the proxy's mean and a curve that is learned."""
        mean = self.mean
        guide = mean[sizes] - mean[sizes].mean(axis=0)
        squares = (guide**2).sum(axis=0)
        flat = squares <= 1e-12 * (mean[sizes] ** 2).sum(axis=0)  # the rest is rounding
        size_effect = np.where(flat, 0.0, (guide * values).sum(axis=0) / np.where(flat, 1.0, squares))
        values = values - size_effect * mean[sizes]
        rest, spread = mean_and_spread(len(mean) - 1, sizes, values, ends - size_effect * mean[[0, -1]], self.spread)
        return rest + size_effect * mean[1:-1], spread

    def add_errors(self, deviations: NDArray[np.floating], beta: Floats) -> NDArray[np.floating]:
        """Return deviations of an estimate with those of the proxy's own values, `beta` (k, q) times, below them."""
        if self.deviations is None:
            return deviations
        return np.concatenate([deviations, np.einsum("rnkq,kq->rnq", self.deviations, beta)])

    def keep_ahead(self, n_evaluations: int) -> None:
        """Continue the proxy's own run until its error is small compared with the game's after `n_evaluations`."""
        rounded = 1 << (n_evaluations - 1).bit_length()
        wanted = max(rounded, min(AHEAD * rounded, ENOUGH))
        if self.own_run is None or self.own_run.spent >= wanted:
            return
        values, deviations = self.own_run.after(wanted)
        self.values = values.reshape(self.values.shape)
        self.deviations = None if deviations is None else deviations.reshape(-1, *self.values.shape)


class _OwnRun:
    """A run that values the departures of a proxy, and continues on demand."""

    def __init__(self, estimator: Estimator, departures: Callable[[Coalitions], Floats], seed: int) -> None:
        self._estimator, self._departures, self._seed = estimator, departures, seed
        self._numbers = count()
        self.spent = 0

    def after(self, n_evaluations: int) -> tuple[Floats, NDArray[np.floating] | None]:
        """Return (n, k q) values and their deviations after at least this many evaluations, or all coalitions."""
        while self.spent < n_evaluations:
            # a seed that no round of the game's run has: with the same draws, the errors of both would be correlated
            draws = self._estimator.draw(np.random.default_rng([self._seed, next(self._numbers), 1]))
            if draws is None:
                break
            self._estimator.update(draws, self._departures(draws.coalitions).reshape(len(draws.coalitions), -1))
            self.spent += len(draws.coalitions)
        estimate = self._estimator.estimate()
        return estimate.values, estimate.deviations


def value_proxy(
    evaluate: Evaluate,
    n_players: int,
    n_outputs: int,
    n_folds: int,
    closed_form: Floats | None,
    start: Callable[[Floats], Estimator],
    seed: int,
) -> Proxy:
    """Return a proxy with its values in closed form if it has one, else with its own run to estimate them.

    `evaluate` evaluates the proxy, which says nothing about the `n_folds` last outputs of the game; `start` makes an
    estimator for a game, given its values at both ends. Such a run values the proxy in bands of sizes: it may
    resemble the game at some sizes more than at others.
    """
    n, stated = n_players, n_outputs - n_folds
    sizes = 1 + np.arange(MEAN_SAMPLE) * (n - 1) // MEAN_SAMPLE
    sample, _ = draw_blocks(n, sizes, np.random.default_rng([seed, 2**62]))  # no round has this number

    def beside_folds(values: Floats) -> Floats:
        return np.pad(np.broadcast_to(values, (len(values), stated)), ((0, 0), (0, n_folds)))

    def evaluated(coalitions: Coalitions) -> Floats:
        try:
            values = evaluate(coalitions)
        except GameError as error:
            raise GameError(f"in the proxy: {error}") from error
        if values.shape[1] not in (1, stated):
            raise ValueError(f"the proxy has {values.shape[1]} outputs; the game has {stated}")
        return beside_folds(values)

    ends, drawn = evaluated(Coalitions.ends(n)), evaluated(sample)
    unit = unit_of(np.concatenate([ends, drawn]))  # its scale is its own: coefficients adapt to it
    curve, spread = mean_and_spread(n, sizes, drawn / unit, ends / unit)
    mean = np.concatenate([ends[:1] / unit, curve, ends[1:] / unit])
    banded = closed_form is None and 2 < n <= _MOST_BANDED

    def departures(coalitions: Coalitions) -> Floats:
        bands = np.ones((len(coalitions), 1))
        if banded:
            bands = size_hats(n, np.clip(coalitions.sizes, 1, n - 1)).astype(float)
        return bands[:, :, None] * (evaluated(coalitions) / unit - mean[coalitions.sizes])[:, None, :]

    if closed_form is not None:
        if closed_form.shape[1] not in (1, stated):
            raise ValueError(f"proxy.shapley has {closed_form.shape[1]} outputs; the game has {stated}")
        closed_form = beside_folds(closed_form)
        rise = ends[1] - ends[0]
        check_adds_up(closed_form, rise, "proxy")
        values = (closed_form - rise / n) / unit  # a part that depends only on the size is shared equally
        return Proxy(departures, mean, _expected_spread(spread, mean), values[:, None, :])
    at_ends = departures(Coalitions.ends(n))
    own_run = _OwnRun(start(at_ends.reshape(2, -1)), departures, seed)
    return Proxy(departures, mean, _expected_spread(spread, mean), np.zeros((n, *at_ends.shape[1:])), own_run=own_run)


def _expected_spread(spread: Floats, mean: Floats) -> Floats:
    """Return the spread to expect of the game: half the proxy's, and half the same at all sizes.

    A proxy may vary where the game does not, and the game where the proxy does not.
    """
    # apart from rounding it depends only on the size
    constant = spread.max(axis=0) <= 1e-6 * np.abs(mean).max(axis=0)
    relative: Floats = np.where(constant, 1.0, spread / spread.mean(axis=0))
    return (1 + relative) / 2


def check_proxy(proxy: object, n_players: int) -> None:
    """Raise an error if a proxy is no game of this many players."""
    if not callable(proxy):
        raise TypeError(f"proxy must be a game of the same players, got {type(proxy).__name__}")
    if getattr(proxy, "n_players", n_players) != n_players:
        raise ValueError(f"the proxy has {proxy.n_players} players, but the game has {n_players}")  # type: ignore[attr-defined]
    closed_form_of(proxy, n_players)


def closed_form_of(proxy: object, n_players: int, called: str = "proxy") -> Floats | None:
    """Return the Shapley values that a proxy (or game) states, (n, 1) or (n, q), or None."""
    claimed = getattr(proxy, "shapley", None)
    if claimed is None:
        return None
    try:
        values = np.asarray(claimed, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(())
    if values.ndim not in (1, 2) or len(values) != n_players or not np.isfinite(values).all():
        raise ValueError(
            f"{called}.shapley must contain a finite number for each of the {n_players} players (and output), "
            f"got {type(claimed).__name__} of shape {values.shape}"
        )
    return values.reshape(n_players, -1)


def check_adds_up(values: Floats, rise: Floats, called: str) -> None:
    """Raise an error unless stated Shapley values (n, q) add up to U(N) - U(0), (q,)."""
    total = values.sum(axis=0)
    if (np.abs(total - rise) > 1e-6 * np.maximum(np.abs(values).sum(axis=0), np.abs(rise))).any():
        raise ValueError(
            f"{called}.shapley sums to {total}, but the {called} is worth {rise} more with all players than with "
            "none: these are not its Shapley values"
        )


def beyond(values: Floats, proxies: Floats, beta: Floats) -> Floats:
    """Return what the proxies (m, k, q) leave of the (m, q) values, with coefficients (k, q) or (m, k, q)."""
    return values - (proxies * beta).sum(axis=1)


def coefficients(sizes: Ints, values: Floats, proxies: Floats, base: Floats) -> Floats:
    """Return the (k, q) coefficients of the proxy that leave the least variance within sizes.

    One for each band of sizes, shrunk towards the best overall one, the more so the less that one explains.
    """
    n, (m, k, q) = len(base) + 1, proxies.shape
    if k == 0:
        return np.zeros((0, q))

    def within(columns: Floats) -> Floats:
        return columns - mean_and_spread(n, sizes, columns)[0][sizes - 1]

    weights = base[sizes - 1]
    size_of_proxy = (weights[:, None] * proxies.sum(axis=1) ** 2).sum(axis=0)
    utilities, proxies = within(values), within(proxies.reshape(m, -1)).reshape(m, k, q)
    squares = np.einsum("m,mkq,mlq->qkl", weights, proxies, proxies, optimize=True)
    products = np.einsum("m,mkq,mq->qk", weights, proxies, utilities, optimize=True)
    variance = squares.sum(axis=(1, 2))
    # the variance within sizes of a proxy that depends only on the size is rounding
    constant = variance <= 1e-12 * size_of_proxy
    one = np.where(constant, 0.0, products.sum(axis=1) / np.where(constant, 1.0, variance))
    left = (weights[:, None] * (utilities - one * proxies.sum(axis=1)) ** 2).mean(axis=0)
    beta = np.tile(one, (k, 1))
    for output in np.flatnonzero(one):
        ridge = left[output] / (_BAND_SPREAD * one[output]) ** 2 + 1e-12 * np.trace(squares[output])
        gap = products[output] - squares[output].sum(axis=1) * one[output]
        beta[:, output] += np.linalg.solve(squares[output] + ridge * np.eye(k), gap)
    return beta
