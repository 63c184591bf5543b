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
    rows = []
    with Ledger(ledger, read_only=True) as opened:
        games = opened.games()
        chosen = [(number, game) for number, game in games if fingerprint in (None, game.fingerprint)]
        if len(chosen) != 1:
            held = ", ".join(repr(game.fingerprint) for _, game in games) or "none"
            raise ValueError(
                f"a cost is fitted to one game, but {ledger} contains {len(chosen)} "
                f"{'games' if fingerprint is None else f'with fingerprint {fingerprint!r}'}: choose one, "
                f"fgsv.fit_cost(ledger, fingerprint=...), from {held}"
            )
        [(number, game)] = chosen
        for batch in opened.batches(number):
            sizes = unpack(game.n_players, batch.coalitions).sizes.astype(float)
            rows.append([batch.outcome.seconds, len(sizes), sizes.sum(), (sizes**2).sum()])
    seconds, sums = np.split(np.array(rows).reshape(-1, 4), [1], axis=1)
    if len(rows) < 3 or not (seconds > 0).all():
        raise ValueError(f"{ledger} contains {len(rows)} timed batches; at least 3 are needed to fit a cost")
    scale = sums.max(axis=0)
    coefficients, _ = nnls(sums / scale / seconds, np.ones(len(rows)))
    constant, linear, quadratic = (coefficients / scale).tolist()
    # positive, because an allocation divides by the cost
    return Cost(max(constant, 1e-6 * float(seconds.max() / scale[0])), linear, quadratic)
