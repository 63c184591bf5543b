"""The motivating example (paper, Figure 1): when one group splits, the Group Shapley Value of the other falls."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track
from sklearn.linear_model import LogisticRegression

import fgsv
from fgsv.experiments import records
from fgsv.plots import new_figure

N_TRAIN, N_TEST = 200, 200
N_GROUPS = (2, 3, 4, 5)


def make_game(seed: int = 0) -> fgsv.Utility:
    """Return the game: 200 rows from two Gaussians at (-3, 0) and (3, 0), logistic regression, test accuracy.

    Coalitions of a single class are worth 1/2, as in the paper's appendix C.1.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=N_TRAIN + N_TEST)
    X = rng.normal(size=(N_TRAIN + N_TEST, 2)) + np.outer(6 * labels - 3, [1, 0])
    train, test = slice(N_TRAIN), slice(N_TRAIN, None)
    return fgsv.utility(LogisticRegression(), X[train], labels[train], X[test], labels[test], "accuracy", empty=0.5)


def make_groups(n_groups: int) -> list[str]:
    """Return each row's group: A has the first half, and the parts of B share the second half evenly."""
    half = N_TRAIN // 2
    others = np.array_split(np.arange(half), n_groups - 1)
    return ["A"] * half + [f"B{part + 1}" for part, rows in enumerate(others) for _ in rows]


def run(out: str | Path, *, seed: int = 0, budget: int = 20_000) -> pd.DataFrame:
    """Value group A while B splits into 1 to 4 parts, exactly by GSV and estimated by FGSV; write the results.

    One run of `budget` evaluations serves FGSV under every grouping: regrouping takes no evaluations. Writes
    motivation.csv, motivation.json and motivation.png, and returns the table: a row for each method, number of
    groups and group.
    """
    start = time.monotonic()
    game = make_game(seed)
    faithful = fgsv.value(game, make_groups(2), budget=budget, seed=seed)
    rows: list[dict[str, Any]] = []
    for n_groups in track(N_GROUPS, description="groupings"):
        groups = make_groups(n_groups)
        for method, valued in (("GSV", fgsv.exact(fgsv.grouped(game, groups))), ("FGSV", faithful.regroup(groups))):
            sizes = fgsv.Partition.of(groups).sizes
            for name, size, value, stderr in zip(valued.names, sizes, valued.values, valued.stderr, strict=True):
                row = {"method": method, "groups": n_groups, "group": name, "points": int(size)}
                rows.append({**row, "value": value, "stderr": stderr})
    table = pd.DataFrame(rows)
    of_a = table[table.group == "A"].pivot(index="groups", columns="method", values="value")
    findings = {
        "GSV of A": of_a["GSV"].tolist(),
        "FGSV of A": of_a["FGSV"].tolist(),
        "GSV of A falls with every split": bool((of_a["GSV"].diff().dropna() < 0).all()),
        "FGSV of A moves by": float(of_a["FGSV"].max() - of_a["FGSV"].min()),
    }
    settings = {"seed": seed, "budget": budget, "n_train": N_TRAIN, "n_test": N_TEST, "game": game.describe()}
    seconds = time.monotonic() - start
    folder = records.save(out, "motivation", table, settings=settings, findings=findings, seconds=seconds)
    draw(table, folder / "motivation.png")
    return table


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw stacked bars of the groups' values against the number of groups, GSV left and FGSV right."""
    figure = new_figure((7.5, 3.4))
    panels = figure.subplots(1, 2, sharey=True)
    colours = ["#d9822b", "#6da7d8", "#4a87bd", "#2f6699", "#1c466d"]
    for panel, method in zip(panels, ("GSV", "FGSV"), strict=True):
        for n_groups in N_GROUPS:
            chosen = table[(table.method == method) & (table.groups == n_groups)]
            bottom = 0.0
            for colour, (name, value) in zip(colours, zip(chosen.group, chosen.value, strict=True), strict=False):
                panel.bar(n_groups, value, bottom=bottom, color=colour, edgecolor="white", width=0.75)
                middle = bottom + value * (0.3 if name == "A" else 0.5)
                panel.text(n_groups, middle, name, ha="center", va="center", color="white", fontsize=8)
                bottom += value
        of_a = table[(table.method == method) & (table.group == "A")]
        panel.plot(of_a.groups, of_a.value, color="black", marker="o", markersize=4, linewidth=1)
        for n_groups, value in zip(of_a.groups, of_a.value, strict=True):
            panel.text(n_groups, value - 0.012, f"{value:.3f}", ha="center", va="top", fontsize=8)
        panel.set_title({"GSV": "GSV: A falls as B splits", "FGSV": "FGSV: A does not move"}[method], fontsize=10)
        panel.set_xlabel("number of groups")
        panel.set_xticks(list(N_GROUPS))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("value")
    figure.savefig(path, dpi=150)
