"""Comparison: two valuations side by side, and which of their differences are more than noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fgsv.partition import Partition, by_text
from fgsv.types import Floats
from fgsv.valuation.intervals import is_clear, joint_half_width, t_quantile
from fgsv.valuation.valuation import Valuation, check_valuation
from fgsv.words import some


def compare(
    first: Valuation, second: Valuation, confidence: float = 0.95, *, same_test_rows: bool = False
) -> pd.DataFrame:
    """Return the shares of two valuations by group, their difference, and whether it is more than noise.

    The two runs are assumed independent: with the same seed and game, or if one started from the other, the intervals
    are too wide.

    Args:
        first: The earlier valuation, of one output.
        second: The later one.
        confidence: Confidence level of the intervals of differences.
        same_test_rows: Whether both were tested on the same rows, in the same folds, and so share most of the error
            of these.

    Returns:
        A table of group, share_a, share_b, difference, difference_low, difference_high, clear and status. A group in
        only one of them is listed with the other share missing, as one that joined or left, was renamed, or was split
        or merged ("regrouped"; `status`, otherwise "both"); `clear` is None there, and where an error is unknown.

    Raises:
        ValueError, TypeError: One of the two has several outputs or no shares, or they have no group in common.

    Examples:
        >>> import fgsv
        >>> runs = [fgsv.exact(fgsv.games.Airport([1, 2, last]), ["a", "b", "c"]) for last in (3, 4)]
        >>> compare(*runs)["clear"].tolist()
        [True, True, True]

    """
    for each in (first, second):
        check_valuation(each)
    if first.values.ndim != 1 or second.values.ndim != 1:
        raise ValueError(
            "only valuations with one output can be compared: in Python, valuation.combined(weights) makes one "
            "of several"
        )
    shares = [by_text(each.names, each.shares()) for each in (first, second)]
    common = _of_test_rows(first, second) if same_test_rows else {}
    errors = [by_text(each.names, _errors(each, confidence, bool(common))) for each in (first, second)]
    statuses = _statuses(first, second)
    if {*statuses.values()} <= {"joined", "left"}:
        sides = " against ".join(some(each.names, most=3) for each in (first, second))
        raise ValueError(f"the two valuations have no group in common: {sides}")
    freedoms = (first.degrees_of_freedom, second.degrees_of_freedom)
    rows: list[list[Any]] = []
    for name in dict.fromkeys([*shares[0], *shares[1]]):
        a, b = (each.get(name, np.nan) for each in shares)
        variances = (np.square(each.get(name, np.nan)) for each in errors)
        reach = float(joint_half_width(list(zip(variances, freedoms, strict=True)), confidence))
        if name in common:
            reach = float(np.hypot(reach, common[name] * t_quantile(confidence, _freedom(first))))
        difference = b - a
        clear = None if np.isnan(reach) else bool(is_clear(difference, reach))
        rows.append([name, a, b, difference, difference - reach, difference + reach, clear, statuses[name]])
    columns = ["group", "share_a", "share_b", "difference", "difference_low", "difference_high", "clear", "status"]
    return pd.DataFrame(rows, columns=columns).astype({"clear": object})


def _statuses(first: Valuation, second: Valuation) -> dict[str, str]:
    """Return whether each group is in both, joined or left; or was only renamed, or split or merged ("regrouped")."""
    before, now = (set(map(str, each.names)) for each in (first, second))
    names = renamed(first, second)
    holders = regrouped(first, second)
    in_one = dict.fromkeys(before, "left") | dict.fromkeys(now, "joined")
    parts = dict.fromkeys((*holders, *(name for new in holders.values() for name in new)), "regrouped")
    return in_one | parts | dict.fromkeys((*names, *names.values()), "renamed") | dict.fromkeys(before & now, "both")


def renamed(first: Valuation, second: Valuation) -> dict[str, str]:
    """Return the new name of each group that has the same players under another name.

    Players are known again where both games have the same fingerprint. A file does not say who they are otherwise.
    """
    if not _have_same_players(first, second):
        return {}
    before, now = ({str(name): part for name, part in _holdings(each.partition)} for each in (first, second))
    joined = {part: name for name, part in now.items() if name not in before}
    return {name: joined[part] for name, part in before.items() if name not in now and part in joined}


def regrouped(first: Valuation, second: Valuation) -> dict[str, tuple[str, ...]]:
    """Return who now has the players of each group that was split, merged or taken over, in full or in part.

    Players are known again as in `renamed`, which has the groups that only changed their names.
    """
    partitions = (first.partition, second.partition)
    if not _have_same_players(first, second) or not all(each.is_disjoint for each in partitions):
        return {}
    same = renamed(first, second)
    holders = defaultdict[str, list[str]](list)
    for before, now in sorted({*zip(*(each.codes.tolist() for each in partitions), strict=True)}):
        holders[str(first.names[before])].append(str(second.names[now]))
    return {name: tuple(now) for name, now in holders.items() if name not in same and now != [name]}


def _have_same_players(first: Valuation, second: Valuation) -> bool:
    games = [None if each.settings is None else each.settings.fingerprint for each in (first, second)]
    return games[0] is not None and games[0] == games[1]


def _holdings(partition: Partition) -> Iterator[tuple[Hashable, bytes]]:
    """Yield each group that has players, with bytes that tell its holdings from all others."""
    if partition.is_disjoint:
        order = np.argsort(partition.codes, kind="stable")
        ends = np.cumsum(partition.sizes).astype(int)
        parts = np.split(order, ends[:-1])
    else:
        parts = list(partition.owners.T)
    for name, part in zip(partition.names, parts, strict=True):
        if part.any() or (partition.is_disjoint and len(part)):
            yield name, part.tobytes()


def _errors(valuation: Valuation, confidence: float, without_test_rows: bool) -> Floats:
    """Return the standard errors of the shares, including the error of training seeds and, mostly, of test rows."""
    quantile = float(t_quantile(confidence, valuation.degrees_of_freedom))
    counted = replace(valuation, test_rows=None) if without_test_rows else valuation
    return counted.share_half_width(confidence) / quantile


def _of_test_rows(first: Valuation, second: Valuation) -> dict[str, float]:
    """Return the standard error of each difference of shares due to test rows that both runs have, fold by fold."""
    parts = [None if each.test_deviations is None else each.test_deviations[:, :, 0] for each in (first, second)]
    if parts[0] is None or parts[1] is None or len(parts[0]) != len(parts[1]):
        return {}
    names = [by_text(each.names, range(len(each))) for each in (first, second)]
    shared = {name: (place, names[1][name]) for name, place in names[0].items() if name in names[1]}
    apart = {
        name: parts[1][:, now] / second.total - parts[0][:, before] / first.total
        for name, (before, now) in shared.items()
    }
    return {name: float(np.sqrt((each**2).sum())) for name, each in apart.items()}


def _freedom(valuation: Valuation) -> float:
    assert valuation.test_rows is not None
    return valuation.test_rows.freedom
