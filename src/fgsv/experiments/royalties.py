"""Royalty shares of providers for each prompt: the table, its JSON and CSV, and the paper's three-panel figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import fgsv
from fgsv.files import to_csv, write_whole
from fgsv.plots import new_figure
from fgsv.types import Floats


@dataclass(frozen=True, eq=False)
class Royalties:
    """The shares of each prompt's royalty, under one rule and one grouping."""

    prompts: tuple[str, ...]
    players: tuple[str, ...]
    shares: Floats
    """(prompts, players); a row sums to 1, or is NaN where there is nothing to share."""
    stderr: Floats
    """(prompts, players) standard errors of the shares; zero where they are exact or unknown."""

    def nested(self, what: str = "shares") -> dict[str, dict[str, float | None]]:
        """Return prompt -> player -> share (or `stderr`); None where there is nothing to share."""
        table: Floats = getattr(self, what)
        return {
            prompt: {
                player: float(number) if np.isfinite(number) else None
                for player, number in zip(self.players, row, strict=True)
            }
            for prompt, row in zip(self.prompts, table, strict=True)
        }


def shares_of(values: Floats, *, clip: bool = False) -> Floats:
    """Return values over their sum along the last axis; all zero where that sum is not positive.

    >>> shares_of(np.array([3.0, 1.0, -2.0])).tolist()
    [1.5, 0.5, -1.0]
    >>> shares_of(np.array([3.0, 1.0, -2.0]), clip=True).tolist()
    [0.75, 0.25, 0.0]

    `clip` sets negative values to zero first, as the paper's authors do. Clipped shares are not faithful: a brand
    some of whose images have negative values gains by splitting. Unlike `fgsv.payout.royalty_shares`, this takes
    arrays of any number of axes, and a prompt with nothing to share does not stop the others from being shared.
    """
    if clip:
        values = np.maximum(values, 0.0)
    total = values.sum(axis=-1, keepdims=True)
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)


def royalties(result: fgsv.Valuation, *, clip: bool = False) -> Royalties:
    """Return the shares of a valuation, (prompts, players); NaN for a prompt whose U(N) - U(0) is not positive."""
    total = np.asarray(result.total)[:, None]
    shares = np.where(total > 0, shares_of(result.values.T, clip=clip), np.nan)
    errors = np.where(total > 0, result.stderr.T / np.abs(total), np.nan)
    if clip:
        errors = np.zeros_like(errors)  # not shown: those of the linear shares do not hold after clipping
    assert result.outputs is not None
    return Royalties(result.outputs, tuple(map(str, result.names)), shares, errors)


def write_shares(
    results: Mapping[str, fgsv.Valuation], folder: Path, **more: Any
) -> tuple[dict[str, Royalties], str]:
    """Write shares.json, shares.csv and the valuation; return the shares of each scenario, and what to print of them.

    `results` are the four scenarios of whole and split providers; `more` are further keys of the JSON.
    """
    tables = {name: royalties(result) for name, result in results.items()}
    valuation = results["fsrs_whole"]
    gains, paid_most, gap = gains_of(valuation), paid_most_of(tables), split_minus_whole(results)
    write_json(
        tables,
        folder / "shares.json",
        gain=gains,
        paid_most=paid_most,
        split_minus_whole=gap,
        stopped=str(valuation.end),
        n_evaluations=valuation.n_evaluations,
        **more,
    )
    write_csv(tables, folder / "shares.csv")
    valuation.save(folder / "valuation.json")
    lines = [text(tables), "", "linear shares of U(N) - U(0); ± Monte Carlo error, none for SRS, which is exact"]
    for prompt, gain in gains.items():
        most = ", ".join(f"{name}: {provider}" for name, provider in paid_most[prompt].items())
        most = most or "nobody, there is nothing to share"
        lines.append(f"{prompt:<12} U(N) - U(0) = {gain:9.4f}; paid most: {most}")
    lines.append(f"parts minus whole, largest difference of FGSV: {gap:.2g}")
    lines.append(f"stopped after {valuation.n_evaluations} evaluations: {valuation.end}")
    return tables, "\n".join(lines)


def gains_of(valuation: fgsv.Valuation) -> dict[str, float]:
    """Return U(N) - U(0) for each prompt."""
    assert valuation.outputs is not None
    return dict(zip(valuation.outputs, np.asarray(valuation.total).tolist(), strict=True))


def paid_most_of(tables: Mapping[str, Royalties]) -> dict[str, dict[str, str]]:
    """Return prompt -> rule -> the whole provider with the largest share, for prompts with something to share."""
    return {
        prompt: {
            name: table.players[int(np.argmax(table.shares[q]))]
            for name, table in tables.items()
            if name.endswith("whole") and np.isfinite(table.shares[q]).all()
        }
        for q, prompt in enumerate(tables["srs_whole"].prompts)
    }


def split_minus_whole(results: Mapping[str, fgsv.Valuation]) -> float:
    """Return the largest difference between a provider's FGSV and the sum over its parts."""
    whole, split = results["fsrs_whole"], results["fsrs_split"]
    names = list(map(str, split.names))
    sums = [split.values[parts_of(str(provider), names)].sum(axis=0) for provider in whole.names]
    return float(np.abs(sums - whole.values).max())


def parts_of(provider: str, players: Sequence[str]) -> list[int]:
    """Return the places of a provider, whole or in its two parts, among players.

    >>> parts_of("rich", ["richlarge", "richsmall", "richer"])
    [0, 1]
    """
    return [k for k, player in enumerate(players) if player in (provider, f"{provider}large", f"{provider}small")]


def write_json(tables: Mapping[str, Royalties], path: Path, **more: Any) -> None:
    """Write each scenario as prompt -> player -> share, their errors under `stderr`, and `more` keys."""
    content: dict[str, Any] = {name: table.nested() for name, table in tables.items()}
    content["stderr"] = {name: table.nested("stderr") for name, table in tables.items()}
    write_whole(path, json.dumps(content | more, indent=2) + "\n")


def write_csv(tables: Mapping[str, Royalties], path: Path) -> None:
    """Write one line for each scenario, prompt and player."""
    rows = [
        (name, prompt, player, table.shares[q, k], table.stderr[q, k])
        for name, table in tables.items()
        for q, prompt in enumerate(table.prompts)
        for k, player in enumerate(table.players)
    ]
    frame = pd.DataFrame(rows, columns=["scenario", "prompt", "player", "share", "stderr"])
    write_whole(path, to_csv(frame, float_format="%.6f", na_rep="nan"))


def text(tables: Mapping[str, Royalties]) -> str:
    """Return the shares as a plain table to print, one block for each scenario."""
    blocks = []
    for name, table in tables.items():
        width = max(len(player) for player in table.players) + 2
        head = f"{name:<12}" + "".join(f"{player:>{max(width, 16)}}" for player in table.players)
        rows = [
            f"{prompt:<12}"
            + "".join(
                f"{f'{share:.3f}' + (f' ± {error:.3f}' if error else ''):>{max(width, 16)}}"
                for share, error in zip(table.shares[q], table.stderr[q], strict=True)
            )
            for q, prompt in enumerate(table.prompts)
        ]
        blocks.append("\n".join([head, *rows]))
    return "\n\n".join(blocks)


def figure(
    tables: Mapping[str, Royalties],
    path: Path,
    *,
    images: Mapping[str, Sequence[NDArray[np.uint8]]] | None = None,
    gains: Mapping[str, tuple[float, float]] | None = None,
    note: str = "",
) -> None:
    """Draw the paper's three panels: images (or utility gains), SRS and FSRS, brands whole and split.

    `images` has a few (H, W, 3) images for each prompt; without them panel (a) shows `gains`, each prompt's
    U(N) - U(0) with its standard error. The parts of a split brand, such as `googlelarge` and `googlesmall`, are
    stacked in two tones, negative ones below zero, with a line at their sum.
    """
    prompts = tables["srs_whole"].prompts
    drawing = new_figure((13, 2.3 * len(prompts) + 0.9))
    panels: Any = drawing.subfigures(1, 3, width_ratios=(1.0, 1.3, 1.3))
    left, middle, right = panels
    if images is not None:
        _images(left, prompts, images)
    else:
        _gains(left, prompts, gains or {})
    _bars(middle, tables["srs_whole"], tables["srs_split"], "(b) SRS: groups as players")
    _bars(right, tables["fsrs_whole"], tables["fsrs_split"], "(c) FSRS: sums of players")
    if note:
        drawing.supxlabel(note, fontsize=8)
    drawing.savefig(path, dpi=130)


def _images(panel: Any, prompts: Sequence[str], images: Mapping[str, Sequence[NDArray[np.uint8]]]) -> None:
    shown = min(4, *(len(some) for some in images.values()))
    axes = panel.subplots(len(prompts), shown, squeeze=False)
    for row, prompt in zip(axes, prompts, strict=True):
        row[0].set_ylabel(prompt, fontsize=9)
        for axis, image in zip(row, images[prompt][:shown], strict=True):
            axis.imshow(image, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    panel.suptitle("(a) generated images", fontsize=10)


def _gains(panel: Any, prompts: Sequence[str], gains: Mapping[str, tuple[float, float]]) -> None:
    axes = panel.subplots(len(prompts), 1, squeeze=False)[:, 0]
    top = 1.15 * max((gain + error for gain, error in gains.values()), default=1.0)
    for axis, prompt in zip(axes, prompts, strict=True):
        gain, error = gains[prompt]
        axis.barh([0], [gain], xerr=[error], color="0.6", height=0.5)
        axis.set(yticks=[], xlim=(0, top), ylim=(-1, 1), ylabel=prompt)
        axis.spines[["top", "right"]].set_visible(False)
    panel.suptitle("(a) log-likelihood gained by fine-tuning", fontsize=10)


def _bars(panel: Any, whole: Royalties, split: Royalties, title: str) -> None:
    brands = whole.players
    axes = panel.subplots(len(whole.prompts), 1, sharex=True, squeeze=False)[:, 0]
    where = np.arange(len(brands))
    for q, (axis, prompt) in enumerate(zip(axes, whole.prompts, strict=True)):
        axis.bar(where - 0.2, whole.shares[q], 0.38, yerr=_errors(whole, q), color="#3b6ea8", capsize=2)
        for position, brand in zip(where + 0.2, brands, strict=True):
            parts = parts_of(brand, split.players)
            ends = {True: 0.0, False: 0.0}  # of the stacks above and below zero
            for k, colour in zip(parts, ("#d9772b", "#f2b880"), strict=False):
                share, error = split.shares[q, k], _errors(split, q, k)
                axis.bar(position, share, 0.38, bottom=ends[share > 0], yerr=error, color=colour, capsize=2)
                ends[share > 0] += share
            if len(parts) > 1:
                axis.hlines(sum(ends.values()), position - 0.19, position + 0.19, color="black", linewidth=1.5)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_ylabel(prompt, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    slanted: dict[str, Any] = {"rotation": 25, "ha": "right"} if sum(map(len, brands)) > 36 else {}
    axes[-1].set_xticks(where, brands, fontsize=9, **slanted)
    handles = [
        axes[0].bar([0], [0], color=colour, label=label)
        for colour, label in (("#3b6ea8", "whole"), ("#d9772b", "split: large"), ("#f2b880", "small"))
    ]
    handles += axes[0].plot([], [], color="black", linewidth=1.5, label="sum")
    axes[0].margins(y=0.3)  # room for the legend
    axes[0].legend(handles=handles, fontsize=7, frameon=False, ncols=4, columnspacing=1.2, loc="upper left")
    panel.suptitle(title, fontsize=10)


def _errors(table: Royalties, prompt: int, player: int | slice = slice(None)) -> Any:
    """Return the error bars of a prompt's shares; None where there are none to show."""
    return table.stderr[prompt, player] if table.stderr.any() else None
