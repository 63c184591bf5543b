"""The same games and the same budget for pyDVL and shapiq: `make bench-peers`, in an environment of its own.

Beside them stands RegressionMSR, which neither has.
Each estimator values the players; its values are summed by group, as ours are. Evaluations are counted where the
game is called; the empty coalition is answered once and is free after that.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from benchmarks.problems import case
from benchmarks.regression_msr import run_regression_msr
from fgsv.experiments.repeats import run_all


class Counted:
    """U - U(0) of single coalitions or batches, with a count of what was asked."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.empty = float(np.squeeze(game(np.zeros((1, game.n_players), dtype=bool))))
        self.count = 1

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Evaluate (m, n) coalitions; the empty ones cost nothing."""
        masks = np.atleast_2d(np.asarray(masks)).astype(bool)
        asked = masks.any(axis=1)
        values = np.zeros(len(masks))
        if asked.any():
            values[asked] = np.asarray(self.game(masks[asked])).reshape(-1) - self.empty
        self.count += int(asked.sum())
        return values


def run_shapiq(make: Callable[[int, int], Any], game: Counted, budget: int, seed: int) -> np.ndarray:
    """Return the player values of a shapiq approximator."""
    n = game.game.n_players
    values = make(n, seed).approximate(budget=budget - game.count, game=game)
    return np.array([values[(player,)] for player in range(n)])


def run_pydvl(make: Callable[[int, int, int], Any], game: Counted, budget: int, seed: int) -> np.ndarray:
    """Return the player values of pyDVL's Shapley valuation with one of its samplers."""
    from joblib import parallel_config
    from pydvl.utils.status import Status
    from pydvl.valuation.games import DummyGameDataset
    from pydvl.valuation.methods.shapley import ShapleyValuation
    from pydvl.valuation.samplers import PermutationSampler
    from pydvl.valuation.stopping import StoppingCriterion
    from pydvl.valuation.utility.base import UtilityBase

    n = game.game.n_players

    class Utility(UtilityBase):
        def __call__(self, sample: Any) -> float:
            mask = np.zeros((1, n), dtype=bool)
            if sample is not None:
                mask[0, np.asarray(sample.subset, dtype=int)] = True
            return float(game(mask)[0])

    sampler = make(n, budget, seed)
    step = n if isinstance(sampler, PermutationSampler) else 4  # the most that the next sample may ask for

    class Spent(StoppingCriterion):
        def _check(self, result: Any) -> Any:
            return Status.Converged if game.count + step > budget else Status.Pending

        def completion(self) -> float:
            return min(1.0, game.count / budget)

    valuation = ShapleyValuation(Utility(), sampler, Spent(), show_warnings=False)
    with parallel_config(n_jobs=1):
        valuation.fit(DummyGameDataset(n))
    values = np.zeros(n)
    values[valuation.result.indices] = valuation.result.values
    return values


def _shapiq(name: str, **options: Any) -> Callable[[int, int], Any]:
    def make(n: int, seed: int) -> Any:
        from shapiq import approximator

        return getattr(approximator, name)(n=n, random_state=seed, **options)

    return make


def _pydvl(name: str, **options: Any) -> Callable[[int, int, int], Any]:
    def make(n: int, budget: int, seed: int) -> Any:
        from pydvl.valuation import samplers

        return getattr(samplers, name)(seed=seed, **options)

    return make


def _pydvl_stratified(sizes: str) -> Callable[[int, int, int], Any]:
    def make(n: int, budget: int, seed: int) -> Any:
        from pydvl.valuation import samplers

        return samplers.StratifiedSampler(
            sample_sizes=getattr(samplers, sizes)(),
            sample_sizes_iteration=samplers.RandomSizeIteration,
            index_iteration=samplers.RandomIndexIteration,
            seed=seed,
        )

    return make


def _pydvl_vrds(n: int, budget: int, seed: int) -> Any:
    from pydvl.valuation import samplers

    return samplers.VRDSSampler(n_samples_per_index=max(1, budget // (2 * n)), seed=seed)


def _pydvl_owen(n: int, budget: int, seed: int) -> Any:
    from pydvl.valuation import samplers

    return samplers.AntitheticOwenSampler(
        samplers.UniformOwenStrategy(n_samples_outer=1, seed=seed),
        n_samples_inner=2,
        index_iteration=samplers.RandomIndexIteration,
        seed=seed + 1,
    )


def _lightgbm(**options: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from lightgbm import LGBMRegressor

        return LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1, **options)

    return make


@dataclass(frozen=True)
class Peer:
    """An estimator of another package; slow ones have a third of the runs, and none beyond `most_players`."""

    run: Callable[..., np.ndarray]
    make: Callable[..., Any]
    slow: bool = False
    most_players: int = 1000


PEERS = {
    "pyDVL permutation": Peer(run_pydvl, _pydvl("PermutationSampler")),
    "pyDVL antithetic permutation": Peer(run_pydvl, _pydvl("AntitheticPermutationSampler")),
    "pyDVL stratified, uniform": Peer(run_pydvl, _pydvl_stratified("ConstantSampleSize")),
    "pyDVL stratified, harmonic": Peer(run_pydvl, _pydvl_stratified("HarmonicSampleSize")),
    "pyDVL VRDS": Peer(run_pydvl, _pydvl_vrds),
    "pyDVL antithetic Owen": Peer(run_pydvl, _pydvl_owen),
    "pyDVL MSR": Peer(run_pydvl, _pydvl("MSRSampler"), slow=True, most_players=64),
    "shapiq permutation": Peer(run_shapiq, _shapiq("PermutationSamplingSV")),
    "shapiq stratified": Peer(run_shapiq, _shapiq("StratifiedSamplingSV")),
    "shapiq Owen": Peer(run_shapiq, _shapiq("OwenSamplingSV")),
    "shapiq SVARM, paired": Peer(run_shapiq, _shapiq("SVARM", pairing_trick=True), slow=True, most_players=128),
    "shapiq UnbiasedKernelSHAP, paired": Peer(run_shapiq, _shapiq("UnbiasedKernelSHAP", pairing_trick=True)),
    "shapiq KernelSHAP": Peer(run_shapiq, _shapiq("KernelSHAP")),
    "shapiq KernelSHAP, paired": Peer(run_shapiq, _shapiq("KernelSHAP", pairing_trick=True)),
    "shapiq kADDSHAP, order 2": Peer(
        run_shapiq, _shapiq("kADDSHAP", max_order=2, pairing_trick=True), slow=True, most_players=64
    ),
    "RegressionMSR": Peer(run_regression_msr, _lightgbm(n_estimators=300)),
    "shapiq ProxySPEX": Peer(run_shapiq, _shapiq("ProxySPEX", index="SV", max_order=1), slow=True, most_players=64),
}
OURS = "fgsv default"


@dataclass(frozen=True)
class Task:
    """One run of one estimator."""

    case: str
    estimator: str
    seed: int
    budget: int


def measure(task: Task) -> dict[str, Any]:
    """Run once; return mean squared errors by partition, evaluations and seconds."""
    warnings.simplefilter("ignore")  # theirs, about their own dependencies
    logging.disable(logging.WARNING)
    problem = case(task.case)
    problem.game(np.ones((1, problem.n_players), dtype=bool))  # builds its tables, outside of what is timed
    if task.estimator != OURS:
        import_module("pydvl.valuation.games")
        import_module("shapiq.approximator")
    start = time.perf_counter()
    if task.estimator == OURS:
        result = fgsv.value(problem.game, budget=task.budget, seed=task.seed)
        values, evaluations = result.player_values, result.n_evaluations
    else:
        peer, game = PEERS[task.estimator], Counted(problem.game)
        values = peer.run(peer.make, game, task.budget, task.seed)
        evaluations = game.count
    seconds = time.perf_counter() - start
    squares = {name: np.mean(groups.sums(values - problem.truth) ** 2) for name, groups in problem.groups.items()}
    return {"seconds": seconds, "evaluations": evaluations, **squares}


def tasks_of(name: str, estimators: list[str], repeats: int, budget: int) -> list[Task]:
    """Return the runs for one game."""
    n = case(name).n_players
    tasks = []
    for estimator in estimators:
        peer = PEERS.get(estimator)
        if peer is None or n <= peer.most_players:
            runs = max(1, repeats // 3) if peer is not None and peer.slow else repeats
            tasks += [Task(name, estimator, seed, budget) for seed in range(runs)]
    return tasks


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser("peers", description=__doc__)
    parser.add_argument("--games", nargs="+", default=["sou64", "sou128", "diabetes"])
    parser.add_argument("--estimators", nargs="+", default=[OURS, *PEERS])
    parser.add_argument("--budget", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("bench-out/peers"))
    arguments = parser.parse_args()
    print(f"pyDVL {version('pyDVL')}, shapiq {version('shapiq')}, numpy {np.__version__}")
    print(f"Root mean squared errors of group values, {arguments.budget:,} evaluations in total")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.games:
        tasks = tasks_of(name, arguments.estimators, arguments.repeats, arguments.budget)
        measured = run_all(measure, tasks, jobs=arguments.jobs, label=name)
        runs = pd.DataFrame(measured, index=[task.estimator for task in tasks])
        table = runs.groupby(level=0, sort=False).mean()
        groups = list(case(name).groups)
        table[groups] = np.sqrt(table[groups])
        table.insert(0, "runs", runs.groupby(level=0).size())
        table = table.sort_values(groups[-1])
        print(f"\n{name}\n{table.to_string(float_format=lambda x: f'{x:.4g}')}")
        if OURS in table.index and len(table) > 1:
            theirs = table.drop(index=OURS)
            for column in groups:
                best = theirs[column].idxmin()
                times = float(theirs[column].min()) / float(table[column][OURS])
                print(f"  {name} by {column}: error of the best of theirs ({best}) / ours = {times:.2f}")
        table.to_csv(arguments.out / f"{name}.csv")
