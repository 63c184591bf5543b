"""Highlights: the documents of texts that earned most and cost most."""

from __future__ import annotations

import numpy as np

from fgsv.data.dataset import Dataset
from fgsv.valuation import Valuation
from fgsv.valuation.display import Section

MOST = 5
"""Documents shown of each kind, for each output."""


def highlights(data: Dataset, valuation: Valuation) -> Section | None:
    """Return the players with the largest values and the smallest negative ones; None if nobody can read them."""
    if data.describe_player(0) is None:
        return None
    outputs = valuation.outputs or ("",)
    alone = valuation.of_players()
    values, errors = (each.reshape(len(alone), -1) for each in (alone.values, alone.stderr))
    rows = []
    for column, output in enumerate(outputs):
        order = np.argsort(-values[:, column], kind="stable")
        cost = [player for player in order[::-1][:MOST] if values[player, column] < 0]
        earned = [player for player in order[:MOST] if values[player, column] > 0]
        for player in (*earned, *reversed(cost)):
            name, words = data.describe_player(int(player)) or ("", "")
            error = errors[player, column]
            cells = (f"{values[player, column]:.3g}", "unknown" if np.isnan(error) else f"{error:.2g}")
            owners = _owners(data, valuation, player)
            rows.append((name, owners, *([output] if valuation.outputs else []), *cells, words))
    by_output = ("output",) if valuation.outputs else ()
    columns = ("document", "provider", *by_output, "value", "± stderr", "begins with")
    about = (
        "Their values are less certain than the values of providers. A document with a negative value made the test "
        "texts less likely, averaged over all selections of the others."
    )
    return Section("The documents that earned and cost most", (about,), columns, tuple(rows))


def _owners(data: Dataset, valuation: Valuation, player: int) -> str:
    """Return who supplied a document."""
    owners, owned = valuation.partition.names, data.partition.ownership
    if owned is None:
        return str(owners[data.partition.codes[player]])
    return ", ".join(str(name) for name, part in zip(owners, owned[player], strict=True) if part > 0)
