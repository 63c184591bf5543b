# The public names and where they live: type checkers read them here, and so does __init__.py when it is imported.

from . import games as games
from . import payout as payout
from . import plots as plots
from .diagnosis import diagnose as diagnose
from .estimators import METHODS as METHODS
from .estimators import theorem3 as theorem3
from .estimators.enumeration import exact as exact
from .game import Game as Game
from .game import GameError as GameError
from .game import grouped as grouped
from .ledger.costs import fit_cost as fit_cost
from .partition import Partition as Partition
from .planning import plan as plan
from .running.run import iterate as iterate
from .running.run import value as value
from .utilities import KNNVote as KNNVote
from .utilities import Utility as Utility
from .utilities import utility as utility
from .valuation import Valuation as Valuation

__version__: str
