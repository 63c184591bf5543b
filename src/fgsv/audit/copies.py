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
from scipy.sparse import coo_matrix, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from fgsv.audit.chance import Chance, compare
from fgsv.checks import as_number
from fgsv.partition import Partition
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation.display import Section

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
    """Which rows are possibly copies of which, across providers."""

    clusters: Ints
    """(n,) rows with the same number are copies of each other."""
    partition: Partition
    table: pd.DataFrame
    """provider, other, exact, near, expected: how many rows they have in common, and how many chance explains (NaN
    for texts). If registration times are known, `provider` registered these rows later."""
    kept: Masks
    """(n,) whether the row is not a copy, or belongs to the first provider that has it."""
    ranks: Ints | None = None
    """(n,) the order in which rows were registered; None: unknown, and the first row is the first in the file."""
    chance: Chance | None = None
    """What every two providers have in common, beside what chance explains; None for texts."""
    warnings: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    """What else an audit says and shows of them."""

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
    X: ArrayLike,
    y: ArrayLike,
    groups: Any,
    *,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    tolerance: float = TOLERANCE,
    registered: ArrayLike | None = None,
) -> Copies:
    """Find possible copies: rows that two providers have, equal or nearly so, more often than chance explains.

    Near copies have the same class (or nearly the same number). A missing number resembles only another missing one.
    Pairs of providers are compared with what each has in common with everybody else, by exact tests that together
    report anybody in at most 5% of the tables whose rows were drawn independently (`fgsv.audit.chance`). Costs one
    sort, one search tree and K^2 counts.

    Args:
        X: (n, p) array of numbers.
        y: (n,) targets.
        groups: The provider of each row, as in `fgsv.value`.
        test: (t, p) features and (t,) targets of test rows to compare with. Default: none. Leave out those that were
            chosen by their content: none of them is equal to a training row.
        tolerance: Near copies differ by at most so many standard deviations per feature, root mean square; with 0,
            only equal rows are found.
        registered: (n,) when each row was registered, in numbers that grow with time: the first of equal rows is the
            one with the smallest. Default: unknown; then a pair of providers has no direction.

    Returns:
        The rows that look alike, of the pairs of providers that have more of them than chance explains.

    Raises:
        ValueError: Shapes do not fit, X has no numbers, or a time is missing.

    Examples:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(90, 4))
        >>> X[60:66] = X[:6]
        >>> found = find_copies(X, np.zeros(90), np.repeat(["a", "b", "c"], 30))
        >>> found.table[["provider", "other", "exact", "near"]].to_dict("records")
        [{'provider': 'a', 'other': 'c', 'exact': 6, 'near': 0}]

    """
    features, targets = _read(X, y)
    if not as_number(tolerance) >= 0:
        raise ValueError(f"tolerance must be a number of standard deviations, 0 or more; got {tolerance!r:.200}")
    partition = Partition.of(groups, len(features))
    n = len(features)
    ranks = ranks_of(registered, n)
    if test is not None:
        tested, test_targets = _read(*test)
        features, targets = np.concatenate([features, tested]), np.concatenate([targets, test_targets])
    codes = np.append(partition.codes, np.full(len(features) - n, partition.n_groups))
    exact = _equal_rows(features, targets)
    near = np.empty((2, 0), dtype=np.int64)
    if tolerance > 0:
        first = np.sort(np.unique(exact, return_index=True)[1])  # of equal rows, which may be many, one is compared
        near = exact[first[_near_pairs(features[first], targets[first], tolerance)]]
    shape = (exact.max(initial=0) + 1, partition.n_groups + 1)
    chance = compare(csr_array((np.ones(len(exact)), (exact, codes)), shape=shape), near)
    return copies_of(partition, _links(exact[:n], partition.codes, near, chance.likely), exact[:n], ranks, chance)


def _links(exact: Ints, codes: Ints, near: Ints, likely: Masks) -> Ints:
    """Return (2, k) rows that look alike: a provider's equal rows, and rows of two providers that are `likely`."""
    contents, first, held = np.unique(np.stack([exact, codes]), axis=1, return_index=True, return_inverse=True)
    held = first[held.ravel()]
    rows = pd.DataFrame({"content": contents[0], "provider": contents[1], "row": first})
    rows = rows[np.asarray(likely.any(axis=1))[rows["provider"]]]
    same = np.unique(rows["content"])
    alike = pd.DataFrame({"content": np.append(near[0], same), "other content": np.append(near[1], same)})
    pairs = rows.merge(alike, on="content").merge(rows.add_prefix("other "), on="other content")
    pairs = pairs[likely[pairs["provider"], pairs["other provider"]]]
    return np.concatenate([[np.arange(len(exact)), held], pairs[["row", "other row"]].to_numpy().T], axis=1)


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
    partition: Partition, links: Ints, exact: Ints, ranks: Ints | None = None, chance: Chance | None = None
) -> Copies:
    """Return the copies among n rows.

    Args:
        partition: The provider of each row.
        links: (2, k) pairs of rows that are equal or nearly so.
        exact: (n,) a number for each row, the same for rows that are equal.
        ranks: (n,) the order in which rows were registered: the lowest of linked ones is the first. Default: unknown.
        chance: What chance explains of what providers have in common. Default: unknown.

    Returns:
        The copies: rows of clusters of another provider than the cluster's first row.

    """
    n = partition.n_players
    graph = coo_matrix((np.ones(links.shape[1]), (links[0], links[1])), shape=(n, n))
    clusters = connected_components(graph, directed=False)[1].astype(np.int64)
    origin = _origin(clusters, ranks)
    kept = partition.codes == partition.codes[origin]
    return Copies(clusters, partition, _table(partition, origin, kept, exact, ranks, chance), kept, ranks, chance)


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


def _table(
    partition: Partition, origin: Ints, kept: Masks, exact: Ints, ranks: Ints | None, chance: Chance | None
) -> pd.DataFrame:
    """Return the copies by pairs of providers; a pair has a direction only if times are known."""
    copied = np.flatnonzero(~kept)
    pair = np.stack([partition.codes[copied], partition.codes[origin[copied]]])
    if ranks is None:
        pair = np.sort(pair, axis=0)
    frame = pd.DataFrame({"provider": pair[0], "other": pair[1], "exact": exact[copied] == exact[origin[copied]]})
    counts = frame.groupby(["provider", "other"])["exact"].agg(["sum", "size"]).reset_index()
    one, other = counts["provider"].to_numpy(int), counts["other"].to_numpy(int)
    names = np.array([str(name) for name in partition.names], dtype=object)
    return pd.DataFrame(
        {
            "provider": names[one],
            "other": names[other],
            "exact": counts["sum"].astype(int),
            "near": (counts["size"] - counts["sum"]).astype(int),
            "expected": np.nan if chance is None else chance.expected[one, other],
        }
    ).sort_values(["exact", "near"], ascending=False, ignore_index=True)
