"""Differences between a stated result and a recomputed one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgsv.types import Floats

ROUNDING = 1e-6
"""How far numbers may differ, relative to the largest beside them, because processors round differently."""
LEARNED = 0.01
"""How far estimates may differ for the same reason, in standard errors: learning amplifies rounding."""


@dataclass(frozen=True)
class Difference:
    """One difference between a stated result and the recomputed one."""

    where: str
    stated: Any
    derived: Any

    def __str__(self) -> str:
        return f"{self.where}: stated {self.stated}, derived {self.derived}"


class Differences(list[Difference]):
    """What differs between a stated result and its ledger; empty if nothing does."""

    on_trust: tuple[str, ...] = ()
    """Fields that neither follow from the recorded utilities nor were recorded when the result was made."""
    notes: tuple[str, ...] = ()
    to_the_bit: bool = True
    """Whether the recomputed values have the bits of the stated ones."""
    n_evaluated: int = 0
    """Recorded batches that were evaluated again."""


def different_entries(
    name: str,
    stated: Any,
    derived: Any,
    names: tuple[Any, ...],
    *,
    by_output: bool = False,
    rounding: float = 0.0,
    slack: Floats | float = 0.0,
) -> Iterator[Difference]:
    """Yield the entries of two arrays that differ by more than `rounding`, relative to the largest, and `slack`.

    With `by_output` the last axis has an entry for each output, and each is compared with the largest of its own.

    Args:
        name: The name of the field.
        stated: What the result states.
        derived: What was computed again.
        names: The names of the groups, for fields with an entry for each.
        by_output: Whether the last axis has an entry for each output.
        rounding: The largest difference that is allowed, relative to the largest entry.
        slack: The largest difference that is allowed in any case: a number, or an array like the field.

    Yields:
        Five differences at the most, and then how many there are.

    """
    if stated is None or derived is None or np.shape(stated) != np.shape(derived):
        if stated is not derived:
            yield Difference(f"shape of {name}", np.shape(stated), np.shape(derived))
        return
    a = np.asarray(stated)
    b = np.asarray(derived)
    same = (a == b) | ((a != a) & (b != b))
    finite = np.isfinite(a) & np.isfinite(b)
    if rounding:
        over = tuple(range(a.ndim - 1)) if by_output else None
        largest = np.abs(np.where(finite, a, 0)).max(axis=over, keepdims=True, initial=0)
        with np.errstate(invalid="ignore"):
            same = same | (finite & (np.abs(a - b) <= np.maximum(rounding * largest, slack)))
    wrong = np.argwhere(~same)
    for index in wrong[:5]:
        place = tuple(index.tolist())
        label = f" of group {names[place[0]]!r}" if name in ("values", "stderr") and place else f" {list(place)}"
        yield Difference(name + label, a[place].item(), b[place].item())
    if len(wrong) > 5:
        yield Difference(name, f"{len(wrong)} entries in total", "others")
