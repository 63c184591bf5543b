"""The diabetes experiment (paper, Figure 4): which groups of patients help the model, under seven groupings."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

import fgsv
from experiments import records
from experiments.repeats import run_all
from fgsv.plots import new_figure

CATEGORIES = {
    "sex": ("1", "2"),
    "age": ("Young", "Middle", "Old"),
    "bmi": ("Low", "Medium", "High"),
}
GROUPINGS = tuple(names for size in (1, 2, 3) for names in combinations(CATEGORIES, size))
"""The seven ways to group by some of sex, age and BMI: 2 to 18 groups."""


def make_game() -> tuple[fgsv.Utility, pd.DataFrame]:
    """Return the game, ridge regression on 350 patients tested on 92, and the categories of each patient.

    The response is standardised; age and BMI are cut into terciles of the 350 training patients. The paper
    does not say whose terciles it uses; with these, each age group comes first under some grouping by exact GSV.
    """
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    y = (y - y.mean()) / y.std(ddof=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=92, random_state=42)
    categories = pd.DataFrame({"sex": np.where(X["sex"] < 0, *CATEGORIES["sex"])})
    for name in ("age", "bmi"):
        categories[name] = np.array(CATEGORIES[name])[pd.qcut(X[name], 3, labels=False).to_numpy()]
    return fgsv.utility(Ridge(alpha=0.01), X, y, X_test, y_test, "neg_mean_squared_error"), categories


def run(
    out: Path = Path("bench-out/diabetes"),
    *,
    seed: int = 0,
    budget: int = 20_000,
    repeats: Annotated[int, typer.Option(min=2)] = 30,
    jobs: int = 2,
) -> pd.DataFrame:
    """Value the seven groupings, exactly by GSV and by several repeats of FGSV: a few minutes.

    One repeat of `budget` evaluations serves all seven groupings. The table has, for each method, grouping and
    category, the mean and the standard deviation over the repeats of the total of that category's groups.
    """
    game, categories = make_game()
    runs = run_all(partial(_value, game, budget), range(seed, seed + repeats), jobs=jobs, label="FGSV")
    found = []
    for names in GROUPINGS:
        groups = list(categories[list(names)].itertuples(index=False, name=None))
        found += _totals("GSV", names, [fgsv.exact(fgsv.grouped(game, groups))])
        found += _totals("FGSV", names, [valued.regroup(groups) for valued in runs])
    table = pd.DataFrame(found)
    print(table[table.variable == "age"].to_string(index=False))
    settings = {"seed": seed, "budget": budget, "repeats": repeats, "game": game.describe()}
    findings = {**compared(table), "FGSV, leads": leads(runs, categories)}
    records.save(out, "diabetes", table, {"diabetes": draw(table)}, settings=settings, findings=findings)
    return table


def _value(game: fgsv.Utility, budget: int, seed: int) -> fgsv.Valuation:
    return fgsv.value(game, budget=budget, seed=seed)


def _totals(method: str, grouping: tuple[str, ...], runs: list[fgsv.Valuation]) -> list[dict[str, Any]]:
    """Return a row for each category of each variable: the total of its groups, over the runs."""
    rows = []
    for position, variable in enumerate(grouping):
        for category in CATEGORIES[variable]:
            where = [group[position] == category for group in runs[0].names]  # type: ignore[index]
            totals = np.array([valued.values[where].sum() for valued in runs])
            row = {"method": method, "grouping": " x ".join(grouping), "variable": variable, "category": category}
            rows.append({**row, "mean": totals.mean(), "sd": totals.std(ddof=1) if len(totals) > 1 else 0.0})
    return rows


def compared(table: pd.DataFrame) -> dict[str, Any]:
    """Return which category comes first under each grouping, and how much totals differ between groupings."""
    found = {}
    for (method, variable), chosen in table.groupby(["method", "variable"], sort=False):
        top = chosen.loc[chosen.groupby("grouping", sort=False)["mean"].idxmax()]
        found[f"{method}, {variable}"] = {
            "first": dict(zip(top.grouping, top.category, strict=True)),
            "largest move of a category's total": float(chosen.groupby("category")["mean"].agg(np.ptp).max()),
            "largest standard deviation": float(chosen.sd.max()),
        }
    return found


def leads(runs: list[fgsv.Valuation], categories: pd.DataFrame) -> dict[str, Any]:
    """Return by how much the first category of each variable leads the second under FGSV, with standard errors."""
    found = {}
    for variable, names in CATEGORIES.items():
        valued = [result.regroup(categories[variable].tolist()) for result in runs]
        totals = pd.DataFrame([dict(zip(each.names, each.values, strict=True)) for each in valued])[list(names)]
        first, second = totals.mean().nlargest(2).index
        lead = totals[first] - totals[second]
        found[variable] = {"order": [first, second], "lead": lead.mean(), "standard error": lead.sem()}
    return found


def draw(table: pd.DataFrame) -> Any:
    """Draw the category totals against the groupings: GSV above, FGSV below, a column for each variable."""
    figure = new_figure((10, 5.8))
    panels = figure.subplots(2, 3, sharey=True)
    for line, method in zip(panels, ("GSV", "FGSV"), strict=True):
        for panel, (variable, categories) in zip(line, CATEGORIES.items(), strict=True):
            chosen = table[(table.method == method) & (table.variable == variable)]
            for colour, category in zip(["#1b6ca8", "#d9822b", "#3a8f5c"], categories, strict=False):
                rows = chosen[chosen.category == category]
                names = rows.grouping.str.replace(" x ", "\n")
                panel.plot(names, rows["mean"], color=colour, marker="o", markersize=4, label=category)
                low, high = rows["mean"] - rows.sd, rows["mean"] + rows.sd
                panel.fill_between(names, low, high, color=colour, alpha=0.2, linewidth=0)
            panel.set_title(f"{method}, by {'BMI' if variable == 'bmi' else variable}", fontsize=10)
            panel.tick_params(axis="x", labelsize=8)
            panel.margins(y=0.15)  # room for the legend
            panel.spines[["top", "right"]].set_visible(False)
            panel.legend(frameon=False, fontsize=8, ncols=3, loc="upper center")
        line[0].set_ylabel("total value of the category")
    return figure
