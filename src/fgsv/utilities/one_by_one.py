"""Any scikit-learn model: one fit for each coalition, one after the other."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.data import Data, take_rows, with_all_classes
from fgsv.utilities.row_sets import CHUNK_BYTES, RowSets
from fgsv.utilities.scores import Need, Predictions
from fgsv.utilities.seeds import FreshSeeds

_PROBED = 32
"""Rows of one class that a model is tried on."""


@dataclass(frozen=True, eq=False)
class OneByOne:
    """A scikit-learn estimator or pipeline, cloned and fitted for each set of rows."""

    model: Any
    data: Data
    seeds: FreshSeeds | None = None
    """The seeds, if each set has its own."""

    name: ClassVar[str] = "one scikit-learn fit per coalition"
    lists_members: ClassVar[bool] = True
    memory: ClassVar[tuple[int, int]] = (CHUNK_BYTES, 0)  # so that a chunk is one set, and only one model is kept

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Fit the model to the one set of a chunk, rows in increasing order, and return what the scores need."""
        rows = np.sort(sets.explicit().listed)
        model = _with_neighbours(clone(self.model), len(rows))
        if self.seeds is not None:
            model.set_params(**dict.fromkeys(seed_parameters(model), self.seeds.of(rows)))
        labels = self.data.labels_of(rows)
        try:
            model.fit(take_rows(self.data.X, rows), labels)
        except ValueError as error:
            # raised by models that need two classes; any other error is for the user to see
            if self.data.n_classes and len(np.unique(labels)) == 1 and "class" in str(error):
                return Predictions(np.zeros(1, dtype=bool))
            raise
        return Predictions(
            np.ones(1, dtype=bool),
            values=self._values(model) if "values" in needs else None,
            labels=self._labels(model) if "labels" in needs else None,
            probabilities=self._probabilities(model) if "probabilities" in needs else None,
            ranks=self._ranks(model) if "ranks" in needs else None,
            estimators=(model if self.data.classes is None else with_all_classes(model, self.data.classes),),
        )

    def unfitted(self, sets: RowSets) -> Masks:
        """Return whether the one set of a chunk has one class, and the model needs two."""
        one_class = self.data.n_classes > 0 and len(np.unique(self.data.y[sets.explicit().listed])) == 1
        return np.array([one_class and self._needs_two_classes])

    @cached_property
    def _needs_two_classes(self) -> bool:
        """Whether a few rows of one class are refused; one fit, since the answer is the same for all of them."""
        rows = np.flatnonzero(self.data.y == self.data.y[0])[:_PROBED]
        few = RowSets(self.data.n_rows, rows, np.array([0, len(rows)]), np.zeros(1, dtype=bool))
        try:
            return not self.predict(few, frozenset()).fitted[0]
        except Exception:  # fails for another reason, as the run will have said
            return False

    def _values(self, model: Any) -> Floats:
        return np.asarray(model.predict(self.data.X_test), dtype=float).reshape(1, -1)

    def _labels(self, model: Any) -> Ints:
        classes = self.data.classes
        assert classes is not None
        predicted = np.asarray(model.predict(self.data.X_test))
        codes: Ints = np.searchsorted(classes, predicted)
        unknown = classes[np.minimum(codes, len(classes) - 1)] != predicted
        if unknown.any():
            raise ValueError(f"it predicts {predicted[unknown].tolist()[0]!r}, which is no class of y or y_test")
        return codes[None]

    def _probabilities(self, model: Any) -> Floats:
        assert self.data.classes is not None
        complete = with_all_classes(model, self.data.classes)
        return np.asarray(complete.predict_proba(self.data.X_test), dtype=float)[None]

    def _ranks(self, model: Any) -> Floats:
        if hasattr(model, "decision_function") and len(model.classes_) == 2:
            return np.asarray(model.decision_function(self.data.X_test), dtype=float)[None]
        return self._probabilities(model)[:, :, 1]


def _with_neighbours(model: Any, size: int) -> Any:
    """Limit a nearest-neighbours model, alone or at the end of a pipeline, to min(k, size) neighbours."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if isinstance(last, KNeighborsClassifier | KNeighborsRegressor) and last.n_neighbors > size:
        last.set_params(n_neighbors=size)
    return model


def seed_parameters(model: Any) -> list[str]:
    """Return the names of the parameters that are seeds, those of nested models included."""
    return [name for name in model.get_params() if name.split("__")[-1] == "random_state"]


def is_random(model: Any) -> bool:
    """Say whether a seed of a model may matter."""
    return any(_is_random(_owner(model, name)) for name in seed_parameters(model))


def with_seed(model: Any, seed: int) -> Any:
    """Return a clone in which every random_state that is not an integer is this seed, for all coalitions.

    A warning names those that are not set and matter: U must be a function of the coalition.
    """
    model = clone(model)
    parameters = model.get_params()
    unset = {name: seed for name in seed_parameters(model) if not isinstance(parameters[name], int | np.integer)}
    missed = [name for name in unset if parameters[name] is None and _is_random(_owner(model, name))]
    if missed:
        warnings.warn(
            f"{', '.join(missed)} of {type(model).__name__} is not set: every coalition is trained with seed {seed}. "
            "Set it to choose the seed",
            stacklevel=6,
        )
    return model.set_params(**unset)


def _owner(model: Any, parameter: str) -> Any:
    """Return the estimator, the model itself or one nested in it, that has a parameter."""
    path = parameter.rpartition("__")[0]
    return model.get_params()[path] if path else model


def _is_random(estimator: Any) -> bool:
    """Say whether the random_state of an estimator may matter; with some settings scikit-learn ignores it."""
    parameters = estimator.get_params(deep=False)
    if parameters.get("solver") in ("auto", "lbfgs", "newton-cg", "newton-cholesky", "svd", "cholesky", "lsqr"):
        return "hidden_layer_sizes" in parameters  # a network starts at random whatever its solver
    if "probability" in parameters:  # a support vector machine
        return parameters["probability"] is True
    return parameters.get("selection") != "cyclic"  # coordinate descent
