"""Valuations: values with their errors and intervals, the settings and end of their run, and their file."""

from fgsv.valuation.end import INTERRUPTED, End, Reason
from fgsv.valuation.estimate import Estimate, Failures
from fgsv.valuation.intervals import check_confidence, t_quantile
from fgsv.valuation.settings import Limits, RunSettings
from fgsv.valuation.valuation import GroupValue, Valuation, check_valuation, load, positive_total

__all__ = [
    "INTERRUPTED",
    "End",
    "Estimate",
    "Failures",
    "GroupValue",
    "Limits",
    "Reason",
    "RunSettings",
    "Valuation",
    "check_confidence",
    "check_valuation",
    "load",
    "positive_total",
    "t_quantile",
]
