"""Shell companies: what a provider would gain under GSV by splitting into several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import comb

from fgsv.coalitions import Coalitions, log_choose
from fgsv.ledger import Ledger, Purpose
from fgsv.partition import Partition
from fgsv.running.calls import OutOfTime
from fgsv.running.game_access import GameAccess
from fgsv.running.preparation import access_to, read_players
from fgsv.running.views import by_groups
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import End, Failures, Reason, check_confidence, t_quantile

WAYS = ("evenly", "at random", "by class", "one by one", "worst found")
PARTS = (2, 3, 5)
MOST_APART = 12
"""Groups of up to this many players are also split into single players."""
SEARCHED = 12
"""Splits tried in the search for the worst one."""
FEWEST_SETS = 8
"""Minimum number of sets of other groups at which a split is measured."""
FEWEST_PAIRS = 3
"""Minimum number of pairs (a set of parts and its complement) at each of them."""
MOST_MEASURED = 24
"""Up to this many groups the smallest budget measures the splits of all; above it, of a sample of this many."""
COLUMNS = ["group", "way", "parts", "gain", "gain_low", "gain_high"]


def shell_companies(
    game: Any,
    groups: Any,
    *,
    ways: Sequence[str] = WAYS,
    parts: Sequence[int] = PARTS,
    budget: int | None = None,
    classes: Any = None,
    player_values: Floats | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_jobs: int | None = None,
    ledger: str | Path | Ledger | None = None,
    on_error: str | float = "raise",
    timeout: float | None = None,
) -> pd.DataFrame:
    """Return what each provider would gain under GSV by splitting, as a part of U(N) - U(0).

    >>> import fgsv
    >>> table = shell_companies(fgsv.games.SumOfUnanimity(12), [i % 3 for i in range(12)], ways=["evenly"])
    >>> list(table.columns), table["parts"].tolist()
    (['group', 'way', 'parts', 'gain', 'gain_low', 'gain_high'], [2, 3, 2, 3, 2, 3])

    With K groups, of which one splits into k parts, the parts' GSV together exceed the GSV of the whole G by

        sum over sets S of s other groups and sets T of t parts, 0 < t < k, of
        c(s, t) [ U(S + T) - U(S) - t/k (U(S + G) - U(S)) ],
        c(s, t) = [ t / (s + t) - (k - t) / (K - 1 + k - s - t) ] / C(K - 1 + k, s + t),

    which is enumerated if the budget suffices, else sampled with the same sets S for all splits of a group. Under
    FGSV the gain is 0.

    Ways: `evenly` (every k-th player), `at random`, `by class` (the k - 1 commonest classes apart; needs `classes`,
    one for each player), each into every number of `parts`; `one by one`, a company for every player of a group of up
    to twelve; and `worst found`, the most profitable of a dozen splits by value, class and chance, measured again on
    sets that the search has not seen. `player_values` are the values that the search sorts by. Never uses more than
    `budget` evaluations; the default is 2000, or the minimum it needs. With more than 24 groups and a budget that is
    too small for all, a sample of groups is measured: half the largest, half drawn at random. `n_jobs`, `ledger`,
    `on_error` and `timeout` are as for `fgsv.value`.
    """
    check_confidence(confidence)
    read, partition = read_players(game, groups)
    access, opened = access_to(game, read, n_jobs=n_jobs, ledger=ledger, on_error=on_error, timeout=timeout)
    with opened:
        found = measure_shells(
            access,
            partition,
            ways=ways,
            parts=parts,
            budget=budget,
            classes=classes,
            player_values=player_values,
            confidence=confidence,
            seed=seed,
        )
    found.table.attrs |= {"n_evaluations": found.n_evaluations, "failures": found.failures, "sample": found.sample}
    return found.table


@dataclass(frozen=True)
class Sample:
    """For how many groups splits were measured, of all that could split."""

    measured: int
    of: int

    def __str__(self) -> str:
        drawn = self.measured // 2
        return (
            f"Splits were measured for {self.measured:,} of {self.of:,} providers: the {self.measured - drawn:,} "
            f"with the most players and {drawn:,} drawn at random. A larger audit budget measures more"
        )


@dataclass(frozen=True, eq=False)
class Shells:
    """The measured gains of shell companies, and the groups for which time ran out."""

    table: pd.DataFrame
    n_evaluations: int
    not_measured: tuple[str, ...] = ()
    """Groups whose splits there was no time for."""
    failures: Failures | None = None
    """Evaluations that failed; None if none did."""
    sample: Sample | None = None
    """The sample of groups that was measured; None if all were."""

    @classmethod
    def nothing(cls) -> Shells:
        """Return an empty result, before anything is measured."""
        return cls(pd.DataFrame(columns=COLUMNS), 0)


def measure_shells(
    access: GameAccess,
    partition: Partition,
    *,
    ways: Sequence[str] = WAYS,
    parts: Sequence[int] = PARTS,
    budget: int | None = None,
    classes: Any = None,
    player_values: Floats | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Shells:
    """Measure with open access what `shell_companies` returns, group after group, within its deadline."""
    unknown = [way for way in ways if way not in WAYS]
    if unknown:
        raise ValueError(f"unknown kind of split {unknown[0]!r}: expected one of {', '.join(WAYS)}")
    least = least_budget(partition, ways=ways, parts=parts, classes=classes)
    budget = max(2000, least) if budget is None else budget
    if budget < least:
        raise ValueError(f"splits of {partition.n_groups} groups need a budget of at least {least}")
    chosen = sample_groups(partition, (budget - 2) // _dearest(partition, ways, parts, classes), seed)
    nobody, everybody = access.ends()[:, 0]
    total = everybody - nobody
    if not total > 0:
        raise ValueError(f"gains are parts of U(N) - U(0), which must be positive; it is {total:.6g}")
    mark = access.evaluator.mark()
    settings = {"method": "shell companies", "budget": budget, "seed": seed, "fingerprint": access.game.fingerprint}
    with access.evaluator.recorded(settings, Purpose.AUDIT) as record:
        found = _measured(
            _Market(access, partition, np.random.default_rng([seed, 1])),
            chosen,
            ways=ways,
            parts=parts,
            budget=budget,
            classes=classes,
            player_values=player_values,
            confidence=confidence,
            total=total,
        )
        record.end = End(Reason.TIME if found.not_measured else Reason.EXHAUSTED)
    n_divisible = int((partition.sizes > 1).sum())
    sample = Sample(len(chosen), n_divisible) if len(chosen) < n_divisible else None
    return replace(found, failures=access.evaluator.failures_since(mark), sample=sample)


def sample_groups(partition: Partition, most: int, seed: int) -> Ints:
    """Return the groups whose splits are measured: all, or half the largest and half drawn at random, in order."""
    divisible = np.flatnonzero(partition.sizes > 1)
    if len(divisible) <= most:
        return divisible
    by_size = divisible[np.argsort(-partition.sizes[divisible], kind="stable")]
    n_drawn = most // 2
    largest, rest = np.split(by_size, [most - n_drawn])
    return np.sort(np.append(largest, np.random.default_rng([seed, 2]).choice(rest, n_drawn, replace=False)))


def _measured(
    market: _Market,
    chosen: Ints,
    *,
    ways: Sequence[str],
    parts: Sequence[int],
    budget: int,
    classes: Any,
    player_values: Floats | None,
    confidence: float,
    total: float,
) -> Shells:
    """Measure the splits of one chosen group after the other; the two ends count as spent."""
    partition = market.partition
    rows: list[list[Any]] = []
    spent = 2
    for number, group in enumerate(chosen.tolist()):
        splits = _Splits(partition.members(group), parts, classes, player_values, market.rng)
        named = splits.plain(ways)
        left = (budget - spent) // (len(chosen) - number)
        try:
            if "worst found" in ways and (candidates := splits.candidates()):
                part = max(left // 3, FEWEST_SETS * _cost(candidates, 1))
                search = market.measure(group, candidates, part, fewest_pairs=1)
                named.append(("worst found", candidates[int(search.gains.argmax())]))
                spent, left = spent + search.n_evaluations, left - search.n_evaluations
            if not named:
                continue
            found = market.measure(group, [labels for _, labels in named], left)
        except OutOfTime:
            missing = tuple(str(partition.names[k]) for k in chosen[number:])
            return Shells(pd.DataFrame(rows, columns=COLUMNS), spent, missing)
        spent += found.n_evaluations
        gains, reach = found.gains / total, found.half_widths(confidence) / total
        for (way, labels), gain, half in zip(named, gains.tolist(), reach.tolist(), strict=True):
            rows.append([str(partition.names[group]), way, int(labels.max()) + 1, gain, gain - half, gain + half])
    return Shells(pd.DataFrame(rows, columns=COLUMNS), spent)


def least_budget(
    groups: Any, *, ways: Sequence[str] = WAYS, parts: Sequence[int] = PARTS, classes: Any = None
) -> int:
    """Return the smallest budget for `shell_companies`: for all groups or, if they are many, for a sample of them."""
    if not parts or min(parts) < 2:
        raise ValueError(f"parts must be numbers of companies, 2 or more, got {list(parts)}")
    partition = Partition.of(groups)
    n_measured = min(int((partition.sizes > 1).sum()), MOST_MEASURED)
    return 2 + n_measured * _dearest(partition, ways, parts, classes)


def _dearest(partition: Partition, ways: Sequence[str], parts: Sequence[int], classes: Any) -> int:
    """Return the evaluations that the most expensive group takes at least.

    They depend on the number of its members and of its classes only.
    """
    rng = np.random.default_rng(0)
    dearest = 1
    for group in _one_of_each(partition, classes, np.flatnonzero(partition.sizes > 1)):
        splits = _Splits(partition.members(group), parts, classes, None, rng)
        measured = [labels for _, labels in splits.plain(ways)]
        searching = 0
        if "worst found" in ways and (candidates := splits.candidates()):
            measured.append(max(candidates, key=np.max))
            searching = _cost(candidates, 1)
        dearest = max(dearest, FEWEST_SETS * (searching + _cost(measured, FEWEST_PAIRS)))
    return dearest


def _one_of_each(partition: Partition, classes: Any, groups: Ints) -> list[int]:
    """Return one of the groups for each size and number of classes, which its splits cost the same."""
    kinds = [partition.sizes]
    if classes is not None:
        held = np.unique(np.stack([partition.codes, np.unique(classes, return_inverse=True)[1]]), axis=1)
        kinds.append(np.bincount(held[0], minlength=partition.n_groups).astype(float))
    first = np.unique(np.stack(kinds)[:, groups], axis=1, return_index=True)[1]
    return list(groups[np.sort(first)].tolist())


def _cost(splits: Sequence[Ints], pairs: int) -> int:
    """Return the evaluations at one set of other groups: without and with the group, and the pairs."""
    return 2 + 2 * sum(min(pairs, _n_pairs(int(labels.max()) + 1)) for labels in splits)


def _n_pairs(n_parts: int) -> int:
    """Return the number of pairs of a set of parts and its complement, without the empty set."""
    return int(2 ** min(n_parts - 1, 62) - 1)


@dataclass(frozen=True, eq=False)
class _Splits:
    """Ways to split a group: each assigns every member the number of its part, from 0."""

    members: Ints
    parts: Sequence[int]
    classes: Any
    player_values: Floats | None
    rng: np.random.Generator

    def plain(self, ways: Sequence[str]) -> list[tuple[str, Ints]]:
        """Return the named splits that are possible for this group; none if it has one member."""
        n = len(self.members)
        found = [
            (way, labels)
            for way in ("evenly", "at random", "by class")
            if way in ways
            for k in self._numbers
            if (labels := self._of(way, k)) is not None
        ]
        if "one by one" in ways and 1 < n <= MOST_APART and n not in self.parts:
            found.append(("one by one", np.arange(n)))
        return found

    @property
    def _numbers(self) -> list[int]:
        return [k for k in self.parts if k <= len(self.members)]

    def _of(self, way: str, k: int) -> Ints | None:
        n = len(self.members)
        if way == "evenly":
            return np.arange(n) % k
        if way == "at random":
            return self.rng.permutation(np.arange(n) % k)
        if self.classes is None:
            return None
        _, codes, counts = np.unique(np.asarray(self.classes)[self.members], return_inverse=True, return_counts=True)
        ranks = np.argsort(np.argsort(-counts, kind="stable"))
        return np.minimum(ranks[codes], k - 1) if len(counts) >= k else None

    def candidates(self) -> list[Ints]:
        """Return splits to search among: evenly, by class, and cut at random places, by value or by chance."""
        n, numbers = len(self.members), self._numbers
        if not numbers:
            return []
        found = [labels for _, labels in self.plain(("evenly", "by class", "one by one"))]
        by_value = None if self.player_values is None else np.argsort(-self.player_values[self.members])
        while len(found) < SEARCHED:
            order = self.rng.permutation(n) if by_value is None or len(found) % 2 else by_value
            k = numbers[len(found) % len(numbers)]
            cuts = np.sort(self.rng.choice(n - 1, k - 1, replace=False)) + 1
            labels = np.empty(n, dtype=np.int64)
            labels[order] = np.searchsorted(cuts, np.arange(n), side="right")
            found.append(labels)
        return found[:SEARCHED]


@dataclass(frozen=True, eq=False)
class _Gains:
    """Measured gains of splits, in units of the utility."""

    gains: Floats
    stderr: Floats
    degrees_of_freedom: Floats
    n_evaluations: int

    def half_widths(self, confidence: float) -> Floats:
        """Return half the widths of the intervals."""
        return np.asarray(t_quantile(confidence, self.degrees_of_freedom) * self.stderr)


@dataclass(frozen=True, eq=False)
class _Market:
    """A game with its groups, and the random generator that draws sets."""

    access: GameAccess
    partition: Partition
    rng: np.random.Generator

    def measure(self, group: int, splits: list[Ints], budget: int, fewest_pairs: int = FEWEST_PAIRS) -> _Gains:
        """Return what each split of a group gains, from at most `budget` evaluations."""
        numbers = [int(labels.max()) + 1 for labels in splits]
        weights = {k: _weights(self.partition.n_groups, k) for k in numbers}
        sets = self._other_groups(group, budget // _cost(splits, fewest_pairs), list(weights.values()))
        # if every set is used, the rest of the budget goes to more pairs at each of them
        pairs = max(fewest_pairs, (budget // len(sets.masks) - 2) // (2 * len(splits)))
        n_pairs = [min(pairs, _n_pairs(k)) for k in numbers]
        own = np.arange(self.partition.n_groups) == group
        without, whole = (self.utilities(self.partition, masks) for masks in (sets.masks, sets.masks | own))
        parts = [
            self._measure_split(group, labels, sets, weights[k], p, without, whole - without)
            for labels, k, p in zip(splits, numbers, n_pairs, strict=True)
        ]
        gains, errors, freedom = np.array(parts).T
        return _Gains(gains, errors, freedom, len(sets.masks) * (2 + 2 * sum(n_pairs)))

    def _measure_split(
        self, group: int, labels: Ints, sets: _Sets, weights: Floats, n_pairs: int, without: Floats, added: Floats
    ) -> tuple[float, float, float]:
        """Return the gain of one split, its standard error and the degrees of freedom of that."""
        n_groups, k = self.partition.n_groups, int(labels.max()) + 1
        taken, coefficients = self._sets_of_parts(sets.masks.sum(axis=1), k, weights, n_pairs)
        codes = self.partition.codes.copy()
        codes[self.partition.members(group)] = n_groups + labels
        shells = Partition(tuple(range(n_groups + k)), None, codes)
        masks = np.concatenate([np.repeat(sets.masks, taken.shape[1], axis=0), taken.reshape(-1, k)], axis=1)
        values = self.utilities(shells, masks).reshape(taken.shape[:2])
        excess = values - without[:, None] - taken.sum(axis=2) / k * added[:, None]
        terms = (coefficients * excess).reshape(len(sets.masks), 2, n_pairs).sum(axis=1)
        variances = np.zeros(len(terms))
        if 1 < n_pairs < _n_pairs(k):
            variances = n_pairs * terms.var(axis=1, ddof=1)
        return sets.total(terms.sum(axis=1), variances, n_pairs - 1)

    def _sets_of_parts(self, sizes: Ints, k: int, weights: Floats, n_pairs: int) -> tuple[Masks, Floats]:
        """Return (m, 2 pairs, k) sets of parts, each with its complement, and their weights at these sizes.

        All pairs if there are at most `n_pairs`, else drawn in proportion to the weights of their sizes.
        """
        m = len(sizes)
        if n_pairs == _n_pairs(k):
            bits = (np.arange(1, n_pairs + 1)[:, None] >> np.arange(k)) & 1 == 1
            half = np.broadcast_to(bits, (m, n_pairs, k))
            chances = 1 / comb(k, bits.sum(axis=1))[None, :]
            taken = np.concatenate([half, ~half], axis=1)
            return taken, weights[sizes[:, None], taken.sum(axis=2)] * np.tile(chances, 2)
        both = np.abs(weights) + np.abs(weights[:, ::-1])
        both[:, [0, k]] = 0
        both[~both.any(axis=1), 1:k] = 1  # with one group, no split changes anything: any draw counts zero
        chances = both / both.sum(axis=1, keepdims=True)
        drawn = (self.rng.random((m, n_pairs, 1)) > np.cumsum(chances, axis=1)[sizes][:, None, :]).sum(axis=2)
        drawn = np.clip(drawn, 1, k - 1)
        ranks = self.rng.random((m, n_pairs, k)).argsort(axis=2).argsort(axis=2)
        half = ranks < drawn[:, :, None]
        chance = np.take_along_axis(chances[sizes], drawn, axis=1)
        taken = np.concatenate([half, ~half], axis=1)
        return taken, weights[sizes[:, None], taken.sum(axis=2)] / np.tile(2 * n_pairs * chance, 2)

    def _other_groups(self, group: int, most: int, weights: list[Floats]) -> _Sets:
        """Return all sets of the other groups or, if there are too many, the two ends and a sample of the rest.

        The two ends carry the largest weights and are known; the other sizes are drawn where they vary most.
        """
        n_groups = self.partition.n_groups
        others = np.delete(np.arange(n_groups), group)
        if 2 ** len(others) <= most:
            bits = (np.arange(2 ** len(others))[:, None] >> np.arange(len(others))) & 1 == 1
            counts = 1 / comb(len(others), bits.sum(axis=1))
            n_known = len(bits)
        else:
            # what a part adds to s others falls as 1/s if learning is stable, and so does its spread
            inner = sum(np.abs(each).sum(axis=1) for each in weights)[1:-1] / np.arange(1, len(others))
            chances = inner / inner.sum()
            times = max(2, most // 8)  # each time, other sets of parts are drawn
            n_known, n_drawn = 2 * times, most - 2 * times
            quantiles = (np.arange(n_drawn) + self.rng.random()) / n_drawn
            drawn = np.minimum(np.searchsorted(np.cumsum(chances), quantiles, side="right"), len(inner) - 1)
            sizes = np.concatenate([np.repeat([0, len(others)], times), 1 + drawn])
            bits = self.rng.random((most, len(others))).argsort(axis=1).argsort(axis=1) < sizes[:, None]
            counts = np.concatenate([np.full(n_known, 1 / times), 1 / (chances[drawn] * n_drawn)])
        masks = np.zeros((len(bits), n_groups), dtype=bool)
        masks[:, others] = bits
        return _Sets(masks, counts, n_known)

    def utilities(self, partition: Partition, masks: Masks) -> Floats:
        """Return the first output of coalitions of groups."""
        return by_groups(self.access, partition)(Coalitions.from_masks(masks))[:, 0]


@dataclass(frozen=True, eq=False)
class _Sets:
    """Sets S of the other groups, and a factor for each on top of the weight of its size."""

    masks: Masks
    """(m, K): none contains the group that splits."""
    counts: Floats
    n_known: int
    """This many of the first sets are not sampled: the empty and the full set, or all of them."""

    def total(self, terms: Floats, variances: Floats, freedom: int) -> tuple[float, float, float]:
        """Return the weighted sum of the terms, its standard error and the degrees of freedom of that.

        `variances` are those of the single terms, each with `freedom`; combined as Welch and Satterthwaite do.
        """
        counted = self.counts * terms
        known, sampled = slice(self.n_known), counted[self.n_known :]
        parts = self.counts[known] ** 2 * variances[known]
        each = np.full(len(parts), float(max(freedom, 1)))
        if len(sampled):  # the spread between sampled sets includes the noise within each
            parts = np.append(parts, len(sampled) * sampled.var(ddof=1))
            each = np.append(each, len(sampled) - 1)
        variance = float(parts.sum())
        freedoms = variance**2 / float((parts**2 / each).sum()) if variance > 0 else np.inf
        return float(counted.sum()), float(np.sqrt(variance)), freedoms


def _weights(n_groups: int, k: int) -> Floats:
    """Return (K, k + 1) weights of the sizes s and t: C(K - 1, s) C(k, t) c(s, t), 0 where t is 0 or k."""
    s, t = np.arange(n_groups)[:, None], np.arange(1, k)[None, :]
    n = n_groups - 1 + k

    chance = np.exp(log_choose(n_groups - 1, s) + log_choose(k, t) - log_choose(n, s + t))
    weights = np.zeros((n_groups, k + 1))
    weights[:, 1:k] = chance * (t / (s + t) - (k - t) / (n - s - t))
    return weights
