"""Preprocessing: feature columns of any kind become numbers, without looking at the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fgsv.data.players import shown, warnings_of_names
from fgsv.data.reading import TableError, as_floats, as_listed
from fgsv.types import Floats
from fgsv.words import option, some

MOST_CATEGORIES = 20
"""A column of categories becomes at most this many columns; the rarest categories share one."""
MOST_NAMES = 12
"""Numeric columns named in a description; the source of a result has all of them."""
DATE_FRACTION = 0.95
"""A text column is a column of dates when at least this fraction of its cells look like dates."""
DATE = r"\s*\d{4}-\d{1,2}-\d{1,2}.*|\s*\d{1,2}[./]\d{1,2}[./]\d{4}.*"
POINTS = r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})"
SLASHES = r"^\s*(\d{1,2})/(\d{1,2})/(\d{4})"
LARGEST = 1e150
"""The variance of larger numbers would overflow."""


@dataclass(frozen=True)
class Columns:
    """How each feature column becomes numbers."""

    numbers: tuple[str, ...]
    dates: tuple[str, ...]
    categories: tuple[str, ...]
    left_out: tuple[str, ...]
    """Columns that are empty, or different in almost every row (names, free text)."""
    day_first: tuple[str, ...] = ()
    """Columns of dates such as 31/12/2025; in others 12/31/2025 is meant. With points, the day is always first."""

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that a model sees."""
        return (*self.numbers, *self.dates, *self.categories)

    def describe(self) -> str:
        """Describe in words how the columns are used."""
        words = []
        if self.numbers:
            plural = "" if len(self.numbers) == 1 else "s"
            names = some(self.numbers, MOST_NAMES)
            words.append(
                f"{len(self.numbers)} numeric column{plural} (missing values get the median, then scaled): {names}"
            )
        if self.dates:
            dates = (f"{name} (day/month/year)" if name in self.day_first else name for name in self.dates)
            words.append(f"dates as days: {', '.join(dates)}")
        if self.categories:
            words.append(
                f"one column for each category, at most {MOST_CATEGORIES} of each: {', '.join(self.categories)}"
            )
        if self.left_out:
            words.append(f"left out (empty, or different in almost every row): {', '.join(self.left_out)}")
        return "; ".join(words)

    def check(self, frame: pd.DataFrame, rows: str) -> None:
        """Raise an error if a column of numbers or dates is something else in a frame, which has the `rows`."""
        for name in self.dates:
            self._check_order(frame[name], rows)
        for name in (*self.numbers, *self.dates):
            present = frame[name].notna().to_numpy()
            lost = present & ~(np.abs(self.as_numbers(frame[name])) <= LARGEST)
            # a few cells that are no dates count as missing
            if lost.any() and (name in self.numbers or lost.sum() == present.sum()):
                cell = shown(frame[name].iloc[int(np.argmax(lost))])
                what = "numbers" if name in self.numbers else "dates"
                raise TableError(
                    f"column {name!r} must have {what}, but has {cell} in the {rows}: use the same kind in all "
                    f"files, or leave it out with {option('ignore', as_listed([name]))}"
                )

    def as_numbers(self, column: pd.Series[Any]) -> Floats:
        """Return a column of numbers, or one of dates as days since 1970, as floats; NaN where there is none."""
        return days(column, column.name in self.day_first) if column.name in self.dates else as_floats(column)

    def _check_order(self, column: pd.Series[Any], rows: str) -> None:
        """Raise an error if a date has the day where the others of its column have the month."""
        column = column.reset_index(drop=True)
        parts = _parts_with_slashes(column)
        day_first = column.name in self.day_first
        month = parts[1 if day_first else 0]
        day = parts[0 if day_first else 1]
        wrong = parts.index[(month > 12) & (day <= 12)]
        if len(wrong):
            orders = ("day/month/year", "month/day/year")
            order, other = orders if day_first else orders[::-1]
            raise TableError(
                f"column {column.name!r} is read as {order}, but has {shown(column[wrong[0]])} in the {rows}, which "
                f"is {other}: write its dates as year-month-day in all files, or leave it out with "
                f"{option('ignore', as_listed([str(column.name)]))}"
            )


def recognise_columns(frame: pd.DataFrame) -> Columns:
    """Sort the features of the training rows into numbers, dates, categories and columns that are left out.

    >>> frame = pd.DataFrame({"age": [30, 40], "seen": ["2024-01-31", "2024-02-01"], "kind": ["a", "a"]})
    >>> recognise_columns(frame)
    Columns(numbers=('age',), dates=('seen',), categories=('kind',), left_out=(), day_first=())
    """
    kinds: dict[str, list[str]] = {"numbers": [], "dates": [], "categories": [], "left_out": []}
    for name in frame.columns:
        kinds[_kind(frame[name])].append(name)
    day_first = tuple(name for name in kinds["dates"] if _is_day_first(frame[name]))
    columns = Columns(**{kind: tuple(names) for kind, names in kinds.items()}, day_first=day_first)
    if not columns.used:
        raise TableError(
            "none of the feature columns can be used: all are empty or different in almost every row: "
            f"{', '.join(map(str, frame.columns))}"
        )
    return columns


def _kind(column: pd.Series[Any]) -> str:
    present = column.dropna()
    if not len(present):
        return "left_out"
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        if (np.abs(present.astype(float)) > LARGEST).any():
            raise TableError(
                f"column {column.name!r} contains infinite numbers, or numbers above {LARGEST:g}: replace them, or "
                f"leave it out with {option('ignore', as_listed([str(column.name)]))}"
            )
        return "numbers"
    if pd.api.types.is_datetime64_any_dtype(column):
        return "dates"
    words = present.astype(str)
    if words.str.fullmatch(DATE).mean() >= DATE_FRACTION:
        return "dates"
    if words.nunique() > max(MOST_CATEGORIES, len(words) // 2):
        return "left_out"
    return "categories"


def _is_day_first(column: pd.Series[Any]) -> bool:
    """Say whether dates with slashes have the day first: some must, as no month is above 12, and none the month."""
    parts = _parts_with_slashes(column)
    return bool((parts[0] > 12).any() and not (parts[1] > 12).any())


def _parts_with_slashes(column: pd.Series[Any]) -> pd.DataFrame:
    """Return the three numbers of each distinct date that is written with slashes."""
    if pd.api.types.is_datetime64_any_dtype(column):
        column = column[:0]
    return column.drop_duplicates().astype("string").str.extract(SLASHES).dropna().astype(int)


@dataclass(frozen=True)
class Fitted:
    """Fitted preprocessing, in a form that JSON can hold: the same numbers for a row in every period."""

    columns: Columns
    medians: tuple[float, ...]
    """Of the numbers, then of the dates."""
    means: tuple[float, ...]
    scales: tuple[float, ...]
    words: tuple[tuple[str, ...], ...]
    """For each column of categories, the categories that get their own column."""
    shared: tuple[bool, ...]
    """For each column of categories, whether all others share one more."""

    @classmethod
    def to(cls, frame: pd.DataFrame, columns: Columns) -> Fitted:
        """Fit the preprocessing to a frame."""
        medians: list[float] = []
        means: list[float] = []
        scales: list[float] = []
        for numbers in _numeric(frame, columns):
            # what SimpleImputer learns, 0 for an empty column; it sorts whole masked arrays, which is slow
            known = (column[~np.isnan(column)] for column in numbers.T)
            middle = np.array([np.median(each) if len(each) else 0.0 for each in known])
            scaler = StandardScaler().fit(np.where(np.isnan(numbers), middle, numbers))
            medians += middle.tolist()
            means += scaler.mean_.tolist()
            scales += scaler.scale_.tolist()
        words = []
        shared = []
        if columns.categories:
            encoder = OneHotEncoder(max_categories=MOST_CATEGORIES, handle_unknown="infrequent_if_exist")
            encoder.fit(np.column_stack([_words(frame[name]) for name in columns.categories]))
            for each, rare in zip(encoder.categories_, encoder.infrequent_categories_, strict=True):
                few = set() if rare is None else set(rare)
                words.append(tuple(str(word) for word in each if word not in few))
                shared.append(rare is not None)
        return cls(columns, tuple(medians), tuple(means), tuple(scales), tuple(words), tuple(shared))

    def transform(self, frame: pd.DataFrame) -> Floats:
        """Return a frame as numbers."""
        parts = _numeric(frame, self.columns)
        if parts:
            numbers = np.column_stack(parts)
            numbers = np.where(np.isnan(numbers), self.medians, numbers)
            parts = [(numbers - self.means) / self.scales]
        for name, words, shared in zip(self.columns.categories, self.words, self.shared, strict=True):
            codes = pd.Index(words).get_indexer(pd.Index(_words(frame[name])))
            codes = np.where(codes < 0, len(words), codes)
            parts.append(np.eye(len(words) + 1)[codes][:, : len(words) + shared])
        return np.column_stack(parts)


def warnings_of_categories(fitted: Fitted, features: pd.DataFrame, test_features: pd.DataFrame) -> list[str]:
    """Return warnings of categories written in several ways, and of training rows whose categories are not known.

    A model sees a category that the preprocessing was not fitted to as none of the known ones. Rare ones that share
    a column are not told apart in any case.

    Args:
        fitted: The preprocessing, perhaps of an earlier run.
        features: The training rows.
        test_features: The test rows, for ways of writing only.

    """
    warnings = []
    for name, words, shared in zip(fitted.columns.categories, fitted.words, fitted.shared, strict=True):
        cells = _words(features[name])
        distinct = dict.fromkeys([*words, *pd.unique(cells), *pd.unique(_words(test_features[name]))])
        warnings += warnings_of_names(distinct, f"category of column {name!r}")
        new = [] if shared else [word for word in pd.unique(cells) if word not in words]
        if new:
            rows = f"{int(np.isin(cells, new).sum()):,} of {len(cells):,} training rows"
            names = some([repr(word) for word in new], MOST_NAMES)
            warnings.append(
                f"column {name!r} has categories that the preprocessing was not fitted to, in {rows}: {names}; a "
                "model sees none of the known categories there"
            )
    return warnings


def _numeric(frame: pd.DataFrame, columns: Columns) -> list[Floats]:
    """Return the numbers and the dates of a frame as floats, those that there are."""
    return [
        np.column_stack([columns.as_numbers(frame[name]) for name in names])
        for names in (columns.numbers, columns.dates)
        if names
    ]


class Preprocessing(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Preprocessing that scikit-learn fits anew to the rows of each coalition."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Fit the preprocessing to a frame."""
        self.fitted_ = Fitted.to(X, self.columns)
        return self

    def transform(self, X: pd.DataFrame) -> Floats:
        """Return a frame as numbers."""
        return self.fitted_.transform(X)


def transformer(columns: Columns) -> ColumnTransformer:
    """Return a step of a pipeline, not yet fitted, that turns these columns of a frame into numbers."""
    return make_column_transformer((Preprocessing(columns), slice(None)))


def _words(column: pd.Series[Any]) -> NDArray[np.object_]:
    if pd.api.types.is_float_dtype(column):  # whole numbers beside missing ones: 7.0 is the word 7 of another file
        column = column.convert_dtypes()
    words = column.astype(object).where(column.notna(), "(missing)").astype(str)
    if pd.api.types.is_float_dtype(column):  # whole numbers beside fractions: 7.0 is the word 7 there too
        words = words.str.removesuffix(".0")
    return words.to_numpy(object)


def days(column: pd.Series[Any], day_first: bool = False) -> Floats:
    """Return dates, as text or as dates, as days since 1970; NaN where there is none.

    >>> days(pd.Series(["31.01.2024", "2024-02-01", "02.02.2024"])).tolist()
    [19753.0, 19754.0, 19755.0]
    """
    codes, cells = pd.factorize(column)  # days repeat: each is read once
    distinct: pd.Series[Any] = pd.Series(cells)
    if not pd.api.types.is_datetime64_any_dtype(column):
        distinct = distinct.astype("string")
        for mark, pattern in ((".", POINTS), ("/", SLASHES)) if day_first else ((".", POINTS),):
            if distinct.str.contains(mark, regex=False).any():
                distinct = distinct.str.replace(pattern, r"\3-\2-\1", regex=True)
    dates = pd.to_datetime(distinct, errors="coerce", utc=True, format="mixed")
    found = np.asarray((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1), dtype=float)
    return np.append(found, np.nan)[codes]  # the last one, at -1, is that of missing cells
