"""Exact values of games that state their own Shapley values."""

from __future__ import annotations

from typing import Any

from fgsv.evaluation.game_access import GameAccess
from fgsv.methods.enumeration import check_adds_up, stated_values
from fgsv.partition import Partition
from fgsv.valuation import End, Estimate, Reason, Valuation

NAME = "closed form"


def by_closed_form(game: Any, access: GameAccess, partition: Partition) -> Valuation:
    """Return the valuation by the Shapley values that a game states, checked against U(N) - U(0)."""
    values = stated_values(game, access.game.n_players, "game")
    assert values is not None
    ends = access.ends()
    total = ends[1] - ends[0]
    if values.shape[1] != len(total):
        raise ValueError(f"game.shapley has {values.shape[1]} outputs, but the game has {len(total)}")
    check_adds_up(values, total, "game")
    return Valuation.of(
        Estimate(values, exact=True, efficient=True, method=NAME),
        partition,
        game=access.game,
        ends=ends,
        n_evaluations=2,
        end=End(Reason.EXHAUSTED, "the game states its Shapley values"),
    )
