"""Draw the figures of the documentation: `python docs/figures.py`. `tools/screenshots.py` takes that of a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import fgsv
from fgsv.plots import BLUE, GREEN, GREY, ORANGE

FOLDER = Path(__file__).parent / "figures"


def shares(groups: list[str], faithful: bool) -> dict[str, float]:
    """Return exact shares in a game where twelve players bring ever less: U(S) = square root of |S|."""

    def game(masks: np.ndarray) -> np.ndarray:
        return np.sqrt(masks.sum(axis=1))

    found = fgsv.exact(game, groups) if faithful else fgsv.exact(fgsv.grouped(game, groups))
    return {str(name): float(share) for name, share in zip(found.names, found.shares(), strict=True)}


def draw_split() -> Figure:
    """Draw the shares of three equal providers before and after one of them splits."""
    whole = ["Ann"] * 4 + ["Bob"] * 4 + ["Cleo"] * 4
    split = ["Ann 1"] * 2 + ["Ann 2"] * 2 + whole[4:]
    colours = {"Ann": ORANGE, "Ann 1": ORANGE, "Ann 2": "#E69F00", "Bob": BLUE, "Cleo": GREEN}
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    for ax, faithful in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        for row, groups in ((1, whole), (0, split)):
            left = 0.0
            for name, share in shares(groups, faithful).items():
                ax.barh(row, share, left=left, color=colours[name], edgecolor="white")
                ax.text(
                    left + share / 2, row, f"{name}\n{share:.0%}", ha="center", va="center", color="white", size=8
                )
                left += share
        ax.set_yticks([1, 0], ["as it is", "Ann splits"])
        ax.set_xticks([])
        ax.spines[:].set_visible(False)
        ax.set_title("FGSV: faithful" if faithful else "GSV: groups as players", size=10)
    return figure


def draw_one_sample() -> Figure:
    """Draw coalitions as rows of dots, the players' values below, and two groupings as their sums."""
    rng = np.random.default_rng(3)
    masks = rng.random((5, 12)) < 0.5
    values = rng.uniform(0.2, 1.0, 12)
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    ax = figure.subplots()
    for row, mask in enumerate(masks):
        ax.scatter(range(12), [row] * 12, s=70, c=[BLUE if inside else "#DDDDDD" for inside in mask])
        ax.text(12.2, row, f"train, score: U = {0.6 + 0.05 * row:.2f}", va="center", size=8)
    ax.bar(range(12), -values, bottom=6.6, color=GREY, width=0.6)
    ax.text(12.2, 6.1, "a value for every player", va="center", size=8)
    for top, names, sizes in ((7.4, ("Ann", "Bob", "Cleo"), (4, 4, 4)), (8.4, ("A1", "A2", "Bob + Cleo"), (2, 2, 8))):
        left = -0.4
        for name, size, colour in zip(names, sizes, (ORANGE, BLUE, GREEN), strict=True):
            ax.barh(top, size - 0.2, left=left, color=colour, height=0.7)
            ax.text(left + size / 2 - 0.1, top, name, ha="center", va="center", color="white", size=8)
            left += size
    ax.text(12.2, 7.9, "... and every grouping is a sum", va="center", size=8)
    ax.set_xlim(-0.6, 17.5)
    ax.invert_yaxis()
    ax.axis("off")
    return figure


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, figure in (("split", draw_split()), ("one-sample", draw_one_sample())):
        figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
