"""What attacks earn, whom they cost, and what remedies cost honest twins: `python -m benchmarks attacks`.

Five providers, three data sets, eighteen attacks, six rules and eleven detectors of look-alikes. A gain is the part
of the pot that the attacker gets beyond what the same rule gives it without the attack; a loss is what the victim
gets less. What a twin loses is what the rule gives it less than FGSV, with nobody attacking.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.attack_rules import REMEDIES, RULES, SPACES, THRESHOLDS, detect, detectors, players_of
from benchmarks.attack_worlds import ATTACKS, COPIES, DISGUISED, TWINS, Source, World, honest, sources
from benchmarks.options import parsed
from experiments.repeats import run_all
from fgsv.packages import versions

MOST = 0.01
"""The part of the pot that copies should gain, and honest twins lose, at most."""
KINDS = {"copies": COPIES, "disguised copies": DISGUISED}
CELL = ["data", "rule", "space", "threshold"]
LOSSES = {
    "twins that differ": ["loss, measured twice", "loss, neighbours"],
    "twins that measured closely": ["loss, measured closely"],
}
WHOSE = {"gain": "attacker's gain", "victim's loss": "victim's loss"}


@cache
def _sources() -> dict[str, Source]:
    return sources()


@dataclass(frozen=True)
class Task:
    """A market, attacked or not, whose pot every rule shares out after every detector."""

    data: str
    draw: int
    twins: str = TWINS[0]
    attack: str | None = None
    thresholds: tuple[float, ...] = THRESHOLDS

    def world(self) -> World:
        """Return the market."""
        market = honest(_sources()[self.data], self.twins, self.draw)
        if self.attack is None:
            return market
        number = list(ATTACKS).index(self.attack)
        return ATTACKS[self.attack](market, np.random.default_rng([self.draw, number]))


@dataclass(frozen=True)
class Split:
    """How a rule splits the pot of a market after a detector has said which rows look alike."""

    data: str
    draw: int
    rule: str
    space: str
    threshold: str
    n_found: int
    parts: dict[str, float]

    @property
    def cell(self) -> dict[str, Any]:
        """What was compared."""
        named = {"data": self.data, "rule": self.rule, "space": self.space, "threshold": self.threshold}
        return named | {"draw": self.draw}


def measure(task: Task) -> list[Split]:
    """Return how each rule splits the pot after each detector."""
    world = task.world()
    scores, known = world.scores(), {}
    splits = []
    for space, threshold in detectors(task.thresholds):
        copies = detect(world, space, threshold)
        for rule in RULES:
            alike = b"" if rule in ("GSV", "FGSV") else copies.clusters.tobytes()
            if (rule, alike) not in known:
                known[rule, alike] = players_of(rule, world, copies).shares(scores)
            parts = dict(zip(world.names, known[rule, alike].tolist(), strict=True))
            splits.append(Split(task.data, task.draw, rule, space, threshold, copies.n_copies, parts))
    return splits


def gains(task: Task, attacked: list[Split], calm: list[Split]) -> list[dict[str, Any]]:
    """Return the attacker's gain and the victim's loss by an attack, under each rule after each detector."""
    world = task.world()
    return [
        after.cell
        | {
            "attack": task.attack,
            "look-alikes": after.n_found,
            "share before": (had := sum(before.parts[name] for name in world.before)),
            "gain": sum(after.parts[name] for name in world.attackers) - had,
            "victim's loss": before.parts["victim"] - after.parts["victim"],
        }
        for after, before in zip(attacked, calm, strict=True)
    ]


def losses(twins: str, calm: list[Split]) -> list[dict[str, Any]]:
    """Return what a rule gives the twin that loses more, and whoever loses most, less than FGSV without an attack."""
    fair = next(split.parts for split in calm if split.rule == "FGSV")
    rows = []
    for split in calm:
        lost = {name: fair[name] - part for name, part in split.parts.items()}
        loss = {"loss": max(lost["twin"], lost["other twin"]), "anybody's loss": max(lost.values())}
        rows.append(split.cell | {"twins": twins, "look-alikes": split.n_found} | loss)
    return rows


def by_detector(gained: pd.DataFrame, rule: str = "first holder") -> pd.DataFrame:
    """Return what copies and disguised copies earn under a rule, a column for each detector; means over draws."""
    rows = gained[(gained["rule"] == rule) & gained["attack"].isin([*COPIES, *DISGUISED])]
    rows = rows.assign(detector=rows["space"] + " " + rows["threshold"])
    means = rows.groupby(["data", "attack", "detector"], sort=False)["gain"].mean().unstack()
    return means[list(dict.fromkeys(rows["detector"]))].reset_index()


def own_rows_again(gained: pd.DataFrame) -> str:
    """Say by what the attacker's share is multiplied if it shows its own rows again, with the audit's detector."""
    rows = gained[(gained["attack"] == "own rows again") & (gained["threshold"] == "audit")]
    means = rows.groupby(["rule", "data"], sort=False)[["share before", "gain"]].mean()
    ratios = (1 + means["gain"] / means["share before"]).groupby(level="rule", sort=False)
    ranges = [f"{rule} {part.min():.2f} to {part.max():.2f}" for rule, part in ratios]
    return f"own rows again multiply the attacker's share by: {', '.join(ranges)}"


def frontier(gained: pd.DataFrame, lost: pd.DataFrame) -> pd.DataFrame:
    """Return for each data set, rule and detector the best gain of an attack of each kind, and the twins' losses.

    All are means over the draws: the attacker chooses its attack before it knows the draw.
    """
    columns = {}
    for kind, names in KINDS.items():
        means = gained[gained["attack"].isin(names)].groupby([*CELL, "attack"], sort=False)["gain"].mean()
        columns[f"gain by {kind}"] = means.groupby(level=CELL, sort=False).max()
    for twins in TWINS:
        columns[f"loss, {twins}"] = lost[lost["twins"] == twins].groupby(CELL, sort=False)["loss"].mean()
    columns["anybody's loss"] = lost.groupby(CELL, sort=False)["anybody's loss"].mean()
    return pd.DataFrame(columns).reset_index()


def verdicts(table: pd.DataFrame) -> list[str]:
    """Say which remedies keep gains and losses within `MOST` on all data sets, for each kind of copies and twins."""
    lines = []
    for kind, (twins, columns) in product(KINDS, LOSSES.items()):
        remedies = table[table["rule"].isin(REMEDIES)].copy()
        remedies["loss"] = remedies[columns].max(axis=1)
        worst = remedies.groupby(CELL[1:], sort=False)[[f"gain by {kind}", "loss"]].max()
        excess = worst.max(axis=1)
        met = excess <= MOST
        within = f"{met.sum()} of {len(met)} remedies keep gain and loss within {MOST:.0%} everywhere"
        lines.append(f"{kind}, {twins}: {within}")
        shown = worst[met] if met.any() else worst.loc[[excess.idxmin()]]
        nearest = "" if met.any() else "the nearest: "
        lines += [
            f"  {nearest}{', '.join(name)}: gain at most {gain:.2%}, loss at most {loss:.2%}"
            for name, (gain, loss) in zip(shown.index.tolist(), _rounded(shown).tolist(), strict=True)
        ]
    return lines


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw gain against loss: a panel for each data set, kind of copies and of twins, a line for each remedy."""
    import matplotlib.pyplot as plt

    from fgsv.plots import GREY, SERIES

    data = list(dict.fromkeys(table["data"]))
    differ, close = LOSSES
    rows = [("copies", differ), ("copies", close), ("disguised copies", differ)]
    figure, axes = plt.subplots(len(rows), len(data), figsize=(4 * len(data), 10), squeeze=False)
    for ((kind, twins), name), ax in zip(product(rows, data), axes.flat, strict=True):
        here = table[table["data"] == name]
        gain, loss = 100 * here[f"gain by {kind}"], 100 * here[LOSSES[twins]].max(axis=1)
        ax.axhline(gain[here["rule"] == "FGSV"].iloc[0], color=GREY, linestyle=":", label="FGSV, no remedy")
        ax.fill_between([-100, 100 * MOST], -100, 100 * MOST, color=GREY, alpha=0.2, linewidth=0, label="at most 1%")
        for rule, colour in zip(REMEDIES, SERIES, strict=False):
            for space, style in zip(SPACES, ("o-", "s--"), strict=True):
                line = (here["rule"] == rule) & (here["space"] == space) & (here["threshold"] != "audit")
                ax.plot(loss[line], gain[line], style, color=colour, markersize=4, label=f"{rule}, {space}")
        shown = here["rule"] != "GSV"
        for numbers, limit in ((loss[shown], ax.set_xlim), (gain[shown], ax.set_ylim)):
            low, high = min(-1.0, numbers.min()), max(2.0, numbers.max())
            limit(low - 0.05 * (high - low), high + 0.05 * (high - low))
        ax.set_title(f"{name}: {kind},\n{twins}", fontsize=10)
    for ax in axes[-1]:
        ax.set_xlabel("an honest twin's loss, % of the pot")
    for ax in axes[:, 0]:
        ax.set_ylabel("the attacker's gain, % of the pot")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncols=5, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)


def run(
    draws: int, data: Sequence[str], thresholds: tuple[float, ...], jobs: int
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the table of gains, that of losses, and the frontier."""
    kinds = [*((twins, None) for twins in TWINS), *((TWINS[0], attack) for attack in ATTACKS)]
    tasks = [Task(name, each, *kind, thresholds) for name in data for each in range(draws) for kind in kinds]
    splits = dict(zip(tasks, run_all(measure, tasks, jobs=jobs, label="markets"), strict=True))
    gained, lost = [], []
    for task, found in splits.items():
        if task.attack is None:
            lost += losses(task.twins, found)
        else:
            gained += gains(task, found, splits[replace(task, attack=None)])
    return pd.DataFrame(gained), pd.DataFrame(lost), frontier(pd.DataFrame(gained), pd.DataFrame(lost))


def _rounded(numbers: Any) -> np.ndarray:
    """Return fractions to a hundredth of a percent, none of them minus zero."""
    return np.round(np.asarray(numbers, dtype=float), 4) + 0.0


def _percent(table: pd.DataFrame) -> str:
    numbers = table.select_dtypes("number").columns
    shown = {name: [f"{100 * part:.1f}" for part in np.round(_rounded(table[name]), 3) + 0.0] for name in numbers}
    return table.assign(**shown).to_string(index=False)


def main() -> None:
    """Run the benchmark, print its tables and write them."""
    parser = argparse.ArgumentParser("attacks", description=__doc__)
    parser.add_argument("--draws", type=int, default=3, help="markets drawn from each data set")
    parser.add_argument("--quick", action="store_true", help="one draw of one data set: half a minute")
    parser.add_argument("--jobs", type=int, default=2)
    options = parsed(parser, "attacks")
    names, draws = list(_sources()), options.draws
    if options.quick:
        names, draws = ["diabetes, ridge"], 1
    gained, lost, table = run(draws, names, THRESHOLDS, options.jobs)
    options.out.mkdir(parents=True, exist_ok=True)
    audited = gained[gained["threshold"] == "audit"]
    for what, words in WHOSE.items():
        means = audited.groupby(["data", "attack", "rule"], sort=False)[what].mean().unstack()[list(RULES)]
        print(f"The {words}, in % of the pot, with the detector of the audit")
        print(_percent(means.reset_index()), "\n")
    print("The attacker's gain if the first holder keeps what looks alike, by space and threshold, in % of the pot")
    print(_percent(by_detector(gained)), "\n")
    print("The best gain by copies, and what an honest twin loses, in % of the pot")
    print(_percent(table[table["rule"].isin(REMEDIES) | (table["threshold"] == "audit")]), "\n")
    lines = [own_rows_again(gained), *verdicts(table)]
    print("\n".join(lines))
    gained.to_csv(options.out / "gains.csv", index=False)
    lost.to_csv(options.out / "losses.csv", index=False)
    table.to_csv(options.out / "frontier.csv", index=False)
    draw(table, options.out / "frontier.png")
    document = {
        "draws": draws,
        "verdicts": lines,
        "frontier": table.to_dict("records"),
        "gains": gained.to_dict("records"),
        "losses": lost.to_dict("records"),
        "versions": versions(),
    }
    text = json.dumps(document, indent=1, allow_nan=False)
    (options.out / "attacks.json").write_text(text + "\n", encoding="utf-8")
