"""The values to estimate, as sums over coalitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fgsv.coalitions import log_choose
from fgsv.semivalue import SHAPLEY, Semivalue, SizeWeights
from fgsv.types import Floats, Masks


@dataclass(frozen=True)
class Target:
    """The values to estimate: the sum over coalitions T of W(T) U(T).

        W(T) = [gain(t) (1{i in T} - t/n) + drift(t)]_i / C(n, t)

    and at the ends a part of U(0) and U(N) that is the same for all players. For Shapley values the drift is zero.
    Arrays over sizes have n + 1 entries.
    """

    n: int
    semivalue: Semivalue = SHAPLEY

    @cached_property
    def _weights(self) -> SizeWeights:
        return SizeWeights.of(self.semivalue, self.n)

    @cached_property
    def gain(self) -> Floats:
        """(n + 1,): n / (s (n - s)) for Shapley values; nothing at the ends, which are known."""
        return np.concatenate([[0.0], self._weights.gain, [0.0]])

    @cached_property
    def drift(self) -> Floats:
        """(n + 1,): how a function of sizes alone counts, for every player; at the ends, too."""
        return np.concatenate([[-self._weights.empty], self._weights.drift, [self._weights.full]])

    @cached_property
    def has_drift(self) -> bool:
        """Whether functions of sizes alone, worth nothing at both ends, count."""
        return bool(self._weights.drift.any())

    @cached_property
    def log_counts(self) -> Floats:
        """(n + 1,): log C(n, s)."""
        return log_choose(self.n, np.arange(self.n + 1))

    @cached_property
    def counts(self) -> Floats:
        """(n + 1,): C(n, s), whole numbers as far as floats have them."""
        return np.rint(np.exp(np.minimum(self.log_counts, 700.0)))

    @cached_property
    def base_law(self) -> Floats:
        """(n + 1,): in proportion to gain(s) sqrt(s (n - s)), the best law if utilities vary equally at all sizes."""
        s = np.arange(self.n + 1)
        law = self.gain * np.sqrt(s * (self.n - s))
        return law / max(law.sum(), 1e-300)  # one player: there are no such sizes

    def per_draw(self, masks: Masks) -> Floats:
        """Return (m, n): W(T) C(n, t), what a coalition counts that stands for all of its size; none at the ends."""
        sizes = masks.sum(axis=1)
        weights = (masks - (sizes / self.n)[:, None]) * self.gain[sizes, None]
        if self.has_drift:
            weights += np.where(sizes % self.n, self.drift[sizes], 0.0)[:, None]
        return weights

    def coefficients(self, masks: Masks) -> Floats:
        """Return (m, n): W(T), nothing at the ends."""
        sizes = masks.sum(axis=1)
        return self.per_draw(masks) * np.exp(-self.log_counts[sizes])[:, None]

    def of_sizes(self, worth: Floats) -> Floats:
        """Return (q,): the value that every player has in a game whose worth (n + 1, q) depends on sizes alone."""
        return np.asarray(self.drift @ worth)
