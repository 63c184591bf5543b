"""An epoch of the opening: what is fixed before it, and what its draws estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.methods.covariance.correction import Correction, Fold
from fgsv.methods.covariance.design import Law, counts
from fgsv.methods.covariance.process import Process
from fgsv.methods.covariance.sample import Sample
from fgsv.types import Floats, Ints

LEARNING = 1.5
"""The variance that a process leaves falls about like this power of the evaluations that it knows."""


@dataclass(frozen=True, eq=False)
class OpeningEpoch:
    """What is fixed before the first draw of an epoch of the opening."""

    first: int
    """Evaluations before the epoch, including the ends."""
    end: int
    """Evaluations after it."""
    law: Law
    process: Process
    beta: Floats
    """(k, q): the proxy's coefficients; what is estimated is U - beta * proxy."""

    def to_dict(self) -> dict[str, Any]:
        """Return how the draws of the epoch were made, as JSON can hold it."""
        return {
            "first": self.first,
            "end": self.end,
            "law": self.law.to_dict(),
            "process": self.process.parameters.tolist(),
            "ranks": self.process.listed_ranks,
            "proxy": self.beta.tolist(),
            "outputs": self.beta.shape[1],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> OpeningEpoch:
        """Read what `to_dict` wrote."""
        law, parameters = Law.from_dict(document["law"]), np.array(document["process"], dtype=float)
        ranks = None if document["ranks"] is None else np.array(document["ranks"], dtype=np.int64)
        process = Process.of(parameters, ranks)
        beta = np.array(document["proxy"], dtype=float)
        beta = beta if beta.size else beta.reshape(0, document["outputs"])  # an empty list forgets its columns
        return cls(document["first"], document["end"], law, process, beta)

    def resembles(self, other: OpeningEpoch) -> bool:
        """Say whether two epochs differ by rounding alone, as far as that goes in a search for parameters."""
        return (
            (self.first, self.end) == (other.first, other.end)
            and self.beta.shape == other.beta.shape
            and self.law.resembles(other.law)
            and self.process.n == other.process.n
            and self.process.listed_ranks == other.process.listed_ranks
            and np.allclose(self.process.parameters, other.process.parameters, atol=0.1)
            and np.allclose(self.beta, other.beta, atol=1e-3)
        )


@dataclass(frozen=True, eq=False)
class EpochEstimate:
    """The estimate of one epoch, without the ends, and what it was made of."""

    correction: Correction
    beta: Floats
    """(k, q): the proxy's coefficients; what is corrected is U - beta * proxy."""
    rows: Ints
    """(m,): where the coalitions of the sample are among the evaluations."""
    sample: Sample
    folds: Sequence[Fold]
    weight: float
    """Its weight beside other epochs: it depends on how many coalitions are known, never on utilities."""


def milestone(count: int) -> int:
    """Return the largest power of two, or one and a half times it, up to a count."""
    power = 1 << (count.bit_length() - 1)
    return power + power // 2 if count >= power + power // 2 else power


def epoch_weight(base: Floats, before: int, known: int) -> float:
    """Return the weight of an epoch beside others, if `before` coalitions are known before it and `known` with it.

    One over the variance to expect of it, if every size had its part of the draws by a law that knows nothing of the
    utilities, `base` (n - 1,), until no coalition of it is left. The law by which it drew does not count: it follows
    from utilities that other epochs rest on, and weights that depend on these would bias the mean.
    """
    number = counts(len(base) + 1)[1:-1]
    first, last = filled(base, number, before), filled(base, number, known)
    drawn = (last > first) & (last < number)
    number, first, last = number[drawn], first[drawn], last[drawn]
    variance = base[drawn] ** 2 * (1 - first / number) * (1 - last / number) / (last - first)
    return float(known**LEARNING / max(variance.sum(), 1e-300))


def filled(base: Floats, number: Floats, known: int) -> Floats:
    """Return (n - 1,): `known` coalitions divided among sizes in proportion to `base`, up to all that there are."""
    full = np.zeros(len(base), dtype=bool)
    while True:
        part = (known - number[full].sum()) / max(base[~full].sum(), 1e-300) * base
        more = ~full & (part >= number)
        if not more.any():
            return np.where(full, number, part)
        full |= more
