"""Leaks: columns that should perhaps not be features, such as row numbers, ids and facts known only afterwards.

Also the opposite: numbers that are not used, or not as numbers, because of how they are written.
And test rows and texts that the model was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fgsv.data.choice import contents_with_target
from fgsv.data.documents import Documents
from fgsv.data.labelled_rows import LabelledRows
from fgsv.data.players import shown
from fgsv.data.preprocessing import Columns
from fgsv.data.reading import as_listed, odd_number
from fgsv.types import Floats

FEWEST_ROWS = 20
"""With fewer rows, numbers that are all different say nothing."""
MOST_ROWS = 1_000
"""Rows that a tree of one feature is fitted to, and tested on: those that come first."""
ALMOST_ALONE = 0.99
"""A feature almost predicts the target by itself if a tree on it has this balanced accuracy, or this R²."""
MOST_OF_TREES = 1e38
"""Trees compare numbers in single precision, which ends here; larger ones are scaled."""
NAMES_OF_IDS = {"id", "idx", "index", "row", "rownames", "rownumber", "unnamed: 0"}
"""Last words of columns that name rows; the last one is what pandas calls a column without a name."""

A_FEW = 0.05
"""Fraction of the test rows that may equal a training row by chance."""


def warnings_of_features(rows: LabelledRows, columns: Columns) -> list[str]:
    """Return warnings that name features which look like ids, predict the target alone, or are numbers as text."""
    ids = [name for name in columns.numbers if _is_id(rows.features[name])]
    warnings = []
    if ids:
        warnings.append(
            f"these features look like row numbers or ids, which a model can memorise: {', '.join(ids)}; "
            f"leave them out with the option ignore: {quote(as_listed(ids))}"
        )
    alone = {name: score for name in columns.used if (score := _score_alone(rows, columns, name)) >= ALMOST_ALONE}
    if alone:
        what = "balanced accuracy" if rows.task == "classification" else "R²"
        words = ", ".join(f"{name} ({what} {score:.3f})" for name, score in alone.items())
        warnings.append(
            f"almost predicts the target by itself: {words}; if it is known only after the target, leave it out with "
            f"the option ignore: {quote(as_listed(alone))}"
        )
    texts = {name: odd_number(rows.features[name]) for name in (*columns.categories, *columns.left_out)}
    numbers = ", ".join(f"{name} ({shown(cell)})" for name, cell in texts.items() if cell is not None)
    if numbers:
        warnings.append(
            f"read as text, because of cells such as this one, though most look like numbers: {numbers}; write "
            "plain numbers, such as 1234.5, and leave missing ones empty"
        )
    return warnings


def warnings_of_test_rows(rows: LabelledRows) -> list[str]:
    """Return a warning if all test rows have one target, or else if many are also training rows."""
    targets = np.unique(rows.test_target).tolist()
    if len(targets) == 1:
        only = shown(targets[0])
        return [f"all test rows have the same target, {only}: a constant predicts it, so no data can do better"]
    if rows.test_hashes is not None:  # chosen by content: equal rows are on the same side
        return []
    tested = contents_with_target(rows.test_features[rows.features.columns], rows.test_target)
    return _warnings_of_both(contents_with_target(rows.features, rows.target), tested, "rows")


def warnings_of_test_texts(documents: Documents) -> list[str]:
    """Return a warning if test texts are also training texts; answers to prompts may be."""
    tested = [text for texts in documents.tests.values() for text in texts if isinstance(text, str)]
    return _warnings_of_both(documents.texts.tolist(), tested, "texts")


def _warnings_of_both(trained: Sequence[Any], tested: Sequence[Any], what: str) -> list[str]:
    """Return a warning if more than a few of those tested are among those trained on, most of which are unique."""
    seen = set(trained)
    twice = sum(content in seen for content in tested)
    if len(seen) < len(trained) / 2 or twice < max(1, A_FEW * len(tested)):
        return []
    return [
        f"{twice:,} of {len(tested):,} test {what} are also training {what}: their providers are paid for answers "
        f"that the model has seen. Leave these {what} out on one side"
    ]


def _is_id(column: pd.Series[Any]) -> bool:
    """Say whether whole numbers name the rows: all are different, or the column is called an id."""
    present = column.dropna()
    if pd.api.types.is_bool_dtype(column) or len(present) < FEWEST_ROWS:
        return False
    numbers = present.to_numpy(dtype=float)
    if np.any(np.mod(numbers, 1) != 0):
        return False
    last_word = str(column.name).lower().replace("-", "_").replace(".", "_").rpartition("_")[2]
    return len(np.unique(numbers)) == len(numbers) or last_word in NAMES_OF_IDS


def _score_alone(rows: LabelledRows, columns: Columns, name: str) -> float:
    """Return the score on test rows of a tree that sees this feature only; of a line, if that is better."""
    X, X_test = _as_numbers(rows, columns, name)
    y = rows.target[:MOST_ROWS]
    y_test = rows.test_target[:MOST_ROWS]
    if len(y) < FEWEST_ROWS or len(np.unique(y_test)) < 2:
        return 0.0
    if rows.task == "classification":
        tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X, y)
        predicted = tree.predict(X_test)
        return float(np.mean([np.mean(predicted[y_test == each] == each) for each in np.unique(y_test)]))
    models = (DecisionTreeRegressor(min_samples_leaf=2, random_state=0), LinearRegression())
    return max(float(r2_score(y_test, model.fit(X, y).predict(X_test))) for model in models)


def _as_numbers(rows: LabelledRows, columns: Columns, name: str) -> tuple[Floats, Floats]:
    """Return one feature of some training rows and of some test rows as (rows, 1) numbers; -1 if missing."""
    parts = [rows.features[name].iloc[:MOST_ROWS], rows.test_features[name].iloc[:MOST_ROWS]]
    if name in columns.categories:
        codes, _ = pd.factorize(pd.concat([part.astype(object) for part in parts]).astype(str))
        numbers = [codes[: len(parts[0])], codes[len(parts[0]) :]]
    else:
        numbers = [columns.as_numbers(part) for part in parts]
    first, second = (np.nan_to_num(np.asarray(each, dtype=float), nan=-1.0)[:, None] for each in numbers)
    limit = max(1.0, np.abs(first).max() / MOST_OF_TREES, np.abs(second).max() / MOST_OF_TREES)
    return first / limit, second / limit
