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


def fit_cost(ledger: str | Path, fingerprint: str | None = None) -> Cost:
    """Fit the cost of an evaluation to the seconds recorded in a ledger, for `fgsv.value(cost=...)`.

    In a ledger of several games (an audit that finds copies adds one without them) `fingerprint` says which.
    A ledger records the seconds of whole batches; the fit is non-negative least squares on the sums over their
    coalitions, relative to the seconds, so that cheap batches count as much as expensive ones.
    """
    sums, seconds = [], []
    with Ledger(ledger, read_only=True) as opened:
        games = opened.games()
        chosen = [(number, game) for number, game in games if fingerprint in (None, game.fingerprint)]
        if len(chosen) != 1:
            held = ", ".join(repr(game.fingerprint) for _, game in games) or "none"
            raise ValueError(
                f"{ledger} contains {len(games)} games, and a cost is fitted to one: name it, "
                f"fgsv.fit_cost(ledger, fingerprint=...), from {held}"
            )
        [(number, game)] = chosen
        for batch in opened.batches(number):
            sizes = unpack(game.n_players, batch.coalitions).sizes.astype(float)
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
