"""Copies: rows that several providers have, exactly or nearly, and what to do about them.

The faithful value is proof against splitting, merging and renaming of fixed rows. It is not proof against copies: a
copied row is a new row, and earns a share. So copies are detected, and left out or co-owned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from fgsv.audit.sections import Section
from fgsv.checks import as_number, check_type
from fgsv.data.test_rows import contents_with_target
from fgsv.partition import Partition
from fgsv.types import Floats, Ints, Masks
from fgsv.words import some

Rule = Literal["first", "share"]

TOLERANCE = 0.15
"""Near copies differ by at most this many standard deviations per feature (root mean square)."""
CROWDED = 0.25
"""Near copies must also lie within this fraction of the median distance to the nearest neighbour."""
CHANCE = 1e-3
"""In few dimensions the limit is tighter: about one honest row in a thousand has a neighbour that close."""
FAR = 1e3
"""Standard deviations between other classes, and between a missing number and all others."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Which rows are copies of which, across providers."""

    clusters: Ints
    """(n,) rows with the same number are copies of each other."""
    partition: Partition
    table: pd.DataFrame
    """holder, of, exact, near: how many rows of `of`, who has them first, `holder` also has."""
    kept: Masks
    """(n,) whether the row is not a copy, or belongs to the first provider that has it."""
    notes: tuple[str, ...] = ()
    ranks: Ints | None = None
    """(n,) the order in which rows were registered; None: the order of the file."""
    sections: tuple[Section, ...] = ()
    """What else an audit shows of them."""

    @property
    def origin(self) -> Ints:
        """(n,) the first of the rows that look like each row: itself, unless it is a later one."""
        return _origin(self.clusters, self.ranks)

    @property
    def n_copies(self) -> int:
        """How many rows are copies of another provider's."""
        return int((~self.kept).sum())

    @property
    def n_exact(self) -> int:
        """How many of the copies are equal to the row they copy, in every feature and the target."""
        return int(self.table["exact"].sum())

    @property
    def n_near(self) -> int:
        """How many of the copies are only nearly equal."""
        return self.n_copies - self.n_exact

    def units_hit(self, units: ArrayLike) -> tuple[int, int]:
        """Return how many units consist entirely of copies, and how many in part."""
        kept = pd.Series(self.kept).groupby(np.asarray(units)).agg(["any", "all"])
        return int((~kept["any"]).sum()), int((kept["any"] & ~kept["all"]).sum())

    def remedy(self, rule: Rule = "first", units: ArrayLike | None = None) -> Partition:
        """Return who owns the kept rows; the others must be left out of the game.

        `first`: the provider that registered it first, or comes first in the file. Copies that are recognised then
        earn exactly nothing.
        `share`: all providers that have the row, in equal parts. For records that several providers rightfully have;
        a copier gets a part, but no more for copying twice.

        With `units`, one for each row, the players are those that keep a row, in the order of their first; a unit is
        shared as its kept rows are, on average.
        """
        if rule not in ("first", "share"):
            raise ValueError(f"rule must be 'first' or 'share', got {rule!r}")
        codes, n_groups = self.partition.codes, self.partition.n_groups
        players = np.arange(self.kept.sum()) if units is None else pd.factorize(np.asarray(units)[self.kept])[0]
        if rule == "first":
            first = np.unique(players, return_index=True)[1]
            return Partition(self.partition.names, codes[self.kept][first])
        pairs = np.unique(np.stack([self.clusters, codes]), axis=1)
        holds = np.zeros((self.clusters.max() + 1, n_groups))
        holds[pairs[0], pairs[1]] = 1.0
        rows = holds[self.clusters[self.kept]]
        rows /= rows.sum(axis=1, keepdims=True)
        ownership = pd.DataFrame(rows).groupby(players).mean().to_numpy()
        return Partition(self.partition.names, ownership)


def find_copies(
    X: ArrayLike, y: ArrayLike, groups: Any, *, tolerance: float = TOLERANCE, registered: ArrayLike | None = None
) -> Copies:
    """Find rows that several providers have: equal in all features and the target, or nearly.

    >>> X = [[0.0, 1.0], [5.0, 2.0], [0.0, 1.0], [9.0, 9.0]]
    >>> found = find_copies(X, [0, 1, 0, 1], ["a", "a", "b", "b"])
    >>> found.table.to_dict("records")
    [{'holder': 'b', 'of': 'a', 'exact': 1, 'near': 0}]

    `X` is an (n, p) array of numbers, `y` the targets. Near copies have the same class (or nearly the same number)
    and features that differ by at most `tolerance` standard deviations, root mean square; with 0, only exact copies
    are found. A missing number resembles only another missing one. `registered` says when each row was registered, in
    numbers that grow with time: the first of equal rows is the one with the smallest (default: the first in the
    file). Costs one sort and one search tree.
    """
    features, targets = _read(X, y)
    if not as_number(tolerance) >= 0:
        raise ValueError(f"tolerance must be a number of standard deviations, 0 or more; got {tolerance!r:.200}")
    partition = Partition.of(groups, len(features))
    exact = _equal_rows(features, targets)
    links = [_chain(exact)]
    if tolerance > 0:
        first = np.sort(np.unique(exact, return_index=True)[1])  # equal rows are linked already, and may be many
        links.append(first[_near_pairs(features[first], targets[first], tolerance)])
    ranks = ranks_of(registered, len(features))
    return copies_of(partition, np.concatenate(links, axis=1), exact, _notes(partition, exact), ranks)


def _read(X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    """Return (n, p) features and (n,) targets, or raise an error that says which of them is something else."""
    try:
        features = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("X must be an (n, p) array of numbers: encode text and dates as numbers first") from None
    if features.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and columns, got shape {features.shape}")
    if np.shape(y) != (len(features),):
        raise ValueError(f"y must have a target for each of the {len(features)} rows, got shape {np.shape(y)}")
    return features, np.asarray(y)


def copies_of(
    partition: Partition, links: Ints, exact: Ints, notes: tuple[str, ...] = (), ranks: Ints | None = None
) -> Copies:
    """Return the copies among n rows of which (2, k) links join those that are equal or nearly so.

    `exact` has a number for each row, the same for rows that are equal. The first of them is that of the lowest rank.
    """
    n = partition.n_players
    graph = coo_matrix((np.ones(links.shape[1]), (links[0], links[1])), shape=(n, n))
    clusters = connected_components(graph, directed=False)[1].astype(np.int64)
    origin = _origin(clusters, ranks)
    kept = partition.codes == partition.codes[origin]
    return Copies(clusters, partition, _table(partition, origin, kept, exact), kept, notes, ranks)


def _origin(clusters: Ints, ranks: Ints | None) -> Ints:
    """Return the first row of each row's cluster: of the lowest rank, and of these the first in the file."""
    order = np.arange(len(clusters)) if ranks is None else np.argsort(ranks, kind="stable")
    numbers, first = np.unique(clusters[order], return_index=True)
    return np.asarray(order[first][np.searchsorted(numbers, clusters)], dtype=np.int64)


def ranks_of(registered: ArrayLike | None, n: int) -> Ints | None:
    """Return the order of n times, equal ones alike; None where they are unknown."""
    if registered is None:
        return None
    times = np.asarray(registered)
    if times.shape != (n,) or pd.isna(times).any():
        raise ValueError(f"registered must have a time for each of the {n} rows, and none may be missing")
    return np.asarray(np.unique(times, return_inverse=True)[1], dtype=np.int64)


def _equal_rows(features: Floats, y: NDArray[Any]) -> Ints:
    """Return a number for each row, the same for rows that are equal in every feature and the target."""
    targets = np.unique(y, return_inverse=True)[1].astype(float)
    rows = np.column_stack([features, targets]) + 0.0  # turns -0.0 into 0.0
    hashes = pd.util.hash_pandas_object(pd.DataFrame(rows), index=False)
    return np.asarray(np.unique(hashes, return_inverse=True)[1], dtype=np.int64)


def _chain(numbers: Ints) -> Ints:
    """Return (2, k) pairs that link rows of the same number one after the other."""
    order = np.argsort(numbers, kind="stable")
    same = numbers[order[1:]] == numbers[order[:-1]]
    return np.stack([order[:-1][same], order[1:][same]])


def _near_pairs(features: Floats, y: NDArray[Any], tolerance: float) -> Ints:
    varied = _in_deviations(features)
    if y.dtype.kind in "fiu" and len(np.unique(y)) > 20:
        target = y[:, None] / max(float(y.std()), 1e-300)
    else:  # puts other classes out of reach
        target = FAR * np.unique(y, return_inverse=True)[1][:, None].astype(float)
    points = np.column_stack([varied, target])
    tree = cKDTree(points)
    sample = points[:: max(1, len(points) // 2000)]
    distances = tree.query(sample, k=min(2, len(points)))[0]
    distances = distances[:, -1] if distances.ndim == 2 else distances
    usual = float(np.median(distances[distances > 0])) if (distances > 0).any() else np.inf
    dimensions = max(1, varied.shape[1])
    # among evenly spread rows P(nearest < c * median) = 1 - 2^-(c^p), about c^p ln 2
    nearness = min(CROWDED, (CHANCE / np.log(2)) ** (1 / dimensions))
    radius = min(tolerance * np.sqrt(dimensions), nearness * usual)
    return np.asarray(tree.query_pairs(radius, output_type="ndarray").T, dtype=np.int64).reshape(2, -1)


def _in_deviations(features: Floats) -> Floats:
    """Return the features that vary in standard deviations; a missing number is far from all others but its like."""
    known = np.isfinite(features)
    spread = np.ma.masked_array(features, ~known).std(axis=0).filled(0.0)
    varies = (spread > 0) | (known.any(axis=0) & ~known.all(axis=0))
    scaled = features[:, varies] / np.where(spread > 0, spread, 1.0)[varies]
    return np.nan_to_num(scaled, nan=FAR, posinf=2 * FAR, neginf=-2 * FAR)


def _table(partition: Partition, origin: Ints, kept: Masks, exact: Ints) -> pd.DataFrame:
    copied = np.flatnonzero(~kept)
    frame = pd.DataFrame(
        {
            "holder": partition.codes[copied],
            "of": partition.codes[origin[copied]],
            "exact": exact[copied] == exact[origin[copied]],
        }
    )
    counts = frame.groupby(["holder", "of"])["exact"].agg(["sum", "size"]).reset_index()
    names = np.array([str(name) for name in partition.names], dtype=object)
    return pd.DataFrame(
        {
            "holder": names[counts["holder"].to_numpy(int)],
            "of": names[counts["of"].to_numpy(int)],
            "exact": counts["sum"].astype(int),
            "near": (counts["size"] - counts["sum"]).astype(int),
        }
    ).sort_values(["exact", "near"], ascending=False, ignore_index=True)


def _notes(partition: Partition, exact: Ints) -> tuple[str, ...]:
    """Note if equal rows are not evidence of copying, because providers repeat their own."""
    own = pd.DataFrame({"group": partition.codes, "row": exact}).duplicated().mean()
    if own < 0.05:
        return ()
    return (
        f"{own:.0%} of the rows are equal to another row of the same provider: in such a table, equal rows of two "
        "providers may be a coincidence",
    )


def rows_in_both(train: pd.DataFrame, y: ArrayLike, test: pd.DataFrame, test_y: ArrayLike) -> int:
    """Return how many test rows are also training rows, equal in features and target."""
    for rows, targets, names in ((train, y, ("train", "y")), (test, test_y, ("test", "test_y"))):
        check_type(rows, pd.DataFrame, f"{names[0]} as a data frame")
        if np.shape(targets) != (len(rows),):
            raise ValueError(f"{names[1]} must have a target for each of the {len(rows)} rows of {names[0]}")
    lacking = [name for name in train.columns if name not in test.columns]
    if lacking:
        raise ValueError(f"test lacks columns that train has: {some(lacking)}")
    trained = set(contents_with_target(train, y))
    return sum(content in trained for content in contents_with_target(test[train.columns], test_y))
