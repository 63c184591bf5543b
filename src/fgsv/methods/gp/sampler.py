"""What is drawn: coalitions that nobody has evaluated, each at most once, equally likely within a size."""

from __future__ import annotations

import numpy as np

from fgsv.coalitions import Coalitions
from fgsv.methods.target import Target
from fgsv.types import Floats, Ints, Masks

ATTEMPTS = 100
"""Draws of coalitions that turn out to be known, before the unknown ones of a size are listed."""


class Sampler:
    """The coalitions that are known, or drawn and not evaluated yet; draws are without replacement."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._seen: set[bytes] = set()
        self._known = np.zeros(target.n + 1)

    @property
    def unknown(self) -> Floats:
        """(n + 1,): coalitions of each size that are not known."""
        return np.maximum(self.target.counts - self._known, 0.0)

    @property
    def is_done(self) -> bool:
        """Whether every coalition is known."""
        return not self.unknown.any()

    def is_free(self, masks: Masks) -> Masks:
        """Return (m,): which coalitions are unknown."""
        return np.fromiter((key not in self._seen for key in _keys(masks)), bool, len(masks))

    def take(self, masks: Masks) -> Masks:
        """Return (m,): which coalitions are new, each once; from now on all are known."""
        new = np.empty(len(masks), dtype=bool)
        for row, key in enumerate(_keys(masks)):
            new[row] = key not in self._seen
            self._seen.add(key)
        self._known += np.bincount(masks[new].sum(axis=1), minlength=self.target.n + 1)
        return new

    def release(self, masks: Masks) -> None:
        """Forget coalitions, as far as they are known."""
        known = np.array([key in self._seen for key in _keys(masks)], dtype=bool)
        self._seen.difference_update(_keys(masks))
        self._known -= np.bincount(masks[known].sum(axis=1), minlength=self.target.n + 1)

    def law(self, scale: Floats, explore: float, costs: Floats) -> Floats:
        """Return (n + 1,): the part of each size in the next draws, a little of it whatever the scale says."""
        base = self.target.base_law * (self.unknown / self.target.counts) / np.sqrt(costs)
        if not base.any():
            return base
        best = base * scale
        return explore * base / base.sum() + (1 - explore) * best / best.sum()

    def allocation(self, law: Floats, count: float) -> Floats:
        """Return (n + 1,): how many of `count` draws each size gets by the law, but no more than are unknown."""
        unknown = self.unknown
        full = unknown == 0
        found = np.zeros(len(law))
        while (open_law := np.where(full, 0.0, law)).any():
            left = max(0.0, count - unknown[full].sum())
            found = np.where(full, unknown, open_law * left / open_law.sum())
            over = ~full & (found > unknown)
            if not over.any():
                break
            full |= over
        return np.minimum(found, unknown)

    def draw(self, law: Floats, count: int, rng: np.random.Generator, *, ends: bool = False) -> tuple[Masks, Floats]:
        """Draw up to `count` unknown coalitions; return them, in random order, and how many of each size to expect.

        Sizes are independent of each other, but those that would mostly be drawn are completed; with `ends`,
        coalitions of one player and of all but one come before all others.
        """
        unknown = self.unknown
        sizes = np.arange(len(law))
        outer = ends & (unknown > 0) & ((sizes == 1) | (sizes == len(law) - 2))
        if outer.any() and unknown[outer].sum() >= count:
            law = np.where(outer, law, 0.0)
            outer = np.zeros_like(outer)
        full = self._completed(law, count, outer)
        left = count - round(float(unknown[full].sum()))
        open_law = np.where(full, 0.0, self.allocation(np.where(full, 0.0, law), left))
        expected = np.where(full, unknown, open_law)
        numbers = np.where(full, unknown, 0.0)
        while (short := count - round(float(numbers.sum()))) and open_law.any():
            numbers = np.minimum(numbers + rng.multinomial(short, open_law / open_law.sum()), unknown)
            open_law = np.where(numbers < unknown, open_law, 0.0)
        return self._of_sizes(numbers.astype(int), rng), expected

    def _completed(self, law: Floats, count: int, full: Masks) -> Masks:
        """Return (n + 1,): sizes of which more than half would be drawn, if enough draws are left for others.

        Those that are `full` are completed in any case.
        """
        unknown = self.unknown
        full = full.copy()
        while (open_law := np.where(full, 0.0, law)).any():
            left = count - unknown[full].sum()
            part = left * open_law / open_law.sum() / np.maximum(unknown, 1.0)
            most = int(part.argmax())
            if part[most] <= 0.5 or left < 2 * unknown[most]:
                break
            full[most] = True
        return full

    def _of_sizes(self, numbers: Ints, rng: np.random.Generator) -> Masks:
        """Return so many unknown coalitions of each size, in random order."""
        n = self.target.n
        numbers = np.minimum(numbers, self.unknown).astype(int)
        sizes = np.repeat(np.arange(n + 1), numbers)
        found = []
        for _ in range(ATTEMPTS):
            if not len(sizes):
                break
            some = rng.permuted(np.arange(n) < sizes[:, None], axis=1)
            new = self.take(some)
            found.append(some[new])
            sizes = sizes[~new]
        for size in np.unique(sizes):  # hardly any left
            every = Coalitions.of_size(n, int(size)).masks()
            some = rng.permutation(every[self.is_free(every)])[: np.count_nonzero(sizes == size)]
            self.take(some)
            found.append(some)
        return rng.permutation(np.concatenate([np.zeros((0, n), dtype=bool), *found]))


def _keys(masks: Masks) -> list[bytes]:
    """Return the coalitions as bytes."""
    packed = np.packbits(masks, axis=1)
    return packed.view(f"V{packed.shape[1]}")[:, 0].tolist() if packed.size else []
