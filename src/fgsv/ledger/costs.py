"""The cost of an evaluation by size of coalition, fitted to a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from fgsv.coalitions import unpack
from fgsv.ledger import Ledger
from fgsv.types import Floats, Ints


@dataclass(frozen=True)
class Cost:
    """Seconds of one evaluation: constant + linear s + quadratic s^2, none of them negative."""

    constant: float
    linear: float
    quadratic: float

    def __call__(self, sizes: Ints) -> Floats:
        """Return the seconds of an evaluation of each size."""
        return self.constant + self.linear * sizes + self.quadratic * np.asarray(sizes, dtype=float) ** 2


def fit_cost(ledger: str | Path) -> Cost:
    """Fit the cost of an evaluation to the seconds recorded in a ledger of one game, for `fgsv.value(cost=...)`.

    A ledger records the seconds of whole batches; the fit is non-negative least squares on the sums over their
    coalitions, relative to the seconds, so that cheap batches count as much as expensive ones.
    """
    sums, seconds = [], []
    with Ledger(ledger, read_only=True) as opened:
        players = {number: game.n_players for number, game in opened.games()}
        if len(players) != 1:
            raise ValueError(f"{ledger} contains {len(players)} games; a cost is fitted to the ledger of one game")
        for batch in opened.batches():
            sizes = unpack(players[batch.game], batch.coalitions).sizes.astype(float)
            sums.append([len(sizes), sizes.sum(), (sizes**2).sum()])
            seconds.append(batch.outcome.seconds)
    measured = np.array(seconds)
    if len(measured) < 3 or not (measured > 0).all():
        raise ValueError(f"{ledger} contains {len(measured)} timed batches; at least 3 are needed to fit a cost")
    scale = np.array(sums).max(axis=0)
    coefficients, _ = nnls(np.array(sums) / scale / measured[:, None], np.ones(len(measured)))
    constant, linear, quadratic = (coefficients / scale).tolist()
    # positive, because an allocation divides by the cost
    return Cost(max(constant, 1e-6 * float(measured.max()) / max(row[0] for row in sums)), linear, quadratic)
