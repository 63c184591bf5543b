"""Policies: what splitting earns under a payout policy that is not linear."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fgsv.audit.splits import PARTS, check_parts
from fgsv.checks import as_list, whole_number
from fgsv.partition import Partition
from fgsv.payout import Terms
from fgsv.payout.money import Amount
from fgsv.payout.splitting import payments_of
from fgsv.valuation import Valuation, check_valuation


def policy_gains(
    valuation: Valuation,
    amount: Amount,
    currency: str = "EUR",
    *,
    parts: Sequence[int] = PARTS,
    groups: Iterable[int] | None = None,
    seed: int = 0,
    **policy: Any,
) -> pd.DataFrame:
    """Return what splitting earns each group under a payout policy, from the same evaluations.

    Ways: evenly and at random, into every number of `parts`, and `losses apart`, which puts the players of negative
    value into a shell company of their own. Under the linear policy gains are only rounding; under clipping, floors
    and caps they are not. Gains are based on the estimated values of the players. Every split moves everybody's
    payment, so the time for all groups grows with the square of their number, to minutes for 400; an audit takes a
    sample of 24.

    Args:
        valuation: A valuation of one output, with values of players.
        amount: What is split.
        currency: Its currency.
        parts: Numbers of companies to split into.
        groups: Positions of the groups that split. Default: all.
        seed: Of the splits at random.
        policy: Other arguments of `Terms`: clip, floor, cap.

    Returns:
        A table of group, way, parts and gain (money). A split for which the policy cannot be met (floors that exceed
        the amount) is left out.

    Raises:
        ValueError, TypeError: An argument is wrong, or the valuation has no values of players.

    """
    check_valuation(valuation)
    values = valuation.player_values
    if values is None or values.ndim != 1:
        raise ValueError("gains under a policy need player values for one output")

    check_parts(parts)
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    codes, n_groups = valuation.partition.codes, valuation.partition.n_groups
    expected = f"groups must be positions of groups, from 0 to {n_groups - 1}"
    chosen = range(n_groups) if groups is None else as_list(groups, expected)
    if not all(isinstance(group, int | np.integer) and 0 <= group < n_groups for group in chosen):
        raise ValueError(f"{expected}, got {groups!r:.200}")

    terms = Terms(amount, currency, **policy)
    before = payments_of(valuation, terms)
    rows: list[tuple[str, str, int, Any]] = []
    for group in chosen:
        name = valuation.names[group]
        members = valuation.partition.members(group)
        cuts = [("losses apart", 2, (values[members] < 0).astype(np.int64))]
        for k in parts:
            evenly = np.arange(len(members)) % k
            cuts += [("evenly", k, evenly), ("at random", k, rng.permutation(evenly))]
        for way, n_parts, labels in cuts:
            if len(np.unique(labels)) < n_parts:
                continue
            shells = codes.copy()
            shells[members] = np.where(labels == 0, group, n_groups - 1 + labels)
            names: tuple[Hashable, ...] = (*valuation.names, *((name, "shell", part) for part in range(1, n_parts)))
            try:
                after = payments_of(valuation.regroup(Partition(names, shells)), terms)
            except ValueError:
                continue
            gain = after[group] + sum(after[n_groups:]) - before[group]
            rows.append((str(name), way, n_parts, gain))
    return pd.DataFrame(rows, columns=["group", "way", "parts", "gain"])
