"""Models by name: scikit-learn's common ones, and the user's own."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier, is_regressor

from fgsv.data.labelled_rows import Task
from fgsv.data.reading import TableError
from fgsv.packages import load_object
from fgsv.words import option

NAMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "logistic": ("linear_model:LogisticRegression", "linear_model:LogisticRegression", {}),
    "ridge": ("linear_model:Ridge", "linear_model:Ridge", {}),
    "knn": ("neighbors:KNeighborsClassifier", "neighbors:KNeighborsRegressor", {}),
    "hgb": ("ensemble:HistGradientBoostingClassifier", "ensemble:HistGradientBoostingRegressor", {}),
    "mlp": ("neural_network:MLPClassifier", "neural_network:MLPRegressor", {"hidden_layer_sizes": (32,)}),
}
"""Short name -> scikit-learn's models for a classification and for a regression, and their settings."""
RANDOM = ("hgb", "mlp")
"""Those that have a seed."""


def task_of(name: Any) -> Task | None:
    """Return the task that a model or its name implies, or None if it serves both."""
    if name is not None and not isinstance(name, str):
        if isinstance(name, type) or not hasattr(name, "fit"):
            raise TableError(f"{option('model')} must be a name or an estimator such as SVC(), got {name!r:.200}")
        return "classification" if is_classifier(name) else "regression" if is_regressor(name) else None
    return {"logistic": "classification", "ridge": "regression"}.get(name or "")  # type: ignore[return-value]


def model_of(name: Any, task: Task, seed: int) -> Any:
    """Return the model of a name.

    >>> model_of("ridge", "regression", seed=0)
    Ridge()
    >>> model_of("sklearn.svm:SVC", "classification", seed=0)
    SVC()

    Args:
        name: One of `NAMES`; `package.module:object` or `file.py:object`, the name of an estimator, or of a class or
            function that returns one when it is called without arguments; or an estimator. Default: logistic for a
            classification, ridge for a regression.
        task: "classification" or "regression".
        seed: Of the models in `RANDOM`.

    Raises:
        TableError: There is no such model, or it is for another task.

    """
    name = name or ("logistic" if task == "classification" else "ridge")
    if not isinstance(name, str):
        model = name
        name = type(model).__name__
    else:
        model = _loaded(name) if ":" in name else _built_in(name, task, seed)
    serves, kind = (is_classifier, "classifier") if task == "classification" else (is_regressor, "regressor")
    if not serves(model):
        raise TableError(
            f"model {name!r} ({type(model).__name__}) is not a {kind}: choose another "
            f"{option('model')}, or another {option('task')}"
        )
    return model


def _built_in(name: str, task: Task, seed: int) -> Any:
    if name not in NAMES:
        raise TableError(
            f"unknown model {name!r}: expected one of {', '.join(NAMES)}, package.module:object or file.py:object"
        )
    classifier, regressor, settings = NAMES[name]
    model = load_object(f"sklearn.{classifier if task == 'classification' else regressor}")(**settings)
    return model.set_params(random_state=seed) if name in RANDOM else model


def _loaded(name: str) -> Any:
    try:
        model = load_object(name)
    except ValueError as error:
        raise TableError(f"{option('model')}: {error}") from None
    if not isinstance(model, type) and hasattr(model, "fit"):
        return model
    if not callable(model):
        raise TableError(
            f"model {name!r} is {model!r}: expected an estimator, or a class or function that returns one"
        )
    return model()
