"""A Gaussian process over coalitions: what few evaluations say about the others, with closed-form player values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from fgsv.estimators.covariance.surrogate import SetKernel
from fgsv.semivalue import SizeWeights
from fgsv.types import Floats, Ints, Masks

_KNOTS = 6
_CURVE, _LENGTH, _OVERLAP, _PRODUCT, _SLOPE, _NUGGET, _RATE = range(7)
_FIRST_KNOT, _FIRST_PLAYER = 7, 7 + _KNOTS
_TREND = 4.0
"""Prior variance of the constant and of the line in the size."""
_JITTER = 1e-8
# each parameter is normal a priori: mean, standard deviation and bounds
_MEAN = (0.0, 0.7, -1.0, -1.0, 0.0, -6.0, 0.0)
_DEVIATION = (2.0, 0.7, 3.0, 3.0, 0.5, 2.0, 1.0)
_BOUNDS = ((-12, 5), (-1, 3), (-14, 5), (-14, 5), (-1.5, 1.5), (-14, 1), (-8, 1))
_KNOT_DEVIATION = 0.3
_PLAYER_DEVIATION = 0.7


@dataclass(frozen=True, eq=False)
class Process:
    """A covariance between the utilities of coalitions S and T of s and t players.

        k(S, T) = 4 + 4 x_s x_t + v_h Matern(|logit s - logit t| / l)
                  + r(s) r(t) [v_p exp(-sum of eta_i over the players i in just one of S and T) + v_z SetKernel(S, T)]

    with x_s = 2s/n - 1 and log r(s) = -gamma log((s + 1)/(n + 1)) + a piecewise linear function of logit s; in
    addition every utility has a part of its own, of variance nugget * r(s)^2. Each player has a weight eta_i: one
    that changes nothing gets a small one, and coalitions that differ in it alone then predict each other.
    """

    n: int
    parameters: Floats
    """log v_h, log l, log v_z, log v_p, gamma, log nugget, log of the mean eta, 6 knots, n log ratios of eta_i."""

    @classmethod
    def default(cls, n: int) -> Process:
        """Return the process before any utility is known."""
        return cls(n, _prior_mean(n))

    @property
    def log_scale(self) -> Floats:
        """The logarithm of r(s) for s = 0..n."""
        scale: Floats = _log_share(self.n) * -self.parameters[_SLOPE]
        return scale + _hats(self.n) @ self.parameters[_FIRST_KNOT:_FIRST_PLAYER]

    @property
    def rates(self) -> Floats:
        """The weights eta of the players, (n,)."""
        return np.asarray(np.exp(self.parameters[_RATE] + self.parameters[_FIRST_PLAYER:]))

    def own_variance(self, sizes: Ints) -> Floats:
        """Return (m,): the variance of the part that no other coalition tells anything about; none at the ends."""
        own = np.exp(self.parameters[_NUGGET] + 2 * self.log_scale[sizes])
        return np.where(sizes % self.n == 0, 0.0, own) + _JITTER

    def covariance(self, left: Masks, right: Masks) -> Floats:
        """Return the (m, M) covariances between coalitions, without the parts of their own."""
        return sum(self._terms(_Pairs.of(left, right, self.n)), np.zeros(()))

    def variance(self, sizes: Ints) -> Floats:
        """Return the (m,) variances of utilities of coalitions of these sizes, with the parts of their own."""
        v = np.exp(self.parameters[[_CURVE, _OVERLAP, _PRODUCT]])
        inside = sizes % self.n != 0
        common = _TREND * (1 + (2 * sizes / self.n - 1) ** 2) + v[0]
        return common + np.exp(2 * self.log_scale[sizes]) * (v[2] + v[1] * inside) + self.own_variance(sizes)

    def _terms(self, pairs: _Pairs) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the trend, the curve, the overlap and the product."""
        p, scale = self.parameters, np.exp(self.log_scale)
        weighted = pairs.left * self.rates
        product = weighted @ pairs.right.T
        product *= 2
        product -= weighted.sum(axis=1)[:, None]
        product -= pairs.right @ self.rates
        np.exp(product, out=product)
        scales = np.outer(scale[pairs.left_sizes], scale[pairs.right_sizes])
        product *= scales
        product *= np.exp(p[_PRODUCT])
        scales *= np.exp(p[_OVERLAP])
        scales *= pairs.overlap
        return pairs.trend, self._curve()[0][pairs.of_sizes], scales, product

    def _curve(self) -> tuple[Floats, Floats]:
        """Return (n + 1, n + 1): the curve between sizes, and its derivative by log l."""
        p, logit = self.parameters, _logit(self.n)
        distance = np.abs(logit[:, None] - logit) * (np.sqrt(3) / np.exp(p[_LENGTH]))
        decay = np.exp(p[_CURVE] - distance)
        return (1 + distance) * decay, distance**2 * decay

    # --- parameters

    def fitted(self, masks: Masks, values: Floats, iterations: int = 60) -> Process:
        """Return the process with the parameters of the largest penalised likelihood of (m, q) utilities.

        Outputs have one process in common, each in units of its own standard deviation; together they count as one.
        Starts from these parameters or, if these are the default, from the better of two starts.
        """
        spread = values.std(axis=0)
        used = spread > 1e-9 * np.maximum(np.abs(values).max(axis=0), 1e-300)
        if not used.any():
            return self
        targets = (values[:, used] - values[:, used].mean(axis=0)) / spread[used]
        targets /= np.sqrt(targets.shape[1])
        pairs = _Pairs.of(masks, masks, self.n)

        def cost(parameters: Floats) -> tuple[float, Floats]:
            return Process(self.n, parameters)._cost(pairs, targets)

        start = self.parameters
        if np.array_equal(start, _prior_mean(self.n)):
            steep = start.copy()
            steep[[_OVERLAP, _PRODUCT, _SLOPE]] = -4.0, -4.0, 1.0
            start = min((start, steep), key=lambda each: cost(each)[0])
        bounds = [*_BOUNDS, *[(-1, 1)] * _KNOTS, *[(-3, 3)] * self.n]
        found = minimize(
            cost,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": iterations, "maxfun": 2 * iterations},
        )
        return Process(self.n, found.x)

    def _cost(self, pairs: _Pairs, targets: Floats) -> tuple[float, Floats]:
        """Return the negative log of likelihood times prior, and its gradient."""
        trend, curve, overlap, product = self._terms(pairs)
        sizes, p, m = pairs.left_sizes, self.parameters, len(targets)
        own = self.own_variance(sizes)
        matrix = trend + curve
        matrix += overlap
        matrix += product
        matrix[np.diag_indices(m)] += own
        lower, failed = dpotrf(matrix.T, lower=True, overwrite_a=True)
        if failed:
            return 1e10, np.zeros_like(p)
        cost = float(np.log(np.diag(lower)).sum())
        half, _ = dpotri(lower, lower=True, overwrite_c=True)  # a triangle, nothing above it
        inverse = np.add(half, half.T, order="C")
        inverse[np.diag_indices(m)] /= 2
        solved = inverse @ targets
        cost += 0.5 * float((targets * solved).sum())
        slope = inverse
        slope -= solved @ solved.T
        slope *= 0.5
        gradient = np.zeros_like(p)
        by_sizes = pairs.has_size.T @ (slope @ pairs.has_size)
        gradient[_CURVE], gradient[_LENGTH] = ((by_sizes * each).sum() for each in self._curve())
        overlap *= slope
        product *= slope
        by_overlap, by_product = overlap, product
        gradient[_OVERLAP], gradient[_PRODUCT] = by_overlap.sum(), by_product.sum()
        by_own = np.diag(slope) * (own - _JITTER)
        gradient[_NUGGET] = by_own.sum()
        rows = by_product.sum(axis=1)
        by_scale = rows + by_overlap.sum(axis=1) + by_own
        gradient[_SLOPE] = -2 * (by_scale @ _log_share(self.n)[sizes])
        gradient[_FIRST_KNOT:_FIRST_PLAYER] = 2 * (by_scale @ _hats(self.n)[sizes])
        apart = pairs.left.T @ rows - ((by_product @ pairs.left) * pairs.left).sum(axis=0)
        gradient[_FIRST_PLAYER:] = -2 * self.rates * apart
        gradient[_RATE] = gradient[_FIRST_PLAYER:].sum()
        mean, deviation = _prior_mean(self.n), _prior_deviation(self.n)
        off = (p - mean) / deviation
        return cost + 0.5 * float(off @ off), gradient + off / deviation

    # --- player values

    def player_values(
        self, masks: Masks, log_weights: Floats, weights: SizeWeights, part_of: Ints, n_parts: int
    ) -> Floats:
        """Return (n_parts, m, n): the players' values of the games k(., T), for the T in the rows of `masks`.

        `part_of` (n + 1,) assigns the sizes to parts, -1 to none: a part's values are those of a game that is worth
        k(S, T) at its sizes and nothing at the others. For the product, prod_j (b_j + a_j z) with a_j the factor of a
        player inside and b_j that of one outside, the coefficient of z^k over C(n, k) is the mean e_k over coalitions
        of size k. Without player i the means Q_k satisfy e_k = (1 - k/n) b_i Q_k + (k/n) a_i Q_(k-1): solved for the
        larger term, upwards from k = 0 and downwards from n - 1, this is stable.
        """
        n, m, p = self.n, len(masks), self.parameters
        sizes, scale = masks.sum(axis=1), np.exp(self.log_scale)
        values = np.zeros((n_parts, m, n))
        log_counts = _log_counts(n)
        # the part of size s in the value of i: + share_s Q_(s-1) a_i - miss_s Q_s b_i
        joined = np.exp(log_weights + log_counts)  # p(k) C(n - 1, k)

        def add(k: int, means: Floats) -> None:
            for size, factor, each in ((k + 1, joined[k], inside), (k, -joined[k], outside)):
                if part_of[size] >= 0:
                    np.multiply(means, each, out=product)
                    np.multiply(product, factor * scale[size], out=product)
                    np.add(values[part_of[size]], product, out=values[part_of[size]])

        far = np.exp(-self.rates)
        inside, outside = np.where(masks, 1.0, far), np.where(masks, far, 1.0)
        product, means = np.empty((m, n)), np.zeros((n + 1, m))
        means[0] = 1
        for j in range(n):
            above = np.arange(1, j + 2)[:, None]
            stay, join = (j + 1 - above) * outside[:, j], above * inside[:, j]
            means[1 : j + 2] = (stay * means[1 : j + 2] + join * means[: j + 1]) / (j + 1)
            means[0] *= outside[:, j]
        # upwards while (k/n) a_i < (1 - k/n) b_i, downwards from n - 1 to there
        turn = np.ceil(n * outside / (inside + outside)).astype(np.int64)
        without = means[0][:, None] / outside
        add(0, without)
        for k in range(1, int(turn.max())):
            without = (means[k][:, None] - k / n * inside * without) / ((1 - k / n) * outside)
            if k >= turn.min():
                without[k >= turn] = 0.0
            add(k, without)
        without = means[n][:, None] / inside
        for k in range(n - 1, int(turn.min()) - 1, -1):
            if k < n - 1:
                without = (means[k + 1][:, None] - (1 - (k + 1) / n) * outside * without) / ((k + 1) / n * inside)
            if k < turn.max():
                without[k < turn] = 0.0
            add(k, without)
        values *= np.exp(p[_PRODUCT]) * scale[sizes][:, None]
        within = sizes % n != 0
        member = masks - (sizes / n)[:, None]
        covariance, mean = _set_moments(n)
        drift_terms = self._of_size_alone(sizes)
        for part in range(n_parts):
            on = part_of[1:n] == part
            gain, drift = weights.gain * on * scale[1:n], weights.drift * on
            factor = np.zeros(m)
            factor[within] = np.exp(p[_OVERLAP]) * scale[sizes[within]]
            t = np.where(within, sizes, 1) - 1
            values[part] += (factor * (covariance.T @ gain)[t])[:, None] * member
            values[part] += (factor * (mean.T @ (drift * scale[1:n]))[t] + drift_terms.T @ drift)[:, None]
        return values

    def _of_size_alone(self, sizes: Ints) -> Floats:
        """Return (n - 1, m): trend and curve between the sizes 1..n-1 and these."""
        n, inner = self.n, np.arange(1, self.n)
        trend = _TREND * (1 + np.outer(2 * inner / n - 1, 2 * sizes / n - 1))
        return np.asarray(trend + self._curve()[0][np.ix_(inner, sizes)])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """What does not change with the parameters between coalitions left and right."""

    left: Floats
    right: Floats
    left_sizes: Ints
    right_sizes: Ints
    trend: Floats
    of_sizes: tuple[Ints, Ints]
    """Where tables over sizes have the pairs."""
    has_size: Floats
    """(m, n + 1): 1 where a coalition on the left has a size."""
    overlap: Floats
    """The set kernel; nothing at the ends."""

    @classmethod
    def of(cls, left: Masks, right: Masks, n: int) -> _Pairs:
        s, t = left.sum(axis=1), right.sum(axis=1)
        trend = _TREND * (1 + np.outer(2 * s / n - 1, 2 * t / n - 1))
        has_size = (s[:, None] == np.arange(n + 1)).astype(float)
        overlap = _overlap(left, right, s, t, n)
        return cls(left.astype(float), right.astype(float), s, t, trend, np.ix_(s, t), has_size, overlap)


def _overlap(left: Masks, right: Masks, s: Ints, t: Ints, n: int) -> Floats:
    kernel = SetKernel.of(n)
    found = np.zeros((len(s), len(t)))
    rows, columns = np.flatnonzero(s % n), np.flatnonzero(t % n)
    a, b = s[rows], t[columns]
    common = left[rows].astype(float) @ right[columns].T.astype(float)
    z = (n * common - np.outer(a, b)) / np.sqrt(np.outer(a * (n - a), b * (n - b)))
    c, d, g = kernel.c, kernel.d, kernel.g
    lift = np.outer(c[a - 1], c[b - 1]) - np.outer(d[a - 1], d[b - 1])
    found[np.ix_(rows, columns)] = 1 / ((lift - z) * np.outer(g[a - 1], g[b - 1]))
    return found


@lru_cache(maxsize=8)
def _set_moments(n: int) -> tuple[Floats, Floats]:
    return SetKernel.of(n).moments()


@lru_cache(maxsize=8)
def _logit(n: int) -> Floats:
    s = np.arange(n + 1)
    return np.asarray(np.log((s + 0.5) / (n - s + 0.5)))


@lru_cache(maxsize=8)
def _log_share(n: int) -> Floats:
    return np.asarray(np.log((np.arange(n + 1) + 1.0) / (n + 1.0)))


@lru_cache(maxsize=8)
def _hats(n: int) -> Floats:
    """Return (n + 1, 6): piecewise linear functions of logit s."""
    logit = _logit(n)
    centres = np.linspace(logit[1], logit[n - 1], _KNOTS)
    at = np.clip(logit, centres[0], centres[-1])[:, None]
    return np.asarray(np.maximum(0, 1 - np.abs(at - centres) / (centres[1] - centres[0])))


@lru_cache(maxsize=8)
def _log_counts(n: int) -> Floats:
    from fgsv.coalitions import log_choose

    return log_choose(n - 1, np.arange(n))


@lru_cache(maxsize=8)
def _prior_mean(n: int) -> Floats:
    mean = np.zeros(_FIRST_PLAYER + n)
    mean[:_FIRST_KNOT] = _MEAN
    mean[_RATE] = -np.log(n)
    return mean


@lru_cache(maxsize=8)
def _prior_deviation(n: int) -> Floats:
    return np.concatenate([_DEVIATION, np.full(_KNOTS, _KNOT_DEVIATION), np.full(n, _PLAYER_DEVIATION)])
