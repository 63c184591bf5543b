"""The error of the test rows: how far values are from those of a score on all rows that might have been tested."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation.estimate import unit_of

MOST_BUNDLES = 32
"""Rows that the Monte Carlo error of the folds is kept in."""
BY_CHANCE = 0.95
"""What is subtracted as the run's own sampling is as much as it shows with this probability, not its mean."""


@dataclass(frozen=True, eq=False)
class TestRows:
    """A delete-a-group jackknife: values without each of K random parts of the test rows, the folds.

    With v_k a value on all test rows but those of fold k, its variance is (K-1)/K sum_k (v_k - mean of v)^2, with
    K - 1 degrees of freedom. Values are linear in the score, so this is kept for single players: the variance of a
    sum of players is the sum over the folds of the squares of that sum, as it is for a valuation's deviations.
    """

    __test__ = False  # not a test, whatever pytest thinks of the name

    players: NDArray[np.floating]
    """(K, n, p): sqrt((K-1)/K) (v_k - mean of v); n groups for a method that values one group at a time."""
    total: Floats
    """(K, p): the same of U(N) - U(0)."""
    sampled: NDArray[np.floating] | None
    """(R, n, p): deviations of what the run's own sampling adds to the sums of squares; None if unknown or nothing.
    Random signs bundle the folds, so that it holds on average."""

    @classmethod
    def of(cls, players: Floats, deviations: NDArray[np.floating] | None, ends: Floats, n_outputs: int) -> TestRows:
        """Return the error from values of the folds, as differences from those on all test rows, fold by fold.

        Args:
            players: (n, F) values of the players without each fold.
            deviations: (R, n, F) deviations of these; None if unknown.
            ends: (2, F) U(0) and U(N) without each fold.
            n_outputs: How many of the F outputs each fold has.

        Returns:
            The error of the test rows.

        """
        total = _about_their_mean((ends[1] - ends[0]).reshape(-1, n_outputs))
        by_fold = np.moveaxis(players.reshape(len(players), -1, n_outputs), 1, 0)
        of_players = _about_their_mean(by_fold)
        sampled = None
        if deviations is not None and len(deviations):
            rng = np.random.default_rng(0)
            n_folds = len(total)
            signs = rng.choice([-1.0, 1.0], (len(deviations), n_folds)) * np.sqrt((n_folds - 1) / n_folds)
            signs = (signs - signs.mean(axis=1, keepdims=True)).astype(deviations.dtype)  # about the folds' mean
            parts = deviations.reshape(*deviations.shape[:2], n_folds, n_outputs)
            sampled = _bundled(np.einsum("rk,rnkp->rnp", signs, parts), rng)
        return cls(_single(of_players), total, sampled)

    @property
    def n_folds(self) -> int:
        """How many folds there are, K."""
        return len(self.players)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variances."""
        return float(self.n_folds - 1)

    def combined(self, weights: Floats) -> TestRows:
        """Return the error of a weighted sum of the outputs."""
        parts = {name: each for name in ("players", "total", "sampled") if (each := getattr(self, name)) is not None}
        return replace(self, **{name: (each @ weights)[..., None] for name, each in parts.items()})

    def of_outputs(self, places: slice | list[int]) -> TestRows:
        """Return the error of the outputs at these places."""
        parts = {name: each for name in ("players", "total", "sampled") if (each := getattr(self, name)) is not None}
        return replace(self, **{name: each[..., places] for name, each in parts.items()})

    def deviations(self, partition: Partition | None, shares: Floats | None = None) -> Floats:
        """Return (K, G, p) deviations of the groups; variances are sums over the folds of squares.

        With (G, p) `shares`, those of the shares, in units of the utility: U(N) - U(0), which they are parts of, has
        an error too. Without a partition the players are the groups.
        """
        found = _sums(self.players, partition)
        return found if shares is None else found - shares * self.total[:, None]

    def sampled_variance(self, partition: Partition | None) -> Floats:
        """Return (G, p): how much of the variances may be due to the run's own sampling, which evaluations reduce."""
        if self.sampled is None:
            return np.zeros(())
        by_chance = chdtri(self.freedom, 1 - BY_CHANCE) / self.freedom
        return np.asarray(by_chance * (_sums(self.sampled, partition) ** 2).sum(axis=0))


def _sums(rows: NDArray[np.floating], partition: Partition | None) -> Floats:
    """Return (r, G, p) sums over the groups of (r, n, p)."""
    if partition is None:
        return rows.astype(float)
    return np.stack([partition.sums(each.astype(float)) for each in rows])


def _about_their_mean(folds: Floats) -> Floats:
    """Return (K, ...) values without each fold about their mean, scaled so that the variance is a sum of squares."""
    n_folds = len(folds)
    return np.asarray((folds - folds.mean(axis=0)) * np.sqrt((n_folds - 1) / n_folds))


def _bundled(rows: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.floating]:
    """Return at most `MOST_BUNDLES` rows with the same sums of squares on average."""
    if len(rows) <= MOST_BUNDLES:
        return rows
    signs = rng.choice([-1.0, 1.0], len(rows)).astype(rows.dtype)
    found = np.zeros((MOST_BUNDLES, *rows.shape[1:]), dtype=rows.dtype)
    np.add.at(found, np.arange(len(rows)) % MOST_BUNDLES, rows * signs[:, None, None])
    return found


def _single(rows: Floats) -> NDArray[Any]:
    """Return numbers in single precision, unless they are too large or too small for it."""
    return rows.astype(np.float32) if (unit_of(rows) == 1).all() else rows
