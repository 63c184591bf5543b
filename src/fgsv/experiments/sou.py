"""The paper's benchmark on the sum-of-unanimity game: Figure 2 and Figure 5."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from fgsv.experiments.repeats import read_method, run_all
from fgsv.files import to_csv, write_whole
from fgsv.games import SumOfUnanimity
from fgsv.packages import versions
from fgsv.plots import new_figure
from fgsv.types import Floats, Ints, Masks

Rows = dict[str, dict[Any, Any]]
"""The rows of the summary for one n, by method."""

N_CHECKPOINTS = 100
N_GROUPS = 4
OURS, PAPERS = "covariance", "finite_difference"
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

CALLED_SLOW = ("group_testing", "kernelshap", "unbiased_kernelshap")


@dataclass(frozen=True)
class Settings:
    """What the benchmark runs. The same settings give the same numbers, except for the seconds."""

    n: tuple[int, ...] = (64, 128, 256)
    budget: int = 20_000
    repeats: int = 30
    methods: tuple[str, ...] = tuple(LABELS)
    seed: int = 0
    """Seed of the games; the repeats have seeds 0, 1, ..."""
    jobs: int = 2

    def __post_init__(self) -> None:
        if not self.n or min(self.n) < 8:
            raise ValueError(f"n must be one or more numbers of players, each at least 8, got {list(self.n)}")
        if self.budget < 4 * N_CHECKPOINTS:
            raise ValueError(f"budget must be at least {4 * N_CHECKPOINTS}, got {self.budget}")
        if self.repeats < 2:
            raise ValueError(f"repeats must be at least 2, got {self.repeats}")
        unknown = sorted(set(self.methods) - set(LABELS))
        if unknown:
            raise ValueError(f"unknown methods: {'; '.join(unknown)}. Choose from: {'; '.join(LABELS)}")


@dataclass(frozen=True, eq=False)
class Run:
    """One run of one method: its estimates at the checkpoints, and its cost."""

    estimates: Floats
    """(checkpoints, groups)."""
    n_evaluations: int
    seconds: float
    utility_seconds: float


@dataclass(frozen=True, eq=False)
class Report:
    """The tables of the benchmark."""

    summary: pd.DataFrame
    """A row for each n and method: AUCC, ARE with their standard errors, seconds per evaluation."""
    runs: pd.DataFrame
    """A row for each run and group."""
    convergence: pd.DataFrame
    """The mean relative error at each checkpoint."""
    utility: pd.DataFrame
    """Seconds of one evaluation, by the coalition's size."""
    statements: tuple[str, ...]
    """Where the paper's ranking is reproduced, and where it is not."""


class Timed:
    """A game that adds up the seconds spent in it."""

    def __init__(self, game: SumOfUnanimity) -> None:
        self.game, self.n_players, self.seconds = game, game.n_players, 0.0

    def __call__(self, masks: Masks) -> Floats:
        """Evaluate (m, n) coalitions."""
        start = time.perf_counter()
        values = self.game(masks)
        self.seconds += time.perf_counter() - start
        return values


@cache
def _game(n: int, seed: int) -> SumOfUnanimity:
    game = SumOfUnanimity(n, seed=seed)
    game(np.ones((1, n), dtype=bool))  # builds its tables, which is not timed
    return game


def groups_of(n: int) -> Ints:
    """Return the paper's four groups: player i belongs to i mod 4."""
    return np.arange(n) % N_GROUPS


def converge(task: tuple[int, str, int, Settings]) -> Run:
    """Run a method once and return its estimates at every checkpoint.

    All checkpoints are prefixes of one run: the estimate is that of the last round that ended within the
    checkpoint's evaluations, and s0/n [U(N) - U(0)] before the first round, for a group of s0 players.
    """
    n, method, run_seed, settings = task
    game = Timed(_game(n, settings.seed))
    groups = groups_of(n)
    step = settings.budget // N_CHECKPOINTS
    checkpoints = step * np.arange(1, N_CHECKPOINTS + 1)
    estimates = np.zeros((N_CHECKPOINTS, N_GROUPS))
    start = time.perf_counter()
    name, options = read_method(method)
    rounds = fgsv.iterate(
        game, groups, method=name, budget=settings.budget, seed=run_seed, batch_size=step, round_size=step, **options
    )
    for number, valuation in enumerate(rounds):
        if number == 0:
            estimates[:] = np.bincount(groups) / n * valuation.total
        estimates[checkpoints >= valuation.n_evaluations] = valuation.values
        n_evaluations = valuation.n_evaluations
    return Run(estimates, n_evaluations, time.perf_counter() - start, game.seconds)


def time_utility(task: tuple[int, Settings], n_sizes: int = 48, n_subsets: int = 50) -> pd.DataFrame:
    """Return the seconds of one evaluation, over random coalitions of each of several sizes (Figure 5)."""
    n, settings = task
    game, rng = _game(n, settings.seed), np.random.default_rng(0)
    rows = []
    for size in np.unique(np.linspace(1, n, min(n, n_sizes)).round().astype(int)):
        masks = rng.permuted(np.tile(np.arange(n) < size, (n_subsets, 1)), axis=1)
        seconds = []
        for mask in masks[:, None, :]:
            start = time.perf_counter()
            game(mask)
            seconds.append(time.perf_counter() - start)
        rows.append({"n": n, "size": size, "seconds": np.mean(seconds), "deviation": np.std(seconds)})
    return pd.DataFrame(rows)


def run(settings: Settings) -> Report:
    """Run every method on every game, `repeats` times: 20 minutes at full size on two cores."""
    seeds = range(settings.repeats)
    tasks = [(n, method, seed, settings) for n in settings.n for seed in seeds for method in settings.methods]
    results = run_all(converge, tasks, jobs=settings.jobs, label="Figure 2")
    utility = run_all(time_utility, [(n, settings) for n in settings.n], jobs=1, label="Figure 5")
    rows: list[dict[str, Any]] = []
    curves = []
    for (n, method, seed, _), result in zip(tasks, results, strict=True):
        truth = np.bincount(groups_of(n), _game(n, settings.seed).shapley)
        errors = np.abs(result.estimates / truth - 1)
        which = {"n": n, "method": method, "seed": seed}
        curves.append(pd.DataFrame({**which, "error": errors.mean(axis=1)}))
        rows += [
            {
                **which,
                "group": group,
                "truth": truth[group],
                "estimate": result.estimates[-1, group],
                "AUCC": errors[:, group].mean(),
                "ARE": errors[-1, group],
                "evaluations": result.n_evaluations,
                "seconds": result.seconds,
                "utility_seconds": result.utility_seconds,
            }
            for group in range(N_GROUPS)
        ]
    runs = pd.DataFrame(rows)
    summary = _summarise(runs)
    step = settings.budget // N_CHECKPOINTS
    curve = pd.concat(curves).rename_axis("evaluations").reset_index()
    curve["evaluations"] = step * (curve["evaluations"] + 1)
    convergence = curve.groupby(["n", "method", "evaluations"], sort=False)["error"].mean().reset_index()
    return Report(summary, runs, convergence, pd.concat(utility, ignore_index=True), statements(summary))


def _summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """Average over groups within a run, then over runs, with the standard errors over runs."""
    columns = ["AUCC", "ARE", "seconds_per_evaluation", "own_seconds_per_evaluation"]
    runs = runs.assign(
        seconds_per_evaluation=runs["seconds"] / runs["evaluations"],
        own_seconds_per_evaluation=(runs["seconds"] - runs["utility_seconds"]) / runs["evaluations"],
    )
    by_run = runs.groupby(["n", "method", "seed"], sort=False)[columns].mean()
    by_method = by_run.groupby(["n", "method"], sort=False)
    summary = by_method.mean()
    for column in ("AUCC", "ARE"):
        summary[f"{column}_stderr"] = by_method[column].sem()
    summary["evaluations"] = runs.groupby(["n", "method"], sort=False)["evaluations"].mean()
    return summary.reset_index()


def statements(summary: pd.DataFrame) -> tuple[str, ...]:
    """Say where the ranking of the paper's Figure 2 is reproduced and where it is not.

    In the paper its method has the lowest AUCC and the lowest ARE at every n, and is among the fastest; group
    testing, KernelSHAP and Unbiased KernelSHAP are slow. A lead of less than two standard errors does not count.
    """
    lines: list[str] = []
    for n in dict.fromkeys(summary["n"]):
        rows: Rows = {row["method"]: row for row in summary[summary["n"] == n].to_dict(orient="records")}
        theirs = {method: row for method, row in rows.items() if method != OURS and ", " not in method}
        printed = {method: row for method, row in rows.items() if ", " in method}
        for metric in ("AUCC", "ARE"):
            where = f"n = {n}, {metric}"
            if PAPERS in theirs and len(theirs) > 1:
                lines.append(_compare(theirs, metric, where))
                lower = [method for method, row in printed.items() if row[metric] < theirs[PAPERS][metric]]
                if printed and not lower:
                    worst = ", ".join(f"{LABELS[method]} {row[metric]:.2g}" for method, row in printed.items())
                    lines.append(f"{where}: with zeros for means not seen yet, Algorithm 1 is lower ({worst}).")
            if OURS in rows and theirs:
                best = min(theirs, key=lambda method: theirs[method][metric])
                ours, other = rows[OURS][metric], theirs[best][metric]
                lines.append(
                    f"{where}: the default method has {ours:.2g}; the best of the others, {LABELS[best]}, "
                    f"{other:.2g}, {other / ours:.3g} times as much."
                )
        if PAPERS in theirs and len(theirs) > 1:
            lines.append(_compare_seconds(theirs, f"n = {n}, seconds per evaluation"))
    return tuple(lines)


def _compare(rows: Rows, metric: str, where: str) -> str:
    best = min(rows.keys() - {PAPERS}, key=lambda method: rows[method][metric])
    mine, other = rows[PAPERS], rows[best]
    gap = mine[metric] - other[metric]
    noise = 2 * np.hypot(mine[f"{metric}_stderr"], other[f"{metric}_stderr"])
    numbers = f"{LABELS[PAPERS]} {mine[metric]:.2g}, {LABELS[best]} {other[metric]:.2g}"
    if gap < -noise:
        return f"{where}: as in the paper, Algorithm 1 is lowest ({numbers})."
    if gap > noise:
        return f"{where}: not as in the paper, {LABELS[best]} is lower than Algorithm 1 ({numbers})."
    return f"{where}: undecided, Algorithm 1 and {LABELS[best]} are within two standard errors ({numbers})."


def _compare_seconds(rows: Rows, where: str) -> str:
    order = sorted(rows, key=lambda method: rows[method]["seconds_per_evaluation"])
    called = ", ".join(LABELS[method] for method in CALLED_SLOW)
    slow = [LABELS[method] for method in order[len(order) // 2 :] if method in CALLED_SLOW]
    return (
        f"{where}: Algorithm 1 is number {order.index(PAPERS) + 1} of {len(order)} from the fastest, which is "
        f"{LABELS[order[0]]}. Of the three that the paper calls slow ({called}) "
        f"in the slower half: {', '.join(slow) or 'none'}."
    )


def write(report: Report, settings: Settings, folder: str | Path) -> Path:
    """Write the tables as CSV, the settings with the summary as JSON, and the figures as PNG."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "summary": report.summary,
        "runs": report.runs,
        "convergence": report.convergence,
        "utility_seconds": report.utility,
    }
    for name, table in tables.items():
        write_whole(folder / f"{name}.csv", to_csv(table))
    document: dict[str, Any] = {
        "fgsv": fgsv.__version__,
        "settings": asdict(settings),
        "versions": versions(),
        "summary": report.summary.to_dict(orient="records"),
        "statements": list(report.statements),
    }
    write_whole(folder / "run.json", json.dumps(document, indent=1))
    _draw_summary(report.summary, folder / "figure2.png")
    _draw_convergence(report.convergence, folder / "convergence.png")
    _draw_seconds(report.utility, folder / "figure5.png")
    return folder


def _draw_summary(summary: pd.DataFrame, path: Path) -> None:
    """Draw AUCC, ARE and time of every method, a column for each n (Figure 2)."""
    sizes = list(dict.fromkeys(summary["n"]))
    rows = [("AUCC", "AUCC"), ("ARE", "ARE"), ("seconds_per_evaluation", "microseconds per evaluation")]
    figure = new_figure((4 * len(sizes) + 1, 10))
    axes = figure.subplots(len(rows), len(sizes), squeeze=False)
    for column, n in enumerate(sizes):
        table = summary[summary["n"] == n]
        names = [LABELS[method] for method in table["method"]]
        colours = [{OURS: "C3", PAPERS: "C0"}.get(method, "0.5") for method in table["method"]]
        for axis, (metric, label) in zip(axes[:, column], rows, strict=True):
            is_error = f"{metric}_stderr" in table
            if is_error:
                axis.errorbar(table[metric], names, xerr=2 * table[f"{metric}_stderr"], fmt="none", color="0.5")
            axis.scatter(table[metric] * (1 if is_error else 1e6), names, color=colours, zorder=3)
            axis.set_xscale("log" if is_error else "linear")
            axis.grid(axis="x", alpha=0.3)
            axis.invert_yaxis()
            axis.set_title(f"n = {n}")
            axis.set_xlabel(label)
            if column:
                axis.set_yticklabels([])
    figure.savefig(path, dpi=150)


def _draw_convergence(convergence: pd.DataFrame, path: Path) -> None:
    """Draw the mean relative error of every method against the evaluations, a panel for each n."""
    sizes = list(dict.fromkeys(convergence["n"]))
    figure = new_figure((4 * len(sizes) + 1, 3.5))
    axes = figure.subplots(1, len(sizes), squeeze=False)[0]
    for axis, n in zip(axes, sizes, strict=True):
        for method, curve in convergence[convergence["n"] == n].groupby("method", sort=False):
            axis.plot(curve["evaluations"], curve["error"], label=LABELS[str(method)])
        axis.set_yscale("log")
        axis.set_title(f"n = {n}")
        axis.set_xlabel("evaluations")
    axes[0].set_ylabel("mean relative error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(path, dpi=150)


def _draw_seconds(utility: pd.DataFrame, path: Path) -> None:
    """Draw the seconds of one evaluation against the coalition's size, a curve for each n (Figure 5)."""
    figure = new_figure((6, 4))
    axis = figure.subplots()
    for n in dict.fromkeys(utility["n"]):
        curve = utility[utility["n"] == n]
        axis.plot(curve["size"] / n, curve["seconds"], label=f"n = {n}")
        low, high = curve["seconds"] - curve["deviation"], curve["seconds"] + curve["deviation"]
        axis.fill_between(curve["size"] / n, low.clip(lower=1e-9), high, alpha=0.2)
    axis.set_yscale("log")
    axis.set_xlabel("size s / n")
    axis.set_ylabel("seconds per evaluation")
    axis.legend()
    figure.savefig(path, dpi=150)
