"""The workspace of a run: its folder, its device, its progress lines, and the files it finds again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from fgsv.types import Floats

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Workspace:
    """Where a run computes and writes, and whether it prints its progress."""

    folder: Path
    device: torch.device
    dtype: torch.dtype
    quiet: bool = False
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, folder: str | Path, device: str, precision: str, quiet: bool) -> Workspace:
        """Make the folder; with "auto", choose a GPU if there is one, and bfloat16 on a GPU."""
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(f"device {device!r} was requested, but torch finds no CUDA GPU here; use --device cpu")
        if precision == "auto":
            precision = "bfloat16" if device.startswith("cuda") else "float32"
        if precision not in PRECISIONS:
            raise ValueError(f"precision {precision!r} is unknown; expected auto, {' or '.join(PRECISIONS)}")
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, torch.device(device), PRECISIONS[precision], quiet)

    def seconds(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self.started

    def say(self, message: str) -> None:
        """Print a line of progress, unless the run is quiet."""
        if not self.quiet:
            print(f"[{self.seconds():6.1f} s] {message}", flush=True)

    def find_or_compute(self, name: str, key: str, compute: Callable[[], Floats]) -> Floats:
        """Return the array that an earlier run saved in this file under the same key, else compute and save it."""
        path = self.folder / name
        if path.is_file():
            with np.load(path) as file:
                if str(file["key"]) == key:
                    self.say(f"using {path}")
                    found: Floats = file["values"]
                    return found
        values = compute()
        part = path.with_name("part-" + name)  # savez appends .npz to any other ending
        np.savez(part, key=key, values=values)
        part.replace(path)
        return values
