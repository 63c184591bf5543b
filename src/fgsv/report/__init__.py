"""The report: a result with its payout and audit, its page, and its folder."""

from fgsv.report.checking import verify_data, verify_result
from fgsv.report.folder import check_file, check_folder, write_payout, write_result
from fgsv.report.making import make_result
from fgsv.report.page import render
from fgsv.report.periods import Comparison, compare_results
from fgsv.report.questions import Sensitivity, sensitivity
from fgsv.report.result import Result
from fgsv.report.tracking import log_to_mlflow

__all__ = [
    "Comparison",
    "Result",
    "Sensitivity",
    "check_file",
    "check_folder",
    "compare_results",
    "log_to_mlflow",
    "make_result",
    "render",
    "sensitivity",
    "verify_data",
    "verify_result",
    "write_payout",
    "write_result",
]
