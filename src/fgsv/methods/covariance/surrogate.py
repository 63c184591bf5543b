"""A model of the utility, learned from the draws, whose player values are known in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.special import gammaln

from fgsv.methods.covariance.embedding import Embedding, embed, size_hats, standardise
from fgsv.methods.covariance.history import evenly
from fgsv.semivalue import SizeWeights
from fgsv.types import Floats, Ints, Masks

Singles = NDArray[np.float32]

MOST_PLAYERS = 1024
"""Beyond this many players the closed form costs more than the surrogate is worth."""
MOST_POINTS = 10240
"""Limit on the kernel's coalitions: time and memory grow with their square."""
MOST_ROWS = 32768
"""Limit on the coalitions that an embedding is fitted to."""

# The kernel's shape was chosen once, on sums of unanimity games and on regressions; the optimum is flat, and
# fitting it to each game by marginal likelihood did worse.
_DECAY = 3.0
_LENGTH = 1.3
_LIFT = 2.0
_NUGGET = 0.02
_CLIP = 8.0
"""Deviations are clipped at this many times the spread of their size: otherwise outliers dominate the fit."""
_ITERATIONS, _TOLERANCE = 30, 0.1
"""Where conjugate gradients stop: after so many steps, or with this fraction of the residual left."""
_BLOCK = 512
"""Rows of the kernel computed at a time."""
_STRIP = 256
"""The same of a kernel between M coalitions, where a half is enough."""
_LEAST_TRUST = 0.1
"""Minimum trust: a useless surrogate then costs a hundredth of a draw's variance, and can still become useful."""
_PRIOR = 4.0
"""Imaginary draws that confirm the surrogate before any real one does."""
DIRECT = 1024
"""Up to this many coalitions, too few to fit the embedding, the kernel's systems are solved directly."""


@dataclass(frozen=True, eq=False)
class SetKernel:
    """A covariance between the utilities of two coalitions, from their sizes and their overlap alone.

        k(S, T) = sqrt((A_ss - 1) (A_tt - 1)) / (A_st - z)

    where z is the correlation of the two indicator vectors, A_st = a [(1 + e) c_s c_t - d_s d_t], and c_s, d_s are
    cosh and sinh of logit(s/n) / 2l. As a power series in z it has interactions of every order d, with weights that
    fall like a^-d; utilities of similar sizes resemble each other; k(S, S) = 1.
    """

    n: int
    c: Floats
    """(n - 1,) for the sizes 1..n-1, as are d and g; sqrt(a (1 + e)) c_s of the formula."""
    d: Floats
    """sqrt(a) d_s of the formula."""
    g: Floats
    """1 / sqrt(A_ss - 1)"""

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, n: int) -> SetKernel:
        """Return the kernel for n players."""
        s = np.arange(1, n)
        half = np.log(s / (n - s)) / (2 * _LENGTH)
        c, d = np.cosh(half) * np.sqrt(_DECAY * (1 + _LIFT / n)), np.sinh(half) * np.sqrt(_DECAY)
        return cls(n, c, d, 1 / np.sqrt(c**2 - d**2 - 1))

    def features(self, masks: Masks, sizes: Ints, sign: int) -> Singles:
        """Return (m, n + 2) rows; the product of one with sign 1 and one with sign -1 is 1 / k."""
        g = self.g[sizes - 1]
        rows = np.empty((len(sizes), self.n + 2), dtype=np.float32)
        np.multiply(standardise(masks, sizes), (sign * g).astype(np.float32)[:, None], out=rows[:, : self.n])
        rows[:, self.n] = self.c[sizes - 1] * g
        rows[:, self.n + 1] = sign * self.d[sizes - 1] * g
        return rows

    def __call__(self, left: Singles, right: Singles) -> Singles:
        """Return the (m, M) kernel between rows with sign 1 and rows with sign -1."""
        kernel = np.empty((len(left), len(right)), dtype=np.float32)
        # blocks small enough to stay in the cache between the two operations
        for start in range(0, len(left), _BLOCK):
            block = kernel[start : start + _BLOCK]
            np.matmul(left[start : start + _BLOCK], right.T, out=block)
            np.reciprocal(block, out=block)
        return kernel

    def moments(self) -> tuple[Floats, Floats]:
        """Return (n - 1, n - 1) tables C and M over the sizes s and t.

        For S uniform of size s and T of size t, E[(1{i in S} - s/n) k(S, T)] = C[s, t] (1{i in T} - t/n) and
        E[k(S, T)] = M[s, t].
        """
        covariance, mean = self._tables(self.n, 0)
        return covariance[:, 1:-1], mean[:, 1:-1]

    def moments_within(self, n_here: int, t: Ints, t_here: Ints) -> tuple[Floats, Floats]:
        """Return tables C and M like `moments`, for S uniform among the coalitions of s of `n_here` of the players.

        `t` and `t_here` (k,) count the players of T, and those among the n_here; s = 1..n_here, but below n. A row
        for each s. Where T is the empty or the full coalition, the kernel is nothing.
        """
        covariance, mean = np.empty((2, min(n_here, self.n - 1), len(t)))
        for n_others in np.unique(t - t_here).tolist():
            columns = np.flatnonzero(t - t_here == n_others)
            tables = self._tables(n_here, n_others)
            covariance[:, columns], mean[:, columns] = (table[:, t_here[columns]] for table in tables)
        return covariance, mean

    @lru_cache(maxsize=64)  # noqa: B019 - kernels are few and cached themselves
    def _tables(self, n_here: int, n_others: int) -> tuple[Floats, Floats]:
        """Return C and M for T with 0..n_here of the players here, and `n_others` of the others.

        Sums over the overlap of S and T, hypergeometric, where its probability exceeds 1e-16.
        """
        n, t_here = self.n, np.arange(n_here + 1)[:, None]
        t, left = t_here + n_others, n_here - t_here
        log_factorial = gammaln(np.arange(n + 1) + 1.0)
        inner = t % n > 0
        at = t * inner - 1
        by_member = np.where(t_here * left > 0, t_here * left, np.inf)[:, 0]
        covariance, mean = np.zeros((2, min(n_here, n - 1), n_here + 1))
        for s in range(1, len(mean) + 1):
            centre = s * t_here / n_here
            reach = 9 * np.sqrt(s * (n_here - s) * t_here * left / n_here**3) + 9
            low = np.maximum(np.maximum(0, s - left), np.floor(centre - reach)).astype(int)
            high = np.minimum(np.minimum(s, t_here), np.ceil(centre + reach)).astype(int)
            overlap = low + np.arange((high - low).max() + 1)
            counted = inner & (overlap <= high)
            overlap = np.minimum(overlap, high)
            outside = s - overlap
            log_p = log_factorial[t_here] - log_factorial[overlap] - log_factorial[t_here - overlap]
            log_p += log_factorial[left] - log_factorial[outside] - log_factorial[left - outside]
            log_p -= log_factorial[n_here] - log_factorial[s] - log_factorial[n_here - s]
            z = (overlap * n - s * t) / np.sqrt(s * (n - s) * np.where(inner, t * (n - t), 1))
            a = self.c[s - 1] * self.c[at] - self.d[s - 1] * self.d[at]
            k = np.exp(log_p) * counted / ((a - z) * self.g[s - 1] * self.g[at])
            mean[s - 1] = k.sum(axis=1)
            scale = np.sqrt(np.maximum(s * (n_here - s) * t_here * left, 1))
            correlation = (k * ((overlap * n_here - s * t_here) / scale)).sum(axis=1)
            covariance[s - 1] = correlation * np.sqrt(s * (n_here - s) / by_member)
        return covariance, mean


class Gram:
    """The kernel between M coalitions, in strips of rows up to the diagonal: a half of it is enough.

    Every fit has the coalitions of the one before and some more, until there are too many: the strips are kept.
    """

    def __init__(self) -> None:
        self._strips: list[Singles] = []
        self._n_rows = 0

    def forget(self) -> None:
        """Drop what is known: the next coalitions will be others."""
        self._strips, self._n_rows = [], 0

    def extend(self, kernel: SetKernel, left: Singles, right: Singles) -> None:
        """Compute the kernel between coalitions, of which the first ones are those of the last time."""
        del self._strips[self._n_rows // _STRIP :]  # the last one was not a whole strip
        known, self._n_rows = _STRIP * len(self._strips), len(left)
        for start in range(known, len(left), _STRIP):
            self._strips.append(kernel(left[start : start + _STRIP], right[: start + _STRIP]))

    def __matmul__(self, vectors: Singles) -> Singles:
        """Return the product with (J, M, q) vectors."""
        n_streams, length, n_outputs = vectors.shape
        rows = vectors.swapaxes(1, 2).reshape(-1, length)  # products are fastest from this side
        product = np.zeros_like(rows)
        for start, strip in zip(range(0, length, _STRIP), self._strips, strict=True):
            end = start + len(strip)
            product[:, :end] += rows[:, start:end] @ strip
            product[:, start:end] += rows[:, :start] @ strip[:, :start].T
        return product.reshape(n_streams, n_outputs, length).swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """f_j(S) = r(s) [g_j(S) + sum over T of c_Tj k(S, T)], one f_j for each stream j, the same T for all."""

    kernel: SetKernel
    spread: Floats
    """(n - 1, q): r"""
    embeddings: tuple[Embedding, ...]
    """g_j"""
    masks: Masks
    """(M, n)"""
    sizes: Ints
    """(M,)"""
    coefficients: Singles
    """(J, M, q)"""
    fitted: Singles
    """(R, q): f_j(S) / r(s) of the coalitions that it was fitted to, j the stream of each; NaN if not computed."""
    n_folds: int = 0
    """Outputs after the q that it explains nothing of."""

    @cached_property
    def _right(self) -> Singles:
        return self.kernel.features(self.masks, self.sizes, -1)

    @property
    def what(self) -> str:
        """What it is, in words."""
        placed = any(embedding.positions.any() for embedding in self.embeddings)
        return "an embedding of the players and a kernel" if placed else "a kernel over coalitions"

    def explained(self, masks: Masks, sizes: Ints, streams: Ints, fitted: Singles | None = None) -> Floats:
        """Return (m, q + n_folds) values f_j(S), j the stream of each coalition; `fitted` are theirs, where known."""
        nothing = np.full((len(sizes), self.spread.shape[1]), np.nan, dtype=np.float32)
        shape = nothing if fitted is None else fitted.copy()
        unknown = np.isnan(shape[:, 0])
        for stream, (embedding, coefficients) in enumerate(zip(self.embeddings, self.coefficients, strict=True)):
            mine = np.flatnonzero((streams == stream) & unknown)
            for start in range(0, len(mine), _BLOCK):
                rows = mine[start : start + _BLOCK]
                left = self.kernel.features(masks[rows], sizes[rows], 1)
                shape[rows] = self.kernel(left, self._right) @ coefficients
                shape[rows] += embedding(standardise(masks[rows], sizes[rows]), size_hats(self.kernel.n, sizes[rows]))
        return self._beside_folds(self.spread[sizes - 1] * shape)

    def _beside_folds(self, values: Floats) -> Floats:
        return np.pad(values, ((0, 0), (0, self.n_folds))) if self.n_folds else values

    def trust(self, sizes: Ints, explained: Floats, seen: Floats) -> Floats:
        """Return (q + n_folds,): how much of f the draws confirm, as its coefficient in the deviations `seen`.

        In units of r(s), with outliers clipped, and as if a few more draws had agreed with f.
        """
        spread = np.pad(self.spread[sizes - 1], ((0, 0), (0, self.n_folds)), constant_values=1.0)
        explained, seen = explained / spread, _clipped(seen, spread)
        agreement = (_PRIOR + (explained * seen).sum(axis=0)) / (_PRIOR + (explained**2).sum(axis=0))
        return np.clip(agreement, _LEAST_TRUST, 1)

    def player_values(self, weights: SizeWeights, sampled: Masks) -> Floats:
        """Return (n, q + n_folds): each player's value of the mean f_j, from the sampled sizes."""
        covariance, mean = self.kernel.moments()
        coefficients = self.coefficients.mean(axis=0, dtype=float)
        gain = (weights.gain * sampled)[:, None] * self.spread
        by_point = coefficients * (covariance.T @ gain)[self.sizes - 1]
        values = self.masks.T @ by_point - by_point.T @ self.sizes / self.kernel.n
        values += sum(embedding.covariances(gain) for embedding in self.embeddings) / len(self.embeddings)
        drift = (weights.drift * sampled)[:, None] * self.spread
        return self._beside_folds(values + (coefficients * (mean.T @ drift)[self.sizes - 1]).sum(axis=0))


def cross_fit(
    masks: Masks,
    sizes: Ints,
    deviations: Floats,
    owners: Ints,
    spread: Floats,
    gram: Gram | None = None,
    last: Surrogate | None = None,
    n_folds: int = 0,
) -> Surrogate:
    """Fit f_j for each stream j on the coalitions not its own: an embedding, then the kernel to what that leaves.

    `deviations` (J, M, q) are those from the mean of the size, as each stream sees it; `owners` (M,) names the stream
    of each coalition, -1 where it belongs to none and serves all; `gram` is that of the fit before, `last` what that
    found. The kernel takes at most `MOST_POINTS` of the coalitions. All systems share one kernel matrix, and each
    product with it, in conjugate gradients. They need not be solved to the last digit: any coefficients make a valid
    surrogate, because prediction and closed form use the same ones. The last `n_folds` outputs are left alone.
    """
    n = masks.shape[1]
    kernel = SetKernel.of(n)
    deviations, spread = (each[..., : each.shape[-1] - n_folds] for each in (deviations, spread))
    n_streams, _, n_outputs = deviations.shape
    targets = _clipped(deviations, spread[sizes - 1]).astype(np.float32)
    others = owners[None, :] != np.arange(n_streams)[:, None]
    embeddings, embedded = [Embedding.nothing(n, n_outputs)] * n_streams, np.zeros_like(targets)
    if len(masks) > DIRECT:
        standardised, hats = standardise(masks, sizes), size_hats(n, sizes)
        for stream, rows in enumerate(others):
            before = None if last is None else last.embeddings[stream]
            embeddings[stream] = embed(standardised[rows], hats[rows], targets[stream, rows], before)
            embedded[stream] = embeddings[stream](standardised, hats)
        targets -= embedded
    points = evenly(len(masks), int(MOST_POINTS / max(1.0, np.sqrt(n_outputs / 4))))
    fitted = np.full(targets.shape[1:], np.nan, dtype=np.float32)
    masks, sizes, owners, used = masks[points], sizes[points], owners[points], others[:, points, None]
    left, right = (kernel.features(masks, sizes, sign) for sign in (1, -1))
    if len(masks) <= DIRECT:
        coefficients = _solve_directly(kernel(left, right), used * targets[:, points], used)
    else:
        if gram is not None and len(points) < len(fitted):  # other coalitions than before, and than the next time
            gram.forget()
            gram = None
        gram = Gram() if gram is None else gram
        gram.extend(kernel, left, right)
        common, owned = np.flatnonzero(owners < 0), np.flatnonzero(owners >= 0)
        basis = common[:: max(1, len(common) // 400)]
        coefficients = _solve(gram, kernel(left, right[basis]), used * targets[:, points], used, common, basis)
        everywhere = gram @ coefficients + embedded[:, points]
        fitted[points[owned]] = everywhere[owners[owned], owned]
    return Surrogate(kernel, spread, tuple(embeddings), masks, sizes, coefficients, fitted, n_folds)


def _clipped(deviations: Floats, spread: Floats) -> Floats:
    with np.errstate(over="ignore"):  # a size without spread so far
        return np.clip(deviations / spread, -_CLIP, _CLIP)


def _solve_directly(gram: Singles, targets: Singles, used: Masks) -> Singles:
    """Solve (K + nugget) c = y on the used rows of each stream: (J, M, q), by elimination."""
    solution = np.zeros(targets.shape, dtype=np.float32)
    for stream, on in enumerate(used[:, :, 0]):
        rows = np.flatnonzero(on)
        matrix = gram[np.ix_(rows, rows)] + np.float32(_NUGGET) * np.eye(len(rows), dtype=np.float32)
        solution[stream, rows] = cho_solve(cho_factor(matrix), targets[stream, rows])
    return solution


def _solve(gram: Gram, columns: Singles, targets: Singles, used: Masks, common: Ints, basis: Ints) -> Singles:
    """Solve (K + nugget) c = y on the used rows of each stream: (J, M, q), by preconditioned conjugate gradients.

    The preconditioner is a Nystroem approximation of K from its `columns` at a `basis`, some of those `common` to all
    streams. Each system stops separately: values that only other streams may see must not prolong a stream's own.
    """
    corner = columns[basis].astype(float)
    corner[np.diag_indices(len(basis))] += 1e-3
    lower = cholesky(corner, lower=True).astype(np.float32)
    root = solve_triangular(lower, columns.T, lower=True)  # K is about root' root
    # if the first epoch is one large round, nothing is common and the preconditioner has no effect
    held = float((root[:, common] ** 2).sum(axis=0).mean()) if len(common) else 0.0
    noise = _NUGGET + max(1e-2, 1 - held)
    everything = root @ root.T + noise * np.eye(len(basis), dtype=np.float32)
    unused = [root[:, ~on[:, 0]] for on in used]
    factors = [cho_factor(everything - columns @ columns.T) for columns in unused]
    on = used.astype(np.float32)

    def precondition(residual: Singles) -> Singles:
        inner = root @ residual
        inner = np.stack([cho_solve(factor, v) for factor, v in zip(factors, inner, strict=True)])
        return on * (residual - root.T @ inner) / np.float32(noise)

    def multiply(vectors: Singles) -> Singles:
        return on * (gram @ vectors) + np.float32(_NUGGET) * vectors

    def dot(left: Singles, right: Singles) -> Floats:
        return np.einsum("jmq,jmq->jq", left, right, dtype=np.float64)[:, None, :]

    residual = targets.copy()
    solution = np.zeros_like(residual)
    direction = precondition(residual)
    descent = dot(residual, direction)
    enough = _TOLERANCE**2 * dot(residual, residual)
    for _ in range(_ITERATIONS):
        image = multiply(direction)
        going = dot(residual, residual) > enough
        if not going.any():
            break
        step = (going * descent / np.maximum(dot(direction, image), 1e-30)).astype(np.float32)
        solution += step * direction
        residual -= step * image
        scaled = precondition(residual)
        last, descent = descent, dot(residual, scaled)
        direction = scaled + (descent / np.maximum(last, 1e-30)).astype(np.float32) * direction
    return solution
