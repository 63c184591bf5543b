"""What a provider earns that knows the split seed and writes its rows to suit it: `python -m benchmarks chosen`.

West measures something else than three other providers, so its data does harm. It changes numbers by a billionth
until many of its rows are test rows, or those that only its own data explains.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import fgsv
from benchmarks.options import parsed
from fgsv.data.choice import chosen


def files() -> dict[str, pd.DataFrame]:
    """Return the honest file, and those in which west has written its rows to suit split seed 0."""
    rng = np.random.default_rng(0)
    x, number = rng.normal(size=(600, 3)), np.arange(600)
    west = number % 4 == 3
    y = np.where(west, x[:, 2], x[:, 0]) + 0.3 * rng.normal(size=600) > 0
    honest = pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=y.astype(int))
    odd = west & ((x[:, 0] > 0) != (x[:, 2] > 0))

    def written(wanted: np.ndarray) -> pd.DataFrame:
        rows = honest.copy()
        for _ in range(100):
            is_test = chosen(rows, None, fraction=0.25, seed=0, problem=lambda _: None).is_test
            rows.loc[west & (is_test != wanted), "b"] += 1e-9
        return rows

    made = {"honest": honest, "many": written(number % 5 < 3), "which": written(odd & (np.cumsum(odd) <= 38))}
    provider = np.tile(["north", "south", "east", "west"], 150)
    return {name: rows.assign(provider=provider) for name, rows in made.items()}


def measure(budget: int, others: int) -> pd.DataFrame:
    """Return the share of west in each file under split seed 0 and, on average, under others; and its warnings."""

    def share(rows: pd.DataFrame, split_seed: int) -> float:
        table = fgsv.open_table(rows, group="provider", target="y", split_seed=split_seed)
        valuation = fgsv.value(table.game, table.partition, budget=budget)
        return float(valuation.shares()[valuation.names.index("west")])

    return pd.DataFrame(
        {
            name: {
                "split seed 0": share(rows, 0),
                "mean of others": np.mean([share(rows, 1000 + each) for each in range(others)]),
                "warnings": len(fgsv.open_table(rows, group="provider", target="y").warnings),
            }
            for name, rows in files().items()
        }
    ).T


def main() -> None:
    """Run the benchmark, print its table and write it."""
    parser = argparse.ArgumentParser("chosen", description=__doc__)
    parser.add_argument("--budget", type=int, default=4000, help="evaluations of a valuation")
    parser.add_argument("--others", type=int, default=5, help="other split seeds")
    options = parsed(parser, "chosen")
    table = measure(options.budget, options.others)
    print("Share of west")
    print(table.round(2).to_string())
    options.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out / "chosen.csv")
