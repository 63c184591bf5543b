"""The pipeline: from opened data to a finished result, and its folder; all steps before and after the run."""

from fgsv.pipeline.folder import check_file, check_folder, write_payout, write_result
from fgsv.pipeline.pipeline import value_data

__all__ = [
    "check_file",
    "check_folder",
    "value_data",
    "write_payout",
    "write_result",
]
