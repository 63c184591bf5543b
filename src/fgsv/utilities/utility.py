"""`fgsv.utility`: the game of training rows whose value is the test score of a model trained on them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from fgsv.coalitions import Coalitions, describe
from fgsv.game import CoalitionError
from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.batched import linear, logistic, naive_bayes, neighbours
from fgsv.utilities.batched.scaling import SCALERS, scaling_of
from fgsv.utilities.data import Data, Given, Kind, NullSampler, read
from fgsv.utilities.fingerprint import fingerprint, row_digests
from fgsv.utilities.one_by_one import OneByOne, is_random, seed_parameters, with_seed
from fgsv.utilities.outputs import Output, read_scoring
from fgsv.utilities.row_sets import RowSets, Units, as_masks, pad, slices
from fgsv.utilities.scores import Need, Predictions
from fgsv.utilities.seeds import FreshSeeds, TrainingSeeds, check_training_seeds
from fgsv.utilities.without_folds import WithoutFolds, read_folds
from fgsv.words import option


class Learner(Protocol):
    """A model that is fitted to many sets of rows and predicts the test points for each.

    One that cannot be fitted to every set has a method `unfitted(sets)`, too: (m,) whether a set is one of these.
    """

    name: ClassVar[str]
    """How it is fitted, in words; also part of the fingerprint."""
    lists_members: ClassVar[bool]
    """Whether a set costs its size; if not, it costs the shorter of members and rows left out."""

    @property
    def memory(self) -> tuple[int, int]: ...  # noqa: D102
    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions: ...  # noqa: D102


_TWINS: dict[type, Callable[..., Learner | str]] = {
    Ridge: linear.twin,
    LinearRegression: linear.twin,
    LogisticRegression: logistic.twin,
    KNeighborsClassifier: neighbours.twin,
    KNeighborsRegressor: neighbours.twin,
    GaussianNB: naive_bayes.twin,
}
_PENALISED = (Ridge, LogisticRegression)
"""Models that, after a StandardScaler refitted for each coalition, are the same model with another penalty."""
_OF_FEATURES_APART = (KNeighborsClassifier, KNeighborsRegressor, GaussianNB)
"""Models that, after any scaler of `scaling.SCALERS`, need only know what each feature is divided by."""


@dataclass(frozen=True, eq=False)
class Utility:
    """A game whose players are training rows, or units of rows, and whose value is a model's score.

    Returned by `fgsv.utility`. Call it with an (m, n) boolean array, or `evaluate_lists` with `Coalitions`.
    """

    model: Any
    learner: Learner
    reason: str
    """Why there is no batched twin; empty if there is one."""
    scored: tuple[Output, ...]
    units: Units
    min_size: int
    outputs: tuple[str, ...] | None
    data: Data | None
    """The data as it was read; workers do without it."""
    frame: dict[str, str] | None
    """Hashes of what a value depends on besides the players; None where one cannot be hashed."""
    fingerprint: str | None
    weights: tuple[float, ...] | None = None
    """Weights of the outputs whose sum a run's targets are about; None for every output."""
    without_folds: tuple[WithoutFolds, ...] = ()
    """The scores without each fold of the test rows, of the outputs that have them: further outputs."""
    worth_without_folds: Floats = field(default_factory=lambda: np.zeros(0))
    """(n_folds,): what these are worth without data."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the data, which the learner has in its own form, but not what a run decides by its shape."""
        return {**vars(self), "data": None, "seconds": self.seconds}

    def players(self) -> bytes:
        """Return 16 bytes for the content of each player: its rows, as the model sees them."""
        if self.data is None:
            raise ValueError(
                "this utility was pickled, which drops the data by which a ledger recognises its players: "
                "make it with fgsv.utility in the process that runs fgsv.value"
            )
        n = self.data.n_rows
        starts = self.units.starts
        units = None if starts is None or self.units.rows is None else np.split(self.units.rows, starts[1:-1])
        return row_digests(self.data.X[:n], self.data.labels_of(slice(n)), units)

    @property
    def n_players(self) -> int:
        """Number of players: rows, or units."""
        return self.units.n_players

    @property
    def n_folds(self) -> int:
        """Further outputs, the last ones: the scores on all test rows but a fold, fold by fold."""
        return len(self.worth_without_folds)

    @property
    def independent_rows(self) -> bool:
        """Whether each coalition is evaluated by itself, with the same bits in any batch."""
        return isinstance(self.learner, OneByOne)

    @property
    def batch_size(self) -> int:
        """Number of coalitions that are best evaluated in one call."""
        return 16 if self.independent_rows else 2048

    @cached_property
    def seconds(self) -> float | None:
        """About what an evaluation by a batched twin takes, from shapes alone; None without a twin."""
        if self.data is None or self.independent_rows:
            return None
        return 2e-9 * self.data.n_rows * (self.data.X.shape[1] ** 2 + len(self.data.y_test))

    @property
    def retrain(self) -> Callable[[int], Callable[[Masks], ArrayLike]] | None:
        """With fresh training seeds: k = 1, 2, ... -> the same game by other seeds."""
        learner: Any = self.learner
        seeds = getattr(learner, "seeds", None)
        if seeds is None:
            return None
        return lambda k: replace(self, learner=replace(learner, seeds=replace(seeds, repeat=k)))

    @cached_property
    def defaults(self) -> Floats:
        """(q,) the worth of a coalition that the model cannot be fitted to, such as the empty one."""
        return np.concatenate([output.default for output in self.scored])

    @cached_property
    def _worth_of_nothing(self) -> Floats:
        """(q + n_folds,): the worth of a coalition that the model cannot be fitted to."""
        return np.append(self.defaults, self.worth_without_folds)

    def __call__(self, masks: ArrayLike) -> Floats:
        """Evaluate the coalitions in the rows of an (m, n) boolean array: (m,), or (m, q) for several outputs.

        With folds of the test rows these come last.
        """
        return self.evaluate_lists(Coalitions.from_masks(as_masks(masks, self.n_players)))

    def evaluate_lists(self, coalitions: Coalitions) -> Floats:
        """Evaluate coalitions given as lists: (m,), or (m, q) for several outputs.

        A small coalition costs its size, not n; memory is bounded by `row_sets.CHUNK_BYTES`.
        """
        values = np.empty((len(coalitions), len(self._worth_of_nothing)))
        for some in slices(coalitions, self.units.n_rows):
            values[some] = self._evaluate(coalitions[some])
        return values[:, 0] if self.outputs is None and not self.n_folds else values

    def _evaluate(self, coalitions: Coalitions) -> Floats:
        values = np.tile(self._worth_of_nothing, (len(coalitions), 1))
        needs = frozenset(output.need for output in self.scored)
        for chunk, sets in self._chunks(coalitions, np.ones(len(coalitions), dtype=bool)):
            at_work = type(self.model).__name__
            try:
                predictions = self.learner.predict(sets, needs)
                if not predictions.fitted.any():
                    continue
                at_work = f"scoring {at_work}"
                scores = [output.measure(predictions) for output in self.scored]
                if self.without_folds:
                    scores.append(_summed([each.measure(predictions) for each in self.without_folds], self.weights))
            except Exception as error:
                if not self.independent_rows:
                    raise
                raise _failure(at_work, coalitions, int(chunk[0]), error) from error
            values[chunk[predictions.fitted]] = np.concatenate(scores, axis=1)[predictions.fitted]
        return values

    def _chunks(self, coalitions: Coalitions, wanted: Masks) -> Iterator[tuple[Ints, RowSets]]:
        """Yield the positions of wanted coalitions that are not empty, and their rows, as many as fit into memory."""
        sets = self.units.row_sets(coalitions)
        if self.min_size:
            sets = pad(sets, self.min_size)
        nonempty = np.flatnonzero(wanted & (sets.sizes > 0))
        sets = sets.take(nonempty)
        lengths = sets.sizes if self.learner.lists_members else sets.n_listed
        for chunk in sets.chunks(lengths, *self.learner.memory):
            yield nonempty[chunk], sets.take(chunk)

    @property
    def unfitted(self) -> Callable[[Coalitions, Floats], Masks] | None:
        """Which of m coalitions, with their values, the model cannot be fitted to: (m,). None if it always can."""
        return self._unfitted if hasattr(self.learner, "unfitted") else None

    def _unfitted(self, coalitions: Coalitions, values: Floats) -> Masks:
        learner: Any = self.learner
        found = np.zeros(len(coalitions), dtype=bool)
        suspects = (values[:, : len(self.defaults)] == self.defaults).all(axis=1)
        for some in slices(coalitions, self.units.n_rows):
            for chunk, sets in self._chunks(coalitions[some], suspects[some]):
                found[some][chunk] = learner.unfitted(sets)
        return found

    @property
    def player_names(self) -> tuple[Hashable, ...] | None:
        """Labels of the units, or the index of the rows if `X` is a data frame with an index of its own."""
        return self.units.names

    def groups_of_players(self, groups: Any) -> Any:
        """Return the groups of the units if `groups` are labels of the rows; otherwise `groups` as they are."""
        return self.units.groups_of_units(groups)

    def describe(self, score: str | None = None, defaults: Sequence[float] | None = None) -> str:
        """Describe in words what is evaluated, and how; `score` and `defaults` replace those of all outputs."""
        rows = self.units.n_rows
        players = f"{rows} rows" if self.n_players == rows else f"{self.n_players} units of {rows} rows"
        path = self.learner.name + (f" ({self.reason})" if self.reason else "")
        first = self.scored[0]
        names = ", ".join(output.name for output in self.scored)
        each = f" at each of {len(first.truth)} test points" if first.each_point else ""
        model = " ".join(repr(self.model).split())  # scikit-learn breaks lines
        lines = [f"{model}: {path}", f"players: {players}", f"score: {score or f'{names}{each}'}"]
        if remark := getattr(self.learner, "remark", ""):
            lines.append(remark)
        if self.min_size:
            lines.append(f"sets of fewer than {self.min_size} rows are padded with uninformative rows")
        defaults = self.defaults.tolist() if defaults is None else defaults
        if len(defaults) <= 5:
            worth = ", ".join(f"{round(value, 12) + 0.0:.6g}" for value in defaults)
            lines.append(f"value of a set that the model cannot be fitted to: {worth}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.describe()


def _summed(parts: Sequence[Floats], weights: Sequence[float] | None) -> Floats:
    """Return (..., n_folds) of (..., K) of each output with folds: fold by fold, or summed with their weights."""
    if not parts:
        return np.zeros(0)
    if weights is None:
        return np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1)
    used = [weight for weight in weights if weight]
    return np.asarray(sum(weight * part for weight, part in zip(used, parts, strict=True)))


def _failure(at_work: str, coalitions: Coalitions, row: int, error: Exception) -> CoalitionError:
    """Return the error that says on which coalition a model, or its scoring, has failed."""
    coalition = describe(coalitions, row)
    failure = CoalitionError(f"{at_work} failed on {coalition}: {type(error).__name__}: {error}")
    failure.members = tuple(coalitions.members(row).tolist())
    return failure


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
    training_seeds: TrainingSeeds = "fixed",
    folds: Any = None,
    weights: Any = None,
) -> Utility:
    """Return the game in which a coalition of training rows is worth the score of a model trained on them.

    Ridge, LinearRegression, LogisticRegression (l2), KNeighbors models and GaussianNB are fitted to thousands of
    coalitions at once. So are pipelines of StandardScaler and Ridge or LogisticRegression, and of StandardScaler,
    MinMaxScaler or MaxAbsScaler and a KNeighbors model or GaussianNB. Any other model is cloned and fitted for each
    coalition. `game.describe()` says which.

    The model cannot be fitted to the empty coalition, nor to those where `fit` fails because some class has fewer
    rows than it needs: they are worth `empty`, and the result's `n_unfitted` counts them. A fit that fails for
    another reason ends a run with an error that names the coalition, or is worth the same and counted in the result's
    `failures` if the run says `on_error="empty"`. A fit to all rows must not fail.

    Probabilities have a column for every class, 0 for those that a coalition lacks; a model of one class predicts it
    with certainty. A model that takes only the labels 0, 1, ... (XGBoost) is given these.

    Args:
        model: Any scikit-learn classifier, regressor or pipeline.
        X: (n, p) training rows: numpy, pandas, polars, pyarrow or sparse.
        y: (n,) their labels: classes or numbers.
        X_test: (t, p) test rows, with the same columns.
        y_test: (t,) their labels.
        scoring: A scikit-learn name, a scorer, a metric (a function of true and predicted values that is larger where
            a model is better), several in a list, or a mapping from output names to a score or to (score, test rows),
            with the rows as a mask or as indices. Default: accuracy or r2.
        units: (n,) labels; the rows with one label are one player. Default: each row is a player.
        empty: Worth of a coalition that the model cannot be fitted to, one number or one for each output. Default:
            the score of the best constant.
        min_size: Coalitions of fewer rows are padded with uninformative rows, drawn once. Default: no padding.
        null: Where these are from: "shuffle", rows of the data with shuffled labels, or a callable
            (X, y, size, rng) -> (X, y). Default: "shuffle".
        per_test_point: Whether the score at each test point is an output of its own.
        seed: Of that draw, and of models whose `random_state` is not set, which a warning names: the same for all
            coalitions, so that U is a function of the coalition.
        training_seeds: "fresh": every `random_state` of the model becomes a hash of `seed` and of the rows' contents,
            so that every coalition is trained with a seed of its own, and U is still a function of the coalition. A
            run then trains some coalitions again, and its intervals hold for the expected score over seeds.
        folds: How many random folds the test rows have, such as 10, or (t,) the fold of each, from 0. The scores
            without each fold are further outputs, from which a run knows the error of the test rows; without them its
            intervals hold the Monte Carlo error only.
        weights: Weights of the scores whose sum a precision, and the folds, refer to. Default: every score.

    Raises:
        ValueError, TypeError: The data, the model or a score cannot be used; no coalition was evaluated.

    Examples:
        >>> import numpy as np
        >>> from sklearn.linear_model import Ridge
        >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> game = utility(Ridge(), X[:3], X[:3, 0], X, X[:, 0], scoring="neg_mean_squared_error")
        >>> game([[False, False, False], [True, True, True]]).round(3).tolist()
        [-1.25, -0.167]

    """
    fresh = check_training_seeds(training_seeds)
    given = Given(X, y, X_test, y_test, scoring, units, empty, min_size, null, per_test_point, seed, folds, weights)
    return build(Kind.of(model), _fresh_learner if fresh else _learner, model, given)


def build(
    kind: Kind,
    choose: Callable[[Any, Data, Sequence[Output], int], tuple[Learner, str, Any]],
    model: Any,
    given: Given,
) -> Utility:
    """Read the arguments of `utility` and return the game.

    Args:
        kind: What the model is, accepts and provides.
        choose: (model, data, outputs, seed) -> the learner, the reason why it is not a batched twin (or ""), and the
            content to fingerprint.
        model: What `choose` takes.
        given: The other arguments.

    """
    data = read(kind, given)
    players = Units.of(given.units, data.n_rows, getattr(given.X, "index", None))
    scored, outputs = read_scoring(kind, data, given.scoring, given.per_test_point, given.empty)
    learner, reason, content = choose(model, data, scored, given.seed)
    weights = None if given.weights is None else tuple(map(float, given.weights))
    folds = None if given.folds is None else read_folds(given.folds, data)
    without: tuple[WithoutFolds, ...] = ()
    if folds is not None:
        aimed_at = [output for place, output in enumerate(scored) if weights is None or weights[place]]
        without = tuple(WithoutFolds.of(output, folds) for output in aimed_at)
    frame = {
        "model": fingerprint(learner.name, content, getattr(learner, "own_code", None)),
        "score": fingerprint([[output.name, output.scorer, output.rows, output.each_point] for output in scored]),
        "worth of nothing": fingerprint([output.default for output in scored]),
        "test rows": fingerprint(data.X_test, data.y_test, data.classes),
        "padding": fingerprint(given.min_size, data.X[data.n_rows :], data.y[data.n_rows :]),
    }
    seeds = getattr(learner, "seeds", None)
    frame |= {} if seeds is None else {"training seeds": f"fresh, from seed {seeds.seed}"}
    frame |= {} if folds is None else {"folds of the test rows": fingerprint(folds, weights)}
    known = {name: part for name, part in frame.items() if part is not None}
    hashed = len(known) == len(frame)
    return Utility(
        model=model,
        learner=learner,
        reason=reason,
        scored=scored,
        units=players,
        min_size=given.min_size or 0,
        outputs=outputs,
        data=data,
        frame=known if hashed else None,
        fingerprint=fingerprint("utility", known, data.X, data.y, [players.rows, players.starts]) if hashed else None,
        weights=weights,
        without_folds=without,
        worth_without_folds=_summed([each.worth_of_nothing(data) for each in without], weights),
    )


def _learner(model: Any, data: Data, scored: Sequence[Output], seed: int) -> tuple[Learner, str, Any]:
    """Return the batched twin of a model, or one fit per coalition and the reason why there is no twin."""
    twin = _twin(model, data, scored)
    if isinstance(twin, str):
        learner = OneByOne(with_seed(model, seed), data)
        return learner, twin, learner.model
    return twin, "", model


def _fresh_learner(model: Any, data: Data, scored: Sequence[Output], seed: int) -> tuple[Learner, str, Any]:
    """Return one fit per coalition, each with its own seed, and why there is no twin."""
    if not is_random(model):
        raise ValueError(
            f"{option('training_seeds', 'fresh')} is for models that are trained with a seed, but "
            f"{type(model).__name__} has no random_state that matters: leave it out"
        )
    unseeded = clone(model).set_params(**dict.fromkeys(seed_parameters(model), 0))
    learner = OneByOne(unseeded, data, FreshSeeds.of_data(data, seed))
    return learner, "every coalition has its own seed", unseeded


def _twin(model: Any, data: Data, scored: Sequence[Output]) -> Learner | str:
    """Return the batched twin of a model, or of a scaler and a model, or the reason why there is none."""
    options: dict[str, Any] = {}
    if type(model) is Pipeline:
        if len(model.steps) != 2 or type(model.steps[0][1]) not in SCALERS:
            scalers = ", ".join(each.__name__ for each in SCALERS)
            return f"a pipeline has a batched twin only if it is a model after one of {scalers}"
        scaler, model = (step for _, step in model.steps)
        if type(scaler) is StandardScaler and isinstance(model, _PENALISED) and model.fit_intercept:
            options = {"standardised": scaler.with_std}
        elif isinstance(model, _OF_FEATURES_APART) and not getattr(scaler, "clip", False):
            options = {"scaling": scaling_of(scaler)}
        else:
            return f"{type(model).__name__} after {scaler!r} has no batched twin"
    twin_of = _TWINS.get(type(model))
    if twin_of is None:
        return f"{type(model).__name__} has no batched twin"
    if not data.is_dense:
        return "X is not a dense table of numbers"
    for output in scored:
        if output.score is None:
            return f"{output.name} is not among the batched scores"
    return twin_of(model, data, **options)
