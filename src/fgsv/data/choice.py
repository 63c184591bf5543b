"""Test rows: a file of their own, rows that a column marks, or rows chosen by a hash of their content.

A row that is chosen by its content is chosen whatever else is in the file, in whatever order and under whatever
grouping: rows that come or go, new names of providers and the seed of a run move no test row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from fgsv.checks import as_number
from fgsv.data.reading import TableError, as_floats
from fgsv.types import Floats, Ints, Masks
from fgsv.words import numbered, option

REMEDY = "choose a large split seed that providers did not know when they delivered, or bring a file of test rows"
TEST_MARKS = dict.fromkeys(("test", "true", "1", "1.0", "yes"), True)
TEST_MARKS |= dict.fromkeys(("train", "false", "0", "0.0", "no"), False)
MOST_SEEDS = 50
"""Split seeds tried for a suggestion, if the rows of the present one cannot be used."""
MOST_HASHES = 2_000_000
"""Hashes computed for a suggestion: of a large table, fewer seeds are tried."""
MOST_DIGITS = 64
"""Digits of a split seed: the longest key of the hash."""
FALSE_ALARMS = 1e-4
"""Probability, at most, that a file that nobody has manipulated gets a warning about its numbers of test rows."""
MOST_NAMED = 5
"""Providers that such a warning names."""
TARGET = "\0target"
"""No column of a file has this name."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The test rows of a file and, if they were chosen by a hash, what was hashed."""

    is_test: Masks
    note: str
    """Which rows these are, after "tested on"."""
    contents: Sequence[bytes] = ()
    """(rows,) what was hashed: rows with the same content are on the same side. Empty: nothing was."""
    fraction: float = 0.0
    what: str = ""
    """What has a content of its own: "different rows", "units"."""
    split_seed: int | None = None
    """The split seed by which they were chosen; None if they were not chosen by it."""
    order: Ints | None = None
    """The places of the test rows in the order of an earlier run; None: they are in the order of the file."""
    kept: pd.DataFrame | None = None
    """The test rows, if some of them are not in the file any more."""

    @property
    def places(self) -> Ints:
        """Where the test rows are, in their order."""
        return np.flatnonzero(self.is_test) if self.order is None else self.order

    def warnings(self, labels: Mapping[str, NDArray[Any]]) -> list[str]:
        """Return a warning that names providers with many more or fewer test rows than chance gives.

        Of n different contents, Binomial(n, fraction) are chosen, unless somebody wrote them to suit the split seed.
        The test is two-sided. Half of `FALSE_ALARMS` is for all providers together, because one that splits into
        many has few rows in each; the other half is for each provider of each column of `labels`, in equal parts.
        """
        if not self.contents:
            return []
        rows = pd.DataFrame({"content": pd.factorize(np.array(self.contents, dtype=object))[0], "test": self.is_test})
        everybody = np.full(len(rows), "all providers together", dtype=object)
        counts = [
            rows.assign(name=each).drop_duplicates(["name", "content"]).groupby("name", sort=False)["test"]
            for each in (*labels.values(), everybody)
        ]
        found = pd.concat([each.agg(["sum", "size"]) for each in counts])
        levels = np.append(np.full(len(found) - 1, FALSE_ALARMS / 2 / (len(found) - 1)), FALSE_ALARMS / 2)
        below = binom.cdf(found["sum"], found["size"], self.fraction)
        above = binom.sf(found["sum"] - 1, found["size"], self.fraction)
        odd = found[2 * np.minimum(below, above) < levels]
        odd = odd.iloc[:-1] if len(odd) > 1 and odd.index[-1] == found.index[-1] else odd
        if not len(odd):
            return []
        words = [
            f"{name}, {tested:,} of {size:,} {self.what} (expected {self.fraction * size:,.0f})"
            for name, tested, size in odd.iloc[:MOST_NAMED].itertuples()
        ]
        more = f"; and {len(odd) - MOST_NAMED} more" if len(odd) > MOST_NAMED else ""
        return [
            f"numbers of test rows that chance does not explain: {'; '.join(words)}{more}. Perhaps data was changed "
            f"to choose the test rows: {REMEDY}"
        ]


def marked(column: pd.Series[Any], what: str = "rows") -> Choice:
    """Return the test rows that a column marks; `what` rows are called in words."""
    marks = column.astype(str).str.strip().str.lower()
    unknown = column[~marks.isin(list(TEST_MARKS))]
    if len(unknown):
        it_has = repr(str(unknown.iloc[0]))
        raise TableError(f"column {column.name!r} must contain train or test (or 0 and 1); it has {it_has}")
    is_test = marks.map(TEST_MARKS).to_numpy(dtype=bool)
    return Choice(is_test, f"{int(is_test.sum())} {what} marked in column {column.name!r}")


def chosen(
    rows: pd.DataFrame,
    units: pd.Series[Any] | None,
    fraction: float,
    seed: int,
    problem: Callable[[Masks], str | None],
    what: str = "rows",
) -> Choice:
    """Choose test rows by a hash of their content, or whole units by a hash of their name.

    Equal rows are on the same side, so that no test row is also a training row. If most rows equal another (features
    with few values), equal rows are told apart by their order in the file.

    Args:
        rows: The columns that are hashed.
        units: (rows,) the unit of each row; None: rows are chosen by their content.
        fraction: Probability that a row or unit is chosen: about this part of all, and of each class.
        seed: The split seed, key of the hash, with at most 64 digits.
        problem: (rows,) whether each row is a test row -> why these cannot be used, or None.
        what: What rows are called.

    Raises:
        TableError: The choice cannot be used, and the error names a seed that gives one that can; or an argument is
            out of range.

    """
    if not 0 < as_number(fraction) < 1:
        raise TableError(f"{option('test_fraction')} must be between 0 and 1, got {fraction}")
    if len(str(seed)) > MOST_DIGITS:
        raise TableError(f"{option('split_seed')} must have at most {MOST_DIGITS} digits, got {len(str(seed))}")
    if units is not None:
        contents = [str(unit).encode() for unit in units]
        how = "a hash of the unit"
        hashed = "units"
    else:
        contents = contents_of(rows)
        how = "a hash of their content"
        hashed = f"different {what}"
        if len(set(contents)) < len(contents) / 2:
            contents = [content + b"\0" + str(before).encode() for content, before in numbered(contents)]
            how += " and, as most rows equal another, of their order"
            hashed = what

    def choice(of_seed: int) -> Masks:
        return _uniform(contents, of_seed) < fraction

    is_test = choice(seed)
    found = problem(is_test)
    if found is not None:
        others = range(seed + 1, seed + 1 + min(MOST_SEEDS, MOST_HASHES // len(contents)))
        better = next((other for other in others if problem(choice(other)) is None), None)
        file = option("test", "FILE")
        column = option("test_by", "COLUMN")
        if better is None:
            raise TableError(
                f"{found}: no {option('split_seed')} up to {others[-1] if others else seed} is better: bring test "
                f"rows with {file}, or mark them with {column}"
            )
        raise TableError(
            f"{found}: {option('split_seed', better)} chooses other rows and avoids this problem; or choose your own "
            f"with {file} or {column}"
        )
    count = "" if units is None else f" ({units[is_test].nunique()} of {units.nunique()} units)"
    note = f"{int(is_test.sum())} of {len(is_test)} {what}{count} chosen by {how}, split seed {seed}"
    return Choice(is_test, note, contents, fraction, hashed, seed)


def contents_of(rows: pd.DataFrame) -> list[bytes]:
    """Return the content of each row as bytes: the same however the other rows are written.

    A whole number is the same with and without a point, because one missing value in a column turns all its numbers
    into floats. The order of the columns does not matter.
    """
    names = sorted(rows.columns)
    numbers = np.empty((len(rows), len(names)))
    words = np.full(len(rows), "", dtype=object)
    for position, name in enumerate(names):
        numbers[:, position] = _numbers(rows[name]) + 0.0  # the zeros +0 and -0 are one number
        text = np.isnan(numbers[:, position]) & rows[name].notna().to_numpy()
        words[text] += [f"\0{name}={cell}" for cell in rows.loc[text, name].astype(str)]
    numbers[np.isnan(numbers)] = np.nan  # of all NaN the same one
    content = numbers.tobytes()  # slices of it: rows of an array are slow
    width = numbers.itemsize * len(names)
    return [content[i * width : (i + 1) * width] + text[1:].encode() for i, text in enumerate(words)]


def contents_with_target(features: pd.DataFrame, target: ArrayLike) -> list[bytes]:
    """Return the content of each row and its target: rows of two files are equal if these are."""
    return contents_of(features.rename(columns=str).assign(**{TARGET: np.asarray(target)}))


def _numbers(column: pd.Series[Any]) -> Floats:
    """Return the cells of a column that are numbers, NaN for all others."""
    if not pd.api.types.is_numeric_dtype(column):
        if column.dtype.kind in "mM":  # dates are read from text, and compared as text
            return np.full(len(column), np.nan)
        column = column.astype(object)
    return as_floats(column)


def _uniform(contents: Sequence[bytes], seed: int) -> Floats:
    """Return a number from 0 to 1 for each content, by a hash of it and the seed."""
    key = str(seed).encode()
    digests = b"".join(blake2b(content, digest_size=8, key=key).digest() for content in contents)
    return np.frombuffer(digests, "<u8") / 2.0**64
