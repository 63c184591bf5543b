"""What a sealed run of 20,000 evaluations costs to prove and to check, and how often forged records are found.

The table is scikit-learn's breast cancer data: a row for each player, four providers, logistic regression. In each
trial other records are forged, so that the tree has another root, and another random string picks some of them.
Run it as `python -m benchmarks seal`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import fgsv
from fgsv.pipeline import value_data
from fgsv.results import seal_run
from fgsv.verification import Proof, challenge, check_proof
from fgsv.verification.forging import FORGED
from fgsv.verification.merkle import Tree
from fgsv.verification.proofs import picked_numbers
from fgsv.verification.record_checks import odds_of_missing


def data() -> pd.DataFrame:
    """Return the table."""
    frame = load_breast_cancer(as_frame=True).frame.sample(frac=1, random_state=0).reset_index(drop=True)
    return frame.assign(provider=np.array(["north", "south", "east", "west"])[frame.index % 4])


def costs(metric: str, budget: int, folder: Path) -> dict[str, Any]:
    """Return what proving and checking a sealed run takes."""
    saved, ledger, proved = folder / f"{metric}.json", folder / f"{metric}.db", folder / f"{metric}.proof"
    table = fgsv.open_table(data(), group="provider", target="target", metric=metric)
    seal = seal_run(table, budget=budget)
    result = value_data(table, budget=budget, seal=seal, public="1.0854", ledger=ledger, without=False)
    result.save(saved)
    challenge(saved, ledger, random="4 2 6 1 1 5").save(proved)
    wall, cpu = time.perf_counter(), time.process_time()
    found = check_proof(Proof.load(proved), saved)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for line in check_proof(Proof.load(proved), saved, data()).lines():
        print(line, flush=True)
    return {
        "metric": metric,
        "players": table.partition.n_players,
        "evaluations": result.valuation.n_evaluations,
        "proof, MB": proved.stat().st_size / 1e6,
        "check, s": wall,
        "check, CPU s": cpu,
        "exit code": found.code,
    }


def found_forged(forged: float, n_picked: int, n_records: int, trials: int) -> dict[str, float]:
    """Return how often forged records are picked, beside the stated odds."""
    rng, found = np.random.default_rng(0), 0
    values = rng.random(n_records)
    for trial in range(trials):
        wrong = np.zeros(n_records, dtype=bool)
        wrong[2 + rng.choice(n_records - 2, round(forged * n_records), replace=False)] = True
        tree = Tree([each.tobytes() for each in np.where(wrong, 1 - values, values)])
        found += bool(wrong[picked_numbers(tree.root.hex(), f"dice {trial}", n_picked, n_records)].any())
    odds = 1 - odds_of_missing(n_picked, forged)
    return {"forged": forged, "picked": n_picked, "trials": trials, "found": found / trials, "stated": odds}


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser("seal", description=__doc__)
    parser.add_argument("--budget", type=int, default=20_000)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--picked", type=int, nargs="+", default=[10, 60, 300])
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        rows = [costs(metric, asked.budget, Path(folder)) for metric in ("accuracy", "neg_log_loss")]
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda x: f"{x:.3g}"), flush=True)
    trials = [found_forged(each, count, asked.budget, asked.trials) for count in asked.picked for each in FORGED]
    print(pd.DataFrame(trials).to_string(index=False, float_format=lambda x: f"{x:.3f}"))
