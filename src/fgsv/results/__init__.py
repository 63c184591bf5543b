"""Results: a valuation with its payout and audit, and what is said of it.

Here are the file valuation.json, verdicts (how well payments are known), seals, comparisons with earlier periods,
sensitivities (shares by other scores), scores without each provider, and the JSON of `--json`.
"""

from fgsv.results.periods import Comparison, compare_results
from fgsv.results.result import Result
from fgsv.results.seals import Seal, Sealed, seal_run
from fgsv.results.sensitivities import Sensitivity, sensitivity
from fgsv.results.verdicts import Decision, Verdict, verdict

__all__ = [
    "Comparison",
    "Decision",
    "Result",
    "Seal",
    "Sealed",
    "Sensitivity",
    "Verdict",
    "compare_results",
    "seal_run",
    "sensitivity",
    "verdict",
]
