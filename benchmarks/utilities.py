"""How much faster utilities are than one model per coalition: ratios measured in one run.

    python benchmarks/utilities.py            # all of it, a few minutes
    python benchmarks/utilities.py --quick    # smaller samples
    python benchmarks/utilities.py --json out.json

Each ratio is the median over rounds in which the two sides take turns, so that a busy machine slows both. Both sides
compute with one thread, as the batches of a run do. The scikit-learn side fits, predicts and scores with scikit-learn
alone, on a sample of the same coalitions. Where torch finds a GPU, the network is timed there as well.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

import fgsv
from experiments import diabetes, motivation
from fgsv.coalitions import Coalitions, draw_blocks

ROUNDS = 5


def seconds(function: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def pilot_coalitions(n_players: int, count: int, seed: int = 0) -> Coalitions:
    """Return coalitions with the sizes of a run's pilot, proportional to 1 / sqrt(s (n - s)): all sizes."""
    rng = np.random.default_rng(seed)
    sizes = np.arange(1, n_players)
    chance = 1 / np.sqrt(sizes * (n_players - sizes))
    drawn = np.sort(rng.choice(sizes, size=count, p=chance / chance.sum()))
    return draw_blocks(n_players, drawn, rng)[0]


def run_coalitions(game: Any, budget: int) -> Coalitions:
    """Return the coalitions that a run of the default method asks for."""
    asked: list[Coalitions] = []

    def record(coalitions: Coalitions) -> Any:
        asked.append(coalitions)
        return game.evaluate_lists(coalitions)

    fgsv.value(fgsv.Game(game, game.n_players, evaluate_lists=record, batch_size=game.batch_size), budget=budget)
    return Coalitions.concatenate(asked)


def in_batches(game: Any, coalitions: Coalitions) -> None:
    """Evaluate coalitions as a run does."""
    for first in range(0, len(coalitions), game.batch_size):
        game.evaluate_lists(coalitions[first : first + game.batch_size])


def one_at_a_time(model: Any, data: tuple[Any, ...], score: Callable[..., float], coalitions: Coalitions) -> None:
    """Fit, predict and score with scikit-learn, coalition by coalition."""
    X, y, X_test, y_test = data
    for mask in coalitions.masks():
        if score is accuracy_score and len(np.unique(y[mask])) < 2:
            continue
        fitted = clone(model)
        if isinstance(model, KNeighborsClassifier):
            fitted.set_params(n_neighbors=min(model.n_neighbors, int(mask.sum())))
        score(y_test, fitted.fit(X[mask], y[mask]).predict(X_test))


def ratio(
    game: Any, coalitions: Coalitions, model: Any, data: tuple[Any, ...], score: Callable[..., float], sample: int
) -> dict[str, float]:
    """Return coalitions a second of both sides, and the median of their ratio over rounds."""
    rng = np.random.default_rng(1)
    in_batches(game, coalitions)
    rates = []
    for _ in range(ROUNDS):
        some = np.sort(rng.choice(len(coalitions), sample, replace=False))
        few = Coalitions.from_masks(np.concatenate([coalitions[i : i + 1].masks() for i in some.tolist()]))
        alone = sample / seconds(partial(one_at_a_time, model, data, score, few))
        batched = len(coalitions) / seconds(lambda: in_batches(game, coalitions))
        rates.append((batched, alone, batched / alone))
    batched, alone, times = np.median(rates, axis=0)
    return {"a second": batched, "one at a time": alone, "ratio": times}


def diabetes_case(count: int, sample: int) -> dict[str, float]:
    """Ridge on the diabetes table: n = 350, p = 10."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, (y - y.mean()) / y.std(), test_size=92, random_state=42)
    game, _ = diabetes.make_game()
    data = (X, y, X_test, y_test)
    return ratio(game, pilot_coalitions(350, count), Ridge(alpha=0.01), data, mean_squared_error, sample)


def motivation_case(count: int, sample: int) -> dict[str, float]:
    """Logistic regression on the motivating example: n = 200, p = 2."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=400)
    X = rng.normal(size=(400, 2)) + np.outer(6 * labels - 3, [1, 0])
    data = (X[:200], labels[:200], X[200:], labels[200:])
    game = motivation.make_game(0)
    return ratio(game, pilot_coalitions(200, count), LogisticRegression(), data, accuracy_score, sample)


def neighbours_case(count: int, sample: int) -> dict[str, float]:
    """Five nearest neighbours among 1,000 points, 200 test points."""
    X, y = make_classification(1_200, 10, n_informative=5, random_state=0)
    data = (X[:1_000], y[:1_000], X[1_000:], y[1_000:])
    game = fgsv.utility(KNeighborsClassifier(), *data)
    return ratio(game, pilot_coalitions(1_000, count), KNeighborsClassifier(), data, accuracy_score, sample)


def large_ridge_case(budget: int) -> dict[str, float]:
    """Ridge on 75,000 rows and 20 features, 1,000 test rows: the coalitions of a real run."""
    rng = np.random.default_rng(0)
    n = 75_000
    X = rng.normal(size=(n + 1_000, 20))
    y = X @ rng.normal(size=20) + rng.normal(size=n + 1_000)
    game = fgsv.utility(Ridge(), X[:n], y[:n], X[n:], y[n:], "neg_mean_squared_error")
    coalitions = run_coalitions(game, budget)
    best = min(seconds(lambda: in_batches(game, coalitions)) for _ in range(3))
    listed = np.quantile(coalitions.n_listed, [0.5, 0.9])
    return {"a second": len(coalitions) / best, "median rows": listed[0], "90% of rows": listed[1]}


def memory_case() -> dict[str, float]:
    """Peak memory in MB while 1,000 and 20,000 coalitions are evaluated in one call."""
    X, y = make_classification(2_200, 10, random_state=0)
    game = fgsv.utility(LogisticRegression(), X[:2_000], y[:2_000], X[2_000:], y[2_000:])
    peaks = {}
    for count in (1_000, 20_000):
        coalitions = pilot_coalitions(2_000, count)
        tracemalloc.start()
        game.evaluate_lists(coalitions)
        peaks[f"{count} coalitions, MB"] = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    return peaks


def network_case(device: str, n_steps: int, sample: int) -> dict[str, float]:
    """Time a two-layer network on 500 points, 64 copies at once, against plain training one at a time."""
    import torch

    from fgsv.utilities.torch import torch_utility

    X, y = make_classification(700, 20, n_informative=8, random_state=0)
    X = X.astype(np.float32)
    optimizer = partial(torch.optim.SGD, lr=0.1, momentum=0.9)

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))

    settings: dict[str, Any] = {"optimizer": optimizer, "n_steps": n_steps, "n_copies": 64, "device": device}
    game = torch_utility(network, X[:500], y[:500], X[500:], y[500:], **settings)
    coalitions = pilot_coalitions(500, 512)
    tensors = [torch.as_tensor(array, device=device) for array in (X[:500], y[:500], X[500:], y[500:])]

    def alone(masks: Any) -> None:
        for mask in masks:
            model, loss = network().to(device), torch.nn.CrossEntropyLoss()
            steps = optimizer(model.parameters())
            rows = torch.as_tensor(np.flatnonzero(mask), device=device)
            for _ in range(n_steps):
                batch = rows[torch.randperm(len(rows), device=device)[:32]]
                steps.zero_grad()
                loss(model(tensors[0][batch]), tensors[1][batch]).backward()
                steps.step()
            with torch.no_grad():
                (model(tensors[2]).argmax(dim=1) == tensors[3]).float().mean().item()

    in_batches(game, coalitions[:64])
    masks = coalitions.masks()
    alone(masks[:1])
    rng = np.random.default_rng(2)
    rates = []
    for _ in range(ROUNDS):
        few = masks[rng.choice(len(masks), sample, replace=False)]
        slow = sample / seconds(partial(alone, few))
        fast = len(coalitions) / seconds(lambda: in_batches(game, coalitions))
        rates.append((fast, slow, fast / slow))
    fast, slow, times = np.median(rates, axis=0)
    return {"a second": fast, "one at a time": slow, "ratio": times}


def main() -> None:
    """Run all cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller samples")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments = parser.parse_args()
    count, sample = (2_048, 40) if arguments.quick else (8_192, 200)
    n_steps, few = (50, 4) if arguments.quick else (200, 8)
    cases: dict[str, Callable[[], dict[str, float]]] = {
        "ridge, diabetes": lambda: diabetes_case(count, sample),
        "logistic regression, motivation": lambda: motivation_case(count, sample),
        "5 nearest neighbours, 1,000 points": lambda: neighbours_case(count // 2, sample),
        "ridge, 75,000 rows": lambda: large_ridge_case(5_000 if arguments.quick else 20_000),
        "peak memory, logistic, 2,000 rows": memory_case,
    }
    try:
        import torch

        cases["network, 500 points, 64 copies, CPU"] = lambda: network_case("cpu", n_steps, few)
        if torch.cuda.is_available():
            cases[f"network, {torch.cuda.get_device_name()}"] = lambda: network_case("cuda", n_steps, few)
    except ImportError:
        print("torch is not installed: no network")
    results = {}
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores")
    for name, case in cases.items():
        with threadpool_limits(1):
            results[name] = case()
        numbers = "  ".join(f"{key}: {value:,.1f}" for key, value in results[name].items())
        print(f"{name:40s} {numbers}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
