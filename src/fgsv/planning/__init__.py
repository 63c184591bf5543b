"""Plans: predict from the first evaluations of a run what a precision will cost.

Here is also `Watcher`, which hears of every step of a run and of its audit.
"""

from fgsv.planning.plans import Plan
from fgsv.planning.start import start_in_words
from fgsv.planning.watching import (
    HistoryPoint,
    Watcher,
    offer_of_units,
    plan,
    plan_table,
    value_with_plan,
)
from fgsv.valuation import Limits

__all__ = [
    "HistoryPoint",
    "Limits",
    "Plan",
    "Watcher",
    "offer_of_units",
    "plan",
    "plan_table",
    "start_in_words",
    "value_with_plan",
]
