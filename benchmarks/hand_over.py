"""Where the opening should end: errors of runs whose opening ends after 0, 512, 1,024 or 2,048 evaluations.

Four games whose values have closed forms, for each number of players: a sum of unanimity games, a nearest-neighbour
vote, an airport game and one prediction of boosted trees. Errors are over those of runs without an opening, from the
same seeds; beside them those of permutations, each with its reverse, which is how predictions are mostly explained;
and the milliseconds that an evaluation must take for the opening to take less time than the evaluations it saves.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.tree_game import friedman_prediction
from experiments.repeats import run_all
from fgsv.methods.covariance import opening
from fgsv.types import Floats

GAMES = ("unanimity", "neighbours", "airport", "explanation")


@dataclass(frozen=True)
class Task:
    """One run; an end of -1 stands for permutations."""

    game: str
    n: int
    end: int
    budget: int
    seed: int


@cache
def load(name: str, n: int) -> tuple[Any, Floats]:
    """Return a game of n players that does not say what an evaluation costs, and its values."""
    rng = np.random.default_rng(n)
    if name == "unanimity":
        game: Any = fgsv.games.SumOfUnanimity(n, seed=1)
    elif name == "explanation":
        game = friedman_prediction(n)
    elif name == "airport":
        game = fgsv.games.Airport(rng.uniform(0.2, 1.0, n) ** 2)
    else:
        X, X_test = rng.normal(size=(n, 3)), rng.normal(size=(50, 3))
        y, y_test = (some[:, 0] + 0.5 * rng.normal(size=len(some)) > 0 for some in (X, X_test))
        game = fgsv.KNNVote(X, y, X_test, y_test)
    return fgsv.Game(game, n), np.asarray(game.shapley)


def measure(task: Task) -> tuple[float, float]:
    """Return the mean squared error of the player values over their variance, and the processor's seconds."""
    opening.HAND_OVER = ((task.n, task.end),)
    game, truth = load(task.game, task.n)
    start = time.process_time()
    if task.end < 0:
        values = permuted(game, task.n, task.budget, task.seed)
    else:
        found = fgsv.value(game, budget=task.budget, seed=task.seed, opening=task.end > 0)
        assert found.player_values is not None
        values = found.player_values
    return float(((values - truth) ** 2).mean() / truth.var()), time.process_time() - start


def pays(ratio: float, seconds: float, without: float, budget: int) -> float:
    """Return the milliseconds of an evaluation above which an opening saves time, from the ratio of errors.

    Without it the same error takes budget / ratio^2 evaluations; `seconds` and `without` are those of learning from
    `budget` evaluations.
    """
    times = 1 / ratio**2
    return 1e3 * max(0.0, seconds - times * without) / (budget * (times - 1)) if times > 1 else np.inf


def permuted(game: Any, n: int, budget: int, seed: int) -> Floats:
    """Return what each player adds to those before it, over random permutations and their reverses."""
    count = max(1, (budget - 2) // (2 * (n - 1)))
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    order = np.concatenate([order, order[:, ::-1]])
    masks = np.argsort(order, axis=1)[:, None, :] < np.arange(n + 1)[:, None]
    added = np.diff(game(masks.reshape(-1, n)).reshape(len(order), n + 1), axis=1)
    return np.asarray(np.bincount(order.reshape(-1), added.reshape(-1)) / len(order))


def main() -> None:
    """Run the benchmark and print a row for each game, number of players and budget."""
    parser = argparse.ArgumentParser("hand_over", description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(GAMES), choices=GAMES)
    parser.add_argument("--players", nargs="+", type=int, default=[12, 40, 64, 128, 350, 1000])
    parser.add_argument("--ends", nargs="+", type=int, default=[512, 1024, 2048])
    parser.add_argument("--budgets", nargs="+", type=int, default=[512, 1024, 2048, 4096])
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    header = True
    for n in arguments.players:
        for game in arguments.games:
            for budget in (each for each in arguments.budgets if each < 2**n):
                errors, seconds = {}, {}
                for end in (-1, 0, *arguments.ends):
                    tasks = [Task(game, n, end, budget, seed) for seed in range(arguments.runs)]
                    runs = run_all(measure, tasks, jobs=arguments.jobs, label=f"{game}, {n}, {budget}, {end}")
                    squares, seconds[end] = np.mean(runs, axis=0)
                    errors[end] = np.sqrt(squares)
                row: dict[str, object] = {"players": n, "game": game, "evaluations": budget, "without": errors[0]}
                row["permutations"] = errors[-1] / errors[0]
                for end in arguments.ends:
                    row[f"to {end}"] = ratio = errors[end] / errors[0]
                    row[f"pays from ms, {end}"] = pays(ratio, seconds[end], seconds[0], budget)
                print(pd.DataFrame([row]).round(3).to_string(index=False, header=header), flush=True)
                header = False
