"""Shared by the tests of the experiments."""

import json

import pandas as pd
import pytest

from experiments.__main__ import main


@pytest.fixture(scope="session")
def experiment():
    """Return a function that runs `python -m experiments NAME` and returns the table and the record it wrote."""

    def run(name, out, *arguments):
        with pytest.raises(SystemExit) as end:
            main(name, *map(str, arguments), "--out", str(out))
        assert end.value.code == 0
        assert max(path.stat().st_size for path in out.glob("*.png")) > 10_000
        record = json.loads((out / f"{name}.json").read_text())
        assert record["versions"]["pandas"] == pd.__version__
        return pd.read_csv(out / f"{name}.csv"), record

    return run
