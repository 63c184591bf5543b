"""Hashes of results: written before a change of the house, compared after it, on the same machine.

Every method on five games, ended by a budget, a precision, an enumeration and an interrupt; without a ledger, with
one and with two workers. `python -m benchmarks bits --out before.json`, then `--compare before.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fgsv
from fgsv.methods import DEFAULT

SAMPLED: dict[str, dict[str, Any]] = {"budget": {"budget": 1_500}, "precision": {"precision": 0.05, "budget": 3_000}}
FEW = {"enumeration": {"precision": 1e-9, "budget": 2**14}}
"""A precision out of reach: the run samples, then evaluates every coalition."""
OPTIONS: dict[str, dict[str, Any]] = {"finite_difference": {"threshold": 3}}


@dataclass(frozen=True)
class Outputs:
    """Two outputs that disagree about who matters; by row where `independent_rows`."""

    n_players: int = 16
    fingerprint: str = "bits: two outputs"
    outputs: tuple[str, ...] = ("left", "right")

    def __call__(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return (m, 2) values."""
        weights = np.linspace(0.2, 1.7, self.n_players)
        return np.stack([np.sqrt(masks @ weights), np.log1p(masks @ weights[::-1] ** 2)], axis=1)


@dataclass(frozen=True)
class ByRow:
    """A game that evaluates each coalition by itself."""

    n_players: int = 18
    fingerprint: str = "bits: independent rows"
    independent_rows: bool = True

    def __call__(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return (m,) values."""
        weights = np.cos(np.arange(self.n_players)) + 1.5
        return np.array([np.sqrt(weights[row].sum()) + 0.1 * row[:3].all() for row in masks])


@dataclass(frozen=True)
class Rough:
    """A curved game, beside which `Smooth` is the proxy."""

    n_players: int = 30
    fingerprint: str = "bits: with a proxy"
    bend: float = 0.3

    def __call__(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return (m,) values."""
        weights = np.linspace(0.1, 1.0, self.n_players)
        return np.sqrt(masks @ weights) + self.bend * np.sin(masks @ np.arange(self.n_players))


class Interrupted:
    """A game that sends an interrupt while it evaluates its k-th batch."""

    def __init__(self, game: Any, after: int) -> None:
        self._game, self._left = game, after
        self.n_players, self.fingerprint = game.n_players, getattr(game, "fingerprint", "bits: interrupted")
        for name in ("outputs", "independent_rows"):
            if hasattr(game, name):
                setattr(self, name, getattr(game, name))

    def __call__(self, masks: NDArray[np.bool_]) -> Any:
        """Return what the game says, interrupted once."""
        self._left -= 1
        if self._left == 0:
            signal.raise_signal(signal.SIGINT)
        return self._game(masks)


GAMES: dict[str, tuple[Any, dict[str, Any]]] = {
    "unanimity 20": (fgsv.games.SumOfUnanimity(20), {}),
    "airport 13": (fgsv.games.Airport(list(range(1, 14))), {}),
    "two outputs": (Outputs(), {}),
    "independent rows": (ByRow(), {}),
    "proxy": (Rough(), {"proxy": Rough(fingerprint="bits: proxy", bend=0.2)}),
}


def cases(quick: bool) -> Iterator[tuple[str, Callable[[Path], fgsv.Valuation]]]:
    """Yield the name of every case, and what runs it with a place for its ledger."""
    for method in fgsv.METHODS:
        for name, (game, more) in GAMES.items():
            if more and method != DEFAULT:
                continue
            n = game.n_players
            groups = np.arange(n) % 4
            options = {"method": method, "seed": 7, **OPTIONS.get(method, {}), **more}
            if more:
                options["budget"] = 400
            ends: dict[str, dict[str, Any]] = {**SAMPLED, "interrupt": {}}
            if n < 14 and method == DEFAULT:
                ends |= FEW
            for end, stop in ends.items():
                for how in ("plain", "ledger", "workers"):
                    if how == "workers" and (end == "interrupt" or quick):
                        continue
                    yield f"{method}, {name}, {end}, {how}", _runner(game, groups, end, how, {**stop, **options})


def _runner(game: Any, groups: Any, end: str, how: str, options: dict[str, Any]) -> Callable[[Path], fgsv.Valuation]:
    def run(folder: Path) -> fgsv.Valuation:
        asked = Interrupted(game, after=4) if end == "interrupt" else game
        if end == "interrupt":
            options.setdefault("budget", 1_500)
        if how == "ledger":
            named = (
                asked if getattr(asked, "fingerprint", None) else fgsv.Game(asked, asked.n_players, fingerprint="x")
            )
            return fgsv.value(named, groups, ledger=folder / "run.db", **options)
        return fgsv.value(asked, groups, n_jobs=2 if how == "workers" else 1, **options)

    return run


def digest(valuation: fgsv.Valuation) -> str:
    """Return a hash of all numbers of a valuation, its counts, and how it ended."""
    found = hashlib.sha256()
    for name in ("values", "stderr", "player_values", "deviations"):
        array = getattr(valuation, name)
        found.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    counts = (valuation.n_evaluations, valuation.n_known, valuation.n_unfitted)
    found.update(f"{valuation.end.reason.name} {counts}".encode())
    return found.hexdigest()[:16]


def hashes(quick: bool) -> dict[str, str]:
    """Return the hash of every case; an error stands by its type."""
    found = {}
    for name, run in cases(quick):
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[name] = digest(run(Path(folder)))
            except (ValueError, KeyboardInterrupt) as error:
                found[name] = type(error).__name__
        print(name, found[name], flush=True)
    return found


def main() -> None:
    """Write hashes, or compare them with those of a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks bits", description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--quick", action="store_true", help="without workers")
    asked = parser.parse_args()
    found = hashes(asked.quick)
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1))
    if asked.compare:
        before = json.loads(asked.compare.read_text())
        different = [name for name in found if before.get(name) != found[name]]
        print(f"{len(found) - len(different)} of {len(found)} agree", *different, sep="\n")
        sys.exit(bool(different))
