"""The motivating example (paper, Figure 1): when one group splits, the Group Shapley Value of the other falls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import fgsv
from experiments import records
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


def run(out: Path = Path("bench-out/motivation"), *, seed: int = 0, budget: int = 20_000) -> pd.DataFrame:
    """Value group A while B splits into 1 to 4 parts, exactly by GSV and estimated by FGSV: less than a minute.

    One run of `budget` evaluations serves FGSV under every grouping: regrouping takes no evaluations.
    """
    game = make_game(seed)
    faithful = fgsv.value(game, budget=budget, seed=seed)
    found = []
    for n_groups in N_GROUPS:
        groups = make_groups(n_groups)
        for method, valued in (("GSV", fgsv.exact(fgsv.grouped(game, groups))), ("FGSV", faithful.regroup(groups))):
            found.append(valued.to_frame().assign(method=method, groups=n_groups))
    table = pd.concat(found)[["method", "groups", "group", "value", "stderr"]]
    of_a = table[table.group == "A"].pivot(index="groups", columns="method", values="value")
    print(of_a.to_string())
    findings = {
        "GSV of A falls with every split": bool((of_a["GSV"].diff().dropna() < 0).all()),
        "FGSV of A moves by": float(np.ptp(of_a["FGSV"])),
    }
    settings = {"seed": seed, "budget": budget, "game": game.describe()}
    records.save(out, "motivation", table, {"motivation": draw(table)}, settings=settings, findings=findings)
    return table


def draw(table: pd.DataFrame) -> Any:
    """Draw stacked bars of the groups' values against the number of groups, GSV left and FGSV right."""
    figure = new_figure((7.5, 3.4))
    panels = figure.subplots(1, 2, sharey=True)
    colours = ["#d9822b", "#6da7d8", "#4a87bd", "#2f6699", "#1c466d"]
    titles = {"GSV": "GSV: A falls as B splits", "FGSV": "FGSV: A does not move"}
    for panel, (method, title) in zip(panels, titles.items(), strict=True):
        stacks = table[table.method == method].pivot(index="groups", columns="group", values="value").fillna(0)
        tops = stacks.cumsum(axis=1)
        for name, colour in zip(stacks, colours, strict=True):
            bars = panel.bar(stacks.index, stacks[name], 0.75, tops[name] - stacks[name], color=colour, ec="white")
            labels = [name if value else "" for value in stacks[name]]
            panel.bar_label(bars, labels, label_type="center", color="white", fontsize=8)
        panel.plot(stacks.index, stacks["A"], color="black", marker="o", markersize=4, linewidth=1)
        for n_groups, value in stacks["A"].items():
            panel.text(n_groups, value - 0.012, f"{value:.3f}", ha="center", va="top", fontsize=8)
        panel.set(title=title, xlabel="number of groups", xticks=N_GROUPS)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("value")
    return figure
