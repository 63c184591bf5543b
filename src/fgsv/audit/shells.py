"""Shell companies: what a provider would gain under GSV by splitting into several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import comb

from fgsv.audit.splits import FEWEST_PAIRS, FEWEST_SETS, PARTS, WAYS, Splits, all_pairs, cost, divisible, n_parts
from fgsv.checks import whole_number
from fgsv.coalitions import Coalitions, log_choose
from fgsv.evaluation.game_access import GameAccess
from fgsv.evaluation.recording import OutOfTime
from fgsv.evaluation.views import by_groups
from fgsv.ledger import Ledger, Purpose
from fgsv.partition import Partition
from fgsv.running.preparation import access_to, read_players
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import End, Failures, Reason, check_confidence, t_quantile

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

    With K groups, of which one splits into k parts, the parts' GSV together exceed the GSV of the whole G by

        sum over sets S of s other groups and sets T of t parts, 0 < t < k, of
        c(s, t) [ U(S + T) - U(S) - t/k (U(S + G) - U(S)) ],
        c(s, t) = [ t / (s + t) - (k - t) / (K - 1 + k - s - t) ] / C(K - 1 + k, s + t),

    which is enumerated if the budget suffices, else sampled with the same sets S for all splits of a group. Under
    FGSV the gain is 0.

    Ways: `evenly` (every k-th player), `at random`, `by class` (the k - 1 commonest classes apart), each into every
    number of `parts`; `one by one`, a company for every player of a group of up to twelve; and `found by search`, the
    most profitable of a dozen splits by value, class and chance, measured again on sets that the search has not seen.

    Args:
        game: The game.
        groups: The group of each player, as for `fgsv.value`.
        ways: Kinds of splits to measure.
        parts: Numbers of companies to split into.
        budget: The most evaluations. Default: 2000, or the minimum it needs. With more than 24 groups and too little
            for all, a sample of groups is measured: half the largest, half drawn at random.
        classes: (n,) a class for each player, for splits by class. Default: none.
        player_values: (n,) values that the search sorts players by. Default: it sorts by chance.
        confidence: Confidence level of the intervals.
        seed: Of what is drawn.
        n_jobs: Workers, as for `fgsv.value`, like the following.
        ledger: File that records every evaluation.
        on_error: What a failed evaluation counts as.
        timeout: Seconds that a batch may take.

    Returns:
        A table of group, way, parts, gain, gain_low and gain_high.

    Raises:
        ValueError, TypeError: An argument is wrong, the budget is too small, or U(N) - U(0) is not positive.
        GameError: An evaluation failed.

    Examples:
        >>> import fgsv
        >>> table = shell_companies(fgsv.games.SumOfUnanimity(12), [i % 3 for i in range(12)], ways=["evenly"])
        >>> list(table.columns), table["parts"].tolist()
        (['group', 'way', 'parts', 'gain', 'gain_low', 'gain_high'], [2, 3, 2, 3, 2, 3])

    """
    check_confidence(confidence)
    read, partition = read_players(game, groups)
    access, opened = access_to(game, read, n_jobs=n_jobs, ledger=ledger, on_error=on_error, timeout=timeout)
    with opened:
        splits = Splits(ways, parts, classes, player_values)
        found = measure_shells(access, partition, splits, budget=budget, confidence=confidence, seed=seed)
    found.table.attrs |= {"n_evaluations": found.n_evaluations, "failures": found.failures, "sample": found.sample}
    return found.table


@dataclass(frozen=True)
class Sample:
    """For how many groups splits were measured, of all that could split."""

    measured: int
    of: int

    @classmethod
    def among(cls, partition: Partition, chosen: Ints) -> Sample | None:
        """Return what part of the groups that could split was chosen; None if all of them were."""
        n_divisible = len(divisible(partition))
        return cls(len(chosen), n_divisible) if len(chosen) < n_divisible else None

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


def measure_shells(
    access: GameAccess,
    partition: Partition,
    splits: Splits,
    *,
    budget: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Shells:
    """Measure with open access what `shell_companies` returns, group after group, within its deadline.

    Args:
        access: The game, open.
        partition: Its groups.
        splits: The splits to measure.
        budget: The most evaluations. Default: 2000, or the minimum it needs.
        confidence: Confidence level of the intervals.
        seed: Of what is drawn.

    Returns:
        The gains, and the groups for which time ran out.

    Raises:
        ValueError: The budget is too small, or U(N) - U(0) is not positive.

    """
    dearest = splits.dearest(partition)
    least = _least_budget(partition, dearest)
    budget = max(2000, least) if budget is None else whole_number("budget", budget)
    seed = whole_number("seed", seed, least=0)
    if budget < least:
        raise ValueError(f"splits of {partition.n_groups} groups need a budget of at least {least}")
    chosen = sample_groups(partition, (budget - 2) // dearest, seed)
    nobody, everybody = access.ends()[:, 0]
    total = everybody - nobody
    if not total > 0:
        raise ValueError(f"gains are parts of U(N) - U(0), which must be positive; it is {total:.6g}")
    before = access.evaluator.meter
    settings = {"method": "shell companies", "budget": budget, "seed": seed, "fingerprint": access.game.fingerprint}
    with access.evaluator.recorded(settings, Purpose.AUDIT) as record:
        market = _Market(access, partition, np.random.default_rng([seed, 1]))
        found = _measured(market, chosen, splits, budget=budget, confidence=confidence, total=total)
        record.end = End(Reason.TIME if found.not_measured else Reason.EXHAUSTED)
    failures = (access.evaluator.meter - before).failures
    sample = Sample.among(partition, chosen)
    return replace(found, failures=failures, sample=sample)


def sample_groups(partition: Partition, most: int, seed: int) -> Ints:
    """Return the groups whose splits are measured: all, or half the largest and half drawn at random, in order.

    Args:
        partition: The groups.
        most: How many are measured at most.
        seed: Of the draw.

    Returns:
        Positions of groups with two players or more.

    """
    groups = divisible(partition)
    if len(groups) <= most:
        return groups
    by_size = groups[np.argsort(-partition.sizes[groups], kind="stable")]
    n_drawn = most // 2
    largest, rest = np.split(by_size, [most - n_drawn])
    return np.sort(np.append(largest, np.random.default_rng([seed, 2]).choice(rest, n_drawn, replace=False)))


def _measured(
    market: _Market, chosen: Ints, splits: Splits, *, budget: int, confidence: float, total: float
) -> Shells:
    """Measure the splits of one chosen group after the other; the two ends count as spent."""
    partition = market.partition
    rows: list[list[Any]] = []
    spent = 2
    for number, group in enumerate(chosen.tolist()):
        members = partition.members(group)
        named = splits.named(members, market.rng)
        left = (budget - spent) // (len(chosen) - number)
        try:
            if candidates := splits.candidates(members, market.rng):
                part = max(left // 3, FEWEST_SETS * cost(candidates, 1))
                search = market.measure(group, candidates, part, fewest_pairs=1)
                named.append(("found by search", candidates[int(search.gains.argmax())]))
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
            rows.append([str(partition.names[group]), way, n_parts(labels), gain, gain - half, gain + half])
    return Shells(pd.DataFrame(rows, columns=COLUMNS), spent)


def least_budget(groups: Any, *, parts: Sequence[int] = PARTS, classes: Any = None) -> int:
    """Return the smallest budget for `shell_companies`: for all groups or, if they are many, for a sample of them.

    Args:
        groups: The group of each player, as for `fgsv.value`.
        parts: Numbers of companies to split into.
        classes: (n,) a class for each player. Default: none.

    Returns:
        Evaluations, U(0) and U(N) among them.

    """
    partition = Partition.of(groups)
    return _least_budget(partition, Splits(WAYS, parts, classes).dearest(partition))


def _least_budget(partition: Partition, dearest: int) -> int:
    return 2 + min(len(divisible(partition)), MOST_MEASURED) * dearest


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
        numbers = list(map(n_parts, splits))
        weights = {k: _weights(self.partition.n_groups, k) for k in numbers}
        sets = self._other_groups(group, budget // cost(splits, fewest_pairs), list(weights.values()))
        # if every set is used, the rest of the budget goes to more pairs at each of them
        pairs = max(fewest_pairs, (budget // len(sets.masks) - 2) // (2 * len(splits)))
        n_pairs = [min(pairs, all_pairs(k)) for k in numbers]
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
        n_groups = self.partition.n_groups
        k = n_parts(labels)
        taken, coefficients = self._sets_of_parts(sets.masks.sum(axis=1), k, weights, n_pairs)
        codes = self.partition.codes.copy()
        codes[self.partition.members(group)] = n_groups + labels
        shells = Partition(tuple(range(n_groups + k)), codes)
        masks = np.concatenate([np.repeat(sets.masks, taken.shape[1], axis=0), taken.reshape(-1, k)], axis=1)
        values = self.utilities(shells, masks).reshape(taken.shape[:2])
        excess = values - without[:, None] - taken.sum(axis=2) / k * added[:, None]
        terms = (coefficients * excess).reshape(len(sets.masks), 2, n_pairs).sum(axis=1)
        variances = np.zeros(len(terms))
        if 1 < n_pairs < all_pairs(k):
            variances = n_pairs * terms.var(axis=1, ddof=1)
        return sets.total(terms.sum(axis=1), variances, n_pairs - 1)

    def _sets_of_parts(self, sizes: Ints, k: int, weights: Floats, n_pairs: int) -> tuple[Masks, Floats]:
        """Return (m, 2 pairs, k) sets of parts, each with its complement, and their weights at these sizes.

        All pairs if there are at most `n_pairs`, else drawn in proportion to the weights of their sizes.
        """
        m = len(sizes)
        if n_pairs == all_pairs(k):
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
        known = slice(self.n_known)
        sampled = counted[self.n_known :]
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
