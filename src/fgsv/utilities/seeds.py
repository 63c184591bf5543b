"""Training seeds: one for all coalitions, or a fresh one for each, which follows from its rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fgsv.types import Ints
from fgsv.utilities.data import Data
from fgsv.utilities.fingerprint import row_digests

TrainingSeeds = Literal["fixed", "fresh"]


def check_training_seeds(training_seeds: str) -> bool:
    """Say whether every coalition has its own seed; raise an error for anything but the two words."""
    if training_seeds not in ("fixed", "fresh"):
        raise ValueError(f"training_seeds must be 'fixed' or 'fresh', got {training_seeds!r}")
    return training_seeds == "fresh"


@dataclass(frozen=True, eq=False)
class FreshSeeds:
    """A seed for every set of rows: a hash of the run's seed and of the rows' contents, in no order.

    The same rows have the same seed in any batch, on any worker, and in a later period in which others have joined.
    """

    seed: int
    digests: NDArray[np.void]
    """(n,): 16 bytes for the content of each row, padding included."""
    repeat: int = 0
    """Another number gives other seeds."""

    @classmethod
    def of_data(cls, data: Data, seed: int) -> FreshSeeds:
        """Return the seeds for sets of these rows."""
        return cls(seed, np.frombuffer(row_digests(data.X, data.labels_of(slice(None)), None), dtype="V16"))

    def of(self, rows: Ints) -> int:
        """Return the seed of a set of rows, from 0 to 2^32 - 1."""
        content = hashlib.sha256(f"{self.seed} {self.repeat} ".encode())
        content.update(np.sort(self.digests[rows]).tobytes())
        return int.from_bytes(content.digest()[:4], "big")
