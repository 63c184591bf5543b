"""From a table to a game: what `fgsv value` opens, in one call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from fgsv.packages import versions
from fgsv.partition import Partition
from fgsv.tables.carried_over import CarriedOver
from fgsv.tables.dataset import Dataset, Task, prepare
from fgsv.tables.folds import Folds, folds_of, without_each_fold
from fgsv.tables.inputs import read_all
from fgsv.tables.leaks import warnings_of_features, warnings_of_test_rows
from fgsv.tables.metrics import default_metric
from fgsv.tables.models import model_of, task_of
from fgsv.tables.players import SharedUnits, warnings_of_names
from fgsv.tables.preprocessing import Fitted, recognise_columns, transformer
from fgsv.tables.reading import TableError, listed_names
from fgsv.tables.source import Source
from fgsv.types import Floats, Masks
from fgsv.utilities.seeds import TrainingSeeds
from fgsv.valuation import Valuation
from fgsv.words import option


class OpenedData:
    """What a table and texts have in common once they are games."""

    game: Any
    dataset: Any
    source: Source
    folds: Folds | None
    also: tuple[str, ...] = ()

    @property
    def partition(self) -> Partition:
        """Who owns which player, by the first column of `group`."""
        return self.dataset.partition

    @property
    def notes(self) -> list[str]:
        """The choices that were made, in plain words."""
        return list(self.source.notes)

    @property
    def weights(self) -> Floats | None:
        """The weights with which the outputs make up the score on all test rows; None if it is the only output."""
        if self.folds is None and not self.also:
            return None
        return np.array([*(np.ones(1) if self.folds is None else self.folds.weights), *np.zeros(len(self.also))])

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """The outputs that are valued side by side; None for a single score, even if others are scored too."""
        return self.game.outputs if self.weights is None else None

    def on_all_test_rows(self, valuation: Valuation) -> Valuation:
        """Convert a valuation of the game to one of the score on all test rows, with or without folds."""
        return valuation if self.weights is None else valuation.combined(self.weights)

    def __repr__(self) -> str:
        n_groups, n_players = self.partition.n_groups, self.partition.n_players
        return "\n".join([f"{self.source.file}: {n_players:,} players of {n_groups:,} groups", *self.notes])


@dataclass(frozen=True, eq=False, repr=False)
class Table(OpenedData):
    """A table as a game of its rows or units: `fgsv.value(table.game, table.partition)` values it."""

    game: Any
    dataset: Dataset
    inputs: Inputs
    source: Source
    folds: Folds | None = None
    """How the test rows are cut into folds, if the error from their choice is asked for."""
    warnings: tuple[str, ...] = ()
    """Features that look like ids or predict the target almost alone, test rows that are also training rows, numbers
    of test rows that chance does not explain, and names of providers that look alike."""
    also: tuple[str, ...] = ()
    """The last outputs of the game: other scores and slices of the test rows, without effect on payments."""

    def game_of(self, rows: Masks) -> Any:
        """Return the game of those training rows that a mask selects."""
        return self.inputs.game(rows)

    def game_of_single_rows(self) -> Any:
        """Return the game in which every row is a player, whatever the units are."""
        return replace(self.inputs, units=None).game()

    def without_each_fold(self) -> Any:
        """Return the game with an output for each fold of the test rows, the score without it; one metric only."""
        scoring = without_each_fold(self.source.metric, len(self.inputs.y_test), seed=self.inputs.seed)
        empty = self.inputs.empty[0] if self.also else self.inputs.empty
        return replace(self.inputs, scoring=scoring, empty=empty).game()


def open_table(
    path: Any,
    *,
    target: str,
    group: str | Sequence[str] = (),
    regroup: str | Sequence[str] = "",
    unit: str | None = None,
    test: Any = None,
    test_fraction: float = 0.25,
    test_by: str | None = None,
    split_seed: int = 0,
    model: Any = None,
    metric: str | Sequence[str] | None = None,
    empty: float | Sequence[float] | None = None,
    task: Task | None = None,
    group_missing: str | None = None,
    target_missing: str | None = None,
    shared_units: SharedUnits | None = None,
    ignore: str | Sequence[str] = "",
    refit_preprocessing: bool = False,
    reference: Any = None,
    start: str | Path | Sequence[str | Path] = (),
    test_error: bool = False,
    encoding: str = "utf-8",
    seed: int = 0,
    training_seeds: TrainingSeeds = "fixed",
    also_metric: str | Sequence[str] = "",
    also_slice: str | Sequence[str] = "",
    registered: str | None = None,
) -> Table:
    """Read a table and return the game of its rows: `fgsv.value(table.game, table.partition)` values it.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"x": range(40), "y": [i // 20 for i in range(40)], "provider": ["north", "south"] * 20})
    >>> table = open_table(rows, group="provider", target="y")
    >>> table.partition.names, table.source.metric
    (('north', 'south'), 'accuracy')

    `path` is a file (CSV, TSV, JSON lines, Excel, Parquet, also gzipped or zipped; `-` is stdin), a data frame (from
    pandas, or with a method `to_pandas`, as in polars and Hugging Face), or a list of these with the same columns. If
    one of several files lacks the provider column, or none is named, the provider is the file's name.

    `group`, `regroup`, `ignore` and `metric` take several names, in a list or separated by commas; a name that has
    commas goes in double quotes. Columns of `group`
    are not features; those of `regroup` are, and group the same players in other ways. `test_error` makes the
    folds of the test rows outputs of the game (see `fgsv.tables.folds`).

    `training_seeds="fresh"` trains every coalition with its own seed, derived from `seed` (see `fgsv.utility`).

    `also_metric` names further scores, and `also_slice` columns of the test rows: the score on the test rows with
    each of a column's values. They are outputs of the same trainings, without effect on payments and stopping;
    `fgsv.report.sensitivity` shows the shares by each.

    To reuse the evaluations of an earlier period, `start` takes the preprocessing, the test rows and the score from
    the last run of an earlier ledger (the first, if several are named). `reference` is a file, or "test" for the
    test rows, that the preprocessing is fitted to in place of the training rows.

    Column `registered` says when each row was registered, in numbers or dates, by which the audit decides which of
    two equal rows came first. It is not a feature.
    """
    given = {name: argument for name, argument in locals().items() if name not in ("path", "test")}
    given["start"] = ledgers = [str(each) for each in ([start] if isinstance(start, (str, Path)) else start)]
    if ledgers and reference is not None:
        raise TableError(f"the preprocessing comes from {option('start')} or {option('reference')}: give only one")
    carried = CarriedOver.of_ledger(ledgers[0]) if ledgers else None
    groups, ignored = listed_names(group), listed_names(ignore)
    if test is not None and test_by is not None:
        raise TableError(f"give the test rows with {option('test')} or {option('test_by')}, not both")
    text = [*groups, *([unit] if unit else [])]
    file = read_all(path, group=groups, ignore=ignored, text=text, encoding=encoding)
    tested = None if test is None else read_all(test, group=groups, ignore=ignored, text=text, encoding=encoding)
    groups = groups or ([] if file.by_file is None else [file.by_file])
    dataset = prepare(
        file,
        group=groups,
        regroup=listed_names(regroup),
        target=target,
        unit=unit,
        test=tested,
        test_by=test_by,
        test_fraction=test_fraction,
        split_seed=split_seed,
        group_missing=group_missing,
        target_missing=target_missing,
        shared_units=shared_units,
        ignore=ignored,
        task=task or task_of(model),
        carried=carried,
        slices=listed_names(also_slice),
        registered=registered,
    )
    learner = model_of(model, dataset.task, seed)
    metrics, why = listed_names(metric or ("" if carried is None else carried.metric)), []
    if not metrics:
        default, reason = default_metric(dataset, learner, test_error=test_error)
        metrics, why = [default], [reason]
    folds = folds_of(metrics[0], dataset.test_target, seed=seed) if test_error and len(metrics) == 1 else None
    if test_error and folds is None:
        raise TableError(f"the error from the test rows needs a single metric, got {', '.join(metrics)}")
    also = _also(metrics, listed_names(also_metric), dataset)
    if carried is not None:
        fitted, fitted_to = carried.fitted, "taken from the run to start from"
    else:
        frame, fitted_to = _to_fit(dataset, reference, encoding)
        fitted = Fitted.to(frame, recognise_columns(frame))
    columns = fitted.columns
    inputs, notes = inputs_of(
        dataset, fitted, learner, metrics, refit=refit_preprocessing, folds=folds, empty=empty, seed=seed
    )
    inputs = replace(_with_also(inputs, metrics[0], also, folds), training_seeds=training_seeds)
    to_carry = CarriedOver(
        fitted,
        ",".join(metrics),
        dataset.task,
        tuple(map(str, dataset.features.columns)),
        dataset.test_hashes,
    )
    inputs = replace(inputs, carried_over=to_carry.parts())
    notes = (notes[0], notes[1] or f"preprocessing is {fitted_to}")
    game = inputs.game()
    inputs = replace(inputs, model=getattr(game.learner, "model", inputs.model))  # with its seed: one warning will do
    source = Source(
        file=file.name,
        sha256=file.sha256,
        test_file=None if tested is None else tested.name,
        test_sha256=None if tested is None else tested.sha256,
        rows=len(dataset.features),
        test_rows=len(dataset.test_features),
        columns={"group": groups, "target": target, "unit": unit, "ignored": ignored}
        | ({} if registered is None else {"registered": registered}),
        task=dataset.task,
        model=repr(game.model),
        metric=",".join(metrics),
        game=game.fingerprint,
        notes=(*dataset.notes, *why, *notes, *_described(game, metrics[0], folds, list(also))),
        versions=versions(),
        features=columns.used,
        opened_with=given
        if all(each is None or isinstance(each, (str, Path)) for each in (model, reference))
        else None,
        frame=None if game.frame is None else {name: short_hash(part) for name, part in game.frame.items()},
        split_seed=dataset.split_seed,
    )
    warnings = (
        *warnings_of_features(dataset, columns),
        *warnings_of_test_rows(dataset),
        *dataset.warnings,
        *warnings_of_names(dataset.partition.names),
        *(warnings_of_names(pd.unique(dataset.target), "class") if dataset.task == "classification" else []),
    )
    table = Table(game, dataset, inputs, source, folds, warnings, tuple(also))
    weights = table.weights if also else None
    return table if weights is None else replace(table, game=replace(game, targets=tuple(weights.tolist())))


open_file = open_table
"""The name that it had in 0.1.0."""


def _also(metrics: Sequence[str], others: Sequence[str], dataset: Dataset) -> dict[str, Any]:
    """Return the further outputs, as `fgsv.utility` takes them: other metrics, and the first one on slices."""
    if (others or dataset.test_slices) and len(metrics) > 1:
        several = f"{option('also_metric')} and {option('also_slice')}"
        raise TableError(f"{several} need a single {option('metric')}, got {', '.join(metrics)}")
    found: dict[str, Any] = {name: name for name in others if name != metrics[0]}
    for column, slices in dataset.test_slices.items():
        for each in sorted(pd.unique(pd.Series(slices))):
            found[f"{column}: {each}"] = metrics[0], slices == each
    return found


def _with_also(inputs: Inputs, metric: str, also: Mapping[str, Any], folds: Folds | None) -> Inputs:
    """Return the inputs with further outputs after the score, or after its folds."""
    if not also:
        return inputs
    first = {metric: metric} if folds is None else folds.scoring
    given = [None] if inputs.empty is None else np.atleast_1d(inputs.empty).tolist()
    if len(given) != len(first):
        defaults = f"the scores of {option('also_metric')} keep their defaults"
        raise TableError(f"{option('empty')} takes one number, for {metric}: {defaults}")
    return replace(inputs, scoring={**first, **also}, empty=[*given, *[None] * len(also)])


def _described(game: Any, metric: str, folds: Folds | None, also: Sequence[str]) -> list[str]:
    if folds is None and not also:
        return str(game.describe()).splitlines()
    weights = np.ones(1) if folds is None else folds.weights
    on_folds = "" if folds is None else f", on {len(weights)} folds of the test rows"
    nothing = float(game.defaults[: len(weights)] @ weights)
    lines = str(game.describe(f"{metric}{on_folds}", [nothing])).splitlines()
    return [*lines, f"also scored (payments are by {metric} alone): {', '.join(also)}"] if also else lines


def short_hash(part: str) -> str:
    """Return the hash of a part of a frame that a result states."""
    return hashlib.sha256(part.encode()).hexdigest()[:16]


def _to_fit(dataset: Dataset, reference: Any, encoding: str) -> tuple[pd.DataFrame, str]:
    """Return the rows that the preprocessing is fitted to, and how that was done, in words."""
    if reference is None:
        return dataset.features, "fitted once, without labels, on all training rows"
    if isinstance(reference, str) and reference == "test":
        return dataset.test_features, "fitted once, without labels, on the test rows"
    file = read_all(reference, encoding=encoding)
    for name in dataset.features.columns:
        file.column(name, "a feature")
    return file.frame[list(dataset.features.columns)], f"fitted once, without labels, on {file.name}"


@dataclass(frozen=True, eq=False)
class Inputs:
    """What `fgsv.utility` is called with; `game` may take fewer of the training rows."""

    model: Any
    X: Any
    """Training rows: numbers, or the table's own columns if the model preprocesses them."""
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    scoring: Any
    empty: Any
    units: NDArray[Any] | None
    seed: int
    numbers: Floats
    """(rows, p) the training rows as numbers, whatever turns them into numbers."""
    carried_over: Mapping[str, str] = field(default_factory=dict)
    """What the table adds to the frame of the game, from which a later period can take it."""
    training_seeds: TrainingSeeds = "fixed"

    def game(self, rows: Masks | None = None) -> Any:
        """Return the utility, of all training rows or of those that a mask selects."""
        from fgsv.utilities import utility

        X, y, units = self.X, self.y, self.units
        if rows is not None:
            X, y, units = X[rows], y[rows], None if units is None else units[rows]
        game = utility(
            self.model,
            X,
            y,
            self.X_test,
            self.y_test,
            self.scoring,
            units=units,
            empty=self.empty,
            seed=self.seed,
            training_seeds=self.training_seeds,
        )
        return game if game.frame is None else replace(game, frame={**game.frame, **self.carried_over})


def inputs_of(
    dataset: Dataset,
    fitted: Fitted,
    learner: Any,
    metrics: Sequence[str],
    *,
    refit: bool = False,
    folds: Folds | None = None,
    empty: float | Sequence[float] | None = None,
    seed: int = 0,
) -> tuple[Inputs, tuple[str, ...]]:
    """Return the inputs of a data set's utility, and the choices that were made, in plain words.

    Columns become numbers by preprocessing that is fitted once, or for each coalition (`refit`).
    """
    fitted.columns.check(dataset.features, "training rows")
    fitted.columns.check(dataset.test_features, "test rows")
    numbers, how = fitted.transform(dataset.features), ""
    X: Any
    X_test: Any
    if refit:
        learner = make_pipeline(transformer(fitted.columns), learner)
        X, X_test = dataset.features, dataset.test_features
        how = "preprocessing is refitted for each coalition"
    else:
        X, X_test = numbers, fitted.transform(dataset.test_features)
    scoring: Any = metrics[0] if len(metrics) == 1 else list(metrics)
    worth: Any = empty
    if folds is not None:
        scoring, worth = folds.scoring, folds.empty if empty is None else empty
    y, y_test = dataset.target, dataset.test_target
    inputs = Inputs(learner, X, y, X_test, y_test, scoring, worth, dataset.units, seed, numbers)
    return inputs, (f"features: {fitted.columns.describe()}", how)
