"""Audit: what splitting, copying and regrouping would earn, and where a valuation should not be leaned on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fgsv.audit.shells import PARTS, shell_companies
from fgsv.audit.shells import least_budget as least_of_attacks
from fgsv.game import grouped
from fgsv.partition import Partition
from fgsv.payout import Money, split
from fgsv.running.run import value
from fgsv.valuation import Valuation

FEWEST_OF_GSV = 100


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; every table is a data frame."""

    gsv: pd.DataFrame
    """group, share (FGSV), gsv_share, gsv_half_width."""
    attacks: pd.DataFrame
    """group, way, parts, gain, gain_low, gain_high: what splitting earns under GSV, in shares; under FGSV 0."""
    warnings: tuple[str, ...] = ()
    spent: Mapping[str, int] = field(default_factory=dict)
    """What for -> how many evaluations."""
    budget: int | None = None
    """The most that it was allowed to take, where that was said."""
    tables: list[dict[str, Any]] = field(default_factory=list)
    """Further sections: title, words, columns, rows."""

    @property
    def n_evaluations(self) -> int:
        """How many evaluations the audit took in all."""
        return sum(self.spent.values())

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: the form in which a valuation's `info` and the report carry it."""
        return {
            "gsv": self.gsv.to_dict("records"),
            "attacks": self.attacks.to_dict("records"),
            "warnings": list(self.warnings),
            "n_evaluations": self.n_evaluations,
            "budget": self.budget,
            "spent": dict(self.spent),
            "tables": self.tables,
        }


def audit(
    game: Any,
    valuation: Valuation,
    *,
    budget: int | None = None,
    parts: Sequence[int] = PARTS,
    classes: Any = None,
    confidence: float = 0.95,
    seed: int = 0,
    extra_warnings: Sequence[str] = (),
    tables: Sequence[dict[str, Any]] = (),
) -> Audit:
    """Compare a valuation of one output with GSV and compute what shell companies would gain under GSV.

    Never spends more than `budget` evaluations (without one, 4000 or the least that it takes): all coalitions of
    the groups for GSV where they are no more than half of it, else a quarter, and the rest on the attacks, which
    are those of `shell_companies`.
    """
    partition = valuation.partition
    if not partition.is_disjoint:
        raise ValueError("the audit of shell companies needs players with one owner each; ownership is shared here")
    least = least_budget(partition, parts=parts, classes=classes)
    budget = max(4000, least) if budget is None else budget
    if budget < least:
        raise ValueError(f"an audit of {partition.n_groups} groups needs a budget of at least {least}, got {budget}")
    everything = 2**partition.n_groups if partition.n_groups < 24 else budget
    part = everything if everything <= budget // 2 else budget // 4
    part = max(FEWEST_OF_GSV, min(part, FEWEST_OF_GSV + budget - least))
    group_values = value(grouped(game, partition), budget=part, seed=seed)
    attacks = shell_companies(
        game,
        partition,
        parts=parts,
        budget=budget - group_values.n_evaluations,
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
    spent = {"group values": group_values.n_evaluations, "shell companies": int(attacks.attrs["n_evaluations"])}
    return Audit(frame, attacks, tuple(warned), spent, tables=list(tables))


def least_budget(groups: Any, *, parts: Sequence[int] = PARTS, classes: Any = None) -> int:
    """Return the least budget that `audit` can keep to."""
    return FEWEST_OF_GSV + least_of_attacks(groups, parts=parts, classes=classes)


def policy_gains(
    valuation: Valuation,
    amount: Money,
    currency: str = "EUR",
    *,
    parts: Sequence[int] = PARTS,
    seed: int = 0,
    **policy: Any,
) -> pd.DataFrame:
    """Return what splitting earns each group under a payout policy, from the same evaluations.

    Columns: group, way, parts, gain (money). Ways: evenly and at random, into every number of `parts`, and `losses
    apart`, which puts the points of negative value into a shell company of their own. Under the linear policy every
    gain is a matter of rounding; under clipping, floors and caps it is not. Gains go by the estimated values of the
    points. A split into so many that the policy cannot be met (floors that exceed the amount) is left out.
    """
    values = valuation.player_values
    if values is None or values.ndim != 1:
        raise ValueError("gains under a policy need the values of the players, for one output")
    before = split(valuation, amount, currency, **policy)
    rng = np.random.default_rng(seed)
    codes, n_groups = valuation.partition.codes, valuation.partition.n_groups
    rows: list[tuple[str, str, int, Any]] = []
    for group, name in enumerate(valuation.names):
        members = valuation.partition.members(group)
        cuts = [("losses apart", (values[members] < 0).astype(np.int64))]
        for k in parts:
            evenly = np.arange(len(members)) % k
            cuts += [("evenly", evenly), ("at random", rng.permutation(evenly))]
        for way, labels in cuts:
            n_parts = len(np.unique(labels))
            if n_parts < 2 or n_parts <= labels.max(initial=0):
                continue
            shells = codes.copy()
            shells[members] = np.where(labels == 0, group, n_groups - 1 + labels)
            names: tuple[Hashable, ...] = (*valuation.names, *((name, "shell", part) for part in range(1, n_parts)))
            try:
                after = split(valuation.regroup(Partition(names, None, shells)), amount, currency, **policy)
            except ValueError:
                continue
            gain = after.payments[group] + sum(after.payments[n_groups:]) - before.payments[group]
            rows.append((str(name), way, n_parts, gain))
    return pd.DataFrame(rows, columns=["group", "way", "parts", "gain"])


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
