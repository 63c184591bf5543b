"""Utilities: data, a model and a score make a game of the training rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from fgsv.coalitions import Coalitions
from fgsv.game import GameError, describe
from fgsv.utilities import data as data_module
from fgsv.utilities import linear, logistic, naive_bayes, neighbours
from fgsv.utilities.data import Data, NullSampler
from fgsv.utilities.fingerprint import fingerprint
from fgsv.utilities.loop import Loop, with_seed
from fgsv.utilities.rowsets import RowSets, Units, pad
from fgsv.utilities.scores import SCORES, Need, Output, Predictions, Score, constant_predictions

Floats = NDArray[np.float64]


class Learner(Protocol):
    """A model that is fitted to many row sets and predicts the test points after each."""

    name: ClassVar[str]
    lists_members: ClassVar[bool]
    """Whether a set costs its members; else it costs the shorter of its two lists."""

    @property
    def bytes_per_set(self) -> int: ...  # noqa: D102
    @property
    def bytes_per_row(self) -> int: ...  # noqa: D102
    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions: ...  # noqa: D102


_TWINS: dict[type, Callable[[Any, Data], Learner | str]] = {
    Ridge: linear.twin,
    LinearRegression: linear.twin,
    LogisticRegression: logistic.twin,
    KNeighborsClassifier: neighbours.twin,
    KNeighborsRegressor: neighbours.twin,
    GaussianNB: naive_bayes.twin,
}


@dataclass(frozen=True, eq=False)
class Utility:
    """A game whose players are training rows, or units of them, and whose value is a model's score.

    Made by `fgsv.utility`; call it with an (m, n) boolean array, or `evaluate_lists` with `Coalitions`.
    """

    model: Any
    learner: Learner
    reason: str
    """Why there is no batched twin; empty where there is one."""
    scored: tuple[Output, ...]
    units: Units
    min_size: int
    outputs: tuple[str, ...] | None
    fingerprint: str | None

    @property
    def n_players(self) -> int:
        """How many players there are: rows, or units."""
        return self.units.n_players

    @property
    def independent_rows(self) -> bool:
        """Whether each coalition is evaluated by itself, the same bits in any batch."""
        return isinstance(self.learner, Loop)

    @property
    def batch_size(self) -> int:
        """How many coalitions are best asked for at once."""
        return 16 if self.independent_rows else 2048

    @cached_property
    def defaults(self) -> Floats:
        """(q,) what a coalition is worth that the model cannot be fitted to, the empty one for example."""
        return np.concatenate([output.default for output in self.scored])

    def __call__(self, masks: ArrayLike) -> Floats:
        """Evaluate the coalitions that the rows of an (m, n) boolean array describe: (m,), or (m, q)."""
        masks = np.asarray(masks, dtype=bool)
        if masks.ndim != 2 or masks.shape[1] != self.n_players:
            raise ValueError(f"expected an (m, {self.n_players}) boolean array, got shape {masks.shape}")
        return self.evaluate_lists(Coalitions.from_masks(masks))

    def evaluate_lists(self, coalitions: Coalitions) -> Floats:
        """Evaluate coalitions given as lists: (m,), or (m, q) where the utility has several outputs.

        Small coalitions cost what they hold, not n; memory is bounded by `rowsets.CHUNK_BYTES`.
        """
        sets = self.units.row_sets(coalitions)
        if self.min_size:
            sets = pad(sets, self.min_size)
        values = np.tile(self.defaults, (len(sets), 1))
        nonempty = np.flatnonzero(sets.sizes > 0)
        needs = frozenset(output.need for output in self.scored)
        sets = sets.take(nonempty)
        lengths = sets.sizes if self.learner.lists_members else sets.n_listed
        for chunk in sets.chunks(lengths, self.learner.bytes_per_set, self.learner.bytes_per_row):
            try:
                predictions = self.learner.predict(sets.take(chunk), needs)
                if not predictions.fitted.any():
                    continue
                scores = np.concatenate([output.measure(predictions) for output in self.scored], axis=1)
            except Exception as error:
                if not self.independent_rows:
                    raise
                where = describe(coalitions, int(nonempty[chunk[0]]))
                raise GameError(f"{type(self.model).__name__} failed on {where}: {error}") from error
            values[nonempty[chunk[predictions.fitted]]] = scores[predictions.fitted]
        return values[:, 0] if self.outputs is None else values

    def describe(self) -> str:
        """Say in words what is evaluated, and how."""
        rows = self.units.n_rows
        players = f"{rows} rows" if self.n_players == rows else f"{self.n_players} units of {rows} rows"
        path = self.learner.name + (f" ({self.reason})" if self.reason else "")
        first = self.scored[0]
        names = ", ".join(output.name for output in self.scored)
        each = f" at each of {len(first.truth)} test points" if first.each_point else ""
        lines = [f"{self.model!r}: {path}", f"players: {players}", f"score: {names}{each}"]
        if self.min_size:
            lines.append(f"sets of fewer than {self.min_size} rows are padded with rows that say nothing")
        if len(self.defaults) <= 5:
            worth = ", ".join(f"{value:.6g}" for value in self.defaults)
            lines.append(f"worth of a set the model cannot be fitted to: {worth}")
        return "\n".join(lines)


def utility(
    model: Any,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    scoring: Any = None,
    *,
    units: Any = None,
    empty: Any = None,
    min_size: int | None = None,
    null: str | NullSampler | None = None,
    per_test_point: bool = False,
    seed: int = 0,
) -> Utility:
    """Return the game in which a coalition of training rows is worth the score of a model trained on them.

    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> game = utility(Ridge(), X[:3], X[:3, 0], X, X[:, 0], scoring="neg_mean_squared_error")
    >>> game([[False, False, False], [True, True, True]]).round(3).tolist()
    [-1.25, -0.167]

    `model`: any scikit-learn classifier, regressor or pipeline. Ridge, LinearRegression, LogisticRegression
    (l2), KNeighbors models and GaussianNB are trained for thousands of coalitions at once; any other is
    cloned and fitted for each. `game.describe()` says which.

    `X`, `X_test`: numpy, pandas or sparse. `units`: one label a row; the rows of a unit are one player.

    `scoring`: a scikit-learn name (default: accuracy or r2), a scorer, several in a list, or a mapping from
    names of outputs to a score or to (score, test rows), the rows as a mask or as indices. With
    `per_test_point` the score at each test point is an output of its own.

    `empty`: what a set is worth that the model cannot be fitted to, one number or one for each output: the
    empty set, and sets of one class where the model needs two. By default the score of the best constant.

    `min_size`, `null`: sets of fewer rows are filled up with rows that say nothing of the task, drawn once:
    data with shuffled labels, or what a callable (X, y, size, rng) -> (X, y) returns.

    `seed`: for that draw, and for models whose `random_state` is not set: one for all coalitions, so that U
    is a function of the coalition.
    """
    data = data_module.read(model, X, y, X_test, y_test, min_size, null, seed)
    players = Units.of(units, data.n_rows)
    scored, outputs = _read_scoring(model, data, scoring, per_test_point, empty)
    learner, reason = _learner(model, data, scored, seed)
    identity = fingerprint(
        "utility 1",
        learner.name,
        getattr(learner, "model", model),
        [data.X, data.y, data.X_test, data.y_test, data.classes],
        [players.rows, players.starts, min_size],
        [[output.name, output.scorer, output.rows, output.each_point, output.default] for output in scored],
    )
    return Utility(model, learner, reason, scored, players, min_size or 0, outputs, identity)


def _learner(model: Any, data: Data, scored: Sequence[Output], seed: int) -> tuple[Learner, str]:
    """Return the batched twin of a model, or the loop and the reason for it."""
    loop = Loop(with_seed(model, seed), data)
    twin_of = _TWINS.get(type(model))
    if twin_of is None:
        return loop, f"{type(model).__name__} has no batched twin"
    if not data.is_dense:
        return loop, "X is not a dense table of numbers"
    for output in scored:
        if output.score is None:
            return loop, f"{output.name} is not among the batched scores"
    twin = twin_of(model, data)
    return (loop, twin) if isinstance(twin, str) else (twin, "")


def _read_scoring(
    model: Any, data: Data, scoring: Any, per_test_point: bool, empty: Any
) -> tuple[tuple[Output, ...], tuple[str, ...] | None]:
    """Return the outputs that `scoring` asks for, and their names; None for one score without a name."""
    if scoring is None:
        scoring = "accuracy" if is_classifier(model) else "r2"
    if isinstance(scoring, str) or callable(scoring):
        asked = {_score_name(scoring): scoring}
    elif isinstance(scoring, Mapping):
        asked = {str(name): score for name, score in scoring.items()}
    elif isinstance(scoring, Sequence):
        asked = {_score_name(score): score for score in scoring}
        if len(asked) < len(scoring):
            raise ValueError("scoring names a score twice; a mapping gives outputs names of their own")
    else:
        raise TypeError(f"scoring must be a name, a scorer, a list or a mapping, got {type(scoring).__name__}")
    if not asked:
        raise ValueError("scoring is empty: expected at least one score")
    if per_test_point and len(asked) > 1:
        raise ValueError("per_test_point=True takes one score, got several")
    scored = tuple(_read_output(model, data, name, score, per_test_point) for name, score in asked.items())
    names: tuple[str, ...] | None = tuple(asked)
    if per_test_point:
        names = tuple(str(row) for row in range(len(scored[0].truth)))
    elif isinstance(scoring, str) or callable(scoring):
        names = None
    return _with_defaults(scored, empty, data), names


def _score_name(scoring: Any) -> str:
    if isinstance(scoring, str):
        return scoring
    function = getattr(scoring, "_score_func", scoring)
    return str(getattr(function, "__name__", type(function).__name__))


def _read_output(model: Any, data: Data, name: str, asked: Any, each_point: bool) -> Output:
    asked, rows = asked if isinstance(asked, tuple) else (asked, None)
    if rows is not None:
        rows = _read_test_rows(rows, name, len(data.y_test))
    score = SCORES.get(asked) if isinstance(asked, str) else None
    truth = data.y_test if rows is None else data.y_test[rows]
    X_test: Any = None
    scorer: Any = asked
    if score is None:
        if isinstance(asked, str) and asked not in get_scorer_names():
            raise ValueError(f"scoring={asked!r} is not a score; batched scores are {', '.join(SCORES)}")
        if not isinstance(asked, str) and not callable(asked):
            raise TypeError(f"the score of {name!r} must be a name or a scorer, got {type(asked).__name__}")
        scorer = get_scorer(asked) if isinstance(asked, str) else asked
        truth = truth if data.classes is None else data.classes[truth]
        X_test = data.X_test if rows is None else data_module.take_rows(data.X_test, rows)
    else:
        _check_score(model, data, score, truth, name)
    if each_point and (score is None or score.points is None):
        pointwise = ", ".join(score.name for score in SCORES.values() if score.points)
        raise ValueError(f"per_test_point=True needs a score that is a mean over test points: {pointwise}")
    return Output(name, score, scorer, rows, truth, X_test, data.n_classes, each_point, np.empty(0))


def _read_test_rows(rows: Any, name: str, n_test: int) -> NDArray[np.int64]:
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if rows.shape != (n_test,):
            raise ValueError(f"the test rows of {name!r} are a mask of shape {rows.shape}, expected ({n_test},)")
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or not len(rows):
        raise ValueError(f"the test set of {name!r} is empty")
    if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_test:
        raise ValueError(f"the test rows of {name!r} must be a mask or indices from 0 to {n_test - 1}")
    return np.asarray(rows, dtype=np.int64)


def _check_score(model: Any, data: Data, score: Score, truth: NDArray[Any], name: str) -> None:
    """Raise an error unless the model can serve the score on this test set."""
    kind = "classifier" if data.n_classes else "regressor"
    if score.kind != kind:
        raise ValueError(f"scoring: {score.name} is for a {score.kind}, but {type(model).__name__} is a {kind}")
    ranked = score.need == "ranks" and hasattr(model, "decision_function")
    if score.need in ("probabilities", "ranks") and not ranked and not hasattr(model, "predict_proba"):
        raise ValueError(f"scoring: {score.name} needs predict_proba, which {type(model).__name__} does not have")
    if score.name == "roc_auc" and data.n_classes != 2:
        raise ValueError(f"scoring: roc_auc is for two classes, y has {data.n_classes}; take roc_auc_ovr")
    if score.name.startswith("roc_auc") and len(np.unique(truth)) < data.n_classes:
        raise ValueError(f"scoring: {name} needs every class among its test labels")
    if score.name == "r2" and truth.var() == 0:
        raise ValueError(f"scoring: {name} needs test labels that differ")


def _with_defaults(scored: Sequence[Output], empty: Any, data: Data) -> tuple[Output, ...]:
    """Return the outputs with what each is worth where the model cannot be fitted."""
    sizes = [len(output.truth) if output.each_point else 1 for output in scored]
    if isinstance(empty, Mapping):
        unknown = [name for name in empty if name not in {output.name for output in scored}]
        if unknown or len(empty) < len(scored):
            raise ValueError(f"empty must give a number for each of {[output.name for output in scored]}")
        empty = [empty[output.name] for output in scored]
    if empty is not None:
        try:
            numbers = np.broadcast_to(np.asarray(empty, dtype=float), (sum(sizes),))
        except (TypeError, ValueError):
            raise ValueError(f"empty must be one number, or one for each of {sum(sizes)} outputs") from None
        if not np.isfinite(numbers).all():
            raise ValueError("empty must be finite")
        cuts = np.split(numbers, np.cumsum(sizes)[:-1])
        return tuple(replace(output, default=cut) for output, cut in zip(scored, cuts, strict=True))
    opaque = [output.name for output in scored if output.score is None]
    if opaque:
        raise ValueError(f"say what a set is worth without a model, empty=..., for the score {opaque[0]!r}")
    return tuple(replace(output, default=_constant_score(output, data.n_classes)) for output in scored)


def _constant_score(output: Output, n_classes: int) -> Floats:
    whole = replace(output, rows=None)  # the truth is that of the slice already, and so is what is said about it
    return np.asarray(whole.measure(constant_predictions(output.truth, n_classes))[0])
