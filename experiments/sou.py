"""The paper's benchmark on the sum-of-unanimity game: Figure 2 and Figure 5."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import fgsv
from experiments import records
from experiments.repeats import read_method, run_all
from fgsv.games import SumOfUnanimity
from fgsv.plots import new_figure
from fgsv.types import Floats, Ints

N_CHECKPOINTS = 100
N_GROUPS = 4
OURS, PAPERS = "gp", "finite_difference"
LABELS = {
    OURS: "default method",
    PAPERS: "Algorithm 1",
    "permutation": "Permutation",
    "group_testing": "Group testing",
    "complementary": "Complementary",
    "one_for_all": "One-for-All",
    "kernelshap": "KernelSHAP",
    "unbiased_kernelshap": "Unbiased KernelSHAP",
    "leverageshap": "LeverageSHAP",
    "complementary, unseen='zero'": "Complementary as printed",
    "one_for_all, unseen='zero'": "One-for-All as printed",
}
"""The nine methods, and two of them as printed: there a mean without draws so far counts as zero."""
METRICS = {"AUCC": "AUCC", "ARE": "ARE", "seconds": "seconds per evaluation"}


def run(
    n: Annotated[list[int] | None, typer.Argument(help="Numbers of players [default: 64 128 256]", min=8)] = None,
    out: Path = Path("bench-out/sou"),
    *,
    budget: Annotated[int, typer.Option(min=4 * N_CHECKPOINTS)] = 20_000,
    repeats: Annotated[int, typer.Option(min=2)] = 30,
    seed: int = 0,
    jobs: int = 2,
) -> pd.DataFrame:
    """Run every method several times on the game of `seed`, for each number of players: 15 minutes on two cores.

    The table has a row for each number of players and method: the area under the convergence curve (AUCC), the
    relative error at the end (ARE), both with standard errors over the repeats, and the seconds per evaluation.
    """
    numbers = n or [64, 128, 256]
    repeated = range(repeats)
    tasks = [(n, method, budget, seed, each) for n in numbers for each in repeated for method in LABELS]
    runs = pd.DataFrame(run_all(measure, tasks, jobs=jobs, label="Figure 2"))
    seconds = pd.concat([time_utility(n, seed) for n in numbers])
    by_method = runs.groupby(["n", "method"], sort=False)
    errors = by_method[["AUCC", "ARE"]].sem().add_suffix("_stderr")
    summary = by_method[["evaluations", *METRICS]].mean().join(errors).reset_index()
    said = statements(summary)
    print(summary.to_string(index=False, float_format="{:.3g}".format))
    print("\n".join(["", *said]))
    figures = {"figure2": draw(summary), "figure5": draw_seconds(seconds)}
    settings = {"n": numbers, "budget": budget, "repeats": repeats, "seed": seed}
    records.save(out, "sou", summary, figures, settings=settings, statements=said)
    return summary


@cache
def _game(n: int, seed: int) -> SumOfUnanimity:
    game = SumOfUnanimity(n, seed=seed)
    game(np.ones((1, n), dtype=bool))  # builds its tables, which is not timed
    return game


def groups_of(n: int) -> Ints:
    """Return the paper's four groups: player i belongs to i mod 4."""
    return np.arange(n) % N_GROUPS


def measure(task: tuple[int, str, int, int, int]) -> dict[str, Any]:
    """Run a method once; return its errors, relative to the true values, as means over the groups, and its cost."""
    n, method, budget, seed, number = task
    game = _game(n, seed)
    truth = np.bincount(groups_of(n), game.shapley)
    start = time.perf_counter()
    estimates, evaluations = trace(game, method, budget, number)
    seconds = (time.perf_counter() - start) / evaluations
    errors = np.abs(estimates / truth - 1).mean(axis=1)
    which = {"n": n, "method": method, "seed": number}
    return {**which, "AUCC": errors.mean(), "ARE": errors[-1], "evaluations": evaluations, "seconds": seconds}


def trace(game: SumOfUnanimity, method: str, budget: int, seed: int) -> tuple[Floats, int]:
    """Return the (checkpoints, groups) estimates of one run, and its evaluations.

    All checkpoints are prefixes of the run: the estimate is that of the last round that ended within the
    checkpoint's evaluations, and s0/n [U(N) - U(0)] before the first round, for a group of s0 players.
    """
    groups = groups_of(game.n_players)
    step = budget // N_CHECKPOINTS
    checkpoints = step * np.arange(1, N_CHECKPOINTS + 1)
    name, options = read_method(method)
    rounds = {} if name == OURS else {"round_size": step}  # the default method has rounds of its own
    how = {"budget": budget, "seed": seed, "batch_size": step, **rounds, **options}
    estimates = None
    for valuation in fgsv.iterate(game, groups, method=name, **how):
        if estimates is None:
            estimates = np.tile(np.bincount(groups) / len(groups) * valuation.total, (N_CHECKPOINTS, 1))
        estimates[checkpoints >= valuation.n_evaluations] = valuation.values
        evaluations = valuation.n_evaluations
    assert estimates is not None
    return estimates, evaluations


def time_utility(n: int, seed: int, n_sizes: int = 48, n_subsets: int = 50) -> pd.DataFrame:
    """Return the seconds of one evaluation, over random coalitions of each of several sizes (Figure 5)."""
    game = _game(n, seed)
    rng = np.random.default_rng(0)
    rows = []
    for size in np.unique(np.linspace(1, n, min(n, n_sizes)).round().astype(int)):
        for mask in rng.permuted(np.tile(np.arange(n) < size, (n_subsets, 1)), axis=1):
            start = time.perf_counter()
            game(mask[None])
            rows.append({"n": n, "fraction": size / n, "seconds": time.perf_counter() - start})
    return pd.DataFrame(rows)


def statements(summary: pd.DataFrame) -> list[str]:
    """Say where the ranking of the paper's Figure 2 is reproduced and where it is not.

    In the paper its method has the lowest AUCC and the lowest ARE at every n, and is among the fastest. A lead of
    less than two standard errors does not count, and neither do methods as printed.
    """
    lines = []
    for n in dict.fromkeys(summary["n"]):
        rows = summary[(summary["n"] == n) & ~summary.method.str.contains(",")].set_index("method")
        papers, ours, others = rows.loc[PAPERS], rows.loc[OURS], rows.drop([PAPERS, OURS])
        for metric in ("AUCC", "ARE"):
            best = others.loc[others[metric].idxmin()]
            gap = papers[metric] - best[metric]
            noise = 2 * np.hypot(papers[f"{metric}_stderr"], best[f"{metric}_stderr"])
            verdict = "undecided" if abs(gap) <= noise else "as in the paper" if gap < 0 else "not as in the paper"
            lines.append(
                f"n = {n}, {metric}: {verdict}, Algorithm 1 has {papers[metric]:.2g}, the best of the others, "
                f"{LABELS[str(best.name)]}, {best[metric]:.2g}; the default method has {ours[metric]:.2g}."
            )
        order = list(rows.drop(OURS).seconds.sort_values().index)
        place = order.index(PAPERS) + 1
        lines.append(
            f"n = {n}, seconds per evaluation: Algorithm 1 is number {place} of {len(order)} from the fastest."
        )
    return lines


def draw(summary: pd.DataFrame) -> Any:
    """Draw AUCC, ARE and time of every method, a column for each n (Figure 2)."""
    tables = {n: summary[summary["n"] == n] for n in dict.fromkeys(summary["n"])}
    figure = new_figure((4 * len(tables) + 1, 10))
    axes = figure.subplots(len(METRICS), len(tables), squeeze=False, sharey=True)
    for column, (n, table) in zip(axes.T, tables.items(), strict=True):
        names = [LABELS[method] for method in table.method]
        colours = [{OURS: "C3", PAPERS: "C0"}.get(method, "0.5") for method in table.method]
        for axis, (metric, label) in zip(column, METRICS.items(), strict=True):
            errors = 2 * table.get(f"{metric}_stderr", 0 * table[metric])
            axis.errorbar(table[metric], names, xerr=errors, fmt="none", color="0.5")
            axis.scatter(table[metric], names, color=colours, zorder=3)
            axis.set(title=f"n = {n}", xlabel=label, xscale="log")
            axis.grid(axis="x", alpha=0.3)
    axes[0, 0].invert_yaxis()
    return figure


def draw_seconds(seconds: pd.DataFrame) -> Any:
    """Draw the seconds of one evaluation against the coalition's size, a curve for each n (Figure 5)."""
    figure = new_figure((6, 4))
    axis = figure.subplots()
    for n in dict.fromkeys(seconds["n"]):
        by_size = seconds[seconds["n"] == n].groupby("fraction")["seconds"]
        mean, deviation = by_size.mean(), by_size.std()
        axis.plot(mean.index, mean, label=f"n = {n}")
        axis.fill_between(mean.index, (mean - deviation).clip(lower=1e-9), mean + deviation, alpha=0.2)
    axis.set(yscale="log", xlabel="size s / n", ylabel="seconds per evaluation")
    axis.legend()
    return figure
