"""Any scikit-learn model: one fit for each coalition, one after the other."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable
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

_FEW = 32
"""Rows of a class that stand for more."""
_MOST_PROBED = 256
"""Rows of each class beyond which a model is no longer tried on more: what it raises is not about their number."""


@dataclass(frozen=True, eq=False)
class OneByOne:
    """A scikit-learn estimator or pipeline, cloned and fitted for each set of rows.

    Sets may have few rows of a class, or none, which a model need not be made for. One rule holds for all of them:
    probabilities have a column for every class, 0 for those that the set lacks; a model fitted to one class predicts
    it with certainty; and if `fit` raises an error where a class of the data has fewer rows than the model needs
    (`least_rows`, at least one), the set counts as unfitted. Any other error, and any error on all rows, is an error.
    """

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
        try:
            model = self._fit(rows, None if self.seeds is None else self.seeds.of(rows))
        except MemoryError:
            raise
        except Exception:
            if len(rows) < self.data.n_rows and self._has_too_few(self._counts(rows)):
                return Predictions(np.zeros(1, dtype=bool))
            raise
        return Predictions(
            np.ones(1, dtype=bool),
            values=self._values(model) if "values" in needs else None,
            labels=self._labels(model) if "labels" in needs else None,
            probabilities=self._probabilities(model) if "probabilities" in needs else None,
            ranks=self._ranks(model) if "ranks" in needs else None,
            estimators=(model,),
        )

    def unfitted(self, sets: RowSets) -> Masks:
        """Return whether a class has too few rows in the one set of a chunk, and the model cannot do with as many.

        One fit to a few rows answers for all sets with as many rows of each class.
        """
        rows = sets.explicit().listed
        counts = np.minimum(self._counts(rows), max(_FEW, self.least_rows))
        if len(rows) >= self.data.n_rows or not self._has_too_few(counts):
            return np.zeros(1, dtype=bool)
        kind = tuple(counts.tolist())
        if kind not in self._fits_kind:
            self._fits_kind[kind] = self._can_fit(self._first_rows(counts))
        return np.array([not self._fits_kind[kind]])

    @cached_property
    def least_rows(self) -> int:
        """The fewest rows of each class (of a regression, in all) that a probe can fit the model to.

        0 if it can fit none: then it is not their number that the model objects to.
        """
        enough = 1
        while not self._can_fit_each(enough):
            enough *= 2
            if enough > _MOST_PROBED:
                return 0
        return bisect_left(range(enough), True, lo=enough // 2 + 1, key=self._can_fit_each)

    @cached_property
    def _wants_codes(self) -> bool:
        """Whether labels must be 0, 1, ... without a gap: without the first class, only such ones are accepted."""
        rows = self._first_rows(np.where(np.arange(self._n_kinds) == 0, 0, _FEW))
        labels = self.data.labels_of(rows)
        X = take_rows(self.data.X, rows)
        codes = np.unique(labels, return_inverse=True)[1]
        takes_labels = _succeeds(lambda: clone(self.model).fit(X, labels))
        return not takes_labels and _succeeds(lambda: clone(self.model).fit(X, codes))

    @cached_property
    def _kinds(self) -> Ints:
        """(n,) the class of each row as a number, among those that rows have; 0 for all rows of a regression."""
        if not self.data.n_classes:
            return np.zeros(len(self.data.y), dtype=np.int64)
        return np.unique(self.data.y, return_inverse=True)[1]

    @property
    def _n_kinds(self) -> int:
        return int(self._kinds.max()) + 1

    @cached_property
    def _fits_kind(self) -> dict[tuple[int, ...], bool]:
        """Whether the model can be fitted to a few rows: their number in each class -> answer."""
        return {}

    def _counts(self, rows: Ints) -> Ints:
        return np.bincount(self._kinds[rows], minlength=self._n_kinds)

    def _has_too_few(self, counts: Ints) -> bool:
        return bool((counts == 0).any() or (counts < self.least_rows).any())

    def _first_rows(self, counts: Ints) -> Ints:
        """Return as many rows of each class, the first ones in an order drawn once."""
        order = np.random.default_rng(0).permutation(self.data.n_rows)
        kinds = self._kinds[order]
        return np.sort(np.concatenate([order[kinds == kind][:count] for kind, count in enumerate(counts)]))

    def _can_fit_each(self, count: int) -> bool:
        return self._can_fit(self._first_rows(np.full(self._n_kinds, count)))

    def _can_fit(self, rows: Ints) -> bool:
        return _succeeds(lambda: self._fit(rows))

    def _fit(self, rows: Ints, seed: int | None = None) -> Any:
        """Return the model fitted to some rows; a classifier knows all classes, and its labels are those of y."""
        X = take_rows(self.data.X, rows)
        labels = self.data.labels_of(rows)
        try:
            model = self._unfitted_model(len(rows), seed).fit(X, labels)
            known = None
        except Exception:
            if self.data.classes is None or not self._wants_codes:
                raise
            known, codes = np.unique(labels, return_inverse=True)
            model = self._unfitted_model(len(rows), seed).fit(X, codes)
        return model if self.data.classes is None else with_all_classes(model, self.data.classes, known)

    def _unfitted_model(self, size: int, seed: int | None) -> Any:
        model = _with_neighbours(clone(self.model), size)
        return model if seed is None else model.set_params(**dict.fromkeys(seed_parameters(model), seed))

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
        probabilities = np.asarray(model.predict_proba(self.data.X_test), dtype=float)
        if probabilities.shape != (len(self.data.y_test), self.data.n_classes):
            raise ValueError(
                f"predict_proba returns shape {probabilities.shape} for {len(self.data.y_test)} rows and "
                f"{self.data.n_classes} classes"
            )
        return probabilities[None]

    def _ranks(self, model: Any) -> Floats:
        if hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(self.data.X_test), dtype=float)[None]
        return self._probabilities(model)[:, :, 1]


def _succeeds(fit: Callable[[], object]) -> bool:
    """Return whether a fit raises no error; what it warns of is about too few rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit()
        except MemoryError:
            raise
        except Exception:
            return False
    return True


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
