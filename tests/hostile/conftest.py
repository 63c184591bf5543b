"""Hostile cases: `make test` runs a short form of each campaign, `make hostile` all of it."""

import os

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def repeats():
    """Return a chooser of how often a campaign repeats its case, from the short and the whole number."""

    def choose(short, whole):
        return whole if os.environ.get("FGSV_HOSTILE") == "all" else short

    return choose


@pytest.fixture(autouse=True)
def no_charts(monkeypatch):
    """Charts take their time, and are tested elsewhere."""
    monkeypatch.setattr("fgsv.pipeline.folder.render", lambda *_, **__: "<p>a page</p>")


@pytest.fixture
def train(tmp_path):
    """Write a small table of four providers and return its path."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    frame["y"] = 2 * frame["a"] + frame["b"]
    frame["provider"] = np.array(["north", "south", "east", "west"])[np.arange(40) % 4]
    frame["site"] = np.array(["old", "new"])[np.arange(40) % 2]
    frame.to_csv(tmp_path / "train.csv", index=False)
    return tmp_path / "train.csv"
