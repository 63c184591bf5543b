# The public names and where they live: type checkers read them here, and so does __init__.py when it is imported.

from . import answers as answers
from . import audit as audit
from . import federated as federated
from . import games as games
from . import mlflow as mlflow
from . import payout as payout
from . import pipeline as pipeline
from . import plots as plots
from . import report as report
from . import results as results
from . import testing as testing
from . import verification as verification
from .data.table import open_table as open_table
from .data.texts import open_text as open_text
from .diagnosis import diagnose as diagnose
from .game import Game as Game
from .game import GameError as GameError
from .game import grouped as grouped
from .ledger.costs import fit_cost as fit_cost
from .methods import METHODS as METHODS
from .methods import theorem3 as theorem3
from .partition import Partition as Partition
from .planning import plan as plan
from .running.run import exact as exact
from .running.run import iterate as iterate
from .running.run import value as value
from .utilities import KNNVote as KNNVote
from .utilities import Utility as Utility
from .utilities import utility as utility
from .valuation import End as End
from .valuation import Reason as Reason
from .valuation import RunSettings as RunSettings
from .valuation import Valuation as Valuation
from .valuation import load as load
from .valuation.comparison import compare as compare
from .verification.verify import verify as verify

__version__: str
