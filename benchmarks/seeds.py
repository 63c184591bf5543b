"""Whether intervals hold for the expected score of a network over training seeds, with fresh seeds and with one.

A small torch network, trained from initial weights and mini-batches that follow from its seed, on units of rows that
belong to four providers. The truth is the mean over many seeds of every coalition; a run has a seed of its own, and
with `fixed` all its coalitions share that. As a check without training, `synthetic` has the same kind of game with a
closed-form expectation.
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.options import parsed
from experiments.repeats import run_all
from fgsv.methods.enumeration import everything
from fgsv.types import Floats, Masks

N = 6
GROUPS = np.arange(N) % 4
RUNS_PER_TASK = 5
TRUTH = 10**6
"""Seeds of the truth begin here, so that no run has one of them."""


@dataclass(frozen=True)
class Task:
    """Runs of one kind with consecutive seeds, or trainings of every coalition for the truth."""

    game: str
    training_seeds: str
    budget: int
    first_seed: int
    n_runs: int


def network_game(seed: int, training_seeds: Any) -> Any:
    """Return the game of a network with one hidden layer on six units of ten rows."""
    import torch

    from fgsv.utilities.torch import torch_utility

    rng = np.random.default_rng(0)
    rows = 10 * N
    X = rng.normal(size=(rows + 400, 2))
    y = (X[:, 0] + np.abs(X[:, 1]) > 0.8).astype(int)

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    return torch_utility(
        network,
        X[:rows],
        y[:rows],
        X[rows:],
        y[rows:],
        "neg_log_loss",
        optimizer=partial(torch.optim.SGD, lr=0.5),
        n_steps=25,
        batch_size=16,
        n_copies=256,
        device="cpu",
        units=np.arange(rows) // 10,
        seed=seed,
        training_seeds=training_seeds,
    )


def synthetic_game(seed: int, training_seeds: str) -> fgsv.Game:
    """Return a game of known expectation; a fixed seed moves every coalition by noise that similar ones share."""
    spread = 0.15

    def normal(words: bytes) -> float:
        return float(np.random.default_rng(list(hashlib.sha256(words).digest()[:16])).normal())

    def fresh(masks: Masks, repeat: int = 0) -> Floats:
        noise = [normal(f"{seed} {repeat} ".encode() + row.tobytes()) for row in np.packbits(masks, axis=1)]
        return expected(masks) + spread * np.array(noise) * masks.any(axis=1)

    common = spread * np.random.default_rng(seed).normal(size=N) / np.sqrt(N)

    def fixed(masks: Masks) -> Floats:
        return expected(masks) + masks @ common

    if training_seeds == "fixed":
        return fgsv.Game(fixed, N)
    return fgsv.Game(fresh, N, retrain=lambda repeat: lambda masks: fresh(masks, repeat))


def expected(masks: Masks) -> Floats:
    """Return the expected utility of the synthetic game."""
    return np.sqrt(masks @ np.linspace(0.3, 1.5, N))


GAMES: dict[str, Any] = {"network": network_game, "synthetic": synthetic_game}


def trained(task: Task) -> np.ndarray:
    """Return (2^n,): the sum over seeds of what every coalition is worth."""
    [every] = everything(N)
    seeds = range(TRUTH + task.first_seed, TRUTH + task.first_seed + task.n_runs)
    games = (GAMES[task.game](seed, "fresh") for seed in seeds)
    return np.sum([np.asarray(game(every.masks())) for game in games], axis=0)


def truth_of(game: str, trainings: int, jobs: int) -> fgsv.Valuation:
    """Return the exact values of the expected game."""
    [every] = everything(N)
    if game == "synthetic":
        worth = expected(every.masks())
    else:
        tasks = [Task(game, "fresh", 0, start, 20) for start in range(0, trainings, 20)]
        worth = np.sum(run_all(trained, tasks, jobs=jobs, label="truth"), axis=0) / (20 * len(tasks))
    places = 2 ** np.arange(N)
    return fgsv.exact(fgsv.Game(lambda masks: worth[masks @ places], N), GROUPS)


def measure(task: Task) -> list[tuple[Floats, ...]]:
    """Return, for each run, its values, their half-widths, its shares and theirs."""
    found: list[tuple[Floats, ...]] = []
    for seed in range(task.first_seed, task.first_seed + task.n_runs):
        game = GAMES[task.game](seed, task.training_seeds)
        result = fgsv.value(game, GROUPS, budget=task.budget, seed=seed)
        found.append((result.values, result.half_width(), result.shares(), result.share_half_width()))
    return found


def repeat(
    game: str, training_seeds: str, budget: int, runs: int, truth: fgsv.Valuation, jobs: int
) -> dict[str, Any]:
    """Return how often the intervals of runs hold the values and shares of the expected game."""
    starts = range(0, runs, RUNS_PER_TASK)
    tasks = [Task(game, training_seeds, budget, start, min(RUNS_PER_TASK, runs - start)) for start in starts]
    lines = [line for part in run_all(measure, tasks, jobs=jobs, label=training_seeds) for line in part]
    values, widths, shares, share_widths = (np.array(column) for column in zip(*lines, strict=True))
    held = (np.abs(values - truth.values) <= widths).mean(axis=1)
    shares_held = (np.abs(shares - truth.shares()) <= share_widths).mean(axis=1)
    return {
        "game": game,
        "training seeds": training_seeds,
        "budget": budget,
        "runs": runs,
        "error of shares": np.sqrt(np.mean((shares - truth.shares()) ** 2)),
        "half-width": share_widths.mean(),
        "values held": held.mean(),
        "shares held": shares_held.mean(),
        "stderr": shares_held.std(ddof=1) / np.sqrt(runs),
    }


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("seeds", description=__doc__)
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--budgets", type=int, nargs="+", default=[40, 2**N])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--trainings", type=int, default=2000, help="trainings of each coalition for the truth")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parsed(parser, "seeds")
    rows = []
    for game in asked.games:
        truth = truth_of(game, asked.trainings, asked.jobs)
        print(f"{game}: expected values {truth.values.round(4)}, shares {truth.shares().round(4)}", flush=True)
        for training_seeds in ("fixed", "fresh"):
            for budget in asked.budgets:
                rows.append(repeat(game, training_seeds, budget, asked.runs, truth, asked.jobs))
                print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    print("held: 95% intervals of four groups that hold the value, or share, of the score expected over seeds")
    asked.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(asked.out / "seeds.csv", index=False)
