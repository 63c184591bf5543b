"""One prediction of a pipeline explained by fgsv, shap and shapiq with the same evaluations: `make bench-explain`.

The game is that of docs/how-to/explain.md, with more features; true values are enumerated.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.preprocessing import OneHotEncoder

import fgsv
from benchmarks.peers import PEERS, Counted
from experiments.repeats import run_all

OURS = "fgsv.value"


@cache
def problem() -> tuple[fgsv.Game, list[str]]:
    """Return the game that explains the rent of a flat, and the 16 columns that are its players."""
    rng = np.random.default_rng(0)
    flats = pd.DataFrame(
        {
            "district": rng.choice(["centre", "harbour", "hill", "north", "south"], 600),
            "heating": rng.choice(["gas", "oil", "pump"], 600),
            "energy": rng.choice(["A", "B", "C", "D"], 600),
            "size": rng.gamma(9, 8, 600),
            "year": rng.integers(1900, 2020, 600),
            "floor": rng.integers(0, 9, 600),
            "distance": rng.exponential(4, 600),
        }
    )
    rent = flats["size"] * flats["district"].map({"centre": 14, "harbour": 12, "hill": 11, "north": 9, "south": 8})
    rent = rent * np.exp(-flats["distance"] / 20) + 100 * (flats["energy"] < "C") * (flats["year"] > 1960)
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["district", "heating", "energy"]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    data = encode.fit_transform(flats)
    model = GradientBoostingRegressor(max_depth=4, random_state=0).fit(data, rent)
    columns = list(encode.get_feature_names_out())
    row, background = data[:1], data[1:11]

    def shown(masks: np.ndarray) -> np.ndarray:
        rows = np.where(masks[:, None, :], row, background)
        return np.asarray(model.predict(rows.reshape(-1, len(columns))).reshape(len(masks), -1).mean(axis=1))

    return fgsv.Game(shown, len(columns)), columns


def shap_kernel(game: Counted, budget: int, seed: int) -> np.ndarray:
    """Return the values of shap's KernelExplainer; a coalition is a row of zeros and ones."""
    import shap

    n = game.game.n_players
    np.random.seed(seed)  # noqa: NPY002  # it has no other
    explainer = shap.KernelExplainer(game, np.zeros((1, n)))
    return np.asarray(explainer.shap_values(np.ones((1, n)), nsamples=budget - 2, l1_reg=False, silent=True))[0]


def shap_permutation(game: Counted, budget: int, seed: int) -> np.ndarray:
    """Return the values of shap's PermutationExplainer."""
    import shap

    n = game.game.n_players
    explainer = shap.PermutationExplainer(game, np.zeros((1, n)), seed=seed)
    return np.asarray(explainer(np.ones((1, n)), max_evals=budget, silent=True).values)[0]


def _shapiq(name: str) -> Callable[[Counted, int, int], np.ndarray]:
    peer = PEERS[name]
    return lambda game, budget, seed: peer.run(peer.make, game, budget, seed)


OTHERS: dict[str, Callable[[Counted, int, int], np.ndarray]] = {
    "shap.KernelExplainer": shap_kernel,
    "shap.PermutationExplainer": shap_permutation,
    **{name: _shapiq(name) for name in ("shapiq KernelSHAP, paired", "shapiq LeverageSHAP", "shapiq OddSHAP")},
}


def measure(task: tuple[str, int, int]) -> dict[str, float]:
    """Run once; return mean squared errors of columns and features, evaluations, and what intervals hold."""
    name, budget, seed = task
    game, columns = problem()
    truth = enumerated()
    features = pd.factorize(np.array([column.split("_")[0] for column in columns]))[0]
    held = np.nan
    if name == OURS:
        found = fgsv.value(game, columns, budget=budget, seed=seed)
        values, evaluations = found.values, found.n_evaluations
        held = float((np.abs(values - truth) <= found.half_width(0.95)).mean())
    else:
        counted = Counted(game)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values, evaluations = OTHERS[name](counted, budget, seed), counted.count
    error = values - truth
    return {
        "columns": float((error**2).mean()),
        "features": float((np.bincount(features, error) ** 2).mean()),
        "evaluations": evaluations,
        "intervals hold": held,
    }


@cache
def enumerated() -> np.ndarray:
    """Return the true values of the columns."""
    return fgsv.exact(*problem()).values


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("explain", description=__doc__)
    parser.add_argument("--budgets", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(f"shap {version('shap')}, shapiq {version('shapiq')}; errors in the prediction's own unit")
    print(f"values of the columns: standard deviation {enumerated().std():.4g}")
    for budget in arguments.budgets:
        tasks = [(name, budget, seed) for name in (OURS, *OTHERS) for seed in range(arguments.runs)]
        runs = pd.DataFrame(run_all(measure, tasks, jobs=arguments.jobs), index=[task[0] for task in tasks])
        table = runs.groupby(level=0, sort=False).mean()
        table[["columns", "features"]] = np.sqrt(table[["columns", "features"]])
        print(f"\n{budget} evaluations\n{table.to_string(float_format=lambda number: f'{number:.3g}')}", flush=True)
