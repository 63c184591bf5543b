"""A run of an experiment that trains models: its folder, device, progress lines, kept files, and when it stops."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

import fgsv
from fgsv.coalitions import Coalitions
from fgsv.files import write_whole
from fgsv.game import as_game
from fgsv.running.evaluator import Evaluator
from fgsv.running.stopping import Progress, Rule
from fgsv.running.views import by_groups
from fgsv.types import Floats, Masks
from fgsv.words import option

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def check_size(device: str) -> None:
    """Raise an error where an experiment at full size would run on a CPU by default."""
    if device == "auto" and not torch.cuda.is_available():
        raise ValueError(
            f"torch finds no CUDA GPU, and at full size this takes days on a CPU: use {option('small', True)} or "
            f"{option('device', 'cpu')}"
        )


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
            raise ValueError(
                f"device {device!r} was requested, but torch finds no CUDA GPU here; use {option('device', 'cpu')}"
            )
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

    def report(self, part: str, step: int, steps: int, loss: torch.Tensor) -> None:
        """Print the loss of a training five times on its way."""
        if step % max(1, steps // 5) == 0:
            self.say(f"{part}: step {step} of {steps}, loss {float(loss):.4f}")

    def find_or_train(self, made_by: Mapping[str, Any], train: Callable[[Path], object]) -> Path:
        """Return the folder of the model that an earlier run made in the same way, else let `train` save it there."""
        folder = self.folder / "model"
        note, made = folder / "made_by.json", json.dumps(made_by, sort_keys=True)
        if note.is_file() and note.read_text(encoding="utf-8") == made:
            self.say(f"using the model in {folder}")
        else:
            train(folder)
            write_whole(note, made)
        return folder

    def find_or_compute(self, name: str, key: str, compute: Callable[[], Floats]) -> Floats:
        """Return the array that an earlier run saved in this file under the same key, else compute and save it."""
        path = self.folder / name
        if path.is_file():
            with np.load(path) as file:
                if str(file["key"]) == key:
                    self.say(f"using {path}")
                    return file["values"]
        values = compute()
        part = path.with_name("part-" + name)  # savez appends .npz to any other ending
        np.savez(part, key=key, values=values)
        part.replace(path)
        return values


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads in the block; None for as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def four_scenarios(
    workspace: Workspace,
    game: Any,
    wholes: list[str],
    parts: list[str],
    scale: Any,
    *,
    what: str,
    seed: int,
    max_seconds: float | None,
    spared: int = 0,
) -> dict[str, fgsv.Valuation]:
    """Return the valuations behind SRS and FSRS, of whole providers and of the parts that they split into.

    FSRS of both comes from one run over the players, which are called `what`; `scale` has its `budget`, `round_size`
    and `stderr`. See `exact_group_values` for SRS and `ShareErrors` for when the run stops.
    """
    srs_whole, srs_split = exact_group_values(workspace, game, parts, wholes)
    workspace.say(f"sampling coalitions of {what}, for FSRS")
    errors, room = ShareErrors(workspace, scale.stderr, parts, spared), RoomForAnotherRound(workspace, max_seconds)
    stop: list[Rule] = [errors, room]
    faithful = fgsv.value(
        game,
        wholes,
        budget=scale.budget,
        seed=seed,
        round_size=scale.round_size,
        ledger=workspace.folder / "ledger.db",
        stop=stop,
    )
    split = faithful.regroup(parts)
    return {"srs_whole": srs_whole, "srs_split": srs_split, "fsrs_whole": faithful, "fsrs_split": split}


def exact_group_values(
    workspace: Workspace, game: Any, parts: Sequence[str], wholes: Sequence[str]
) -> tuple[fgsv.Valuation, fgsv.Valuation]:
    """Return the exact GSV of whole providers and of the K parts that they split into; 2^K evaluations.

    `parts` and `wholes` have a name for each player. A coalition of wholes is also one of parts: its utility is
    looked up.
    """
    grouped = fgsv.grouped(game, list(parts))
    names = list(dict.fromkeys(parts))
    bits = np.arange(len(names))

    def evaluate() -> Floats:
        workspace.say(f"evaluating the {2 ** len(names)} coalitions of groups, for SRS")
        masks = (np.arange(2 ** len(names))[:, None] >> bits) & 1 == 1
        with Evaluator(as_game(game)) as evaluator:
            return by_groups(evaluator, fgsv.Partition.of(list(parts)))(Coalitions.from_masks(masks))

    values = workspace.find_or_compute("group_utilities.npz", str(grouped.fingerprint), evaluate)

    def lookup(masks: Masks) -> Floats:
        return values[masks @ (1 << bits)]

    table = fgsv.Game(lookup, len(names), outputs=grouped.outputs)
    whole_of = dict(zip(parts, wholes, strict=True))
    whole = fgsv.exact(fgsv.grouped(table, [whole_of[name] for name in names]))
    return whole, fgsv.exact(table, {name: [k] for k, name in enumerate(names)})


@dataclass(frozen=True)
class ShareErrors:
    """Stop when the standard error of every share, of whole and of split providers, is at most `target`.

    `spared` outputs, those with the largest errors, need not reach it.
    """

    workspace: Workspace
    target: float
    parts: list[str]
    spared: int = 0

    def __call__(self, progress: Progress) -> str | None:
        """Say why to stop, or None to go on."""
        result = progress.valuation
        errors = np.concatenate([_share_errors(result), _share_errors(result.regroup(self.parts))]).max(axis=0)
        worst = np.sort(errors)[::-1][min(self.spared, len(errors) - 1)]
        others = f" (all but {self.spared} outputs)" if self.spared else ""
        self.workspace.say(
            f"{result.n_evaluations} evaluations, largest standard error of a share {worst:.4f}{others}"
        )
        return f"every share's standard error{others} is at most {self.target:g}" if worst <= self.target else None


@dataclass(frozen=True)
class RoomForAnotherRound:
    """Stop when another round as long as the last one would end after the time limit of the whole experiment."""

    workspace: Workspace
    max_seconds: float | None

    reason: ClassVar[fgsv.Reason] = fgsv.Reason.TIME

    def __call__(self, progress: Progress) -> str | None:
        """Say why to stop, or None to go on."""
        if self.max_seconds is None or self.workspace.seconds() + progress.round_seconds <= self.max_seconds:
            return None
        return f"another round would end after {self.max_seconds:g} seconds"


def _share_errors(result: fgsv.Valuation) -> Floats:
    """Return the (K, q) standard errors of the shares, for the q prompts with something to share."""
    total = np.asarray(result.total)
    errors: Floats = result.stderr[:, total > 0] / total[total > 0]
    return errors if errors.size else np.full((1, 1), np.inf)
