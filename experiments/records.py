"""What an experiment leaves in its folder: a table, how it was made, figures, and what took long to make."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fgsv.files import to_csv, write_whole
from fgsv.packages import versions

STARTED = time.monotonic()


def say(message: str) -> None:
    """Print a line of progress with the seconds since the program began."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {message}", flush=True)


def save(out: Path, name: str, table: pd.DataFrame, figures: Mapping[str, Any], **record: Any) -> None:
    """Write NAME.csv, the table, NAME.json, the record and the versions behind it, and the figures by their names."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / f"{name}.csv", to_csv(table))
    write_whole(out / f"{name}.json", json.dumps(record | {"versions": versions()}, indent=1, allow_nan=False) + "\n")
    for each, figure in figures.items():
        figure.savefig(out / f"{each}.png", dpi=150)
    say(f"in {out}: {', '.join([f'{name}.csv', f'{name}.json', *(f'{each}.png' for each in figures)])}")


def find_or_make(path: Path, made_by: str, make: Callable[[Path], object]) -> Path:
    """Return the path of what an earlier run made in the same way, else let `make` write it there."""
    note = path.with_name(f"{path.name}.made_by")
    if note.is_file() and note.read_text(encoding="utf-8") == made_by:
        say(f"using {path}")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
        write_whole(note, made_by)
    return path
