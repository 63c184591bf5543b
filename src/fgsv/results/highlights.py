"""Highlights: the documents of texts that earned most and cost most."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgsv.data.dataset import Dataset
from fgsv.partition import Partition
from fgsv.valuation import Valuation
from fgsv.valuation.display import Section

MOST = 5
"""Documents shown of each kind, for each output."""


def highlights(data: Dataset, valuation: Valuation) -> Section | None:
    """Return the players with the largest values and the smallest negative ones; None if nobody can read them."""
    if data.describe_player(0) is None:
        return None
    outputs = valuation.outputs or ("",)
    values = np.asarray(valuation.player_values, dtype=float).reshape(valuation.partition.n_players, -1)
    rows: list[tuple[Any, ...]] = []
    for column, output in enumerate(outputs):
        order = np.argsort(-values[:, column], kind="stable")
        cost = [player for player in order[::-1][:MOST] if values[player, column] < 0]
        earned = [player for player in order[:MOST] if values[player, column] > 0]
        rows += [_row(data, valuation, int(player), column, output) for player in (*earned, *reversed(cost))]
    by_output = ("output",) if valuation.outputs else ()
    columns = ("document", "provider", *by_output, "value", "± stderr", "begins with")
    words = (
        "Their values are less certain than the values of providers. A document with a negative value made the test "
        "texts less likely, averaged over all selections of the others."
    )
    return Section("The documents that earned and cost most", (words,), columns, tuple(rows))


def _row(data: Dataset, valuation: Valuation, player: int, column: int, output: str) -> tuple[Any, ...]:
    """Return one document; its error is that of a group with this one player."""
    alone = np.zeros(valuation.partition.n_players, dtype=np.int64)
    alone[player] = 1
    single = valuation.regroup(Partition(("others", "this"), alone))
    value, error = (np.asarray(each).reshape(2, -1)[1, column] for each in (single.values, single.stderr))
    name, words = data.describe_player(player) or ("", "")
    owners = valuation.partition.names
    owned = data.partition.ownership
    whose = [owners[data.partition.codes[player]]] if owned is None else np.array(owners)[owned[player] > 0]
    cells = (f"{value:.3g}", "unknown" if np.isnan(error) else f"{error:.2g}")
    return (name, ", ".join(map(str, whose)), *((output,) if valuation.outputs else ()), *cells, words)
