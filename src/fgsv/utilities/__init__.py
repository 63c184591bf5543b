"""Utilities: data, a model and a score make a game."""

from fgsv.utilities.utility import Utility, utility

__all__ = ["Utility", "utility"]
