"""Audit: what splitting, copying and regrouping would earn, and where a valuation should not be leaned on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import comb
from scipy.stats import norm

from fgsv.coalitions import Coalitions
from fgsv.enumeration import read_players
from fgsv.game import Game, evaluate, grouped
from fgsv.partition import Partition
from fgsv.payout import Money, split
from fgsv.run import value
from fgsv.valuation import Valuation

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

WAYS = ("evenly", "at random", "by class", "worst found")
SEARCHED = 12
"""Splits that the search for the worst one tries."""
FEWEST_SETS = 6
"""Sets of other groups at which a split is measured, at the least."""
FEWEST_OF_GSV = 100
CHUNK_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; every table is a data frame."""

    gsv: pd.DataFrame
    """group, share (FGSV), gsv_share, gsv_half_width."""
    attacks: pd.DataFrame
    """group, way, gain, gain_low, gain_high: what splitting in two earns under GSV, in shares."""
    warnings: tuple[str, ...] = ()
    n_evaluations: int = 0
    tables: list[dict[str, Any]] = field(default_factory=list)
    """Further sections: title, words, columns, rows."""

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: the form in which a valuation's `info` and the report carry it."""
        return {
            "gsv": self.gsv.to_dict("records"),
            "attacks": self.attacks.to_dict("records"),
            "warnings": list(self.warnings),
            "n_evaluations": self.n_evaluations,
            "tables": self.tables,
        }


def audit(
    game: Any,
    valuation: Valuation,
    *,
    budget: int = 4000,
    classes: Any = None,
    confidence: float = 0.95,
    seed: int = 0,
    extra_warnings: Sequence[str] = (),
    tables: Sequence[dict[str, Any]] = (),
) -> Audit:
    """Compare a valuation of one output with GSV and compute what shell companies would gain under GSV.

    Half of the budget goes to GSV itself (all its coalitions where they are no more than the budget), half to
    the attacks.
    """
    partition = valuation.partition
    if not partition.is_disjoint:
        raise ValueError("the audit of shell companies needs players with one owner each; ownership is shared here")
    everything = 2**partition.n_groups if partition.n_groups < 24 else budget + 1
    part = everything if everything <= budget else budget // 2
    group_values = value(grouped(game, partition), budget=max(part, FEWEST_OF_GSV), seed=seed)
    attacks = shell_companies(
        game,
        partition,
        budget=budget // 2,
        classes=classes,
        player_values=valuation.player_values,
        confidence=confidence,
        seed=seed,
    )
    frame = pd.DataFrame(
        {
            "group": [str(name) for name in valuation.names],
            "share": valuation.shares(),
            "gsv_share": group_values.shares(),
            "gsv_half_width": group_values.half_width(confidence) / group_values.total,
        }
    )
    warned = [*extra_warnings, *close_calls(valuation, confidence)]
    spent = group_values.n_evaluations + int(attacks.attrs["n_evaluations"])
    return Audit(frame, attacks, tuple(warned), spent, list(tables))


def least_budget(n_groups: int) -> int:
    """Return what `audit` spends on so many groups however small its budget is."""
    searching, measuring = 2 + 2 * SEARCHED, 2 + 2 * len(WAYS)
    return FEWEST_OF_GSV + 2 + n_groups * FEWEST_SETS * (searching + measuring)


def shell_companies(
    game: Any,
    groups: Any,
    *,
    ways: Sequence[str] = WAYS,
    budget: int = 2000,
    classes: Any = None,
    player_values: Floats | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Return what each provider would gain under GSV by splitting in two, as a part of U(N) - U(0).

    >>> import fgsv
    >>> table = shell_companies(fgsv.games.SumOfUnanimity(12), [i % 3 for i in range(12)], ways=["evenly"])
    >>> list(table.columns)
    ['group', 'way', 'gain', 'gain_low', 'gain_high']

    With K groups, of which one splits into A and B, and S a random set of s of the K - 1 others, the two
    parts' GSV together exceed the GSV of the whole by

        1 / (K (K + 1)) * sum_{s=0}^{K-1} (K - 1 - 2s) * E[ U(S+A) + U(S+B) - U(S) - U(S+A+B) ],

    which is enumerated where the budget suffices, else sampled with common sets S for all ways. Under FGSV
    the gain is 0.

    Ways: `evenly` (every second point), `at random`, `by class` (the commonest class apart; needs `classes`,
    one for each player) and `worst found`, the best of a dozen splits by value, class and chance, measured
    anew on sets that the search has not seen. `player_values` are the values that the search sorts by.
    """
    game, partition = read_players(game, groups)
    rng = np.random.default_rng([seed, 1])
    ends = _utilities(game, np.array([[False], [True]]) & np.ones(game.n_players, dtype=bool))
    total = ends[1] - ends[0]
    if not total > 0:
        raise ValueError(f"gains are parts of U(N) - U(0), which must be positive; it is {total:.6g}")
    splits = _Splits(partition, None if classes is None else np.asarray(classes), player_values, rng)
    per_group = max(1, budget // partition.n_groups)
    rows, spent = [], 2
    for group, name in enumerate(partition.names):
        parts = {way: part for way in ways if way != "worst found" and (part := splits.of(group, way)) is not None}
        if "worst found" in ways and partition.sizes[group] > 1:
            worst, cost = _worst(game, partition, group, splits, per_group // 3, rng)
            parts["worst found"] = worst
            spent += cost
        if not parts:
            continue
        sets = _other_groups(partition, group, max(FEWEST_SETS, per_group // (2 + 2 * len(parts))), rng)
        differences = _second_differences(game, partition, group, list(parts.values()), sets.masks) / total
        spent += len(sets.masks) * (2 + 2 * len(parts))
        for way, column in zip(parts, differences.T, strict=True):
            gain = float(sets.weights @ column)
            reach = float(norm.ppf((1 + confidence) / 2)) * sets.stderr(column)
            rows.append([str(name), way, gain, gain - reach, gain + reach])
    table = pd.DataFrame(rows, columns=["group", "way", "gain", "gain_low", "gain_high"])
    table.attrs["n_evaluations"] = spent
    return table


@dataclass(frozen=True, eq=False)
class _Splits:
    """Ways to cut a group in two: each gives the mask of the players of one part."""

    partition: Partition
    classes: NDArray[Any] | None
    player_values: Floats | None
    rng: np.random.Generator

    def of(self, group: int, way: str) -> Masks | None:
        """Return one part of the group, or None where this way does not cut it."""
        members = self.partition.members(group)
        if len(members) < 2:
            return None
        if way == "evenly":
            chosen = members[::2]
        elif way == "at random":
            chosen = self.rng.permutation(members)[: len(members) // 2]
        elif way == "by class":
            if self.classes is None:
                return None
            kinds, counts = np.unique(self.classes[members], return_counts=True)
            chosen = members[self.classes[members] == kinds[counts.argmax()]]
        else:
            raise ValueError(f"unknown way {way!r}: expected one of {', '.join(WAYS)}")
        return self._mask(chosen) if 0 < len(chosen) < len(members) else None

    def candidates(self, group: int) -> list[Masks]:
        """Return splits to search among: by value, by class and by chance, in several proportions."""
        members = self.partition.members(group)
        found = [part for way in ("evenly", "by class") if (part := self.of(group, way)) is not None]
        if self.player_values is not None:
            order = members[np.argsort(-self.player_values[members])]
            found += [self._mask(order[: max(1, round(f * len(order)))]) for f in (0.1, 0.25, 0.5, 0.75, 0.9)]
        while len(found) < SEARCHED:
            fraction = self.rng.uniform(0.1, 0.5)
            found.append(self._mask(self.rng.permutation(members)[: max(1, round(fraction * len(members)))]))
        return found

    def _mask(self, chosen: NDArray[np.int64]) -> Masks:
        mask = np.zeros(self.partition.n_players, dtype=bool)
        mask[chosen] = True
        return mask


def _worst(
    game: Game, partition: Partition, group: int, splits: _Splits, budget: int, rng: np.random.Generator
) -> tuple[Masks, int]:
    """Return the candidate that gains most on a few sets, and the evaluations it took to find it."""
    candidates = splits.candidates(group)
    each = 2 + 2 * len(candidates)
    sets = _other_groups(partition, group, max(FEWEST_SETS, budget // each), rng)
    gains = sets.weights @ _second_differences(game, partition, group, candidates, sets.masks)
    return candidates[int(gains.argmax())], len(sets.masks) * each


@dataclass(frozen=True, eq=False)
class _Sets:
    """Sets S of the other groups, and what the difference at each counts in the gain."""

    masks: Masks
    """(m, K): none of them holds the group that splits."""
    weights: Floats
    n_known: int
    """The first so many are no sample: the empty set, the set of all, or simply every set."""

    def stderr(self, differences: Floats) -> float:
        """Return the standard error of the weighted sum, from the sampled ones."""
        terms = (self.weights * differences)[self.n_known :]
        return float(np.sqrt(len(terms)) * terms.std(ddof=1)) if len(terms) else 0.0


def _other_groups(partition: Partition, group: int, most: int, rng: np.random.Generator) -> _Sets:
    """Return all sets of the other groups or, where they are too many, the two ends and a sample of the rest.

    The two ends carry the largest weights and are known; the others' sizes are drawn in proportion to theirs.
    """
    n_groups = partition.n_groups
    others = np.delete(np.arange(n_groups), group)
    slope = (n_groups - 1 - 2.0 * np.arange(n_groups)) / (n_groups * (n_groups + 1))
    if 2 ** len(others) <= most:
        bits = (np.arange(2 ** len(others))[:, None] >> np.arange(len(others))) & 1 == 1
        sizes = bits.sum(axis=1)
        weights = slope[sizes] / comb(len(others), sizes)
        n_known = len(bits)
    else:
        inner = np.abs(slope[1:-1])
        quantiles = (np.arange(most - 2) + rng.random()) / (most - 2)
        sizes = 1 + np.searchsorted(np.cumsum(inner) / inner.sum(), quantiles, side="right")
        sizes = np.concatenate([[0, len(others)], np.minimum(sizes, len(others) - 1)])
        ranks = rng.random((most, len(others))).argsort(axis=1).argsort(axis=1)
        bits = ranks < sizes[:, None]
        weights = np.sign(slope[sizes]) * inner.sum() / (most - 2)
        weights[:2] = slope[[0, -1]]
        n_known = 2
    masks = np.zeros((len(bits), n_groups), dtype=bool)
    masks[:, others] = bits
    return _Sets(masks, weights, n_known)


def _second_differences(game: Game, partition: Partition, group: int, parts: list[Masks], sets: Masks) -> Floats:
    """Return (m, parts) values of U(S+A) + U(S+B) - U(S) - U(S+A+B), the first output."""
    whole = partition.codes == group
    added = [np.zeros_like(whole), whole, *parts, *(whole & ~part for part in parts)]
    values = np.stack([_utilities(game, sets[:, partition.codes] | extra) for extra in added])
    return np.asarray((values[2 : 2 + len(parts)] + values[2 + len(parts) :] - values[0] - values[1]).T)


def _utilities(game: Game, masks: Masks) -> Floats:
    """Return the first output of the coalitions, asked for in chunks of bounded memory."""
    step = max(1, min(game.batch_size or 256, CHUNK_BYTES // game.n_players))
    chunks = [evaluate(game, Coalitions.from_masks(masks[i : i + step]))[:, 0] for i in range(0, len(masks), step)]
    return np.concatenate(chunks)


def policy_gains(
    valuation: Valuation, amount: Money, currency: str = "EUR", *, seed: int = 0, **policy: Any
) -> pd.DataFrame:
    """Return what splitting in two earns each group under a payout policy, from the same evaluations.

    Columns: group, way, gain (money). Ways: evenly, at random, and `losses apart`, which puts the points of
    negative value into a shell company of their own. Under the linear policy every gain is a matter of
    rounding; under clipping, floors and caps it is not. Gains go by the estimated values of the points.
    """
    values = valuation.player_values
    if values is None or values.ndim != 1:
        raise ValueError("gains under a policy need the values of the players, for one output")
    before = split(valuation, amount, currency, **policy)
    rng = np.random.default_rng(seed)
    codes, n_groups = valuation.partition.codes, valuation.partition.n_groups
    rows: list[tuple[str, str, Any]] = []
    for group, name in enumerate(valuation.names):
        members = valuation.partition.members(group)
        cuts = {
            "evenly": members[::2],
            "at random": rng.permutation(members)[: len(members) // 2],
            "losses apart": members[values[members] < 0],
        }
        for way, chosen in cuts.items():
            if not 0 < len(chosen) < len(members):
                continue
            shell = codes.copy()
            shell[chosen] = n_groups
            names: tuple[Hashable, ...] = (*valuation.names, (name, "shell"))
            after = split(valuation.regroup(Partition(names, None, shell)), amount, currency, **policy)
            rows.append((str(name), way, after.payments[group] + after.payments[-1] - before.payments[group]))
    return pd.DataFrame(rows, columns=["group", "way", "gain"])


def close_calls(valuation: Valuation, confidence: float = 0.95, most: int = 3) -> list[str]:
    """Warn of neighbours in the ranking whose difference is smaller than its own error."""
    if valuation.values.ndim != 1 or valuation.deviations is None or valuation.player_values is None:
        return []
    sums = np.stack([valuation.partition.sums(each.astype(float))[:, 0] for each in valuation.deviations])
    order = np.argsort(-valuation.values)
    quantile = float(np.max(valuation.half_width(confidence)) / max(float(np.max(valuation.stderr)), 1e-300))
    pairs = []
    for upper, lower in pairwise(order):
        reach = quantile * float(np.sqrt(((sums[:, upper] - sums[:, lower]) ** 2).sum()))
        if valuation.values[upper] - valuation.values[lower] < reach:
            pairs.append(f"{valuation.names[upper]} and {valuation.names[lower]}")
    if not pairs:
        return []
    more = f", and {len(pairs) - most} more pairs" if len(pairs) > most else ""
    return [
        "these intervals are wider than the differences they would have to decide: "
        f"{'; '.join(pairs[:most])}{more}. A larger budget narrows them"
    ]
