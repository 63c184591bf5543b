"""Valuations: what came out, with its errors, for any grouping of the players."""

from fgsv.valuation.valuation import Estimate, Valuation, check_confidence, positive_total

__all__ = ["Estimate", "Valuation", "check_confidence", "positive_total"]
