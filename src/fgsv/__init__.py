"""Faithful Group Shapley Values: what each group's data is worth, whatever the grouping."""

from fgsv import games
from fgsv.enumeration import exact
from fgsv.estimators import METHODS, theorem3
from fgsv.game import Game, GameError, grouped
from fgsv.partition import Partition
from fgsv.run import iterate, value
from fgsv.valuation import Valuation

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Game",
    "GameError",
    "Partition",
    "Valuation",
    "exact",
    "games",
    "grouped",
    "iterate",
    "theorem3",
    "value",
]
