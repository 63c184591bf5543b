"""Laws recorded by earlier runs: a run follows them as long as they differ from its own only by rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgsv.ledger import Ledger
from fgsv.methods import Draws
from fgsv.methods.method import OtherLaw

_DRAWN_BY = ("method", "options", "semivalue", "cost", "seed", "start", "fingerprint", "on_error")
"""The settings of a run that its draws depend on; the fingerprint tells a game from its views."""


def laws_of_draws(ledger: Ledger, settings: Mapping[str, Any]) -> list[dict[int, dict[str, Any]]]:
    """Return the laws, by round, of each run that drew as one with these settings does; of the same version first."""
    runs = [run for run in ledger.runs() if _drawn_by(run.settings) == _drawn_by(settings)]
    runs.sort(key=lambda run: run.settings.get("version") != settings.get("version"))
    return [ledger.laws(run.id) for run in runs]


def _drawn_by(settings: Mapping[str, Any]) -> list[Any]:
    return ["proxy" in settings.get("needs", ()), *(settings.get(name) for name in _DRAWN_BY)]


def drawn_by(
    laws: Sequence[Mapping[str, Any]], draws: Draws, seed: int, round_number: int, *, may_differ: bool
) -> tuple[Mapping[str, Any], Draws]:
    """Return the law of a round, and its draws.

    A recorded law is followed if it differs from the round's own only by rounding, as on another processor. If none
    does, the round's own is used if draws `may_differ` from those recorded; otherwise `OtherLaw` is raised.
    """
    own, follow = draws.law, draws.follow
    assert own is not None
    if not laws or own in laws or follow is None:
        return own, draws
    for law in (*laws, own) if may_differ else laws:
        try:
            return law, follow(law, np.random.default_rng([seed, round_number]))
        except OtherLaw as error:
            other = error
    raise other
