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


WALK = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height}" width="800" height="{height}" \
role="img" aria-labelledby="title">
<title id="title">The path of fgsv value, from the file to the report: cli, data, utilities, pipeline, running, \
results, audit and report</title>
<style>
  text {{ font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 14px; fill: #1f2328 }}
  .t {{ font-weight: 600 }}
  .s {{ font-size: 13px }}
  .d {{ font-size: 13px; font-style: italic; fill: #57606a }}
  .m {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12.5px; fill: #3949ab }}
  .b {{ fill: #eef1fb; stroke: #3949ab }}
  .i {{ fill: #ffffff; stroke: #8c96c8 }}
  .f {{ fill: none; stroke: #57606a; stroke-dasharray: 4 3 }}
  .a {{ fill: none; stroke: #57606a; stroke-width: 1.4 }}
  #h path {{ fill: #57606a }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #e6e8ef }}
    .d {{ fill: #a9b1c2 }}
    .m {{ fill: #9fb0ff }}
    .b {{ fill: #262b40; stroke: #8c9eff }}
    .i {{ fill: #171a26; stroke: #6b76ad }}
    .f {{ stroke: #a9b1c2 }}
    .a {{ stroke: #a9b1c2 }}
    #h path {{ fill: #a9b1c2 }}
  }}
</style>
<defs><marker id="h" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0L8 4L0 8z"/></marker></defs>
{drawn}
</svg>
"""
Step = tuple[str, str, str]
"""A room, what it does, and the public function that takes the step."""
OPENING: list[Step] = [
    ("cli", "options to arguments", "fgsv value train.csv ..."),
    ("data", "reads the file, chooses test rows, turns columns into numbers", "fgsv.open_table"),
    ("utilities", "a coalition of rows is worth the score of the model trained on them", "fgsv.utility"),
]
MAKING: dict[str, list[Step]] = {
    "pipeline, before the run: whatever can be refused is refused": [
        ("payout", "are the terms complete, for these providers and outputs?", "fgsv.payout.Terms"),
        ("audit", "looks for copies, plans what to try", ""),
        ("evaluation", "opens the ledger and the workers; U(N) and U(0)", ""),
    ],
    "pipeline, the run: one call": [
        ("planning", "predicts from the first rounds what the rest will cost", "fgsv.plan"),
        ("running", "draw, evaluate, update, stop: round after round", "fgsv.value"),
        ("methods", "what is drawn, and what follows from the values", ""),
        ("evaluation", "from the ledger or a worker: the only caller of games", ""),
    ],
    "pipeline, after the run: each step adds to the result": [
        ("data", "the score on all test rows, and its error", ""),
        ("results", "payments by the terms; the score without each provider", "fgsv.payout.split"),
        ("audit", "shell companies, copies: same workers, same ledger", "fgsv.audit.audit"),
    ],
}
SHOWING: list[Step] = [
    ("report", "one list of sections: the page, the terminal, a notebook", "fgsv.report.render"),
    ("pipeline", "writes valuation.json, valuation.csv and report.html, or nothing", "fgsv.load"),
]


def draw_walk() -> str:
    """Draw the path of `fgsv value` as boxes from top to bottom; `python tests/tracing.py` prints its steps."""
    drawn, y = [], 16

    def box(step: Step, left: int, width: int, kind: str) -> None:
        room, words, call = step
        drawn.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{width}" height="46" rx="5"/>')
        drawn.append(f'<text class="t" x="{left + 14}" y="{y + 19}">{room}</text>')
        drawn.append(f'<text class="s" x="{left + 14}" y="{y + 37}">{words}</text>')
        drawn.append(f'<text class="m" x="600" y="{y + 28}">{call}</text>')

    def arrow() -> None:
        drawn.append(f'<path class="a" d="M300 {y}V{y + 19}" marker-end="url(#h)"/>')

    for steps, following in ((OPENING, True), (None, True), (SHOWING, False)):
        if steps is None:
            for title, inner in MAKING.items():
                height = 38 + 54 * len(inner)
                drawn.append(f'<rect class="b" x="40" y="{y}" width="540" height="{height}" rx="6"/>')
                drawn.append(f'<text class="t" x="54" y="{y + 23}">{title}</text>')
                y += 34
                for step in inner:
                    box(step, 58, 504, "i")
                    y += 54
                y += 4
                arrow()
                y += 22
            continue
        for number, step in enumerate(steps):
            box(step, 40, 540, "b")
            y += 46
            if following or number + 1 < len(steps):
                arrow()
                y += 22
    return WALK.format(height=y + 16, drawn="\n".join(drawn))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, figure in (("split", draw_split()), ("one-sample", draw_one_sample())):
        figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    (FOLDER / "walk.svg").write_text(draw_walk(), encoding="utf-8")
