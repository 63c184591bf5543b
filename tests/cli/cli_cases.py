"""The table that the tests of the command line value."""

import json

import numpy as np
import pandas as pd


def providers(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    frame["provider"] = np.array(["north", "south", "east", "west"])[np.arange(n) % 4]
    frame["site"] = np.array(["old", "new"])[np.arange(n) % 2]
    return frame


COLUMNS = ["--group", "provider", "--target", "y", "--ignore", "site"]


def undated(folder):
    """Return valuation.json as text, without the date and the command, which two folders never share."""
    document = json.loads((folder / "valuation.json").read_text(encoding="utf-8"))
    assert {"made", "command"} <= set(document["info"])
    document["info"] = {name: part for name, part in document["info"].items() if name not in ("made", "command")}
    return json.dumps(document)
