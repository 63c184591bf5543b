"""The record of an experiment: its table, and the settings, findings and versions behind it, in one folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.files import to_csv, write_whole
from fgsv.packages import versions


def save(
    out: str | Path,
    name: str,
    table: pd.DataFrame,
    *,
    settings: Mapping[str, Any],
    findings: Mapping[str, Any],
    seconds: float,
) -> Path:
    """Write NAME.csv, the table, and NAME.json, everything else, into a folder; return the folder."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "experiment": name,
        "settings": dict(settings),
        "findings": dict(findings),
        "seconds": round(seconds, 1),
        "versions": versions(),
        "platform": sys.platform,
    }
    write_whole(folder / f"{name}.csv", to_csv(table))
    write_whole(folder / f"{name}.json", json.dumps(record, indent=2, allow_nan=False) + "\n")
    return folder
