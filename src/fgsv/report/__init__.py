"""The report: a result with its payout and audit, its page, and its folder."""

from fgsv.report.checking import verify_data, verify_result, withdrawn_players
from fgsv.report.folder import check_file, check_folder, write_payout, write_result
from fgsv.report.making import make_result
from fgsv.report.page import render
from fgsv.report.periods import Comparison, compare_results
from fgsv.report.proof_checks import Check, check_proof
from fgsv.report.proofs import Proof, challenge
from fgsv.report.questions import Sensitivity, sensitivity
from fgsv.report.result import Result
from fgsv.report.sealing import Seal, Sealed, seal_run
from fgsv.report.tracking import log_to_mlflow

__all__ = [
    "Check",
    "Comparison",
    "Proof",
    "Result",
    "Seal",
    "Sealed",
    "Sensitivity",
    "challenge",
    "check_file",
    "check_folder",
    "check_proof",
    "compare_results",
    "log_to_mlflow",
    "make_result",
    "render",
    "seal_run",
    "sensitivity",
    "verify_data",
    "verify_result",
    "withdrawn_players",
    "write_payout",
    "write_result",
]
