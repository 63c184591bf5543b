"""The same games and budgets for shapiq and pyDVL, in environments of their own: `make bench-peers`.

Every run gives player values; its error is that of `python -m benchmarks few`, which reads what is kept here in
`few_peers.json`. Evaluations are counted where the game is called; the empty coalition is answered once and is free
after that. A cell is kept as soon as its runs are done, and not measured again: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from benchmarks.few_games import GAMES, LARGER, load
from benchmarks.few_table import PEERS as KEPT
from benchmarks.few_table import read, summary, write

BUDGETS = (64, 128, 256, 512, 1024, 20_000)


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


def run_shapiq(make: Callable[[int, int, int], Any], game: Counted, budget: int, seed: int) -> np.ndarray:
    """Return the player values of a shapiq approximator, whose budget includes the empty coalition."""
    n = game.game.n_players
    values = make(n, budget, seed).approximate(budget=budget, game=game)
    return np.array([values[(player,)] for player in range(n)])


def run_pydvl(make: Callable[[int, int, int], Any], game: Counted, budget: int, seed: int) -> np.ndarray:
    """Return the player values of pyDVL's Shapley valuation with one of its samplers."""
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


def _shapiq(name: str, **options: Any) -> Callable[[int, int, int], Any]:
    def make(n: int, budget: int, seed: int) -> Any:
        from shapiq import approximator

        return getattr(approximator, name)(n=n, random_state=seed, **options)

    return make


def _polyshap(n: int, budget: int, seed: int) -> Any:
    """With as many terms as half the budget: in pairs, those of order 2 add nothing to KernelSHAP."""
    from shapiq.approximator import PolySHAP

    return PolySHAP(n=n, random_state=seed, max_order=3, max_terms=max(n + 1, budget // 2), pairing_trick=True)


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


def _pydvl_owen(n: int, budget: int, seed: int) -> Any:
    from pydvl.valuation import samplers

    return samplers.AntitheticOwenSampler(
        samplers.UniformOwenStrategy(n_samples_outer=1, seed=seed),
        n_samples_inner=2,
        index_iteration=samplers.RandomIndexIteration,
        seed=seed + 1,
    )


@dataclass(frozen=True)
class Peer:
    """An estimator of another package; slow ones have fewer runs, and none of too many players or evaluations."""

    run: Callable[..., np.ndarray]
    make: Callable[..., Any]
    runs: float = 1.0
    """Fraction of the runs."""
    most_players: int = 1000
    most_evaluations: int = 20_000


PEERS = {
    "shapiq ShaplEIG": Peer(run_shapiq, _shapiq("ShaplEIG", show_progress=False), 1 / 3, 64, 128),
    "shapiq RegressionMSR, cross-fitted": Peer(run_shapiq, _shapiq("RegressionMSR", index="SV", k_folds=5), 0.5),
    "shapiq RegressionMSR": Peer(run_shapiq, _shapiq("RegressionMSR", index="SV")),
    "shapiq ProxySHAP": Peer(run_shapiq, _shapiq("ProxySHAP", index="SV", max_order=1)),
    "shapiq OddSHAP": Peer(run_shapiq, _shapiq("OddSHAP")),
    "shapiq PolySHAP, paired": Peer(run_shapiq, _polyshap, most_evaluations=1024),
    "shapiq SVARM, paired": Peer(run_shapiq, _shapiq("SVARM", pairing_trick=True), most_players=64),
    "shapiq LeverageSHAP": Peer(run_shapiq, _shapiq("LeverageSHAP")),
    "shapiq KernelSHAP, paired": Peer(run_shapiq, _shapiq("KernelSHAP", pairing_trick=True)),
    "shapiq Unbiased KernelSHAP, paired": Peer(run_shapiq, _shapiq("UnbiasedKernelSHAP", pairing_trick=True)),
    "pyDVL permutation, antithetic": Peer(run_pydvl, _pydvl("AntitheticPermutationSampler")),
    "pyDVL stratified, harmonic": Peer(run_pydvl, _pydvl_stratified("HarmonicSampleSize")),
    "pyDVL Owen, antithetic": Peer(run_pydvl, _pydvl_owen),
}


@dataclass(frozen=True)
class Task:
    """One run of one estimator."""

    game: str
    budget: int
    estimator: str
    seed: int

    @property
    def cell(self) -> tuple[str, int, str]:
        """The game, the budget and the estimator."""
        return self.game, self.budget, self.estimator


@dataclass(frozen=True)
class Outcome:
    """What one run gave: the mean squared error over the variance of the values, or why there is none."""

    square: float
    evaluations: int
    seconds: float
    failure: str = ""


def measure(task: Task) -> Outcome:
    """Run once."""
    game, truth = load(task.game)
    peer, counted = PEERS[task.estimator], Counted(game)
    start = time.process_time()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")  # theirs, about their own dependencies
            logging.disable(logging.WARNING)
            values = peer.run(peer.make, counted, task.budget, task.seed)
    except Exception as error:  # one that does not go through must not lose the others
        return Outcome(np.nan, counted.count, np.nan, f"{type(error).__name__}: {error}".split("\n")[0][:200])
    seconds = time.process_time() - start
    if counted.count > task.budget:
        return Outcome(np.nan, counted.count, seconds, f"took {counted.count} evaluations")
    return Outcome(float(np.mean((values - truth) ** 2) / truth.var()), counted.count, seconds)


def row(task: Task, found: list[Outcome]) -> dict[str, Any]:
    """Return a cell as it is kept: the error over all runs, and the standard error of its square, relative."""
    cell: dict[str, Any] = {"game": task.game, "budget": task.budget, "estimator": task.estimator, "runs": len(found)}
    failed = [each.failure for each in found if each.failure]
    if failed:
        return cell | {"failure": failed[0]}
    return (
        cell
        | summary([each.square for each in found])
        | {
            "evaluations": round(float(np.mean([each.evaluations for each in found])), 1),
            "seconds": float(f"{np.median([each.seconds for each in found]):.2g}"),  # the first run imports
        }
    )


def tasks_of(games: Iterable[str], budgets: Iterable[int], estimators: Iterable[str], runs: int) -> list[Task]:
    """Return the runs, cell by cell; long runs only where there are many players, none where all is enumerated."""
    tasks = []
    for name in estimators:
        peer = PEERS[name]
        for game in games:
            n = len(load(game)[1])
            for budget in budgets:
                fits = n <= peer.most_players and budget <= peer.most_evaluations and budget < 2**n
                if fits and (budget <= 1024 or game in LARGER):
                    count = max(3, round(runs * peer.runs)) if budget <= 1024 else max(3, runs // 3)
                    tasks += [Task(game, budget, name, seed) for seed in range(count)]
    return tasks


def cell_of(kept: dict[str, Any]) -> tuple[str, int, str]:
    """Return the game, the budget and the estimator of a row."""
    return kept["game"], kept["budget"], kept["estimator"]


def main() -> None:
    """Measure the cells that are not kept yet."""
    parser = argparse.ArgumentParser("peers", description=__doc__)
    here = [name for name in PEERS if find_spec(name.split()[0].lower())]
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS))
    parser.add_argument("--estimators", nargs="+", default=here, help="default: those that are installed")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=KEPT)
    arguments = parser.parse_args()
    tasks = tasks_of(arguments.games, arguments.budgets, arguments.estimators, arguments.runs)
    asked = {task.cell for task in tasks}
    kept = [each for each in read(arguments.out) if "failure" not in each or cell_of(each) not in asked]
    done = {cell_of(each) for each in kept}
    tasks = [task for task in tasks if task.cell not in done]
    print(f"{len(tasks):,} runs; {len(done)} cells are kept in {arguments.out}", flush=True)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=arguments.jobs, return_as="generator")(delayed(measure)(task) for task in tasks)
        for _, runs in groupby(zip(tasks, results, strict=True), key=lambda run: run[0].cell):
            of_cell = list(runs)
            kept.append(row(of_cell[0][0], [outcome for _, outcome in of_cell]))
            write(kept, arguments.out)
            print(json.dumps(kept[-1]), flush=True)
