"""A cheap game beside an expensive one: what it explains need not be sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.coalitions import Coalitions, draw_blocks
from fgsv.estimators.embedding import size_hats
from fgsv.estimators.history import History
from fgsv.estimators.sizes import mean_and_spread
from fgsv.evaluation import default_batch_size
from fgsv.game import Game, evaluate
from fgsv.valuation import Valuation

Floats = NDArray[np.float64]

MEAN_SAMPLE = 2048
"""Evaluations for the mean of a proxy at each size."""
_BAND_SPREAD = 0.5
"""How far the coefficient of a band of sizes is expected from that of all, relative to it."""


@dataclass(frozen=True, eq=False)
class Proxy:
    """A cheap game that resembles the one to be valued: its mean at each size, and how it departs from that.

    The departures come in k bands of sizes, each a game of its own, worth nothing at both ends, with known values.
    """

    evaluate: Callable[[Coalitions], Floats]
    """(m,) coalitions -> (m, k, q) departures"""
    mean: Floats
    """(n + 1, q) for the sizes 0..n, about"""
    values: Floats
    """(n, k, q): the players' values of the departures."""
    deviations: NDArray[np.float32] | None = None
    """(R, n, k, q): the error of these, where they are estimates."""

    @classmethod
    def nothing(cls, n_players: int, n_outputs: int) -> Proxy:
        """Return no proxy at all, which is one of no bands."""
        empty = np.zeros((n_players, 0, n_outputs))
        flat = np.zeros((n_players + 1, n_outputs))
        return cls(lambda coalitions: np.zeros((len(coalitions), 0, n_outputs)), flat, empty)


def value_proxy(
    game: Game, n_outputs: int, closed_form: ArrayLike | None, run: Callable[[Game], Valuation], seed: int
) -> Proxy:
    """Return a proxy with its own values: in closed form where it has one, else from a long `run` of its own.

    Such a run values the proxy in bands of sizes: it may resemble the game at some sizes more than at others.
    """
    n, q = game.n_players, n_outputs
    sizes = np.linspace(1, n - 1, MEAN_SAMPLE).astype(np.int64)
    sample, _ = draw_blocks(n, sizes, np.random.default_rng([seed, 2**62]))  # no round has this number

    def evaluated(coalitions: Coalitions) -> Floats:
        rows = default_batch_size(n)
        batches = [coalitions[start : start + rows] for start in range(0, len(coalitions), rows)]
        values = np.concatenate([evaluate(game, batch) for batch in batches])
        if values.shape[1] not in (1, q):
            raise ValueError(f"the proxy has {values.shape[1]} outputs; the game has {q}")
        return np.broadcast_to(values, (len(values), q))

    first, last = evaluated(Coalitions.ends(n))
    curve, _ = mean_and_spread(n, sizes, evaluated(sample), np.stack([first, last]))
    mean = np.concatenate([[first], curve, [last]])

    def departures(coalitions: Coalitions) -> Floats:
        bands = np.ones((len(coalitions), 1))
        if closed_form is None and n > 2:
            bands = size_hats(n, np.clip(coalitions.sizes, 1, n - 1)).astype(float)
        return bands[:, :, None] * (evaluated(coalitions) - mean[coalitions.sizes])[:, None, :]

    if closed_form is not None:
        # what depends on the size alone is shared equally
        values = np.asarray(closed_form, dtype=float).reshape(n, -1) - (last - first) / n
        return Proxy(departures, mean, values[:, None, :])
    own = run(
        Game(
            lambda masks: departures(Coalitions.from_masks(masks)).reshape(len(masks), -1),
            n,
            evaluate_lists=lambda coalitions: departures(coalitions).reshape(len(coalitions), -1),
        )
    )
    assert own.player_values is not None
    values = own.player_values.reshape(n, -1, q)
    deviations = None if own.deviations is None else own.deviations.reshape(-1, *values.shape)
    return Proxy(departures, mean, values, deviations)


def beyond(values: Floats, proxies: Floats, beta: Floats) -> Floats:
    """Return what the proxies (m, k, q), with coefficients (k, q), leave of the (m, q) values."""
    return values - np.einsum("mkq,kq->mq", proxies, beta)


def coefficients(history: History, base: Floats) -> Floats:
    """Return the (k, q) coefficients of the proxy that leave the least variance within sizes.

    One for each band of sizes, shrunken to the one that is best for all, the more the less that one explains.
    """
    n, (m, k, q) = len(base) + 1, history.proxies.shape
    if k == 0:
        return np.zeros((0, q))

    def within(values: Floats) -> Floats:
        return values - mean_and_spread(n, history.sizes, values)[0][history.sizes - 1]

    utilities, proxies = within(history.values), within(history.proxies.reshape(m, -1)).reshape(m, k, q)
    weights = base[history.sizes - 1]
    squares = np.einsum("m,mkq,mlq->qkl", weights, proxies, proxies, optimize=True)
    products = np.einsum("m,mkq,mq->qk", weights, proxies, utilities, optimize=True)
    variance = squares.sum(axis=(1, 2))
    # a proxy that depends on the size alone has no variance within sizes but rounding
    constant = variance <= 1e-12 * (weights[:, None] * history.proxies.sum(axis=1) ** 2).sum(axis=0)
    one = np.where(constant, 0.0, products.sum(axis=1) / np.where(constant, 1.0, variance))
    left = (weights[:, None] * (utilities - one * proxies.sum(axis=1)) ** 2).mean(axis=0)
    beta = np.tile(one, (k, 1))
    for output in np.flatnonzero(one):
        ridge = left[output] / (_BAND_SPREAD * one[output]) ** 2 + 1e-12 * variance[output]
        gap = products[output] - squares[output].sum(axis=1) * one[output]
        beta[:, output] += np.linalg.solve(squares[output] + ridge * np.eye(k), gap)
    return beta
