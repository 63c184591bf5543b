"""What is fixed before an epoch of the opening: the law of its draws, and the process that predicts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.estimators.covariance.design import Law
from fgsv.estimators.covariance.process import Process
from fgsv.types import Floats


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
