"""What each part of the default method is worth: errors without it over errors with it, on games of 8 to 64 players.

Runs with and without a part have the same seeds. Numbers above 1 say that the part helps; beside each is its standard
error over the runs, which does not say how it would be on other games.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import fgsv
from benchmarks.few_games import TABLES, load
from benchmarks.few_table import EXACT
from benchmarks.options import parsed
from experiments.repeats import run_all
from fgsv.methods.gp import estimator, fitting, kernel
from fgsv.methods.gp.estimator import GPEstimator
from fgsv.methods.gp.kernel import COMMON, JITTER, Kernel
from fgsv.methods.gp.sampler import Sampler
from fgsv.types import Floats, Ints

Part = Callable[[], Any]
WHOLE = "nothing"
GAMES = (*(name for name in TABLES if name not in ("coverage8b", "coverage8c")), "clinics50", "sou64")
"""One of each kind: the mean over them should not be about one kind."""


def _no_curve(of: Kernel) -> tuple[Floats, Floats]:
    return np.zeros((of.n + 1, of.n + 1)), np.zeros((of.n + 1, of.n + 1))


def _no_knots(n: int, knots: int = kernel.KNOTS) -> Floats:
    return np.zeros((n + 1, knots))


def _no_own(of: Kernel, sizes: Ints) -> Floats:
    return np.full(len(sizes), JITTER)


def _equal_rates(n: int, prior: Callable[[int], tuple[Floats, Floats]] = fitting.prior) -> tuple[Floats, Floats]:
    mean, deviation = prior(n)
    return mean, np.where(np.arange(len(mean)) < COMMON, deviation, 0.05)


def _blind_law(sampler: Sampler, scale: Floats, *more: Any, law: Callable[..., Floats] = Sampler.law) -> Floats:
    return law(sampler, np.ones_like(scale), *more)


def _needs_all(of: GPEstimator) -> int:
    return of._n_drawn


@contextmanager
def _without_knots() -> Iterator[None]:
    with patch.object(kernel, "hats", _no_knots), patch.object(fitting, "hats", _no_knots):
        yield


PARTS: dict[str, Part] = {
    "curve over sizes": partial(patch.object, Kernel, "curve", property(_no_curve)),
    "knots of r(s)": _without_knots,
    "a rate for each player": partial(patch.object, fitting, "prior", _equal_rates),
    "a part of its own for each utility": partial(patch.object, Kernel, "own", _no_own),
    "sizes drawn by r(s)": partial(patch.object, Sampler, "law", _blind_law),
    "ends first": partial(patch.object, estimator, "ENDS_FIRST", 0),
    "choice": partial(patch.object, estimator, "CHOSEN", (0, 0, 0)),
    "drawing ahead of values": partial(patch.object, GPEstimator, "needs", property(_needs_all)),
    "saturating trend": partial(patch.object, estimator, "saturating", lambda *given: None),
}
"""What switches each part off, as a context. Drawing ahead is no gain but a price: what its absence gains."""


def measure(task: tuple[str, str, int, int]) -> float:
    """Return the mean squared error over the variance of the values, of one run without a part."""
    without, name, budget, seed = task
    game, truth = load(name)
    if without == WHOLE:
        found = fgsv.value(game, budget=budget, seed=seed, method="gp")
    else:
        with PARTS[without]():
            found = fgsv.value(game, budget=budget, seed=seed, method="gp")
    return float(((found.player_values - truth) ** 2).mean() / truth.var())


def ratio(squares: Floats, whole: Floats) -> tuple[float, float]:
    """Return the geometric mean over games of ratios of errors, from (games, runs), and its relative standard error.

    The logarithm of a root mean square moves by half the relative change of the mean square (delta method); runs of
    the same seed are compared with each other.
    """
    means = squares.mean(axis=1, keepdims=True), whole.mean(axis=1, keepdims=True)
    moves = 0.5 * (squares / means[0] - whole / means[1])
    variances = moves.var(axis=1, ddof=1) / squares.shape[1] if squares.shape[1] > 1 else np.full(len(moves), np.nan)
    logs = 0.5 * np.log(means[0] / means[1])
    return float(np.exp(logs.mean())), float(np.sqrt(variances.sum()) / len(moves))


def main() -> None:
    """Run the benchmark and print a row for each part."""
    parser = argparse.ArgumentParser("ablation", description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--budgets", nargs="+", type=int, default=[20, 64, 256])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parsed(parser, "ablation")
    players = {name: len(load(name)[1]) for name in arguments.games}
    whole: dict[int, Floats] = {}
    rows: list[dict[str, object]] = []
    for without in (WHOLE, *arguments.parts):
        row: dict[str, object] = {"without": without}
        for budget in arguments.budgets:
            games = [name for name, n in players.items() if budget < 2**n]
            tasks = [(without, name, budget, seed) for name in games for seed in range(arguments.runs)]
            found = run_all(measure, tasks, jobs=arguments.jobs, label=f"{without}, {budget}")
            squares = np.maximum(np.reshape(found, (len(games), -1)), EXACT**2)
            whole.setdefault(budget, squares)
            mean, noise = ratio(squares, whole[budget])
            by_game = np.sqrt(squares.mean(axis=1) / whole[budget].mean(axis=1))
            row[f"{budget:,}"] = f"{mean:.2f} ± {mean * noise:.2f}"
            row[f"of games, {budget:,}"] = f"{by_game.min():.2f} to {by_game.max():.2f}"
        if without != WHOLE:
            rows.append(row)
            print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(arguments.out / "ablation.csv", index=False)
