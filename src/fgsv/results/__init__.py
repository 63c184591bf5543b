"""Results: a valuation with its payout and audit, seals, and comparisons of results."""

from fgsv.results.periods import Comparison, compare_results
from fgsv.results.result import Result
from fgsv.results.seals import Seal, Sealed, seal_run
from fgsv.results.sensitivities import Sensitivity, sensitivity

__all__ = [
    "Comparison",
    "Result",
    "Seal",
    "Sealed",
    "Sensitivity",
    "compare_results",
    "seal_run",
    "sensitivity",
]
