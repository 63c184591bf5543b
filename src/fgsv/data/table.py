"""Tables: from a file of rows to a game, in one call."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from fgsv.checks import as_list, check_type, whole_number
from fgsv.data.carried_over import CarriedOver
from fgsv.data.choice import contents_with_target
from fgsv.data.dataset import Dataset
from fgsv.data.facts import contradicted, sentences
from fgsv.data.folds import ASKED, folds_of, known_roughly, only_monte_carlo, rare_class, too_few
from fgsv.data.joining import read_all
from fgsv.data.labelled_rows import LabelledRows, Task, prepare
from fgsv.data.leaks import warnings_of_features, warnings_of_test_rows
from fgsv.data.metrics import Scores
from fgsv.data.models import model_of, task_of
from fgsv.data.players import warnings_of_names
from fgsv.data.preprocessing import Fitted, recognise_columns, transformer, warnings_of_categories
from fgsv.data.reading import TableError, listed_names
from fgsv.data.roles import Roles, SharedUnits
from fgsv.data.source import Source
from fgsv.partition import Partition
from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.batched.neighbours import Neighbours
from fgsv.utilities.seeds import TrainingSeeds
from fgsv.utilities.without_folds import FoldsError
from fgsv.words import option

if TYPE_CHECKING:
    from fgsv.audit.copies import Copies


@dataclass(frozen=True, eq=False, repr=False)
class Table(Dataset):
    """A table as a game of its rows or units: `fgsv.value(table.game, table.partition)` values it."""

    noun: ClassVar[str] = "row"
    rows: LabelledRows
    inputs: Inputs

    def game_of(self, rows: Masks) -> Any:
        """Return the game of those training rows that a mask selects."""
        return self.inputs.game(rows)

    def game_of_units(self, units: Any) -> Any:
        """Return the game of the same rows with other units; None: each row is a player."""
        rows = replace(self.rows, players=replace(self.rows.players, units=units))
        return replace(self.inputs, rows=rows).game()

    def copies(self) -> Copies:
        """Return which rows several providers have, exactly or nearly."""
        from fgsv.audit.copies import find_copies  # here: an audit stands above data

        rows = self.inputs.numbers, self.rows.target, self.row_owners()
        named = self.rows.test_hashes is None and not isinstance(self.inputs.X_test, pd.DataFrame)
        test = (self.inputs.X_test, self.rows.test_target) if named else None
        return find_copies(*rows, test=test, registered=self.rows.registered)

    def contents(self) -> list[bytes]:
        """Return what the model learns from each training row: a copier may have given it another number."""
        used = [name for name in self.rows.features if str(name) in self.source.features]
        return contents_with_target(self.rows.features[used], self.rows.target)

    def own_test_rows(self) -> pd.DataFrame | None:
        """Return test rows that were drawn from the table, each with a digest of its provider."""
        return self.rows.test_rows

    def facts_of(self, owners: Partition) -> dict[str, str]:
        """Return a sentence about each owner: its rows, classes, missing and equal ones, and doubtful labels."""
        rows = self.rows
        parts = {}
        if rows.task == "classification":
            classes, counts = np.unique(rows.target, return_counts=True)
            rarest = classes[counts.argmin()]
            parts[f"of class {rarest}"] = rows.target == rarest
        parts["of cells missing"] = rows.features.isna().mean(axis=1).to_numpy()
        parts["equal to another provider's row"] = self.equal_rows[0]
        if rows.task == "classification":
            parts["with a label that a model of the other rows contradicts"] = contradicted(
                self.inputs.numbers, rows.target
            )
        return sentences(owners, self.noun, parts)

    def cheaper_evaluations(self) -> list[str]:
        """Return what would make evaluations cheaper, in words."""
        if self.game.independent_rows:
            models = (
                "logistic, knn or sklearn.naive_bayes:GaussianNB"
                if self.rows.task == "classification"
                else "ridge or knn"
            )
            return [f"{option('model')} {models}, which are fitted in batches"]
        slow = isinstance(getattr(self.game, "learner", None), Neighbours)
        return [f"fewer test rows ({option('test_fraction')})"] if slow else []

    def classes(self) -> Any:
        """Return the class of each player; None of units, and of quantities."""
        return self.rows.target if self.rows.task == "classification" and self.units is None else None


def open_table(
    path: Any,
    *,
    target: str,
    group: str | Sequence[str] = (),
    regroup: str | Sequence[str] = "",
    unit: str | None = None,
    unit_size: int | None = None,
    max_players: int | None = None,
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
    monte_carlo_only: bool = False,
    encoding: str = "utf-8",
    seed: int = 0,
    training_seeds: TrainingSeeds = "fixed",
    also_metric: str | Sequence[str] = "",
    also_slice: str | Sequence[str] = "",
    registered: str | None = None,
) -> Table:
    """Read a table and return the game of its rows: `fgsv.value(table.game, table.partition)` values it.

    The scores without each of ten random folds of the test rows are further outputs of the same trainings
    (`fgsv.data.folds`): intervals, verdicts and refusals then hold the error of the test rows. With fewer than five
    test rows they do not, and a note says so.

    Args:
        path: A file (CSV, TSV, JSON lines, Excel, Parquet, also gzipped or zipped; `-` is stdin), a data frame (from
            pandas, or with a method `to_pandas`, as in polars and Hugging Face), or a list of these with the same
            columns. The provider and the unit may be levels of a data frame's index; the rest of it is dropped.
        target: Column to predict.
        group: Provider column, or several: the first one is paid. Default: the name of each file.
        regroup: More columns to group by; in a table they remain features.
        unit: Column that combines rows into one player, such as a patient or an author.
        unit_size: So many rows of a provider are one player, in an order that nobody chooses: that of a hash of their
            content with the split seed.
        max_players: The smallest `unit_size` that makes at most so many players.
        test: File of test rows. In Python also a data frame.
        test_fraction: Approximate fraction of rows held out for testing.
        test_by: Column that says train or test.
        split_seed: Change this number to hold out other test rows.
        model: logistic, ridge, knn, hgb, mlp, package.module:object or file.py:object. In Python also an estimator.
            Default: logistic or ridge.
        metric: scikit-learn scorer, or several. Default: depends on the target.
        empty: Score of no data, one for each metric. Default: that of the best constant.
        task: What the target is. Default: inferred from its values.
        group_missing: Provider name for rows without one.
        target_missing: Rows without a target: drop leaves them out, any other word makes them a class.
        shared_units: A unit with rows of several providers: one player owned in proportion to rows (co-own), or one
            each (split).
        ignore: Columns that are not features.
        refit_preprocessing: Refit the preprocessing for each coalition (slow).
        reference: File to fit the preprocessing to, or the word test for the test rows. Default: the training rows.
        start: Ledger of an earlier run, or several: evaluations of players still present are reused, and the
            preprocessing, the test rows and the score are those of the last run of the first.
        monte_carlo_only: Leave the error of the test rows out of all intervals.
        encoding: Text encoding of the file.
        seed: Random seed: same seed, same result.
        training_seeds: One seed for all trainings (fixed), or one for each coalition (fresh): shares then refer to
            the expected score, and intervals hold the error of training seeds (32 to 128 more evaluations).
        also_metric: Further scores of the same trainings, for `fgsv sensitivity`; payments do not depend on them.
        also_slice: Column of the test rows: also score the rows with each of its values separately.
        registered: Column with the registration time of each row, a number or a date such as 2025-03-31, by which an
            audit decides which of two equal rows came first. It is not a feature. Default: the order of the file.

    Arguments that take several names take a list, or one text with commas between them; a name that has commas goes
    in double quotes.

    Returns:
        The table, with its `game`, the `partition` of its players by provider, and its `source`.

    Raises:
        TableError, ValueError, TypeError: The file or an argument is wrong; nothing was evaluated.

    Examples:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"x": range(40), "y": [i // 20 for i in range(40)], "provider": ["n", "s"] * 20})
        >>> table = open_table(rows, group="provider", target="y")
        >>> table.partition.names, table.source.metric
        (('n', 's'), 'accuracy')

    """
    given = {name: argument for name, argument in locals().items() if name not in ("path", "test")}
    expected = f"{option('start')} must be the path of an earlier ledger, or a list of paths"
    earlier = [start] if isinstance(start, (str, Path)) else as_list(start, expected)
    given["start"] = ledgers = [str(each) for each in earlier]
    check_type(
        target, Hashable, f"the name of a column as {option('target')}", "add it to the table, and give its name"
    )
    check_type(encoding, str, f"a text as {option('encoding')}")
    seed = whole_number("seed", seed, least=0)
    if ledgers and reference is not None:
        raise TableError(f"the preprocessing comes from {option('start')} or {option('reference')}: give only one")
    if test is not None and test_by is not None:
        raise TableError(f"give the test rows with {option('test')} or {option('test_by')}, not both")
    roles = Roles.of(given)
    read = partial(read_all, group=roles.group, ignore=roles.ignore, text=roles.as_written, encoding=encoding)
    carried = CarriedOver.of_ledger(ledgers[0]) if ledgers else None
    file = read(path)
    tested = None if test is None else read(test)
    roles = roles.of_file(file)
    rows = prepare(
        file,
        roles,
        target=target,
        target_missing=target_missing,
        task=task or task_of(model),
        test=tested,
        carried=carried,
        slices=listed_names(also_slice),
    )
    learner = model_of(model, rows.task, seed)
    metrics = listed_names(metric or ("" if carried is None else carried.metric))
    scores = Scores.of(rows, learner, metrics, listed_names(also_metric), empty)
    fitted, how = _fitted(rows, carried, reference, encoding)
    inputs = _inputs(rows, fitted, learner, scores, refit_preprocessing, seed, training_seeds)
    game, inputs, tested_by = _with_folds(inputs, monte_carlo_only)
    inputs = replace(inputs, model=getattr(game.learner, "model", inputs.model))  # with its seed: one warning will do
    named = all(each is None or isinstance(each, (str, Path)) for each in (model, reference))
    source = Source.of(
        file,
        tested,
        game,
        rows,
        roles,
        rows=len(rows.features),
        test_rows=len(rows.test_features),
        columns={"target": target},
        task=rows.task,
        model=repr(game.model),
        metric=",".join(scores.metrics),
        notes=[
            *scores.notes,
            f"features: {fitted.columns.describe()}",
            f"preprocessing is {'refitted for each coalition' if refit_preprocessing else how}",
            *scores.describe(game),
            *tested_by,
        ],
        features=fitted.columns.used,
        opened_with=given if named else None,
    )
    warnings = _warnings(rows, fitted)
    made = Table(game=game, rows=rows, inputs=inputs, source=source, also=tuple(scores.also))
    return replace(made, warnings=(*warnings, *made.equal_rows[1]))


def _with_folds(inputs: Inputs, monte_carlo_only: bool) -> tuple[Any, Inputs, list[str]]:
    """Return the game, with folds of the test rows if they are wanted and can be had, and what to know about them."""
    rows = inputs.rows
    labels = rows.test_target
    why = ASKED if monte_carlo_only else too_few(len(labels))
    if not why:
        tested = replace(inputs, folds=folds_of(contents_with_target(rows.test_features, labels)))
        try:
            notes = rare_class(labels) if rows.task == "classification" else known_roughly(len(labels))
            return tested.game(), tested, notes
        except FoldsError as error:
            why = str(error)
    return inputs.game(), inputs, [only_monte_carlo(why)]


def _warnings(rows: LabelledRows, fitted: Fitted) -> tuple[str, ...]:
    classes = pd.unique(rows.target) if rows.task == "classification" else ()
    return (
        *warnings_of_features(rows, fitted.columns),
        *warnings_of_categories(fitted, rows.features, rows.test_features),
        *warnings_of_test_rows(rows),
        *rows.warnings,
        *warnings_of_names(rows.players.partition.names),
        *warnings_of_names(classes, "class"),
    )


def _fitted(rows: LabelledRows, carried: CarriedOver | None, reference: Any, encoding: str) -> tuple[Fitted, str]:
    """Return the preprocessing, of the run to start from or fitted to rows, and where it is from, in words."""
    if carried is not None:
        return carried.fitted, "taken from the run to start from"
    if reference is None:
        frame = rows.features
        where = "all training rows"
    elif isinstance(reference, str) and reference == "test":
        frame = rows.test_features
        where = "the test rows"
    else:
        file = read_all(reference, encoding=encoding)
        for name in rows.features.columns:
            file.column(name, "a feature")
        frame = file.frame[list(rows.features.columns)]
        where = file.name
    return Fitted.to(frame, recognise_columns(frame)), f"fitted once, without labels, on {where}"


@dataclass(frozen=True, eq=False)
class Inputs:
    """What `fgsv.utility` is called with; `game` may take fewer of the training rows."""

    rows: LabelledRows
    scores: Scores
    model: Any
    X: Any
    """Training rows: numbers, or the table's own columns if the model preprocesses them."""
    X_test: Any
    numbers: Floats
    """(rows, p) the training rows as numbers, whatever turns them into numbers."""
    seed: int
    training_seeds: TrainingSeeds
    carried_over: Mapping[str, str]
    """What the table adds to the frame of the game, from which a later period can take it."""
    folds: Ints | None = None
    """(t,): the fold of each test row."""

    def game(self, rows: Masks | None = None) -> Any:
        """Return the utility, of all training rows or of those that a mask selects."""
        from fgsv.utilities import utility

        some: Any = slice(None) if rows is None else rows
        units = self.rows.players.units
        game = utility(
            self.model,
            self.X[some],
            self.rows.target[some],
            self.X_test,
            self.rows.test_target,
            self.scores.scoring,
            units=None if units is None else units[some],
            empty=self.scores.empty,
            seed=self.seed,
            training_seeds=self.training_seeds,
            folds=self.folds,
            weights=self.scores.weights,
        )
        return game if game.frame is None else replace(game, frame={**game.frame, **self.carried_over})


def _inputs(
    rows: LabelledRows, fitted: Fitted, learner: Any, scores: Scores, refit: bool, seed: int, seeds: TrainingSeeds
) -> Inputs:
    """Return the inputs of a table's utility: columns become numbers once, or for each coalition (`refit`)."""
    fitted.columns.check(rows.features, "training rows")
    fitted.columns.check(rows.test_features, "test rows")
    numbers = fitted.transform(rows.features)
    features = tuple(map(str, rows.features.columns))
    pieces = rows.players.pieces
    units = None if pieces is None else asdict(pieces)
    carried = CarriedOver(fitted, ",".join(scores.metrics), rows.task, features, rows.test_hashes, units)
    return Inputs(
        rows,
        scores,
        model=make_pipeline(transformer(fitted.columns), learner) if refit else learner,
        X=rows.features if refit else numbers,
        X_test=rows.test_features if refit else fitted.transform(rows.test_features),
        numbers=numbers,
        seed=seed,
        training_seeds=seeds,
        carried_over=carried.parts(),
    )
