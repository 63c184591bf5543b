"""MLflow: the settings, values and files of a result as parameters, metrics and artefacts of a run."""

from __future__ import annotations

import tempfile
from itertools import count, product
from typing import Any

import numpy as np

from fgsv.packages import optional
from fgsv.pipeline.folder import write_result
from fgsv.results.result import Result, as_result
from fgsv.valuation import Valuation

LONGEST = 500
"""Longest parameter, in characters, that every version of MLflow accepts."""


def log_to_mlflow(result: Result | Valuation, *, aggregate_only: bool = False) -> None:
    """Log a result to the active run of MLflow, or to a new one.

    Parameters: method, seed, budget and, from a table or texts, file, hash, column of targets or texts, model and
    metric. Metrics: evaluations, `total` (what all data adds), and `value/NAME`, `stderr/NAME` and `share/NAME` for
    each provider; characters of a name that MLflow does not take become `_`, and names that are then equal are
    numbered. A valuation of several outputs has the metrics of each, as `value/NAME/OUTPUT`. Artefacts, in the folder
    `fgsv`: the files that `fgsv.pipeline.write_result` writes.
    """
    mlflow: Any = optional("mlflow", "runs in MLflow", "mlflow")
    result = as_result(result)
    mlflow.log_params(_parameters(result))
    mlflow.log_metrics(_metrics(result.valuation))
    with tempfile.TemporaryDirectory() as folder:
        write_result(folder, result, aggregate_only=aggregate_only)
        mlflow.log_artifacts(folder, "fgsv")


def log_progress(valuation: Valuation) -> None:
    """Log evaluations and values so far to the active run of MLflow; call it in a loop over `fgsv.iterate`.

    The step is the number of evaluations.
    """
    mlflow: Any = optional("mlflow", "runs in MLflow", "mlflow")
    mlflow.log_metrics(_metrics(valuation), step=valuation.n_evaluations)


def _parameters(result: Result) -> dict[str, str]:
    valuation = result.valuation
    source = result.source
    found: dict[str, Any] = {"method": valuation.method, "seed": valuation.seed, "end": valuation.end.reason.value}
    if valuation.settings is not None:
        found |= {"budget": valuation.settings.budget, "game": valuation.settings.fingerprint}
    if source is not None:
        found |= {name: getattr(source, name) for name in ("file", "sha256", "task", "model", "metric")}
        found |= {role: source.columns[role] for role in ("target", "text") if role in source.columns}
        found["group"] = ",".join(source.columns["group"])
    return {f"fgsv.{name}": str(value)[:LONGEST] for name, value in found.items()}


def _metrics(valuation: Valuation) -> dict[str, float]:
    names = _keys(valuation.names)
    outputs = [""] if valuation.outputs is None else [f"/{name}" for name in _keys(valuation.outputs)]
    metrics = {"evaluations": float(valuation.n_evaluations)}
    metrics |= {
        f"total{output}": float(each) for output, each in zip(outputs, np.atleast_1d(valuation.total), strict=True)
    }
    for row, place in zip(valuation.to_frame().to_dict("records"), product(outputs, names), strict=True):
        output, name = place
        metrics |= {f"{kind}/{name}{output}": row[kind] for kind in ("value", "stderr", "share") if kind in row}
    return {f"fgsv/{name}": value for name, value in metrics.items() if np.isfinite(value)}


def _keys(names: Any) -> list[str]:
    """Return names in the letters that MLflow takes; equal ones are numbered.

    >>> _keys(["a/b", "a:b", "a_b_2"])
    ['a_b', 'a_b_2', 'a_b_2_2']
    """
    found: dict[str, None] = {}
    for each in names:
        name = safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in str(each))
        numbers = count(2)
        while name in found:
            name = f"{safe}_{next(numbers)}"
        found[name] = None
    return list(found)
