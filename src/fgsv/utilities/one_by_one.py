"""Any scikit-learn model: one fit for each coalition, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from fgsv.types import Floats, Ints
from fgsv.utilities.data import Data, take_rows, with_all_classes
from fgsv.utilities.row_sets import CHUNK_BYTES, RowSets
from fgsv.utilities.scores import Need, Predictions


@dataclass(frozen=True, eq=False)
class OneByOne:
    """A scikit-learn estimator or pipeline, cloned and fitted for each set of rows."""

    model: Any
    data: Data

    name: ClassVar[str] = "one scikit-learn fit per coalition"
    lists_members: ClassVar[bool] = True
    bytes_per_set: ClassVar[int] = CHUNK_BYTES  # so that a chunk is one set, and only one model is kept
    bytes_per_row: ClassVar[int] = 0

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Fit the model to the one set of a chunk, rows in increasing order, and return what the scores need."""
        rows = np.sort(sets.explicit().listed)
        model = _with_neighbours(clone(self.model), len(rows))
        labels = self.data.labels[rows]
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

    def _values(self, model: Any) -> Floats:
        return np.asarray(model.predict(self.data.X_test), dtype=float).reshape(1, -1)

    def _labels(self, model: Any) -> Ints:
        assert self.data.classes is not None
        codes: Ints = np.searchsorted(self.data.classes, model.predict(self.data.X_test))
        return codes[None]

    def _probabilities(self, model: Any) -> Floats:
        assert self.data.classes is not None
        return np.asarray(with_all_classes(model, self.data.classes).predict_proba(self.data.X_test), dtype=float)[
            None
        ]

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


def with_seed(model: Any, seed: int) -> Any:
    """Return a clone in which every random_state that is not an integer is this seed, for all coalitions."""
    model = clone(model)
    unset = {
        name: seed
        for name, value in model.get_params().items()
        if name.split("__")[-1] == "random_state" and not isinstance(value, int | np.integer)
    }
    return model.set_params(**unset)
