"""Comparison: two valuations side by side, and which of their differences are more than noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import norm

from fgsv.valuation import Valuation


def compare(first: Valuation, second: Valuation, confidence: float = 0.95) -> pd.DataFrame:
    """Return the shares of two valuations by group, their difference, and whether it is more than noise.

    >>> import fgsv
    >>> runs = [fgsv.exact(fgsv.games.Airport([1, 2, last]), ["a", "b", "c"]) for last in (3, 4)]
    >>> compare(*runs)["clear"].tolist()
    [True, True, True]

    Columns: group, share_a, share_b, difference, difference_low, difference_high, clear. The two runs are
    taken as independent: with the same seed and game the intervals are too wide. A group that only one of
    them has is listed with the other share missing.
    """
    if first.values.ndim != 1 or second.values.ndim != 1:
        raise ValueError("only valuations of one output can be compared; take them apart first")
    shares = [dict(zip(map(str, each.names), each.shares(), strict=True)) for each in (first, second)]
    errors = [dict(zip(map(str, each.names), each.stderr / each.total, strict=True)) for each in (first, second)]
    rows = []
    for name in dict.fromkeys([*shares[0], *shares[1]]):
        a, b = (each.get(name, np.nan) for each in shares)
        reach = norm.ppf((1 + confidence) / 2) * np.hypot(*(each.get(name, np.nan) for each in errors))
        difference = b - a
        rows.append([name, a, b, difference, difference - reach, difference + reach, bool(abs(difference) > reach)])
    columns = ["group", "share_a", "share_b", "difference", "difference_low", "difference_high", "clear"]
    return pd.DataFrame(rows, columns=columns)
