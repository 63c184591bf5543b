"""Games that are not deterministic: the error of their training seeds, and a warning if nothing states the seeds."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fgsv.coalitions import Coalitions, describe, log_choose
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.views import View
from fgsv.game import Game, GameError, trained_again
from fgsv.semivalue import Semivalue, SizeWeights
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import INTERRUPTED, Valuation
from fgsv.valuation.seed_noise import SeedNoise
from fgsv.valuation.settings import failure_value

PART = 32
"""For every so many evaluations of the run, U(N) is trained once more, and one other coalition twice."""
FEWEST, MOST = 8, 32
SLOTS = 2**16
"""Coalitions remembered, each in the slot of its key until another one takes it: 1 MiB."""
TOLERANCE = 0.01
"""Fraction of the range of all values that two answers may differ by, unless the game's rows are independent."""


def with_seed_noise(valuation: Valuation, access: GameAccess, semivalue: Semivalue) -> Valuation:
    """Return the valuation of a game that trains every coalition with its own seed, with the error of these seeds.

    Takes 32 to 128 more evaluations: U(N) and U(0) 8 to 32 times each, and as many pairs of other coalitions, of
    sizes that are drawn in proportion to what their noise adds to the variance of a player.

    Args:
        valuation: The valuation at the end of a run.
        access: Its game, still open.
        semivalue: How much each size of coalition counts.

    Returns:
        The valuation; interrupted if the user interrupts.

    Raises:
        GameError: A coalition could not be trained again.

    """
    n = access.game.n_players
    n_used = valuation.n_evaluations + valuation.n_known
    count = int(np.clip(n_used // PART, FEWEST, MOST))
    weights = SizeWeights.of(semivalue, n)
    rng = np.random.default_rng([valuation.seed or 0, 0, 1])
    pairs, by_gain, by_drift = _pairs(n, weights, count, rng)
    ends = Coalitions.ends(n).masks()
    coalitions = np.concatenate([np.repeat(ends, count, axis=0), np.repeat(pairs, 2, axis=0)])
    numbers = np.concatenate([np.tile(np.arange(1, count + 1), 2), 1 + np.arange(2 * len(pairs))])
    try:
        values = _again(access, coalitions, numbers)
    except KeyboardInterrupt:
        return replace(valuation, end=INTERRUPTED)
    stated = slice(values.shape[1] - access.game.n_folds)  # a fold's own noise is part of the error of test rows
    values = values[:, stated]
    of_ends = np.concatenate([access.ends()[:, None, stated], values[: 2 * count].reshape(2, count, -1)], axis=1)
    empty, full = (of_ends - of_ends.mean(axis=1, keepdims=True)) / np.sqrt(count)
    twice = values[2 * count :].reshape(len(pairs), 2, values.shape[1])
    gaps = (twice[:, 1] - twice[:, 0]) / np.sqrt(2 * max(len(pairs), 1))
    own, drifting = (gaps * np.sqrt(part)[:, None] for part in (by_gain, by_drift))
    drifting = drifting[by_drift > 0]
    noise = SeedNoise(
        own,
        np.concatenate([weights.full * full, weights.empty * empty, drifting]),
        np.concatenate([full, empty, np.zeros_like(drifting)]),
        (_freedom(own), float(count)),
        len(values),
    )
    return replace(valuation, seed_noise=noise)


def _pairs(n: int, weights: SizeWeights, count: int, rng: np.random.Generator) -> tuple[Masks, Floats, Floats]:
    """Return coalitions, and what noise of variance 1 at their sizes adds to players, over their probabilities."""
    sizes = np.arange(1, n)
    each = np.exp(-log_choose(n, sizes))  # of the coalitions of a size
    gain = weights.gain**2 * sizes * (n - sizes) / (n * max(n - 1, 1)) * each
    drift = weights.drift**2 * each
    added = np.cumsum(gain + drift)
    if n == 1:
        return np.zeros((0, 1), dtype=bool), np.zeros(0), np.zeros(0)
    places = np.searchsorted(added, (np.arange(count) + rng.random()) / count * added[-1], side="right")
    places = np.minimum(places, n - 2)
    masks = np.zeros((count, n), dtype=bool)
    for row, size in zip(masks, sizes[places], strict=True):
        row[rng.permutation(n)[:size]] = True
    probability = (gain + drift)[places] / added[-1]
    return masks, gain[places] / probability, drift[places] / probability


def _again(access: GameAccess, coalitions: Masks, numbers: Ints) -> Floats:
    """Return the values of coalitions, each from the training with its number; recorded like all others."""
    if isinstance(access, View):
        lift = access.lift or (lambda each: each)
        inner = lift(Coalitions.from_masks(coalitions)).masks()
        return access.lower(_again(access.inner, inner, numbers))
    game, masks = trained_again(access.game, coalitions, numbers)
    with access.evaluator.beside(game) as beside:
        try:
            values = beside(Coalitions.from_masks(masks))
        except GameError as error:
            raise GameError(
                "coalitions could not be trained again, for the error of training seeds "
                f"(members from {access.game.n_players} on stand for the seed): {error}"
            ) from error
        failures = beside.meter.failures
    if failures is not None:
        warnings.warn(f"for the error of training seeds {failures}", RuntimeWarning, stacklevel=2)
    return values


def _freedom(deviations: Floats) -> float:
    """Return the effective number of terms in a sum of squares: all of them, if their variances are equal."""
    squares = deviations**2
    total = squares.sum(axis=0)
    squares = squares[:, total > 0] / total[total > 0]
    if not squares.size:
        return float(max(len(deviations), 1))
    return float(np.clip(3 * np.mean(1 / (squares**2).sum(axis=0)), 1, len(deviations)))


class Repeats:
    """Compares the values of coalitions that a run happens to draw again; it evaluates nothing."""

    def __init__(self, game: Game, ends: Floats, on_error: str | float) -> None:
        self._tolerance = 0.0 if game.independent_rows else TOLERANCE
        self._filler = failure_value(on_error)
        self._weights = np.random.default_rng(0).integers(2**64, size=game.n_players, dtype=np.uint64)
        self._keys = np.zeros(SLOTS, dtype=np.uint64)
        self._means = np.full(SLOTS, np.nan)
        self._range = np.sort(ends.mean(axis=1))
        self._n_repeated = self._n_different = 0
        self._largest = 0.0
        self._first = ""

    def add(self, coalitions: Coalitions, values: Floats) -> None:
        """Compare the (m, q) values of a round with each other and with earlier ones, by their means."""
        means = values.mean(axis=1)
        if self._filler is not None:  # a coalition may fail with its batch, and not in another one
            means = np.where((values == self._filler).any(axis=1), np.nan, means)
        keys = self._keys_of(coalitions)
        slots = (keys % np.uint64(SLOTS)).astype(np.int64)
        _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
        first = firsts[inverse]
        known = self._keys[slots] == keys
        gaps = np.abs(means - np.where(known, self._means[slots], means[first]))
        self._keys[slots] = keys
        self._means[slots] = means
        both = np.append(means[~np.isnan(means)], self._range)
        self._range = np.array([both.min(), both.max()])
        different = np.flatnonzero(gaps > self._tolerance * np.ptp(self._range))
        self._n_repeated += int(((known | (first < np.arange(len(keys)))) & ~np.isnan(gaps)).sum())
        self._n_different += len(different)
        if len(different):
            self._first = self._first or describe(coalitions, int(different[0]))
            self._largest = max(self._largest, float(gaps[different].max()))

    def _keys_of(self, coalitions: Coalitions) -> NDArray[np.uint64]:
        """Return the sum of a random 64-bit number for each member, modulo 2^64."""
        sums = np.append(np.uint64(0), np.cumsum(self._weights[coalitions.listed], dtype=np.uint64))
        listed = sums[coalitions.starts[1:]] - sums[coalitions.starts[:-1]]
        return np.where(coalitions.inverted, self._weights.sum(dtype=np.uint64) - listed, listed)

    @property
    def note(self) -> str | None:
        """The warning about a random game; None if nothing was noticed."""
        if not self._n_different:
            return None
        return (
            f"the game is not deterministic: {self._n_different} of {self._n_repeated} coalitions that were "
            f"evaluated again had another value, off by up to {self._largest / np.ptp(self._range):.2g} of "
            "the range of all values; "
            f"the first is {self._first}"
        )
