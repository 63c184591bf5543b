"""A proxy: a cheap game that resembles the one to be valued, used as a regressor whose player values are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.game import GameError
from fgsv.methods.enumeration import check_adds_up, stated_values
from fgsv.methods.gp.linear import LinearEstimator
from fgsv.methods.method import Evaluate, Problem
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Masks
from fgsv.valuation import Estimate
from fgsv.valuation.estimate import unit_of

AHEAD = 128
"""Evaluations of a proxy's own run, at least this many times those of the game; at most twice as many."""
MOST = 200_000
"""Limit on the evaluations of a proxy's own run, unless the game's is longer."""


class Proxy:
    """p outputs of a cheap game, in its own unit; this one is the absence of a proxy, without outputs."""

    n_features = 0

    def __init__(self, n_players: int) -> None:
        self._n = n_players

    def features(self, masks: Masks) -> Floats:
        """Return (m, p): the proxy less the straight line between its ends."""
        return np.zeros((len(masks), 0))

    def values(self, n_evaluations: int) -> Floats:
        """Return (n, p): the player values of the features, known well enough for a game evaluated so often."""
        return np.zeros((self._n, 0))

    def errors(self, beta: Floats, n_evaluations: int) -> Floats:
        """Return (R, n, q): deviations of these values, times the (p, q) coefficients."""
        return np.zeros((0, self._n, beta.shape[1]))


class CheapGame(Proxy):
    """A proxy whose values are stated, or estimated in a run of its own that keeps ahead of the game's."""

    def __init__(self, game: object, problem: Problem) -> None:
        super().__init__(problem.n_players)
        self._evaluate = _checked(problem.other_game(game), problem.ends.shape[1])
        ends = self._evaluate(Coalitions.ends(self._n))
        self._unit = unit_of(ends)
        self._ends = ends / self._unit
        self.n_features = ends.shape[1]
        self._values = stated_values(game, self._n, "proxy") if problem.semivalue == SHAPLEY else None
        self._own: _OwnRun | None = None
        if self._values is None:
            own = replace(problem, find_ends=lambda: np.zeros_like(ends), cost=None, known=None, n_folds=0)
            self._own = _OwnRun(LinearEstimator(own, learn=False), self._above_line, problem.seed)
            return
        if self._values.shape[1] != self.n_features:
            raise ValueError(f"proxy.shapley has {self._values.shape[1]} outputs; the proxy has {self.n_features}")
        check_adds_up(self._values, ends[1] - ends[0], "proxy")
        self._values = (self._values - self._values.mean(axis=0)) / self._unit

    def _above_line(self, coalitions: Coalitions) -> Floats:
        empty, whole = self._ends
        line = empty + (whole - empty) * (coalitions.sizes / self._n)[:, None]
        return self._evaluate(coalitions) / self._unit - line

    def features(self, masks: Masks) -> Floats:
        """Return (m, p): the proxy less the straight line between its ends."""
        return self._above_line(Coalitions.from_masks(masks))

    def values(self, n_evaluations: int) -> Floats:
        """Return (n, p): their player values."""
        if self._own is not None:
            return self._own.after(n_evaluations).values
        assert self._values is not None
        return self._values

    def errors(self, beta: Floats, n_evaluations: int) -> Floats:
        """Return (R, n, q): deviations of the player values, times the (p, q) coefficients."""
        deviations = None if self._own is None else self._own.after(n_evaluations).deviations
        if deviations is None:  # the values are stated, or of all coalitions
            return super().errors(beta, n_evaluations)
        return np.asarray(deviations @ beta, dtype=float)


class _OwnRun:
    """The run that values a proxy, continued on demand."""

    def __init__(self, estimator: LinearEstimator, evaluate: Evaluate, seed: int) -> None:
        self._estimator, self._evaluate, self._seed = estimator, evaluate, seed
        self._numbers = count()
        self._spent = 0

    def after(self, n_evaluations: int) -> Estimate:
        """Return its estimate when its error is small compared with the game's after so many evaluations."""
        rounded = 1 << (n_evaluations - 1).bit_length()
        wanted = max(rounded, min(AHEAD * rounded, MOST))
        while self._spent < wanted:
            # a seed that no round of the game's run has: with the same draws, the errors of both would be correlated
            draws = self._estimator.draw(np.random.default_rng([self._seed, next(self._numbers), 1]))
            if draws is None:
                break
            self._estimator.update(draws, self._evaluate(draws.coalitions))
            self._spent += len(draws.coalitions)
        return self._estimator.estimate()


def check_proxy(proxy: object, n_players: int) -> None:
    """Raise an error if a proxy is no game of this many players."""
    if not callable(proxy):
        raise TypeError(f"proxy must be a game of the same players, got {type(proxy).__name__}")
    if (of_proxy := getattr(proxy, "n_players", n_players)) != n_players:
        raise ValueError(f"the proxy has {of_proxy} players, but the game has {n_players}")
    stated_values(proxy, n_players, "proxy")


def regressed(features: Floats, values: Floats, precision: Floats) -> Floats:
    """Return (p, q): coefficients of the features by generalised least squares."""
    weighted = precision @ features
    square = features.T @ weighted
    square[np.diag_indices(len(square))] += 1e-9 * np.trace(square) + 1e-300
    return np.asarray(np.linalg.solve(square, weighted.T @ values))


def _checked(evaluate: Evaluate, n_outputs: int) -> Evaluate:
    """Return what evaluates the proxy, and says so in its errors."""

    def checked(coalitions: Coalitions) -> Floats:
        try:
            values = evaluate(coalitions)
        except GameError as error:
            raise GameError(f"in the proxy: {error}") from error
        if values.shape[1] not in (1, n_outputs):
            raise ValueError(f"the proxy has {values.shape[1]} outputs; the game has {n_outputs}")
        return values

    return checked
