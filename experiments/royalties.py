"""Royalties for each prompt: SRS and FSRS of whole and split providers, their shares, and the paper's figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fgsv
from experiments import records
from fgsv.plots import new_figure
from fgsv.types import Floats, Images

Scenario = tuple[str, str]
"""SRS or FSRS, whole or split."""
TONES = {"": "#d9772b", "large": "#d9772b", "small": "#f2b880"}
"""Of a provider that stays whole in the split scenario, and of the two parts of another, by how their names end."""


def four_scenarios(
    game: Any,
    wholes: list[str],
    parts: list[str],
    folder: Path,
    *,
    stderr: float,
    spared: int = 0,
    **how: Any,
) -> dict[Scenario, fgsv.Valuation]:
    """Return the valuations behind SRS and FSRS, of whole providers and of the parts that they split into.

    `wholes` and `parts` have a name for each player. SRS is the exact GSV: 2^K evaluations for K groups. FSRS of both
    comes from one run over the players, with the arguments `how`, until the standard error of every share is at most
    `stderr`, but for the `spared` outputs with the largest errors.
    """

    def known_well(progress: Any) -> str | None:
        both = progress.valuation, progress.valuation.regroup(parts)
        errors = np.concatenate([each.stderr / np.where(each.total > 0, each.total, np.nan) for each in both])
        largest = np.sort(errors.max(axis=0))  # NaN, for an output with nothing to share, is last
        largest = largest[np.isfinite(largest)]
        if len(largest) == 0 or largest[max(0, len(largest) - 1 - spared)] > stderr:
            return None
        return f"every share's standard error is at most {stderr:g}{f', but for {spared} output' if spared else ''}"

    ledger = folder / "ledger.db"
    found: dict[Scenario, fgsv.Valuation] = {}
    for scenario, groups in (("whole", wholes), ("split", parts)):
        records.say(f"evaluating coalitions of {len(set(groups))} groups, for SRS")
        found["SRS", scenario] = fgsv.exact(fgsv.grouped(game, groups), ledger=ledger)
    records.say(f"sampling coalitions of {len(wholes)} players, for FSRS")
    found["FSRS", "whole"] = fgsv.value(game, wholes, ledger=ledger, stop=known_well, **how)
    found["FSRS", "split"] = found["FSRS", "whole"].regroup(parts)
    found["FSRS", "whole"].save(folder / "valuation.json")
    return found


def shares_of(values: Floats, *, clip: bool = False) -> Floats:
    """Return values over their sum along the first axis; NaN where that sum is not positive: nothing to share.

    >>> shares_of(np.array([3.0, 1.0, -2.0])).tolist()
    [1.5, 0.5, -1.0]
    >>> shares_of(np.array([3.0, 1.0, -2.0]), clip=True).tolist()
    [0.75, 0.25, 0.0]

    `clip` sets negative values to zero first, as the paper's authors do. Clipped shares are not faithful: a brand
    some of whose images have negative values gains by splitting.
    """
    values = np.maximum(values, 0) if clip else values
    total = values.sum(axis=0)
    return values / np.where(total > 0, total, np.nan)


def table_of(results: Mapping[Scenario, fgsv.Valuation]) -> pd.DataFrame:
    """Return a row for each scenario, prompt and player: value, share, its standard error, and the clipped share."""
    frames = []
    for (rule, scenario), valuation in results.items():
        frame = valuation.to_frame()[["output", "group", "value", "stderr"]]
        frame = frame.rename(columns={"output": "prompt", "group": "player"})
        total = np.repeat(np.where(valuation.total > 0, valuation.total, np.nan), len(valuation))
        frame["share"] = frame["value"] / total
        frame["stderr"] /= total
        frame["clipped"] = shares_of(valuation.values, clip=True).T.ravel()
        frames.append(frame.assign(rule=rule, scenario=scenario))
    return with_providers(pd.concat(frames, ignore_index=True))


def with_providers(table: pd.DataFrame) -> pd.DataFrame:
    """Say of each player whose part it is: a whole provider's own, or, by its name, that of one that is split."""
    wholes = table.player[table.scenario == "whole"].unique()
    of = {whole + end: whole for end in ("large", "small", "") for whole in wholes}
    return table.assign(provider=table.player.map(of))


def split_minus_whole(table: pd.DataFrame) -> float:
    """Return the largest difference between a provider's FGSV and the sum over its parts."""
    values = table[table.rule == "FSRS"].groupby(["prompt", "provider", "scenario"])["value"].sum().unstack()
    return float((values["split"] - values["whole"]).abs().max())


def paid_most(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return rule -> prompt -> the whole provider with the largest share, for prompts with something to share."""
    rows = table[table.scenario == "whole"].dropna(subset="share")
    best = rows.loc[rows.groupby(["rule", "prompt"])["share"].idxmax()]
    return {str(rule): dict(zip(each.prompt, each.player, strict=True)) for rule, each in best.groupby("rule")}


def text(table: pd.DataFrame) -> str:
    """Return the shares as plain tables to print, one for each scenario."""
    errors = table["stderr"].map(lambda error: f" ± {error:.3f}" if error > 0 else "")
    shown = table.assign(shown=table["share"].map("{:.3f}".format) + errors)
    blocks = [
        f"{rule}, {scenario}\n"
        + rows.pivot_table(values="shown", index="prompt", columns="player", aggfunc="first", sort=False).to_string()
        for (rule, scenario), rows in shown.groupby(["rule", "scenario"], sort=False)
    ]
    return "\n\n".join(blocks)


def report(
    out: Path,
    name: str,
    results: Mapping[Scenario, fgsv.Valuation],
    images: Mapping[str, Images] | None = None,
    **record: Any,
) -> pd.DataFrame:
    """Print the shares of the four scenarios, write them with their figures, and return the table."""
    faithful = results["FSRS", "whole"]
    table = table_of(results)
    gains = dict(zip(faithful.outputs or (), map(float, faithful.total), strict=True))
    record |= {
        "gain": gains,
        "paid most": paid_most(table),
        "split minus whole": split_minus_whole(table),
        "stopped": str(faithful.end),
        "evaluations": faithful.n_evaluations,
    }
    print(text(table))
    print("\n".join(f"{key}: {record[key]}" for key in ("gain", "paid most", "split minus whole")))
    print(f"stopped after {faithful.n_evaluations} evaluations: {faithful.end}")
    panel: Mapping[str, Any] = images or {prompt: (gain, 0.0) for prompt, gain in gains.items()}
    figures = {name: draw(table, panel, "linear shares of U(N) - U(0)")}
    if (table["value"] < 0).any():
        clipped = table.assign(share=table["clipped"], stderr=0.0)  # errors of linear shares do not hold for these
        figures[f"{name}_clipped"] = draw(clipped, panel, "negative values clipped at zero, which is not faithful")
    records.save(out, name, table, figures, **record)
    return table


def draw(table: pd.DataFrame, panel: Mapping[str, Any], note: str) -> Any:
    """Draw the paper's three panels: images (or utility gains), SRS and FSRS, brands whole and split.

    `panel` has for each prompt a few (H, W, 3) images, or U(N) - U(0) and its standard error.
    """
    figure = new_figure((13, 2.3 * len(panel) + 0.9))
    panels: Any = figure.subfigures(1, 3, width_ratios=(1.0, 1.3, 1.3))
    left, middle, right = panels
    if isinstance(next(iter(panel.values())), tuple):
        _gains(left, panel)
    else:
        _images(left, panel)
    _bars(middle, table[table.rule == "SRS"], "(b) SRS: groups as players")
    _bars(right, table[table.rule == "FSRS"], "(c) FSRS: sums of players")
    figure.supxlabel(note, fontsize=8)
    return figure


def _images(panel: Any, images: Mapping[str, Images]) -> None:
    shown = min(4, *map(len, images.values()))
    for row, (prompt, some) in zip(panel.subplots(len(images), shown, squeeze=False), images.items(), strict=True):
        for axis, image in zip(row, some[:shown], strict=True):
            axis.imshow(image, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
        row[0].set_ylabel(prompt, fontsize=9)
    panel.suptitle("(a) generated images", fontsize=10)


def _gains(panel: Any, gains: Mapping[str, tuple[float, float]]) -> None:
    axes = panel.subplots(len(gains), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (prompt, (gain, error)) in zip(axes, gains.items(), strict=True):
        axis.barh([0], [gain], xerr=[error], color="0.6", height=0.5)
        axis.set(yticks=[], ylim=(-1, 1), ylabel=prompt)
        axis.spines[["top", "right"]].set_visible(False)
    panel.suptitle("(a) log-likelihood gained by fine-tuning", fontsize=10)


def _bars(panel: Any, table: pd.DataFrame, title: str) -> None:
    """Draw whole providers beside their parts: stacked, negative ones below zero, with a line at the sum."""
    providers, prompts = list(dict.fromkeys(table.provider)), list(dict.fromkeys(table.prompt))
    axes = panel.subplots(len(prompts), 1, sharex=True, squeeze=False)[:, 0]
    for axis, prompt in zip(axes, prompts, strict=True):
        for (scenario, provider), rows in table[table.prompt == prompt].groupby(["scenario", "provider"], sort=False):
            place = providers.index(provider) + (0.2 if scenario == "split" else -0.2)
            bottom = {True: 0.0, False: 0.0}  # of the stacks above and below zero
            for row in rows.itertuples():
                colour = TONES[row.player.removeprefix(provider)] if scenario == "split" else "#3b6ea8"
                error = row.stderr if row.stderr > 0 else None
                axis.bar(place, row.share, 0.38, bottom[row.share > 0], yerr=error, color=colour, capsize=2)
                bottom[row.share > 0] += row.share
            if len(rows) > 1:
                axis.hlines(rows.share.sum(), place - 0.19, place + 0.19, color="black", linewidth=1.5)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_ylabel(prompt, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xticks(range(len(providers)), providers, fontsize=9, rotation=25, ha="right")
    for colour, label in (("#3b6ea8", "whole"), (TONES["large"], "split: large"), (TONES["small"], "small")):
        axes[0].bar([0], [0], color=colour, label=label)
    axes[0].plot([], [], color="black", linewidth=1.5, label="sum")
    axes[0].margins(y=0.3)  # room for the legend
    axes[0].legend(fontsize=7, frameon=False, ncols=4, columnspacing=1.2, loc="upper left")
    panel.suptitle(title, fontsize=10)
