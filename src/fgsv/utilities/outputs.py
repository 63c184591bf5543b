"""Outputs of a utility: read from the `scoring` argument, checked against the model, and measured."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from inspect import isfunction, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer

from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.data import Data, Kind, take_rows, with_all_classes
from fgsv.utilities.scores import SCORES, Need, Predictions, Score
from fgsv.words import option

_METHODS: dict[str, Sequence[str]] = {
    "values": ("predict",),
    "labels": ("predict",),
    "probabilities": ("predict_proba",),
    "ranks": ("decision_function", "predict_proba"),
}
"""Methods of a model that provide each need of a score: one of them is enough."""


@dataclass(frozen=True, eq=False)
class Output:
    """A score on the test set or on a slice of it: one output of a utility, or one for each test point."""

    name: str
    score: Score | None
    scorer: Any
    """A scikit-learn scorer, called as `scorer(estimator, X, y)`; used if `score` is None."""
    rows: Ints | None
    """The test rows of the slice; None for all."""
    truth: NDArray[Any]
    """True values on those rows: class positions, numbers, or labels for a scorer."""
    X_test: Any
    """The test rows given to a scorer."""
    n_classes: int
    each_point: bool
    default: Floats
    """(q,) the worth of a coalition that the model cannot be fitted to or scored on."""
    default_is_given: bool = False
    """Whether the user chose it; if not, it is what the best constant scores."""

    @property
    def need(self) -> Need:
        """The field of the predictions that is measured."""
        return "estimators" if self.score is None else self.score.need

    def measure(self, predictions: Predictions) -> Floats:
        """Return the scores of m models: (m, 1), or (m, t) if each test point is an output."""
        if self.score is None:
            scores = [self.scorer(model, self.X_test, self.truth) for model in predictions.estimators]
            if any(score is None for score in scores):
                raise TypeError(f"the scorer {self.name} returned None: does it lack a return?")
            return np.array(scores, dtype=float).reshape(len(predictions.fitted), 1)
        predicted = getattr(predictions, self.score.need)
        if self.rows is not None:
            predicted = predicted[:, self.rows]
        if self.each_point:
            assert self.score.points is not None
            return self.score.points(predicted, self.truth)
        return self.score.whole(predicted, self.truth, self.n_classes)[:, None]


def read_scoring(
    kind: Kind, data: Data, scoring: Any, per_test_point: bool, empty: Any
) -> tuple[tuple[Output, ...], tuple[str, ...] | None]:
    """Return the outputs that `scoring` asks for, and their names.

    Args:
        kind: What the model is and provides, against which scores are checked.
        data: The test rows, and the classes.
        scoring: As for `fgsv.utility`; None: accuracy or r2.
        per_test_point: Whether the score at each test point is an output.
        empty: Worth of a coalition that the model cannot be fitted to; None: that of the best constant.

    Returns:
        The outputs, and q names; None in their place for a single score.

    Raises:
        ValueError, TypeError: A score is unknown, or cannot be computed for this model on these test rows.

    """
    if scoring is None:
        scoring = "accuracy" if kind.classifier else "r2"
    if isinstance(scoring, str) or callable(scoring):
        asked = {_score_name(scoring): scoring}
    elif isinstance(scoring, Mapping):
        asked = {str(name): score for name, score in scoring.items()}
    elif isinstance(scoring, Sequence):
        asked = {_score_name(score): score for score in scoring}
        if len(asked) < len(scoring):
            raise ValueError(
                "scoring has the same score twice: use a mapping {name: score} to tell the outputs apart"
            )
    else:
        raise TypeError(
            f"scoring must be a name, a scorer, a list or a mapping of these, got {type(scoring).__name__}"
        )
    if not asked:
        raise ValueError("scoring is empty: expected at least one score")
    if per_test_point and len(asked) > 1:
        raise ValueError(f"per_test_point=True takes one score, got {len(asked)}: {', '.join(asked)}")
    scored = tuple(_read_output(kind, data, name, score, per_test_point) for name, score in asked.items())
    names: tuple[str, ...] | None = tuple(asked)
    if per_test_point:
        names = tuple(str(row) for row in range(len(scored[0].truth)))
    elif isinstance(scoring, str) or callable(scoring):
        names = None
    return _with_defaults(scored, empty, data), names


def check_batched(scored: Sequence[Output]) -> None:
    """Raise an error unless all scores are among the batched ones."""
    for output in scored:
        if output.score is None:
            raise ValueError(f"scoring: {output.name} is not among the batched scores, {', '.join(SCORES)}")


def _score_name(scoring: Any) -> str:
    if isinstance(scoring, str):
        return scoring
    function = getattr(scoring, "_score_func", scoring)
    return str(getattr(function, "__name__", type(function).__name__))


def _read_output(kind: Kind, data: Data, name: str, asked: Any, each_point: bool) -> Output:
    asked, rows = asked if isinstance(asked, tuple) else (asked, None)
    if rows is not None:
        rows = _read_test_rows(rows, name, len(data.y_test))
    asked = _as_scorer(asked, name)
    score = SCORES.get(asked) if isinstance(asked, str) else None
    truth = data.y_test if rows is None else data.y_test[rows]
    X_test: Any = None
    scorer: Any = asked
    if score is None:
        if isinstance(asked, str) and asked not in get_scorer_names():
            words = asked.lower()
            within = [name for name in SCORES if words in name and len(words) > 2]  # "auc"
            near = get_close_matches(words, get_scorer_names(), n=1) or within
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(
                f"{asked!r} is not a score of scikit-learn; {hint}batched scores are {', '.join(SCORES)}"
            )
        if not isinstance(asked, str) and not callable(asked):
            raise TypeError(f"scoring: {name!r} must be the name of a score or a scorer, got {type(asked).__name__}")
        scorer = _named_scorer(asked, data) if isinstance(asked, str) else asked
        _check_methods(kind, name, getattr(scorer, "_response_method", "predict"))
        truth = truth if data.classes is None else data.classes[truth]
        X_test = data.X_test if rows is None else take_rows(data.X_test, rows)
    else:
        _check_score(kind, data, score, truth, name)
    if each_point and (score is None or score.points is None):
        pointwise = ", ".join(score.name for score in SCORES.values() if score.points)
        raise ValueError(f"per_test_point=True needs a score that is a mean over test points: {pointwise}")
    return Output(name, score, scorer, rows, truth, X_test, data.n_classes, each_point, np.empty(0))


def _as_scorer(asked: Any, name: str) -> Any:
    """Return the scorer of a metric, a function of true and predicted values; anything else as it is.

    Metrics of scikit-learn that have a scorer there become its name. One's own are taken for scores, not losses.
    """
    if not isfunction(asked) or len(_required(asked)) != 2:
        return asked
    scorers = {each: get_scorer(each) for each in get_scorer_names()}
    named = [each for each, scorer in scorers.items() if scorer._score_func is asked and not scorer._kwargs]
    of_sklearn = asked.__module__.startswith("sklearn.metrics.")
    if of_sklearn and name.endswith(("_error", "_loss", "_deviance")):
        instead = repr(named[0]) if named else f"sklearn.metrics.make_scorer({name}, greater_is_better=False)"
        raise TypeError(f"scoring: {name} is a loss, and a score is larger where a model is better: use {instead}")
    if named:
        return named[0]
    return make_scorer(asked)


def _required(function: Any) -> list[str]:
    """Return the parameters of a function that must be given."""
    return [each.name for each in signature(function).parameters.values() if each.default is each.empty]


def _named_scorer(name: str, data: Data) -> Any:
    """Return a scorer of scikit-learn; the positive one of two classes is 1, or else the second."""
    scorer = get_scorer(name)  # a copy of its own
    if data.classes is None or len(data.classes) != 2 or 1 in data.classes.tolist():
        return scorer
    of_one_class = scorer._kwargs.get("average", "binary") == "binary"
    if of_one_class and "pos_label" in signature(scorer._score_func).parameters:
        scorer._kwargs = {**scorer._kwargs, "pos_label": data.classes.tolist()[1]}
    return scorer


def _read_test_rows(rows: Any, name: str, n_test: int) -> Ints:
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if rows.shape != (n_test,):
            raise ValueError(f"the mask of test rows of {name!r} has shape {rows.shape}, expected ({n_test},)")
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or not len(rows):
        raise ValueError(f"the test set of {name!r} is empty: give a mask or indices of at least one test row")
    if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_test:
        raise ValueError(f"the test rows of {name!r} must be a mask or indices from 0 to {n_test - 1}")
    return np.asarray(rows, dtype=np.int64)


def _check_score(kind: Kind, data: Data, score: Score, truth: NDArray[Any], name: str) -> None:
    """Raise an error unless the score can be computed for this model on this test set."""
    own = "classifier" if kind.classifier else "regressor"
    if score.kind != own:
        raise ValueError(f"scoring: {score.name} is for a {score.kind}, but {kind.name} is a {own}")
    _check_methods(kind, score.name, _METHODS[score.need])
    if score.name == "roc_auc" and data.n_classes != 2:
        raise ValueError(f"scoring: roc_auc is for two classes, but y has {data.n_classes}; use roc_auc_ovr")
    if score.name.startswith("roc_auc") and len(np.unique(truth)) < data.n_classes:
        raise ValueError(f"scoring: {name} needs every class among its test labels")
    if score.name == "r2" and truth.var() == 0:
        raise ValueError(f"scoring: {name} needs test labels that differ, but all are {truth[0]:g}")


def _check_methods(kind: Kind, name: str, methods: str | Sequence[str]) -> None:
    """Raise an error unless the model has one of the methods that a score needs."""
    asked = [methods] if isinstance(methods, str) else list(methods)
    if not kind.gives & set(asked):
        raise ValueError(f"scoring: {name} needs {' or '.join(asked)}, which {kind.name} does not have")


def _with_defaults(scored: Sequence[Output], empty: Any, data: Data) -> tuple[Output, ...]:
    """Return the outputs with the worth of coalitions that the model cannot be fitted to."""
    sizes = [len(output.truth) if output.each_point else 1 for output in scored]
    if isinstance(empty, Mapping):
        unknown = [name for name in empty if name not in {output.name for output in scored}]
        if unknown or len(empty) < len(scored):
            raise ValueError(f"empty must have a number for each of {', '.join(output.name for output in scored)}")
        empty = [empty[output.name] for output in scored]
    empty = [None] * sum(sizes) if empty is None else empty
    unsaid = np.array([each is None for each in empty]) if isinstance(empty, Sequence) else np.array([False])
    try:
        numbers = np.broadcast_to(np.asarray(empty, dtype=float), (sum(sizes),))  # NaN for None
    except (TypeError, ValueError):
        raise ValueError(f"empty must be one number, or one for each of the {sum(sizes)} outputs") from None
    if not (np.isfinite(numbers) | unsaid).all():
        raise ValueError(f"empty must be finite, got {empty!r}")
    found = []
    for output, worth in zip(scored, np.split(numbers, np.cumsum(sizes)[:-1]), strict=True):
        given = bool(np.isfinite(worth).all())
        default = worth if given else worth_of_nothing(output, data)
        found.append(replace(output, default=default, default_is_given=given))
    return tuple(found)


def worth_of_nothing(output: Output, data: Data, kept: Masks | None = None) -> Floats:
    """Return what the best constant is worth.

    Args:
        output: The score, and its test rows.
        data: The classes.
        kept: (t,) the test rows of the output that count; None: all.

    Raises:
        ValueError: The score has no default, as one's own scorers, or cannot be computed on these rows.

    """
    if kept is not None:
        output = replace(output, truth=output.truth[kept])
    if output.score is None:
        return _constant_scored(output, data)
    whole = replace(output, rows=None)  # the truth is that of the slice already, and so are the predictions
    return whole.measure(constant_predictions(output.truth, output.n_classes))[0]


def _constant_scored(output: Output, data: Data) -> Floats:
    """Return what a scorer of scikit-learn gives the best constant; of one's own, the worth of no data is unknown."""
    unknown = (
        f"the score {output.name!r} has no default for coalitions that the model cannot be fitted to, such as the "
        f"empty one: set it with {option('empty')}"
    )
    if not hasattr(output.scorer, "_score_func"):
        raise ValueError(unknown)
    constant: Any = DummyRegressor() if data.classes is None else DummyClassifier(strategy="prior")
    constant.fit(output.truth[:, None], output.truth)
    if data.classes is not None:
        constant = with_all_classes(constant, data.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # precision, say, is undefined where nothing is predicted, and counts as 0
        try:
            worth = float(output.scorer(constant, output.truth[:, None], output.truth))
        except ValueError as error:
            raise ValueError(f"scoring: {output.name} cannot be computed on these test rows: {error}") from None
    if not np.isfinite(worth):
        raise ValueError(unknown)
    return np.array([worth])


def constant_predictions(truth: NDArray[Any], n_classes: int) -> Predictions:
    """Return the predictions of the best constant: the mean of the test labels, or their commonest class."""
    fitted = np.ones(1, dtype=bool)
    if not n_classes:
        return Predictions(fitted, values=np.full((1, len(truth)), truth.mean()))
    counts = np.bincount(truth, minlength=n_classes)
    prior = np.broadcast_to(counts / len(truth), (1, len(truth), n_classes))
    labels = np.full((1, len(truth)), counts.argmax(), dtype=np.int64)
    return Predictions(fitted, labels=labels, probabilities=prior, ranks=np.zeros((1, len(truth))))
