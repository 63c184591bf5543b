"""Models by name, and the game of a data set."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.pipeline import make_pipeline

from fgsv.preprocess import recognise_columns, transformer
from fgsv.table import Dataset, TableError, Task

NAMES = ("logistic", "ridge", "knn", "hgb", "mlp")


def task_of(name: str | None) -> Task | None:
    """Return the task that a model's name implies, or None where it serves both."""
    return {"logistic": "classification", "ridge": "regression"}.get(name or "")  # type: ignore[return-value]


def model_of(name: str | None, task: Task, seed: int) -> Any:
    """Return the scikit-learn model of this name: one of `NAMES`, or `package.module:object`.

    >>> model_of("ridge", "regression", seed=0)
    Ridge()
    """
    if name is not None and ":" in name:
        return _imported(name, task)
    classes = task == "classification"
    name = name or ("logistic" if classes else "ridge")
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()
    if name == "ridge":
        from sklearn.linear_model import Ridge

        return Ridge()
    if name == "knn":
        from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

        return KNeighborsClassifier() if classes else KNeighborsRegressor()
    if name == "hgb":
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        return (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(random_state=seed)
    if name == "mlp":
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        return (MLPClassifier if classes else MLPRegressor)((32,), max_iter=200, random_state=seed)
    raise TableError(f"unknown model {name!r}: expected one of {', '.join(NAMES)}, or package.module:object")


def _imported(name: str, task: Task) -> Any:
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a command's path has the script's folder, not the one it is called from
        sys.path.insert(0, here)
    try:
        model = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise TableError(f"model {name!r} cannot be imported: {error}") from None
    if isinstance(model, type) or not hasattr(model, "fit"):
        model = model()
    fits = is_classifier(model) if task == "classification" else is_regressor(model)
    if not fits:
        raise TableError(f"model {name!r} ({type(model).__name__}) does not serve a {task}")
    return model


def game_of(
    dataset: Dataset, model: str | None, metric: str | None, *, refit: bool = False, seed: int = 0
) -> tuple[Any, tuple[str, ...]]:
    """Return the utility of a data set, and what was decided on the way, in plain words.

    Columns become numbers once, from the features of all training rows, or for each coalition anew (`refit`).
    """
    from fgsv.utilities import utility

    columns = recognise_columns(dataset.features)
    learner = model_of(model, dataset.task, seed)
    into_numbers = transformer(columns)
    if refit:
        learner = make_pipeline(into_numbers, learner)
        X, X_test = dataset.features, dataset.test_features
        how = "preprocessing is fitted anew for each coalition"
    else:
        X = into_numbers.fit_transform(dataset.features)
        X_test = into_numbers.transform(dataset.test_features)
        how = "preprocessing is fitted once, without labels, on all training rows"
    metrics = None if metric is None else metric.split(",")
    scoring = metrics[0] if metrics is not None and len(metrics) == 1 else metrics
    game = utility(
        learner, X, dataset.target, X_test, dataset.test_target, scoring, units=dataset.units, seed=seed
    )
    return game, (f"features: {columns.describe()}", how, *game.describe().splitlines())
