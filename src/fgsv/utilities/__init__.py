"""Utilities: data, a model and a score make a game."""

from fgsv.utilities.knn_vote import KNNVote
from fgsv.utilities.utility import Utility, utility

__all__ = ["KNNVote", "Utility", "utility"]
