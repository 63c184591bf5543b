"""The report: the page of a result, with its charts, and the sections that terminals and notebooks show, too."""

from fgsv.report.page import render

__all__ = ["render"]
