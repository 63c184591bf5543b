"""Faithful Group Shapley Values: what each group's data is worth, whatever the grouping."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fgsv import games, payout, plots
    from fgsv.diagnosis import diagnose
    from fgsv.estimators import METHODS, theorem3
    from fgsv.running.run import exact
    from fgsv.game import Game, GameError, grouped
    from fgsv.ledger.costs import fit_cost
    from fgsv.partition import Partition
    from fgsv.planning import plan
    from fgsv.running.run import iterate, value
    from fgsv.utilities import KNNVote, Utility, utility
    from fgsv.valuation.valuation import Valuation

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Game",
    "GameError",
    "KNNVote",
    "Partition",
    "Utility",
    "Valuation",
    "diagnose",
    "exact",
    "fit_cost",
    "games",
    "grouped",
    "iterate",
    "payout",
    "plan",
    "plots",
    "theorem3",
    "utility",
    "value",
]

# Where each name lives. It is imported when first used, so that `fgsv --help` does not wait for numpy.
_HOMES = {
    "METHODS": "fgsv.estimators",
    "Game": "fgsv.game",
    "GameError": "fgsv.game",
    "KNNVote": "fgsv.utilities",
    "Partition": "fgsv.partition",
    "Utility": "fgsv.utilities",
    "Valuation": "fgsv.valuation",
    "diagnose": "fgsv.diagnosis",
    "exact": "fgsv.running.run",
    "fit_cost": "fgsv.ledger.costs",
    "grouped": "fgsv.game",
    "iterate": "fgsv.running.run",
    "plan": "fgsv.planning",
    "theorem3": "fgsv.estimators",
    "utility": "fgsv.utilities",
    "value": "fgsv.running.run",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fgsv' has no attribute {name!r}")
    if name not in _HOMES:
        return import_module(f"fgsv.{name}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
