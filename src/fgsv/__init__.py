"""Faithful Group Shapley Values: what each group's data is worth, whatever the grouping."""

from fgsv.game import Game, GameError, grouped
from fgsv.partition import Partition
from fgsv.utilities import utility

__version__ = "0.1.0"

__all__ = ["Game", "GameError", "Partition", "grouped", "utility"]
