"""The report: one HTML page, its charts and panel, and the folder of a result."""

from fgsv.report.page import render

__all__ = ["render"]
