"""Plans: from a small pilot, what a precision will cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fgsv.running.run import iterate
from fgsv.valuation import Valuation

PILOT = 2048
PILOT_SECONDS = 20.0
BUDGETS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)


@dataclass(frozen=True)
class Plan:
    """What a run costs and how precise it will be, extrapolated from its first evaluations.

    The half-width of a share falls with the square root of the evaluations; the default method usually does
    better, since it learns as it goes. Seconds are those of this machine, now.
    """

    n_players: int
    n_groups: int
    n_evaluations: int
    """What the pilot has spent."""
    seconds: float
    half_width: float
    """The largest half-width of a share after the pilot."""
    confidence: float
    exact: bool = False

    @classmethod
    def of(cls, valuation: Valuation, seconds: float, confidence: float = 0.95) -> Plan:
        """Return the plan that the first part of a run suggests; `seconds` is what it took."""
        bounds = valuation.share_interval(confidence)
        return cls(
            valuation.partition.n_players,
            valuation.partition.n_groups,
            valuation.n_evaluations,
            seconds,
            float(np.max(bounds[..., 1] - bounds[..., 0])) / 2,
            confidence,
            exact=valuation.method == "exact",
        )

    def half_width_after(self, budget: int) -> float:
        """Return the expected largest half-width of a share after so many evaluations."""
        return self.half_width * float(np.sqrt(self.n_evaluations / budget))

    def evaluations_for(self, precision: float) -> int:
        """Return how many evaluations a half-width of `precision` is expected to take."""
        return max(self.n_evaluations, int(np.ceil(self.n_evaluations * (self.half_width / precision) ** 2)))

    def seconds_for(self, budget: int) -> float:
        """Return the seconds that so many evaluations are expected to take."""
        return self.seconds * budget / self.n_evaluations

    def to_frame(self) -> pd.DataFrame:
        """Return a table of budgets against half-widths and minutes."""
        budgets = [self.n_evaluations] if self.exact else [b for b in BUDGETS if b >= self.n_evaluations]
        return pd.DataFrame(
            {
                "evaluations": budgets,
                "half_width": [self.half_width_after(budget) for budget in budgets],
                "minutes": [self.seconds_for(budget) / 60 for budget in budgets],
            }
        )

    def __repr__(self) -> str:
        table = self.to_frame().to_string(index=False, float_format=lambda x: f"{x:.3g}")
        pilot = f"pilot: {self.n_evaluations} evaluations in {self.seconds:.1f} s"
        return f"{table}\n{pilot}; half-widths of the widest share at {self.confidence:.0%} confidence"


def plan(
    game: Any, groups: Any = None, *, pilot: int = PILOT, confidence: float = 0.95, seed: int = 0, **options: Any
) -> Plan:
    """Spend a pilot and return what precision will cost: budgets against half-widths and minutes.

    >>> import fgsv
    >>> found = fgsv.plan(fgsv.games.SumOfUnanimity(64), [i % 4 for i in range(64)])
    >>> found.evaluations_for(0.0001) > found.evaluations_for(0.0002)
    True

    Costs at most `pilot` evaluations, and about twenty seconds where they are slow. `options` are those of
    `fgsv.value`. A run with the same seed begins with the same evaluations.
    """
    start = time.monotonic()
    rounds = iterate(game, groups, budget=pilot, seed=seed, **options)
    valuation = next(rounds)
    while time.monotonic() - start < PILOT_SECONDS:
        following = next(rounds, None)
        if following is None:
            break
        valuation = following
    return Plan.of(valuation, time.monotonic() - start, confidence)
