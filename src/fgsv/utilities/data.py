"""Data: training and test rows, read and checked before any model is fitted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import sklearn
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from fgsv.checks import whole_number
from fgsv.partition import read_labels
from fgsv.types import Floats
from fgsv.words import some

NullSampler = Callable[[Any, Any, int, np.random.Generator], tuple[Any, Any]]
"""(X, y, size, rng) -> `size` rows and their labels, uninformative about the task."""


@dataclass(frozen=True)
class Kind:
    """What a model is, accepts and provides; the arguments are checked against it."""

    name: str
    classifier: bool
    takes_missing: bool = False
    takes_tensors: bool = False
    """Whether X may have more than two dimensions, as images do."""
    takes_one_class: bool = False
    gives: frozenset[str] = frozenset({"predict", "predict_proba", "decision_function"})
    """Which of these methods the model has."""

    @classmethod
    def of(cls, model: Any) -> Kind:
        """Return the kind of a scikit-learn classifier or regressor; raise an error for anything else."""
        _check_model(model)
        return cls(
            type(model).__name__,
            is_classifier(model),
            takes_missing=_takes_missing(model),
            gives=frozenset(name for name in cls.gives if hasattr(model, name)),
        )


@dataclass(frozen=True, eq=False)
class Given:
    """The arguments of `fgsv.utility` besides the model, as users give them; other utilities take them too."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    scoring: Any = None
    units: Any = None
    empty: Any = None
    min_size: int | None = None
    null: str | NullSampler | None = None
    per_test_point: bool = False
    seed: int = 0
    folds: Any = None
    weights: Any = None


@dataclass(frozen=True, eq=False)
class Data:
    """Training rows, padding rows after them, and test rows.

    For a classifier `y` and `y_test` are positions in `classes`; for a regression they are numbers.
    """

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    classes: NDArray[Any] | None
    n_rows: int
    """Number of training rows that are data; the rows after them are padding."""

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for a regression."""
        return 0 if self.classes is None else len(self.classes)

    def labels_of(self, rows: Any) -> NDArray[Any]:
        """Return the labels of some training rows, as they are given to a model."""
        return self.y[rows] if self.classes is None else self.classes[self.y[rows]]

    @property
    def is_dense(self) -> bool:
        """Whether X is a dense table of numbers, as the batched models require."""
        return not scipy.sparse.issparse(self.X) and not non_numeric_columns(self.X)

    def features(self) -> tuple[Floats, Floats]:
        """Return the training rows, padding included, and the test rows as arrays of floats."""
        return np.asarray(self.X, dtype=float), np.asarray(self.X_test, dtype=float)


def read(kind: Kind, given: Given) -> Data:
    """Read the rows and add the padding; raise an error for data no model can be fitted to."""
    X = _read_table(kind, given.X, "X")
    X_test = _read_table(kind, given.X_test, "X_test")
    y = _read_column(given.y, "y")
    y_test = _read_column(given.y_test, "y_test")
    for table, column, name in ((X, y, ""), (X_test, y_test, "_test")):
        if table.shape[0] != len(column):
            raise ValueError(
                f"y{name} has {len(column)} labels, but X{name} has {table.shape[0]} rows: give one for each"
            )
    if X.shape[0] == 0:
        raise ValueError("X has no rows")
    if X_test.shape[0] == 0:
        raise ValueError("the test set is empty: X_test has no rows")
    _check_columns(X, X_test)
    _check_missing(kind, X, "X")
    _check_missing(kind, X_test, "X_test")
    classes = None
    if kind.classifier:
        if not kind.takes_one_class and len(np.unique(y)) < 2:
            raise ValueError(f"y has only one class, {y.tolist()[0]!r}: a classifier needs at least two")
        for column, name in ((y, "y"), (y_test, "y_test")):
            _check_labels(column, name, kind.name)
        classes = _classes_of(y, y_test)
        _warn_of_new_classes(y, y_test)
    else:
        y = _read_numbers(y, "y")
        y_test = _read_numbers(y_test, "y_test")
    X, y, n_rows = _add_padding(X, y, given.min_size, given.null, given.seed)
    if classes is not None:
        if not np.isin(y, classes).all():
            raise ValueError("the null sampler returned labels that are not classes of y")
        y = np.searchsorted(classes, y)
        y_test = np.searchsorted(classes, y_test)
    return Data(X, y, X_test, y_test, classes, n_rows)


def _warn_of_new_classes(y: NDArray[Any], y_test: NDArray[Any]) -> None:
    """Warn of test labels that no model can predict: they may be written in another way than those of y."""
    new = ~np.isin(y_test, np.unique(y))  # unique first: of text, numpy compares each with each
    if new.any():
        labels = some(map(repr, np.unique(y_test[new]).tolist()), most=5)
        warnings.warn(
            f"{new.sum():,} of {len(new):,} test rows have a class that no training row has: {labels}. Are the "
            "labels of y and y_test written alike?",
            stacklevel=5,
        )


def _check_labels(y: NDArray[Any], name: str, model: str) -> None:
    """Raise an error if labels are measurements, as scikit-learn does: each would be a class of its own."""
    if y.dtype.kind == "f" and (parts := y[y % 1 != 0]).size:
        raise ValueError(
            f"{name} has numbers such as {parts[0]:g}, which are no classes, but {model} is a classifier: use a "
            "regressor, or make whole numbers or text of them"
        )


def _classes_of(y: NDArray[Any], y_test: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of both columns, sorted; raise an error if they cannot be compared."""
    try:
        if (y.dtype.kind in "SU") != (y_test.dtype.kind in "SU") and "O" not in (y.dtype.kind, y_test.dtype.kind):
            raise TypeError  # numpy would write the numbers as strings
        return np.unique(np.concatenate([y, y_test]))
    except TypeError:
        raise ValueError(
            "y and y_test mix types of labels, such as numbers and strings: convert them to one"
        ) from None


def _check_model(model: Any) -> None:
    if isinstance(model, type):
        raise TypeError(f"model must be an instance, such as {model.__name__}(), not the class")
    if not hasattr(model, "fit") or not hasattr(model, "get_params"):
        raise TypeError(
            "model must be a scikit-learn estimator with fit and get_params, "
            f"got {type(model).__name__}; for anything else, write a callable (see fgsv.Game)"
        )
    if not is_classifier(model) and not is_regressor(model):
        raise TypeError(f"model must be a classifier or a regressor; {type(model).__name__} is neither")


def with_all_classes(model: Any, classes: NDArray[Any], known: NDArray[Any] | None = None) -> Any:
    """Return a fitted classifier that knows all classes, with probability 0 for those it was not trained on.

    Args:
        model: The fitted classifier; it is returned as it is if it knows all classes.
        classes: (C,) all classes, sorted.
        known: The classes that were 0, 1, ... to the model, if its labels had to be numbered.

    """
    if known is None and len(model.classes_) == len(classes):
        return model
    return _Completed(model, classes, known)


class _Completed:
    """A fitted classifier with labels of the data and probabilities of all classes; everything else is its own."""

    def __init__(self, model: Any, classes: NDArray[Any], known: NDArray[Any] | None) -> None:
        self._model = model
        self.classes_ = classes
        self._numbered = known
        self._places = np.searchsorted(classes, model.classes_ if known is None else known)

    def __getattr__(self, name: str) -> Any:
        made_up = name == "decision_function" and len(self._places) < len(self.classes_)  # of an absent class
        if made_up or name in ("_model", "_places"):
            raise AttributeError(name)
        return getattr(self._model, name)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (t,) labels."""
        labels = np.asarray(self._model.predict(X))
        return labels if self._numbered is None else self._numbered[labels.astype(int)]

    def predict_proba(self, X: Any) -> Floats:
        """Return (t, C) probabilities; of one class it is 1, whatever a model makes of having nothing to choose."""
        probabilities = np.zeros((X.shape[0], len(self.classes_)))
        probabilities[:, self._places] = 1.0 if len(self._places) == 1 else self._model.predict_proba(X)
        return probabilities


def take_rows(X: Any, rows: NDArray[np.integer]) -> Any:
    """Return some rows of an array, data frame or sparse matrix."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def non_numeric_columns(X: Any) -> list[str]:
    """Return the names of the columns that are not numeric."""
    if isinstance(X, pd.DataFrame):
        kinds = [(str(name), dtype) for name, dtype in X.dtypes.items()]
        return [name for name, dtype in kinds if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf"]
    return [] if X.dtype.kind in "biuf" else [f"all of dtype {X.dtype}"]


def _read_table(kind: Kind, X: Any, name: str) -> Any:
    # copies, so that a table changed in place later changes nothing here
    if scipy.sparse.issparse(X):
        return X.tocsr(copy=True)
    _check_mask(X, name)
    if not isinstance(X, pd.DataFrame) and hasattr(X, "to_pandas"):  # polars, pyarrow: a pipeline may name columns
        X = X.to_pandas()
    try:
        X = X.copy() if isinstance(X, pd.DataFrame) else np.array(X)
    except ValueError:  # of numpy, about lists of several lengths
        raise ValueError(f"{name} must have as many columns in each row") from None
    if X.ndim < 2 or (X.ndim > 2 and not kind.takes_tensors):
        raise ValueError(f"{name} must have two dimensions, rows and columns, got shape {X.shape}")
    return X


def _check_mask(array: Any, name: str) -> None:
    """Raise an error for an array with masked entries."""
    if np.ma.is_masked(array):  # numpy would take what is behind the mask
        raise ValueError(f"{name} has masked entries: fill them in, or leave these rows out")


def _read_column(y: Any, name: str) -> NDArray[Any]:
    """Return one label for each row as an array; raise an error that counts the missing ones."""
    try:
        shape = np.shape(y)
    except ValueError:  # of numpy, about lists of several lengths
        raise ValueError(f"{name} must have one dimension, one label for each row, got a list of lists") from None
    if len(shape) == 2 and shape[1] == 1:
        y = y.iloc[:, 0] if isinstance(y, pd.DataFrame) else np.asarray(y)[:, 0]
    elif len(shape) != 1:
        raise ValueError(f"{name} must have one dimension, one label for each row, got shape {shape}")
    _check_mask(y, name)
    read_labels(y, name)  # before numpy turns a missing one among strings into the string "nan"
    return np.array(y)


def _read_numbers(column: NDArray[Any], name: str) -> Floats:
    try:
        numbers = column.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers for a regression, got dtype {column.dtype}") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} has infinite numbers")
    return numbers


def _check_columns(X: Any, X_test: Any) -> None:
    if X.shape[1:] != X_test.shape[1:]:
        count, other = ("x".join(map(str, table.shape[1:])) for table in (X, X_test))
        raise ValueError(f"X has {count} columns, but X_test has {other}")
    if isinstance(X, pd.DataFrame) and isinstance(X_test, pd.DataFrame):
        different = [str(a) for a, b in zip(X.columns, X_test.columns, strict=True) if a != b]
        if different:
            raise ValueError(f"X and X_test have different columns: the first that differs is {different[0]!r}")


def _check_missing(kind: Kind, X: Any, name: str) -> None:
    """Raise an error that names the columns with missing or infinite values, unless the model takes them."""
    if kind.takes_missing:
        return
    if scipy.sparse.issparse(X):
        missing = np.unique(X.indices[~np.isfinite(X.data)])
    else:
        absent = np.asarray(pd.isna(X)) if non_numeric_columns(X) else ~np.isfinite(np.asarray(X, dtype=float))
        missing = np.flatnonzero(absent.reshape(*X.shape[:2], -1).any(axis=(0, 2)))
    if len(missing):
        names = map(repr, X.columns[missing]) if isinstance(X, pd.DataFrame) else missing
        raise ValueError(
            f"{name} has missing or infinite values in column {some(names, most=5)}, which {kind.name} cannot take: "
            "fill them in, or use a pipeline with an imputer"
        )


def _takes_missing(model: Any) -> bool:
    """Return whether a model accepts missing values; of a pipeline, all steps up to its first imputer must."""
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    for step in steps:
        if step is None or isinstance(step, str):
            continue
        if "impute" in type(step).__module__ or hasattr(step, "transformers"):
            return True
        if not _allows_nan(step):
            return False
    return True


def _allows_nan(step: Any) -> bool:
    if hasattr(sklearn.utils, "get_tags"):
        return bool(sklearn.utils.get_tags(step).input_tags.allow_nan)
    return bool(step._get_tags()["allow_nan"])


def _add_padding(
    X: Any, y: NDArray[Any], min_size: int | None, null: str | NullSampler | None, seed: int
) -> tuple[Any, NDArray[Any], int]:
    """Append `min_size` uninformative rows, drawn once; each small set uses the first ones it needs."""
    n_rows = X.shape[0]
    if min_size is None:
        if null is not None:
            raise ValueError(
                "null chooses the padding of small coalitions: set min_size, the number of rows to pad to"
            )
        return X, y, n_rows
    min_size = whole_number("min_size", min_size, least=1)
    if min_size > n_rows:
        raise ValueError(
            f"min_size must be at most the number of rows, {n_rows:,}, or all are padded; got {min_size:,}"
        )
    null = shuffled if null is None or null == "shuffle" else null
    if not callable(null):
        raise ValueError(f"null must be 'shuffle' or a callable (X, y, size, rng) -> (X, y), got {null!r}")
    padding = null(X, y, min_size, np.random.default_rng(seed))
    if not isinstance(padding, Sequence) or len(padding) != 2:
        raise TypeError(f"the null sampler must return rows and their labels, (X, y); got {padding!r:.200}")
    X_null = padding[0]
    y_null = np.asarray(padding[1])
    if np.shape(X_null) != (min_size, *X.shape[1:]) or y_null.shape != (min_size,):
        raise ValueError(
            f"the null sampler returned X of shape {np.shape(X_null)} and y of shape {y_null.shape}; "
            f"expected {(min_size, *X.shape[1:])} and {(min_size,)}"
        )
    if scipy.sparse.issparse(X):
        X = scipy.sparse.vstack([X, X_null]).tocsr()
    elif isinstance(X, pd.DataFrame):
        X = pd.concat([X, X_null], ignore_index=True)
    else:
        X = np.concatenate([X, X_null])
    return X, np.concatenate([y, y_null]), n_rows


def shuffled(X: Any, y: Any, size: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw rows, and labels of other rows: features and labels like those of the data, but unrelated.

    Args:
        X: (n, p) rows.
        y: (n,) labels.
        size: Rows to draw, with replacement.
        rng: Draws the rows first, then the labels.

    """
    return take_rows(X, rng.integers(len(y), size=size)), y[rng.integers(len(y), size=size)]
