"""Results of an experiment on disk: a table, a figure, and a record of how they came about."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd


def save(
    out: str | Path,
    name: str,
    table: pd.DataFrame,
    *,
    settings: Mapping[str, Any],
    findings: Mapping[str, Any],
    seconds: float,
) -> Path:
    """Write NAME.csv and NAME.json, with settings, versions and findings, into a folder; return the folder."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False)
    record = {
        "experiment": name,
        "settings": dict(settings),
        "findings": dict(findings),
        "seconds": round(seconds, 1),
        "versions": {"python": platform.python_version(), **_versions("fgsv", "numpy", "scipy", "scikit-learn")},
        "platform": sys.platform,
    }
    text = json.dumps(record, indent=2, allow_nan=False) + "\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


def _versions(*packages: str) -> dict[str, str]:
    import fgsv

    return {name: fgsv.__version__ if name == "fgsv" else version(name) for name in packages}


def pyplot() -> Any:
    """Return matplotlib's pyplot, drawing to files, or say how to install it."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'fgsv[plots]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt
