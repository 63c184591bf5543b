"""One prediction of a pipeline explained by fgsv, shap and shapiq with the same evaluations: `make bench-explain`.

The pipeline and its game are those of docs/how-to/explain.md, whose code runs here; true values are enumerated.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.peers import PEERS, Counted
from experiments.repeats import run_all

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "explain.md"
OURS = "fgsv.value"


@cache
def page() -> dict[str, Any]:
    """Return the names of the page's block of code after it has run."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(next(code for code in blocks if "make_pipeline" in code), names)
    return names


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
    problem = page()
    game, columns = problem["game"], problem["columns"]
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
    return fgsv.exact(page()["game"], page()["columns"]).values


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
