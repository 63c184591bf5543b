"""Federated runs: a log of their rounds, and what each client contributed to them."""

from fgsv.federated.contributions import game, value, weighted_mean
from fgsv.federated.cutting import shards
from fgsv.federated.flower import FlowerLog
from fgsv.federated.log import Round, RoundLog

__all__ = ["FlowerLog", "Round", "RoundLog", "game", "shards", "value", "weighted_mean"]
