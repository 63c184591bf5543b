"""Hostile cases: `make test` runs a short form of each campaign, `make hostile` all of it."""

import os

import pytest


@pytest.fixture
def repeats():
    """Return a chooser of how often a campaign repeats its case, from the short and the whole number."""

    def choose(short, whole):
        return whole if os.environ.get("FGSV_HOSTILE") == "all" else short

    return choose
