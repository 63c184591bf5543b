"""Shared by the tests of the experiments."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from fgsv.cli import app


@pytest.fixture(scope="session")
def reproduce():
    """Return a function that runs `fgsv reproduce NAME` and returns the table and the findings it wrote."""

    def run(name, out, *options):
        result = CliRunner().invoke(app, ["reproduce", name, "--out", str(out), *options], catch_exceptions=False)
        assert result.exit_code == 0
        assert (out / f"{name}.png").stat().st_size > 10_000
        record = json.loads((out / f"{name}.json").read_text())
        assert {"settings", "findings", "versions", "seconds"} <= set(record)
        return pd.read_csv(out / f"{name}.csv"), record["findings"]

    return run
