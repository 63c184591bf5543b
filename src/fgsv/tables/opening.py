"""From a file to a game: what `fgsv value` opens, in one call."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from fgsv.game import Game
from fgsv.tables.dataset import Dataset, Task, prepare
from fgsv.tables.folds import Folds, folds_of, with_test_error
from fgsv.tables.models import model_of, task_of
from fgsv.tables.preprocessing import recognise_columns, transformer
from fgsv.tables.reading import TableError, read
from fgsv.types import Floats, Masks
from fgsv.valuation import Valuation


@dataclass(frozen=True, eq=False)
class Job:
    """A game over the players of a file, and the words that say what it is."""

    game: Any
    dataset: Dataset
    inputs: Inputs
    settings: dict[str, Any]
    """What a report needs to say, and another person to check, what was valued."""
    folds: Folds | None = None
    """Where the error from the choice of the test rows is asked for: how they are cut."""

    @property
    def notes(self) -> list[str]:
        """What was decided on the way, in plain words."""
        return list(self.settings["notes"])

    def on_all_test_rows(self, game: Any) -> Any:
        """Return a game of this job as the one whose value is the score on all test rows, folds or not."""
        folds = self.folds
        if folds is None:
            return game
        return Game(lambda masks: game(masks) @ folds.weights, game.n_players, batch_size=game.batch_size)

    def on_all_test_rows_valued(self, valuation: Valuation) -> Valuation:
        """Return a valuation of this job's game as that of the score on all test rows, folds or not."""
        return valuation if self.folds is None else valuation.combined(self.folds.weights)

    def ends(self) -> list[float]:
        """Return U(0) and U(N) of a game with one output."""
        both = np.array([[False], [True]]) & np.ones(self.game.n_players, dtype=bool)
        return [float(score) for score in self.on_all_test_rows(self.game)(both)]

    def check_something_to_share(self) -> None:
        """Raise an error where U(N) is no better than U(0), before a run is spent on money that cannot be split."""
        if self.game.outputs is not None and self.folds is None:
            return
        nobody, everybody = self.ends()
        if everybody <= nobody:
            raise ValueError(
                f"with everybody's data the model scores {everybody:.4g}, with nobody's {nobody:.4g}: there is "
                "nothing to share. Check the metric, the model and the test rows, or value without --payout and "
                "--audit"
            )

    def finished(self, valuation: Valuation, confidence: float = 0.95) -> Valuation:
        """Return a valuation of the job's game with the job's settings and, from folds, the test rows' error."""
        if self.folds is not None:
            valuation = with_test_error(valuation, self.folds, confidence)
        settings = valuation.settings | self.settings | {"confidence": confidence}
        if valuation.outputs is None:
            settings["ends"] = self.ends()
        return replace(valuation, settings=settings)


def open_file(
    path: str | Path,
    *,
    group: str,
    target: str,
    regroup: str = "",
    unit: str | None = None,
    test: str | Path | None = None,
    test_fraction: float = 0.25,
    test_by: str | None = None,
    model: str | None = None,
    metric: str | None = None,
    task: Task | None = None,
    group_missing: str | None = None,
    ignore: str = "",
    refit_preprocessing: bool = False,
    test_error: bool = False,
    encoding: str = "utf-8",
    seed: int = 0,
) -> Job:
    """Read a file and return the game of its rows: `fgsv.value(job.game, job.dataset.partition)` values it.

    `group`, `regroup` and `ignore` name columns, several with commas between; `metric` may name several scores
    likewise. Columns of `group` are no features; those of `regroup` are, and group the same players once more.
    `test_error` makes the folds of the test rows outputs of the game (see `fgsv.heldout`).
    """
    groups, ignored = _names(group), _names(ignore)
    if test is not None and test_by is not None:
        raise TableError("the test rows come from --test or from --test-by, not from both")
    text = [*groups, *([unit] if unit else [])]
    table = read(path, text=text, encoding=encoding)
    tested = None if test is None else read(test, text=text, encoding=encoding)
    dataset = prepare(
        table,
        group=groups,
        regroup=_names(regroup),
        target=target,
        unit=unit,
        test=tested,
        test_by=test_by,
        test_fraction=test_fraction,
        group_missing=group_missing,
        ignore=ignored,
        task=task or task_of(model),
        seed=seed,
    )
    metric = metric or ("accuracy" if dataset.task == "classification" else "r2")
    folds = folds_of(metric, dataset.test_target, seed=seed) if test_error else None
    inputs, notes = inputs_of(dataset, model, metric, refit=refit_preprocessing, folds=folds, seed=seed)
    game = inputs.game()
    notes = (*notes, *_described(game, metric, folds))
    settings = {
        "file": table.name,
        "sha256": table.sha256,
        "test_file": None if tested is None else tested.name,
        "test_sha256": None if tested is None else tested.sha256,
        "rows": len(dataset.features),
        "test_rows": len(dataset.test_features),
        "columns": {"group": groups, "target": target, "unit": unit, "ignored": ignored},
        "task": dataset.task,
        "model": repr(game.model),
        "metric": metric,
        "game": game.fingerprint,
        "notes": [*dataset.notes, *notes],
        "versions": versions(),
    }
    return Job(game, dataset, inputs, settings, folds)


def _described(game: Any, metric: str, folds: Folds | None) -> list[str]:
    if folds is None:
        return list(game.describe().splitlines())
    lines = game.describe().splitlines()[:2]
    return [*lines, f"score: {metric}, on {len(folds.weights)} folds of the test rows"]


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    packages = ("fgsv", "numpy", "scipy", "scikit-learn", "pandas")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except ModuleNotFoundError:  # a source tree that is not installed
            found[package] = import_module(package).__version__
    return found


def _names(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


@dataclass(frozen=True, eq=False)
class Inputs:
    """What `fgsv.utility` is called with; `game` may take fewer of the training rows."""

    model: Any
    X: Any
    """Training rows: numbers, or the table's own columns where the model is to preprocess them."""
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    scoring: Any
    empty: Any
    units: NDArray[Any] | None
    seed: int
    numbers: Floats
    """(rows, p) the training rows as numbers, whoever makes them so."""

    def game(self, rows: Masks | None = None) -> Any:
        """Return the utility, of all training rows or of those that a mask names."""
        from fgsv.utilities import utility

        X, y, units = self.X, self.y, self.units
        if rows is not None:
            X, y, units = X[rows], y[rows], None if units is None else units[rows]
        return utility(
            self.model,
            X,
            y,
            self.X_test,
            self.y_test,
            self.scoring,
            units=units,
            empty=self.empty,
            seed=self.seed,
        )


def inputs_of(
    dataset: Dataset,
    model: str | None,
    metric: str | None,
    *,
    refit: bool = False,
    folds: Folds | None = None,
    seed: int = 0,
) -> tuple[Inputs, tuple[str, ...]]:
    """Return what makes the utility of a data set, and what was decided on the way, in plain words.

    Columns become numbers once, from the features of all training rows, or for each coalition anew (`refit`).
    """
    columns = recognise_columns(dataset.features)
    learner = model_of(model, dataset.task, seed)
    into_numbers = transformer(columns)
    numbers = into_numbers.fit_transform(dataset.features)
    if refit:
        learner = make_pipeline(transformer(columns), learner)
        X, X_test = dataset.features, dataset.test_features
        how = "preprocessing is fitted anew for each coalition"
    else:
        X, X_test = numbers, into_numbers.transform(dataset.test_features)
        how = "preprocessing is fitted once, without labels, on all training rows"
    metrics = None if metric is None else _names(metric)
    scoring: Any = metrics[0] if metrics is not None and len(metrics) == 1 else metrics
    empty = None
    if folds is not None:
        scoring, empty = folds.scoring, folds.empty
    inputs = Inputs(
        learner,
        X,
        dataset.target,
        X_test,
        dataset.test_target,
        scoring,
        empty,
        dataset.units,
        seed,
        numbers,
    )
    return inputs, (f"features: {columns.describe()}", how)
