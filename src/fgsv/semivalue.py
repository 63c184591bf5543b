"""Semivalues: how much each size of coalition counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import betaln

from fgsv.checks import as_number
from fgsv.coalitions import log_choose
from fgsv.types import Floats, Masks


@dataclass(frozen=True)
class Beta:
    """Beta(a, b) semivalues; Beta(1, 1) is Shapley, and a larger `a` gives small coalitions more weight.

    The weight of one coalition of s others is p(s) = B(s + b, n - 1 - s + a) / B(a, b).
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (0 < as_number(self.a) < np.inf and 0 < as_number(self.b) < np.inf):
            raise ValueError(f"Beta semivalues need positive, finite parameters, got a={self.a!r}, b={self.b!r}")

    def __str__(self) -> str:
        return "shapley" if self == SHAPLEY else f"beta({self.a!r}, {self.b!r})"

    def log_weights(self, n_players: int) -> Floats:
        """Return log p(s) for s = 0..n-1."""
        s = np.arange(n_players)
        return np.asarray(betaln(s + self.b, n_players - 1 - s + self.a) - betaln(self.a, self.b))


@dataclass(frozen=True)
class Banzhaf:
    """The Banzhaf value: every coalition counts the same, p(s) = 2^(1 - n). It gives up efficiency."""

    def __str__(self) -> str:
        return "banzhaf"

    def log_weights(self, n_players: int) -> Floats:
        """Return log p(s) for s = 0..n-1."""
        return np.full(n_players, (1 - n_players) * np.log(2.0))


class Semivalue(Protocol):
    """How much each size of coalition counts. Your own needs `log_weights`; results name it by its `str`."""

    def log_weights(self, n_players: int) -> Floats:
        """Return log p(s) for s = 0..n-1: the weight of one coalition of s others; C(n - 1, s) p(s) sum to one."""


SHAPLEY = Beta(1.0, 1.0)


def as_semivalue(semivalue: str | Semivalue, n_players: int) -> Semivalue:
    """Read "shapley", "banzhaf", "beta(a, b)", or an object with `log_weights`, and check it for n players."""
    if isinstance(semivalue, (Beta, Banzhaf)):
        return semivalue
    if not isinstance(semivalue, str):
        if not hasattr(semivalue, "log_weights"):
            raise TypeError(
                "semivalue must be 'shapley', 'banzhaf', 'beta(a, b)' or an object with log_weights(n_players), "
                f"got {semivalue!r}"
            )
        _check_weights(semivalue, n_players)
        return semivalue
    name = semivalue.strip().lower()
    if name == "shapley":
        return SHAPLEY
    if name == "banzhaf":
        return Banzhaf()
    if name.startswith("beta(") and name.endswith(")"):
        try:
            a, b = map(float, name[5:-1].split(","))
        except ValueError:
            raise ValueError(f"cannot read {semivalue!r}: expected two numbers, as in 'beta(16, 1)'") from None
        return Beta(a, b)
    raise ValueError(f"unknown semivalue {semivalue!r}: expected 'shapley', 'banzhaf' or 'beta(a, b)'")


def _check_weights(semivalue: Semivalue, n_players: int) -> None:
    """Raise an error unless the weights are valid for a semivalue."""
    log_weights = np.asarray(semivalue.log_weights(n_players), dtype=float)
    if log_weights.shape != (n_players,) or not np.isfinite(log_weights).all():
        raise ValueError(
            f"log_weights({n_players}) must return log p(s) for s = 0 to {n_players - 1}, all of them finite; "
            f"got an array of shape {log_weights.shape}"
        )
    total = float(np.exp(log_choose(n_players - 1, np.arange(n_players)) + log_weights).sum())
    if abs(total - 1) > 1e-6:
        raise ValueError(
            f"the weights C(n - 1, s) p(s) of a semivalue must sum to 1; those of {semivalue} sum to {total:g}"
        )


@dataclass(frozen=True)
class SizeWeights:
    """The covariance form of a semivalue with weights p: what size s = 1..n-1 contributes.

    With S uniform among the subsets of size s,

        phi(i) = p(n-1) U(N) - p(0) U(0) + sum_s { gain(s) E[(1{i in S} - s/n) U(S)] + drift(s) E[U(S)] }

    where gain(s) = C(n, s) (p(s-1) + p(s)) and drift(s) = C(n, s) (p(s-1) s - p(s) (n - s)) / n. For Shapley
    gain(s) = n / (s (n - s)) and drift is zero: equation (1) of the documentation.
    """

    gain: Floats
    """(n - 1,)"""
    drift: Floats
    """(n - 1,); zero for Shapley."""
    full: float
    """p(n - 1)"""
    empty: float
    """p(0)"""

    def coefficients(self, masks: Masks) -> Floats:
        """Return (m, n): what U(S) counts in phi(i), times the number of coalitions of its size; 0 at the ends."""
        sizes = masks.sum(axis=1)
        gain = np.concatenate([[0.0], self.gain, [0.0]])[sizes]
        drift = np.concatenate([[0.0], self.drift, [0.0]])[sizes]
        return np.asarray(gain[:, None] * (masks - (sizes / masks.shape[1])[:, None]) + drift[:, None])

    @classmethod
    def of(cls, semivalue: Semivalue, n_players: int) -> SizeWeights:
        """Return the weights of a semivalue among n players."""
        n = n_players
        s = np.arange(1, n)
        if semivalue == SHAPLEY:  # exact, without the rounding of logarithms
            return cls(n / (s * (n - s)), np.zeros(n - 1), 1 / n, 1 / n)
        log_p = semivalue.log_weights(n)
        joined = np.exp(log_choose(n, s) + log_p[:-1])
        left = np.exp(log_choose(n, s) + log_p[1:])
        return cls(
            joined + left,
            (joined * s - left * (n - s)) / n,
            float(np.exp(log_p[-1])),
            float(np.exp(log_p[0])),
        )
