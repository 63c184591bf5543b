"""The report: the page of a result."""

from fgsv.report.page import render

__all__ = ["render"]
