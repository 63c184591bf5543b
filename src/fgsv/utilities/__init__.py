"""Utilities: games made of data, a model and a score; networks, language and diffusion models, LoRA adapters."""

from fgsv.utilities.knn_vote import KNNVote
from fgsv.utilities.utility import Utility, utility

__all__ = ["KNNVote", "Utility", "utility"]
