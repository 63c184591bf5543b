"""A Gaussian process over coalitions: what few evaluations say about the others, with closed-form player values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotrf, dpotri, dtrtri
from scipy.optimize import minimize

from fgsv.coalitions import log_choose
from fgsv.methods.covariance import strongest
from fgsv.methods.covariance.design import Cells
from fgsv.methods.covariance.history import evenly
from fgsv.methods.covariance.surrogate import SetKernel
from fgsv.types import Floats, Ints, Masks

_KNOTS = 6
_CURVE, _LENGTH, _OVERLAP, _PRODUCT, _SLOPE, _NUGGET, _RATE, _STRONGEST = range(8)
_FIRST_KNOT, _FIRST_PLAYER = 8, 8 + _KNOTS
_TREND = 4.0
"""Prior variance of the constant and of the line in the size."""
_JITTER = 1e-8
# each parameter is normal a priori: mean, standard deviation and bounds
_MEAN = (0.0, 0.7, -1.0, -1.0, 0.0, -6.0, 0.0, 1.0)
_DEVIATION = (2.0, 0.7, 3.0, 3.0, 0.5, 2.0, 1.0, 2.0)
_BOUNDS = ((-12, 5), (-1, 3), (-14, 5), (-14, 5), (-1.5, 1.5), (-14, 1), (-8, 1), (-12, 5))
_KNOT_DEVIATION = 0.3
_PLAYER_DEVIATION = 0.7, 1.2
"""That of players' weights; of many players', some of whom usually change next to nothing."""
MANY_PLAYERS = 64
"""More players than this are many."""
_CONVINCING = 3.0
"""What the logarithm of the likelihood must gain when ranks are added."""


@dataclass(frozen=True, eq=False)
class Process:
    """A covariance between the utilities of coalitions S and T of s and t players.

        k(S, T) = 4 + 4 x_s x_t + v_h Matern(|logit s - logit t| / l)
                  + r(s) r(t) [v_p exp(-sum of eta_i over the players i in just one of S and T) + v_z SetKernel(S, T)]

    with x_s = 2s/n - 1 and log r(s) = -gamma log((s + 1)/(n + 1)) + a piecewise linear function of logit s; in
    addition every utility has a part of its own, of variance nugget * r(s)^2. Each player has a weight eta_i: one
    that changes nothing gets a small one, and coalitions that differ in it alone then predict each other. Where
    the strongest member seems to decide, v_t strongest.shared(S, T) is added.
    """

    n: int
    parameters: Floats
    """Logs of v_h, l, v_z and v_p, gamma, logs of nugget, mean eta and v_t, 6 knots, n log ratios of eta_i."""
    ranks: Ints | None = None
    """(n,): the players from the weakest, 1, to the strongest; None if that does not seem to matter."""

    @classmethod
    def default(cls, n: int) -> Process:
        """Return the process before any utility is known."""
        return cls(n, _prior_mean(n))

    @classmethod
    def of(cls, parameters: Floats, ranks: Ints | None = None) -> Process:
        """Return the process with these parameters."""
        return cls(len(parameters) - _FIRST_PLAYER, parameters, ranks)

    @cached_property
    def log_scale(self) -> Floats:
        """The logarithm of r(s) for s = 0..n."""
        scale: Floats = _log_share(self.n) * -self.parameters[_SLOPE]
        return scale + _hats(self.n) @ self.parameters[_FIRST_KNOT:_FIRST_PLAYER]

    @cached_property
    def rates(self) -> Floats:
        """The weights eta of the players, (n,)."""
        return np.asarray(np.exp(self.parameters[_RATE] + self.parameters[_FIRST_PLAYER:]))

    @property
    def listed_ranks(self) -> list[int] | None:
        """The ranks as JSON can hold them."""
        return None if self.ranks is None else [int(each) for each in self.ranks]

    def own_variance(self, sizes: Ints) -> Floats:
        """Return (m,): the variance of the part that no other coalition tells anything about; none at the ends."""
        own = np.exp(self.parameters[_NUGGET] + 2 * self.log_scale[sizes])
        return np.where(sizes % self.n == 0, 0.0, own) + _JITTER

    def inverse_root(self, masks: Masks) -> tuple[Floats, Floats]:
        """Return L^-1 for the covariance matrix L L' of utilities, and (m,) the variances of their own parts."""
        own = self.own_variance(masks.sum(axis=1))
        matrix = self.covariance(masks, masks)
        matrix[np.diag_indices(len(own))] += own
        lower = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        return dtrtri(lower, lower=True, overwrite_c=True)[0], own

    def solve(self, masks: Masks, values: Floats) -> Solved:
        """Return what predictions from (m, q) utilities of coalitions are made of."""
        root, own = self.inverse_root(masks)
        return Solved(root, own, root.T @ (root @ values))

    def covariance(self, left: Masks, right: Masks) -> Floats:
        """Return the (m, M) covariances between coalitions, without the parts of their own."""
        pairs = _Between.of(left, right, self.n, self.ranks)
        return self._summed(pairs, self._curve(*pairs.sizes)[0], self._terms(pairs))

    def variance(self, masks: Masks) -> Floats:
        """Return the (m,) variances of utilities of coalitions, with the parts of their own."""
        sizes = masks.sum(axis=1)
        v = np.exp(self.parameters[[_CURVE, _OVERLAP, _PRODUCT]])
        inside = sizes % self.n != 0
        common = _TREND * (1 + (2 * sizes / self.n - 1) ** 2) + v[0]
        if self.ranks is not None:
            common += np.exp(self.parameters[_STRONGEST]) * strongest.shared_with_itself(self.ranks, masks)
        return common + np.exp(2 * self.log_scale[sizes]) * (v[2] + v[1] * inside) + self.own_variance(sizes)

    def _terms(self, pairs: _Between) -> tuple[Floats, Floats, Floats]:
        """Return the overlap, the product, and what ranks add."""
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
        by_rank = np.zeros(()) if self.ranks is None else np.exp(p[_STRONGEST]) * pairs.by_rank
        return scales, product, by_rank

    def _summed(self, pairs: _Between, curve: Floats, terms: tuple[Floats, Floats, Floats]) -> Floats:
        found: Floats = (pairs.trend + curve)[pairs.of_sizes]
        for term in terms if self.ranks is not None else terms[:2]:
            found += term
        return found

    def _curve(self, left: Ints, right: Ints) -> tuple[Floats, Floats]:
        """Return the curve between sizes and its derivative by log l, (u, v) each."""
        p, logit = self.parameters, _logit(self.n)
        distance = np.abs(logit[left, None] - logit[right]) * (np.sqrt(3) / np.exp(p[_LENGTH]))
        decay = np.exp(p[_CURVE] - distance)
        return (1 + distance) * decay, distance**2 * decay

    # --- parameters

    def fitted(self, masks: Masks, values: Floats, iterations: int = 60, most: int | None = None) -> Process:
        """Return the process with the parameters of the largest penalised likelihood of (m, q) utilities.

        Outputs have one process in common, each in units of its own standard deviation; together they count as one.
        Starts from these parameters or, if these are the default, from the better of two starts. Ranks are added
        if with them the likelihood is far larger, before any other parameter has adapted to them. The likelihood is
        that of at most `most` utilities; the order of ranks takes all.
        """
        spread = values.std(axis=0)
        used = spread > 1e-9 * np.maximum(np.abs(values).max(axis=0), 1e-300)
        if not used.any():
            return self
        targets = (values[:, used] - values[:, used].mean(axis=0)) / spread[used]
        targets /= np.sqrt(targets.shape[1])
        orders = [] if self.ranks is not None else strongest.orders(masks, targets)
        rows = evenly(len(masks), most or len(masks))
        masks, targets = masks[rows], targets[rows]
        pairs = _Between.of(masks, masks, self.n, self.ranks)
        start = self
        if np.array_equal(self.parameters, _prior_mean(self.n)):
            steep = self.parameters.copy()
            steep[[_OVERLAP, _PRODUCT, _SLOPE]] = -4.0, -4.0, 1.0
            start = min(self, Process(self.n, steep), key=lambda each: each._cost(pairs, targets)[0])
        found, cost = start._climbed(pairs, targets, iterations)
        for ranks in orders:
            ranked = replace(found, ranks=ranks)
            with_ranks = replace(pairs, by_rank=strongest.shared(ranks, masks, masks))
            if ranked._cost(with_ranks, targets)[0] < cost - _CONVINCING:
                return ranked._climbed(with_ranks, targets, iterations)[0]
        return found

    def _climbed(self, pairs: _Between, targets: Floats, iterations: int) -> tuple[Process, float]:
        """Return the process with better parameters, from these on, and their cost."""
        found = minimize(
            lambda parameters: replace(self, parameters=parameters)._cost(pairs, targets),
            self.parameters,
            jac=True,
            method="L-BFGS-B",
            bounds=[*_BOUNDS, *[(-1, 1)] * _KNOTS, *[(-3, 3)] * self.n],
            options={"maxiter": iterations, "maxfun": 2 * iterations},
        )
        return replace(self, parameters=found.x), float(found.fun)

    def _cost(self, pairs: _Between, targets: Floats) -> tuple[float, Floats]:
        """Return the negative log of likelihood times prior, and its gradient."""
        overlap, product, by_rank = terms = self._terms(pairs)
        curve, by_length = self._curve(*pairs.sizes)
        sizes, p, m = pairs.left_sizes, self.parameters, len(targets)
        own = self.own_variance(sizes)
        matrix = self._summed(pairs, curve, terms)
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
        gradient[_CURVE], gradient[_LENGTH] = ((by_sizes * each).sum() for each in (curve, by_length))
        overlap *= slope
        product *= slope
        by_overlap, by_product = overlap, product
        gradient[_OVERLAP], gradient[_PRODUCT] = by_overlap.sum(), by_product.sum()
        if self.ranks is not None:
            gradient[_STRONGEST] = (by_rank * slope).sum()
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

    def player_values(self, masks: Masks, loads: Floats, part_of: Ints, log_weights: Floats, cells: Cells) -> Floats:
        """Return (n, q): the players' values of a sum of covariances with coalitions T, the rows of `masks`.

            f(S) = sum over T of loads[p, T] k(S, T)   for the coalitions S of part p

        `loads` is (parts, m, q). `part_of` (c,) assigns the cells to parts, -1 to none: there f is nothing.
        `log_weights` (n,) are those of a semivalue. Coalitions of the players of a level and of those before are
        summed together; what they have of earlier levels then counts by the difference of the loads. If the process
        has more players than the cells, the last ones have left: coalitions with them count for nothing.
        """
        n_here, n_left = cells.n, self.n - cells.n
        if n_left:
            wider = Cells(np.append(cells.joined, np.full(n_left, cells.n_levels)))
            parts = np.full((wider.n_levels, self.n + 1), -1)
            parts[:-1, : n_here + 1] = part_of.reshape(-1, n_here + 1)
            log_weights = np.append(log_weights, np.full(n_left + 1, -np.inf))
            return self.player_values(masks, loads, parts.reshape(-1), log_weights, wider)[:n_here]
        n, values = self.n, np.zeros((self.n, loads.shape[2]))
        padded = np.concatenate([loads, np.zeros((1, *loads.shape[1:]))])  # the last one is for part -1
        of_level = part_of.reshape(cells.n_levels, n + 1)
        for level in range(cells.n_levels):
            there = cells.joined <= level
            mine = padded[of_level[level]]
            if level + 1 < cells.n_levels:
                mine = mine - padded[of_level[level + 1]]
            if mine.any():
                self._add_product(values, masks, there, mine, log_weights)
                self._add_others(values, masks, there, mine, log_weights)
                if self.ranks is not None:
                    variance = np.exp(self.parameters[_STRONGEST])
                    values += variance * strongest.player_values(self.ranks, masks, there, mine, log_weights)
        return values

    def _add_product(self, values: Floats, masks: Masks, there: Masks, loads: Floats, log_weights: Floats) -> None:
        """Add the values of the product, from coalitions of the players who are `there` (n,); loads (n + 1, m, q).

        With a_j the factor of a player inside and b_j that of one outside, the coefficient c_k of z^k in
        prod_j (b_j + a_j z) is the sum over coalitions of size k. Without player i the sums Q_k satisfy
        c_k = b_i Q_k + a_i Q_(k-1): solved for the larger term, upwards from k = 0 and downwards from n - 1, this is
        stable. Here n counts those who are there; all others are outside. No sum exceeds C(n, n/2), which floats hold
        up to a thousand players.
        """
        n, m, scale = int(there.sum()), len(masks), np.exp(self.log_scale)
        far, weights = np.exp(-self.rates), np.exp(log_weights)
        outside = np.where(masks, far, 1.0)
        others = np.exp(self.parameters[_PRODUCT]) * scale[masks.sum(axis=1)] * outside[:, ~there].prod(axis=1)
        loads = loads * scale[:, None, None] * others[:, None]
        used = np.asarray(loads.any(axis=(1, 2)))
        inside, outside = np.where(masks, 1.0, far)[:, there], outside[:, there]
        sums = np.zeros((n + 1, m))  # c_k
        sums[0] = 1
        for j, (a, b) in enumerate(zip(inside.T.copy(), outside.T.copy(), strict=True)):
            joined = sums[: j + 1] * a
            sums[: j + 1] *= b
            sums[1 : j + 2] += joined
        if n < self.n:
            values[~there] -= np.einsum("k,km,kmq->q", weights[: n + 1], sums, loads[: n + 1])
        found = np.zeros((n, values.shape[1]))
        ratio, inverse = inside / outside, outside / inside
        with_it, without = np.zeros_like(ratio), np.zeros_like(ratio)  # Q_k a_i and Q_k b_i

        def add(k: int) -> None:
            if used[k + 1]:
                found[:] += weights[k] * (with_it.T @ loads[k + 1])
            if used[k]:
                found[:] -= weights[k] * (without.T @ loads[k])

        # upwards while (k/n) a_i < (1 - k/n) b_i, downwards from n - 1 to there
        turn = np.ceil(n / (ratio + 1)).astype(np.int64)
        first, last = int(turn.min()), int(turn.max())
        for k in range(last):
            np.subtract(sums[k][:, None], with_it, out=without)
            if k >= first:
                without[k >= turn] = 0.0
            np.multiply(without, ratio, out=with_it)
            add(k)
        without[:] = 0.0
        for k in range(n - 1, first - 1, -1):
            np.subtract(sums[k + 1][:, None], without, out=with_it)
            if k < last:
                with_it[k < turn] = 0.0
            np.multiply(with_it, inverse, out=without)
            add(k)
        values[there] += found

    def _add_others(self, values: Floats, masks: Masks, there: Masks, loads: Floats, log_weights: Floats) -> None:
        """Add the values of the overlap, the trend and the curve, as `_add_product` does those of the product."""
        n, sizes, scale = self.n, masks.sum(axis=1), np.exp(self.log_scale)
        here, n_here = masks[:, there], int(there.sum())
        s = np.arange(1, min(n_here + 1, n))
        loads = loads[s]
        joined, left = (np.exp(log_choose(n_here, s) + log_weights[k]) for k in (s - 1, s))
        drift = (joined * s - left * (n_here - s)) / n_here
        pairs, which = np.unique(np.stack([sizes, here.sum(axis=1)]), axis=1, return_inverse=True)
        covariance, mean = SetKernel.of(n).moments_within(n_here, *pairs)
        factor = np.exp(self.parameters[_OVERLAP]) * scale[sizes]
        at = (joined + left)[:, None] * scale[s][:, None] * covariance[:, which.reshape(-1)] * factor
        by_row = np.einsum("sm,smq->mq", at, loads)
        by_size = self._of_size_alone(sizes)[: len(s)] + scale[s][:, None] * mean[:, which.reshape(-1)] * factor
        summed = np.einsum("sm,smq->sq", by_size, loads)
        values[there] += (here - here.mean(axis=1, keepdims=True)).T @ by_row + drift @ summed
        values[~there] -= left @ summed

    def _of_size_alone(self, sizes: Ints) -> Floats:
        """Return (n - 1, m): trend and curve between the sizes 1..n-1 and these."""
        n, inner = self.n, np.arange(1, self.n)
        trend = _TREND * (1 + np.outer(2 * inner / n - 1, 2 * sizes / n - 1))
        return np.asarray(trend + self._curve(inner, sizes)[0])


@dataclass(frozen=True, eq=False)
class Solved:
    """Utilities U of m coalitions whose covariance matrix is C = L L'."""

    root: Floats
    """(m, m): L^-1"""
    own: Floats
    """(m,): the variances of their own parts."""
    loads: Floats
    """(m, q): C^-1 U, the factors of covariances with these coalitions in what is predicted of others."""


@dataclass(frozen=True, eq=False)
class _Between:
    """What does not change with the parameters between coalitions left and right."""

    left: Floats
    right: Floats
    left_sizes: Ints
    right_sizes: Ints
    sizes: tuple[Ints, Ints]
    """The sizes that there are, (u,) on the left and (v,) on the right."""
    trend: Floats
    """(u, v)"""
    of_sizes: tuple[Ints, Ints]
    """Where tables over sizes have the pairs."""
    has_size: Floats
    """(m, u): 1 where a coalition on the left has a size."""
    overlap: Floats
    """The set kernel; nothing at the ends."""
    by_rank: Floats
    """`strongest.shared`; nothing without ranks."""

    @classmethod
    def of(cls, left: Masks, right: Masks, n: int, ranks: Ints | None = None) -> _Between:
        s, t = left.sum(axis=1), right.sum(axis=1)
        (a, place), (b, its_place) = (np.unique(each, return_inverse=True) for each in (s, t))
        of_sizes, has_size = (place[:, None], its_place[None]), (s[:, None] == a).astype(float)
        trend = _TREND * (1 + np.outer(2 * a / n - 1, 2 * b / n - 1))
        overlap = _overlap(left, right, s, t, n)
        by_rank = np.zeros((1, 1)) if ranks is None else strongest.shared(ranks, left, right)
        return cls(left.astype(float), right.astype(float), s, t, (a, b), trend, of_sizes, has_size, overlap, by_rank)


def _overlap(left: Masks, right: Masks, s: Ints, t: Ints, n: int) -> Floats:
    """Return the set kernel, 1 / [(c_s c_t - d_s d_t - z) g_s g_t], from one product of matrices; 0 at the ends."""
    kernel = SetKernel.of(n)

    def factors(masks: Masks, sizes: Ints, sign: float) -> Floats:
        sizes = np.clip(sizes, 1, n - 1)
        c, d, g = (each[sizes - 1, None] for each in (kernel.c, kernel.d, kernel.g))
        apart = (masks - sizes[:, None] / n) * np.sqrt(n / (sizes * (n - sizes)))[:, None]
        return np.concatenate([c, sign * d, sign * apart], axis=1) * g

    found: Floats = factors(left, s, -1.0) @ factors(right, t, 1.0).T
    np.reciprocal(found, out=found)
    found[s % n == 0] = 0.0
    found[:, t % n == 0] = 0.0
    return found


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
def _prior_mean(n: int) -> Floats:
    mean = np.zeros(_FIRST_PLAYER + n)
    mean[:_FIRST_KNOT] = _MEAN
    mean[_RATE] = -np.log(n)
    return mean


@lru_cache(maxsize=8)
def _prior_deviation(n: int) -> Floats:
    of_players = np.full(n, _PLAYER_DEVIATION[n > MANY_PLAYERS])
    return np.concatenate([_DEVIATION, np.full(_KNOTS, _KNOT_DEVIATION), of_players])
