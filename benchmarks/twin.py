"""What the n-gram twin saves as the proxy of a fine-tuned language model: `python -m benchmarks twin`.

Ten pieces of source code of two installed projects, and a small model trained on the standard library, as in
`python -m experiments code --small`. Both games are evaluated everywhere once (a thousand trainings, about ten
minutes on a CPU) and kept; then the default method runs on these tables with and without the proxy, for every output
apart.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.options import parsed
from experiments.repeats import run_all
from fgsv.methods.enumeration import everything
from fgsv.types import Floats

BUDGETS = (32, 64, 128, 256)
PIECES = 5
CACHE = Path("bench-out/twin")
"""Where the utilities are kept, whatever the runs on them."""


def make(folder: Path) -> dict[str, Floats]:
    """Return (1024, 2) utilities of the network and of its twin: found again, or evaluated now."""
    path = folder / "twin.npz"
    if not path.exists():
        from transformers import AutoTokenizer

        from experiments.code import SMALL, base_model, texts_of
        from experiments.sources import installed_projects
        from experiments.training import choose_device
        from fgsv.utilities.language.fine_tuning import fine_tuned
        from fgsv.utilities.language.word_counts import ngram

        scale = replace(SMALL, projects=2, pieces=PIECES)
        device, _ = choose_device("auto", "auto", small=True)
        model = base_model(folder, scale.model, device)
        tokenizer = AutoTokenizer.from_pretrained(model)
        documents, _, tests = texts_of(installed_projects(scale.projects), tokenizer, scale, 0)
        network = fine_tuned(
            documents,
            tests,
            model=model,
            epochs=scale.epochs,
            learning_rate=scale.learning_rate,
            context=scale.model.context,
            dtype="float32",
        )
        masks = np.concatenate([part.masks() for part in everything(len(documents))])
        np.savez_compressed(path, network=np.asarray(network(masks)), twin=np.asarray(ngram(documents, tests)(masks)))
    with np.load(path) as stored:
        return {name: stored[name] for name in ("network", "twin")}


def game_of(utilities: Floats) -> Any:
    """Return the game of a table of utilities, one output."""
    n = len(utilities).bit_length() - 1
    return fgsv.Game(lambda masks: utilities[masks @ (1 << np.arange(n))], n)


def error(task: tuple[Floats, Floats | None, int, int]) -> float:
    """Return the mean squared error of a run over the variance of the true values."""
    network, twin, budget, seed = task
    proxy = None if twin is None else game_of(twin)
    truth = fgsv.exact(game_of(network)).values
    found = fgsv.value(game_of(network), budget=budget, seed=seed, proxy=proxy).values
    return float(((found - truth) ** 2).mean() / truth.var())


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser("twin", description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parsed(parser, "twin")
    for folder in (CACHE, arguments.out):
        folder.mkdir(parents=True, exist_ok=True)
    utilities = make(CACHE)
    network, twin = utilities["network"], utilities["twin"]
    n, q = len(network).bit_length() - 1, network.shape[1]
    sizes = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).sum(axis=1)
    for size in (2, n // 2, n - 2):
        alike = [np.corrcoef(network[sizes == size, k], twin[sizes == size, k])[0, 1] for k in range(q)]
        print(f"correlation among coalitions of {size}: {', '.join(f'{each:.2f}' for each in alike)}")
    rows = []
    for budget in BUDGETS:
        errors = {}
        for name in ("without", "with"):
            tasks = [
                (network[:, k], None if name == "without" else twin[:, k], budget, seed)
                for k in range(q)
                for seed in range(arguments.runs)
            ]
            errors[name] = float(np.sqrt(np.mean(run_all(error, tasks, jobs=arguments.jobs, label=name))))
        rows.append({"evaluations": budget, **errors, "ratio": errors["with"] / errors["without"]})
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    table.to_csv(arguments.out / "twin.csv", index=False)
