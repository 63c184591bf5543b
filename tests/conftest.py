"""Shared by all tests: under CI a skipped test is a failure, unless it is a GPU that is missing."""

import os

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("fgsv", deadline=None, derandomize=True)
settings.load_profile("fgsv")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if "GPU" not in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped under CI: {reason}"


@pytest.fixture
def random_game():
    """Return a maker of games with n players and q outputs whose 2^n values are random numbers."""

    def make(n, seed=0, q=None):
        rng = np.random.default_rng(seed)
        table = rng.normal(size=2**n if q is None else (2**n, q))

        def game(masks):
            return table[masks @ (1 << np.arange(n))]

        return game

    return make
