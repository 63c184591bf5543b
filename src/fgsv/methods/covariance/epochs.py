"""Epochs: what an allocation was fixed by, and the sums over its draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgsv.methods.covariance.surrogate import Surrogate
from fgsv.methods.method import OtherLaw
from fgsv.types import Floats, Ints

N_STREAMS = 4
N_REPLICATES = 8
"""Replicates in each stream; the standard errors use all of them."""
PARTS = N_STREAMS * N_REPLICATES
_ALIKE = 0.01
"""How far two probabilities may differ, relative to one of them, if they differ by rounding alone."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What earlier draws predict for an epoch."""

    beta: Floats
    """(k, q): the proxy's coefficients; what is estimated by sampling is U - beta * proxy."""
    intercept: Floats
    """(n - 1, q): h(s), the mean of that at each size."""
    spread: Floats
    """(n - 1, q): its standard deviation about h."""
    residual_spread: Floats
    """(n - 1, q): the same after subtracting the surrogate."""
    trust: Floats
    """(q,): the fraction of the surrogate's predictions that was confirmed; only this much is subtracted."""


@dataclass(eq=False)
class Epoch:
    """One fixed allocation of sizes, and the sums over its draws, in streams that correct each other."""

    outlook: Outlook
    allocation: Floats
    """(n - 1,): the probability q(s) of each size; zero where the size is enumerated."""
    first: int
    """The number of rows of the history before the epoch."""
    betas: Floats
    """(J, k, q): the proxy's coefficients in each stream, learned from the others."""
    intercepts: Floats
    """(J, n - 1, q): h(s) in each stream."""
    surrogate: Surrogate | None
    foreseen: Floats
    """(n, q): the players' values of the forecast."""
    known: Floats
    """(n, q): the part that needs no sampling, including the surrogate's values."""
    total: Floats
    """(n, q): the weighted sum of the residuals."""
    sums: NDArray[np.float32]
    """(PARTS, n, q): the same for each replicate, only for the errors."""
    counts: Floats
    """(PARTS,): draws."""
    explained: list[Floats]
    """The surrogate's prediction for each draw, as a deviation from the mean of its size."""
    residuals: list[Floats]
    """The residual of each draw."""
    refit_at: int
    """Rows of the history at which the surrogate is refitted."""

    def owners(self, parts: NDArray[np.int8]) -> Ints:
        """Return (m,): the stream of each row of a history, from its part; -1 if it is no draw of this epoch."""
        found = parts.astype(np.int64) // N_REPLICATES
        found[: self.first] = -1
        return found

    def clear(self) -> None:
        """Forget all draws, which are to be added again."""
        self.total[:], self.sums[:], self.counts[:] = 0, 0, 0
        self.explained.clear()
        self.residuals.clear()

    def add(self, parts: Ints, residuals: Floats, sums: Iterator[tuple[slice, Floats]]) -> None:
        """Add draws: the part (m,) and the residual (m, q) of each, and `sums_by_part` of their estimates."""
        for rows, each in sums:
            self.sums[rows] += each
            self.total += each.sum(axis=0)
        self.counts += np.bincount(parts, minlength=PARTS)
        self.residuals.append(residuals)

    def summed(self, weight: float = 1.0) -> Sums:
        """Return the sums so far, and the deviation of each replicate from the mean of its stream.

        Each draw counts as `weight` draws.
        """
        count = weight * self.counts.sum()
        by_stream = self.counts.reshape(N_STREAMS, N_REPLICATES)
        fraction = (by_stream / np.maximum(by_stream.sum(axis=1, keepdims=True), 1)).astype(np.float32)
        deviations = np.empty(self.sums.shape, dtype=np.float32)
        for stream in range(N_STREAMS):
            parts = slice(stream * N_REPLICATES, (stream + 1) * N_REPLICATES)
            total = self.sums[parts].sum(axis=0)
            # the mean is the replicates' own: 1 - sum of squares is (R - 1) / R where they are equal
            freedom = 1 - float((fraction[stream] ** 2).sum())
            scale = np.float32(weight / np.sqrt(freedom) if freedom > 1e-6 else np.nan)
            deviations[parts] = scale * (self.sums[parts] - fraction[stream][:, None, None] * total)
        totals = weight * self.total + count * self.known
        return Sums(count, totals, count * self.betas.mean(axis=0), deviations)

    @property
    def law(self) -> dict[str, Any]:
        """By what probabilities sizes are drawn, as JSON can hold it."""
        return {"probability_of_size": self.allocation.tolist()}

    def follow(self, law: Mapping[str, Any]) -> None:
        """Take over the law that was recorded by a processor that rounds differently."""
        recorded = np.array(law["probability_of_size"], dtype=float)
        alike = recorded.shape == self.allocation.shape and np.array_equal(recorded > 0, self.allocation > 0)
        if not alike or not np.allclose(recorded, self.allocation, rtol=_ALIKE, atol=0.0):
            raise OtherLaw(
                f"the law recorded for the draws after {self.first} others is not the one that the recorded "
                "utilities lead to"
            )
        self.allocation = recorded


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of an epoch."""

    mass: float
    """Draws."""
    totals: Floats
    """(n, q): their estimates."""
    betas: Floats
    """(k, q): their coefficients of the proxy."""
    deviations: NDArray[np.float32]
    """(PARTS, n, q); NaN if a stream has draws of one replicate only."""

    @classmethod
    def nothing(cls, n: int, k: int, q: int) -> Sums:
        """Return the sums of no draws in a game of n players and q outputs, with k bands of a proxy."""
        return cls(0.0, np.zeros((n, q)), np.zeros((k, q)), np.zeros((PARTS, n, q), dtype=np.float32))

    @property
    def knows_its_error(self) -> bool:
        """Whether there are draws, and more than one replicate of them in each stream."""
        return self.mass > 0 and not np.isnan(self.deviations[:, 0, 0]).any()


def means(epochs: Sequence[Sums]) -> tuple[Floats, Floats, NDArray[np.float32]]:
    """Return the estimate from epochs, the coefficients of the proxy and the deviations, each draw weighing alike."""
    mass = sum(epoch.mass for epoch in epochs) or 1.0
    totals, beta = np.zeros_like(epochs[0].totals), np.zeros_like(epochs[0].betas)
    deviations = np.zeros_like(epochs[0].deviations)
    for epoch in epochs:
        totals += epoch.totals
        beta += epoch.betas / mass
        deviations += epoch.deviations
    totals /= mass
    deviations *= np.float32(1 / mass)
    return totals, beta, deviations
