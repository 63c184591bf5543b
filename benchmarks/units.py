"""What a provider gains by a split across units: exact values of four providers, one of which splits at random.

    python -m benchmarks units

Each of 60 times, 240 rows of four providers are pieces of 20 rows (`--unit-size 20`). The first provider deals its
rows at random to two names, and its pieces are cut anew. Printed is how much its share changes, beside how much it
changes with another split seed alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import fgsv

N_PROVIDERS, N_ROWS, UNIT_SIZE, REPEATS = 4, 240, 20, 60


def rows(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows with a target that three features explain in part."""
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return frame.assign(y=frame.sum(axis=1) + rng.normal(scale=2.0, size=n))


def share(frame: pd.DataFrame, test: pd.DataFrame, split_seed: int) -> float:
    """Return the exact share of the providers whose names begin with 0."""
    columns: dict[str, Any] = {"group": "provider", "target": "y", "test": test, "monte_carlo_only": True}
    table = fgsv.open_table(frame, model="ridge", unit_size=UNIT_SIZE, split_seed=split_seed, **columns)
    found = fgsv.exact(table.game, table.partition)
    names = [str(name) for name in found.names]
    return float(sum(part for name, part in zip(names, found.shares(), strict=True) if name.startswith("0")))


def main() -> None:
    """Print the changes of the share."""
    changes: dict[str, list[float]] = {"a split across units": [], "another split seed alone": []}
    for repeat in range(REPEATS):
        rng = np.random.default_rng(repeat)
        frame = rows(N_ROWS, rng).assign(provider=[str(k % N_PROVIDERS) for k in range(N_ROWS)])
        test = rows(1000, rng)
        dealt = frame["provider"].mask((frame["provider"] == "0") & (rng.random(N_ROWS) < 0.5), "0b")
        whole = share(frame, test, repeat)
        changes["a split across units"].append(share(frame.assign(provider=dealt), test, repeat) - whole)
        changes["another split seed alone"].append(share(frame, test, REPEATS + repeat) - whole)
    print("change of a share of about 25%, in percentage points")
    for why, found in changes.items():
        points = 100 * np.array(found)
        stderr = points.std(ddof=1) / np.sqrt(REPEATS)
        print(f"by {why}: mean {points.mean():+.2f} ± {stderr:.2f}, typical size {np.sqrt((points**2).mean()):.2f}")


if __name__ == "__main__":
    main()
