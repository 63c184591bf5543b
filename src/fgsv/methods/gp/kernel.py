"""The Gaussian process: a covariance of utilities, its parameters, and its player values in closed form.

Notation of this room (n players, m evaluations; S and T are coalitions of s and t players):

    U(T)     utility, less the straight line in t between U(0) and U(N) (or another trend whose values are known)
    W(T)     the (n,) weights of the values to estimate: values = sum over T of W(T) U(T)
    f        prediction of U: posterior mean of the Gaussian process given all evaluations
    P        prediction of the values: the sum of W(T) f(T), known utilities in place of f; in closed form
    rho_j    leave-one-out residual, U(T_j) - f_-j(T_j)
    h_j      influence dP / dU(T_j), (n,). P is linear in the utilities, so P - P_-j = h_j rho_j
    c_j      Horvitz-Thompson weight, (n,): W(T_j) (u_j + 1) / q_j, where u_j coalitions of size t_j are unknown and
             q_j draws of that size were expected

    C        P + sum over the K draws of rho_j (c_j - h_j / K). Given the others, T_j is uniform among u_j + 1
             coalitions, so P_-j + K c_j rho_j has the right mean, whatever f is; C is the mean of these
    V        the value that is stated: (1 - a) P + a C, with a = max(0, 1 - BASIS / m): predictions while f
             interpolates every evaluation, corrected ones in the limit. With `unbiased` C at once, and parameters out
             of fold
    Sigma    posterior covariance of the values: the error of P, once residuals have corrected its scale

`kernel.py` has the covariance, `fitting.py` and `fits.py` its parameters, `smoother.py` P, rho and h, `sampler.py`
what is drawn, `choice.py` what is chosen and the posterior covariance of the values, `values.py` V and its error, and
`estimator.py` the order of it all. `linear.py`, with `rows.py`, `regression.py` and `means.py`, is the limit of many
players or very quick games.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgsv.methods.target import Target
from fgsv.types import Floats, Ints, Masks

KNOTS = 6
"""Of log r, the scale of the sizes."""
CURVE, LENGTH, PRODUCT, SLOPE, NUGGET, RATE = range(6)
"""Places of the parameters: logs of v_h, l and v, gamma, logs of the nugget and of the mean rate; then the knots of
log r, then log ratios of the players' rates."""
COMMON = 6 + KNOTS
TREND = 4.0
"""Prior variance of a level and of a slope in the size, in units of the utilities' variance."""
JITTER = 1e-8
ENTRIES = 4_000_000
"""Numbers held at once while player values are computed."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """The covariance of utilities: each player has a rate eta_i, each size a scale r(s).

        k(S, T) = 4 + 4 x_s x_t + v_h Matern(|logit s - logit t| / l) + v r(s) r(t) exp(- sum of eta_i over S xor T)

    with x_s = 2s/n - 1, Matern of order 3/2, and log r(s) = -gamma log((s + 1)/(n + 1)) + a piecewise linear function
    of logit s. Every utility has a part of its own besides, of variance nugget r(s)^2, which only its evaluation
    tells.

    Coalitions may have more coordinates than the target has players: the last ones are players who have left.
    """

    target: Target
    theta: Floats
    """(COMMON + coordinates,): the parameters."""

    @property
    def n(self) -> int:
        """Coordinates: the players, and those who have left."""
        return len(self.theta) - COMMON

    @cached_property
    def scale(self) -> Floats:
        """(n + 1,): r(s)."""
        log_share = np.log((np.arange(self.n + 1) + 1.0) / (self.n + 1.0))
        return np.exp(hats(self.n) @ self.theta[6:COMMON] - self.theta[SLOPE] * log_share)

    @cached_property
    def rates(self) -> Floats:
        """(n,): eta."""
        return np.exp(self.theta[RATE] + self.theta[COMMON:])

    @cached_property
    def curve(self) -> tuple[Floats, Floats]:
        """Two (n + 1, n + 1): the covariance v_h Matern(...) of a curve over sizes, and its derivative by log l."""
        distance = np.abs(logit(self.n)[:, None] - logit(self.n)) * (np.sqrt(3) / np.exp(self.theta[LENGTH]))
        decay = np.exp(self.theta[CURVE] - distance)
        return (1 + distance) * decay, distance**2 * decay

    @cached_property
    def of_sizes(self) -> Floats:
        """(n + 1, n + 1): the covariance of all that depends on the size alone."""
        x = 2 * np.arange(self.n + 1) / self.n - 1
        return np.asarray(TREND * (1 + np.outer(x, x)) + self.curve[0])

    def own(self, sizes: Ints) -> Floats:
        """Return (m,): variances of the utilities' own parts."""
        inner = sizes % self.n > 0
        return np.exp(self.theta[NUGGET]) * self.scale[sizes] ** 2 * inner + JITTER

    def product(self, left: Masks, right: Masks) -> Floats:
        """Return (m, k): v r(s) r(t) exp(- sum of eta_i over S xor T)."""
        weighted = left * self.rates
        found = weighted @ (2.0 * right.T)
        found -= weighted.sum(axis=1)[:, None]
        found -= right @ self.rates
        np.exp(found, out=found)
        found *= np.exp(self.theta[PRODUCT]) * self.scale[left.sum(axis=1)][:, None]
        found *= self.scale[right.sum(axis=1)]
        return found

    def __call__(self, left: Masks, right: Masks) -> Floats:
        """Return (m, k): the covariances of utilities, without their own parts."""
        return self.product(left, right) + self.of_sizes[np.ix_(left.sum(axis=1), right.sum(axis=1))]

    def variance(self, sizes: Ints) -> Floats:
        """Return (m,): variances of utilities, without their own parts."""
        return np.diag(self.of_sizes)[sizes] + np.exp(self.theta[PRODUCT]) * self.scale[sizes] ** 2

    def player_values(self, masks: Masks) -> Floats:
        """Return (m, n): the sum over coalitions S of present players of W(S) k(S, T), for each T.

        With a_j and b_j the factors of player j inside and outside S, the coefficient of z^s in prod_j (b_j + a_j z)
        is the sum of exp(...) over the coalitions of size s. F is the sum of these coefficients, each times
        gain(s) r(s) / C(n, s); what coalitions with i contribute to F is a_i dF/da_i, by one pass forwards and one
        backwards. All terms are positive: nothing cancels. A function of sizes alone has the same value for all.
        """
        target, n = self.target, self.target.n
        sizes = masks.sum(axis=1)
        found = np.empty((len(masks), n))
        drifted = np.zeros(len(masks))
        share = self.scale[: n + 1] * np.exp(-target.log_counts)
        by_size = target.gain * share
        far = np.exp(-self.rates[:n])[:, None]
        block = max(1, ENTRIES // (n * (n + 1)))
        for start in range(0, len(masks), block):
            rows = slice(start, start + block)
            some = masks[rows, :n].T
            inside = np.where(some, 1.0, far)
            outside = np.where(some, far, 1.0)
            sums = np.zeros((n + 1, n + 1, some.shape[1]))  # coefficients after the first j players
            sums[0, 0] = 1.0
            for j in range(n):
                np.multiply(sums[j, : j + 1], outside[j], out=sums[j + 1, : j + 1])
                sums[j + 1, 1 : j + 2] += sums[j, : j + 1] * inside[j]
            back = np.repeat(by_size[:, None], some.shape[1], axis=1)
            for j in reversed(range(n)):
                found[rows, j] = inside[j] * np.einsum("sr,sr->r", back[1 : j + 2], sums[j, : j + 1])
                back = back[: j + 1] * outside[j] + back[1 : j + 2] * inside[j]
            if target.has_drift:
                drifted[rows] = (target.drift * share)[1:n] @ sums[n, 1:n]
        found = centred(found)
        if target.has_drift:
            found += drifted[:, None]
        found *= (np.exp(self.theta[PRODUCT] - masks[:, n:] @ self.rates[n:]) * self.scale[sizes])[:, None]
        if target.has_drift:
            found += (target.drift[1:n] @ self.of_sizes[1:n])[sizes][:, None]
        return found


def logit(n: int) -> Floats:
    """Return (n + 1,): log of s over n - s, finite at the ends."""
    s = np.arange(n + 1)
    return np.log((s + 0.5) / (n - s + 0.5))


def hats(n: int, knots: int = KNOTS) -> Floats:
    """Return (n + 1, knots): piecewise linear functions of logit s."""
    at = logit(n)
    centres = np.linspace(at[1], at[n - 1], knots)
    inside = np.clip(at, centres[0], centres[-1])[:, None]
    return np.maximum(0.0, 1 - np.abs(inside - centres) / ((centres[1] - centres[0]) or 1.0))


def centred(rows: Floats) -> Floats:
    """Return rows without their means."""
    return rows - rows.mean(axis=1, keepdims=True)
