"""Plots: matplotlib axes of values, shares, convergence, attacks, prudence, stability. None of them calls `show`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fgsv.checks import as_list, check_type
from fgsv.packages import optional
from fgsv.valuation import Valuation, check_valuation
from fgsv.words import level

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fgsv.diagnosis import Diagnosis

# From Okabe and Ito's palette, which colour-blind readers can tell apart.
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
GREY = "#7F7F7F"
SERIES = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9")
MOST_GROUPS = 40
"""Groups that a plot shows: those whose values are furthest from zero."""


def values(valuation: Valuation, ax: Axes | None = None, *, confidence: float = 0.95) -> Axes:
    """Draw each group's value with its interval; negative values have another colour.

    Args:
        valuation: Of one output or several, which are side by side; of many groups the 40 furthest from zero.
        ax: Axes of matplotlib to draw into. Default: those of a new figure, tall enough.
        confidence: Level of the intervals.

    Returns:
        The axes; `ax.figure.savefig(path)` saves them.

    """
    check_valuation(valuation)
    ax = _axes(ax, valuation.partition.n_groups)
    _dots(ax, valuation, valuation.values, valuation.half_width(confidence))
    kind = "usual group value (GSV)" if valuation.grouped else "faithful value"
    ax.set_xlabel(f"{kind}, with {level(confidence)} intervals")
    return ax


def players(valuation: Valuation, ax: Axes | None = None, *, confidence: float = 0.95) -> Axes:
    """Draw each player's value with its interval.

    Args:
        valuation: Its players are drawn as groups of one; of many those that earn and cost most.
        ax: Axes of matplotlib to draw into. Default: those of a new figure, tall enough.
        confidence: Level of the intervals.

    """
    check_valuation(valuation)
    return values(valuation.of_players(), ax, confidence=confidence)


def shares(valuation: Valuation, ax: Axes | None = None, *, confidence: float = 0.95) -> Axes:
    """Draw each group's share of U(N) - U(0) in percent, with its interval.

    Args:
        valuation: With something to share; of many groups the 40 furthest from zero.
        ax: Axes of matplotlib to draw into. Default: those of a new figure, tall enough.
        confidence: Level of the intervals.

    """
    check_valuation(valuation)
    ax = _axes(ax, valuation.partition.n_groups)
    bounds = 100 * valuation.share_interval(confidence)
    _dots(ax, valuation, 100 * valuation.shares(), (bounds[..., 1] - bounds[..., 0]) / 2)
    ax.set_xlabel(f"share in percent, with {level(confidence)} intervals")
    return ax


def convergence(rounds: Iterable[Any], ax: Axes | None = None, *, confidence: float = 0.95) -> Axes:
    """Draw the widest interval of a value against the evaluations, both on logarithmic axes.

    Args:
        rounds: Those of `fgsv.iterate`, or the history of a result (`fgsv.results.Result.load(path).history`).
        ax: Axes of matplotlib to draw into. Default: those of a new figure.
        confidence: Level of the intervals of values; a history has widths of shares, at its own level.

    Raises:
        ValueError: All values are exact, or their errors unknown.

    """
    if isinstance(rounds, Valuation):
        raise ValueError("a valuation keeps no history: pass the rounds of fgsv.iterate, or the history of a result")
    points = []
    of_shares = False
    expected = "rounds must be those of fgsv.iterate, or the history of a result"
    for each in as_list(rounds, expected):
        if not hasattr(each, "half_width"):
            raise TypeError(f"{expected}, got {rounds!r:.200}")
        of_shares = not isinstance(each, Valuation)
        width = each.half_width if of_shares else float(np.max(each.half_width(confidence)))
        points += [(each.n_evaluations, width)] if width and np.isfinite(width) else []
    if not points:
        raise ValueError("there is no convergence to draw: the values are exact, or their errors are unknown")
    ax = _axes(ax, 8)
    ax.set_ylabel(f"widest half-width of a {'share' if of_shares else 'value'}")
    evaluations, widths = np.array(points).T
    ax.loglog(evaluations, widths, color=BLUE, marker=".", label="this run")
    reference = widths[-1] * np.sqrt(evaluations[-1] / evaluations)
    ax.loglog(evaluations, reference, color=GREY, linestyle="--", label="1 / square root of evaluations")
    ax.set_xlabel("evaluations")
    ax.legend(frameon=False)
    return ax


def attack(gains: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw what each provider gains by splitting under GSV, with intervals, and under FGSV (nothing).

    A provider's splits are in the order of the table: one colour for each way, with more and more parts.

    `gains` is the table of `fgsv.audit.shell_companies`: group, way, parts, gain, gain_low, gain_high.
    """
    if "gain_low" not in getattr(gains, "columns", ()):
        raise TypeError(f"expected the table of fgsv.audit.shell_companies, got {type(gains).__name__}")
    names = list(dict.fromkeys(gains["group"]))
    ways = list(dict.fromkeys(gains["way"]))
    rank = gains.groupby("group").cumcount()
    most = int(rank.max()) + 1 if len(gains) else 1
    ax = _axes(ax, len(names) * most / 2)
    for number, way in enumerate(ways):
        chosen = gains["way"] == way
        rows = gains[chosen]
        places = np.array([names.index(name) for name in rows["group"]], dtype=float)
        places += (rank[chosen] - (most - 1) / 2) * 0.8 / most
        reach = np.abs(rows[["gain_low", "gain_high"]].to_numpy(float).T - rows["gain"].to_numpy(float))
        colour = SERIES[number % len(SERIES)]
        ax.errorbar(100 * rows["gain"], places, xerr=100 * reach, fmt="o", color=colour, label=f"GSV, split {way}")
    ax.axvline(0, color=GREY, linewidth=1, label="FGSV: no gain from any split")
    _label_rows(ax, names)
    ax.set_xlabel("gain in percentage points of all shares")
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def prudence(diagnosis: Diagnosis, ax: Axes | None = None) -> Axes:
    """Draw the mean utility by size of coalition with its band, from `fgsv.diagnose`.

    Where it is concave (grows ever more slowly), a group gains by splitting under GSV, but not under FGSV.
    """
    _check_diagnosis(diagnosis)
    ax = _axes(ax, 8)
    _band(ax, diagnosis.by_size, "mean utility, with a band of two standard errors")
    ax.set_xlabel("size of the coalition")
    ax.set_ylabel("utility")
    ax.legend(frameon=False)
    return ax


def stability(diagnosis: Diagnosis, path: str | Path | None = None) -> Figure:
    """Draw mean utility, deletion and second-order differences by size; save them if a path is given."""
    _check_diagnosis(diagnosis)
    figure = new_figure((11, 3.4))
    panels = figure.subplots(1, 3)
    table = diagnosis.by_size
    _band(panels[0], table, "smoothed, with a band")
    panels[0].plot(table["size"], table["mean"], "o", markersize=4, color="black", label="mean")
    panels[0].set(title="mean utility")
    for panel, name, slope in (
        (panels[1], "deletion", diagnosis.deletion),
        (panels[2], "second_order", diagnosis.second_order),
    ):
        columns = ((f"{name}_mean", BLUE, "mean"), (f"{name}_99", ORANGE, "99th percentile"))
        for column, colour, label in columns:
            shown = table[table[column] > 0]
            panel.plot(shown["size"], shown[column], "o", markersize=4, color=colour, label=label)
        if np.isfinite(slope.exponent):  # otherwise too few sizes have differences
            line = slope.scale * slope.sizes**slope.exponent
            panel.plot(slope.sizes, line, color=BLUE, linewidth=1, label=f"size^{slope.exponent:.2f}")
        scale = "log" if (table[f"{name}_99"] > 0).any() else "linear"  # nothing differs in a constant game
        panel.set(title=f"{name.replace('_', '-')} differences", yscale=scale)
    for panel in panels:
        panel.set(xlabel="size", xscale="log")
        panel.legend(frameon=False, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _check_diagnosis(given: object) -> None:
    from fgsv.diagnosis import Diagnosis  # here: a plot of values needs none

    check_type(given, Diagnosis, "a diagnosis", "fgsv.diagnose makes one")


def _band(ax: Axes, by_size: pd.DataFrame, label: str) -> None:
    """Draw the smoothed mean utility by size, with its band."""
    ax.fill_between(by_size["size"], by_size["low"], by_size["high"], color=BLUE, alpha=0.2, linewidth=0)
    ax.plot(by_size["size"], by_size["smoothed"], color=BLUE, label=label)


def _dots(ax: Axes, valuation: Valuation, centres: Any, reach: Any) -> None:
    """Draw a dot with an interval for each group; several outputs are side by side."""
    names = [str(name) for name in valuation.names]
    columns = np.asarray(centres).reshape(len(names), -1)
    reaches = np.nan_to_num(np.asarray(reach).reshape(columns.shape))
    largest = np.argsort(-np.abs(columns).max(axis=1), kind="stable")[:MOST_GROUPS]
    shown = np.sort(largest)  # in their own order
    outputs = valuation.outputs or ("",)
    for number, output in enumerate(outputs):
        places = np.arange(len(shown)) + (number - (len(outputs) - 1) / 2) * 0.6 / len(outputs)
        colours = [SERIES[number % len(SERIES)]] * len(shown)
        if len(outputs) == 1:
            colours = [ORANGE if value < 0 else BLUE for value in columns[shown, number]]
        centre = columns[shown, number]
        half = reaches[shown, number]
        ax.hlines(places, centre - half, centre + half, colors=colours, linewidth=2)
        ax.scatter(centre, places, c=colours, zorder=3, label=output or None)
    ax.axvline(0, color=GREY, linewidth=1)
    _label_rows(ax, [names[group] for group in shown])
    if len(outputs) > 1:
        # above the axes: among the intervals, its dots would look like values
        legend = ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(outputs))
        for text in legend.get_texts():
            text.set_parse_math(False)
    if len(shown) < len(names):
        title = f"the {len(shown)} of {len(names):,} groups furthest from zero"
        ax.set_title(title, loc="left", fontsize="small")


def _label_rows(ax: Axes, names: list[str]) -> None:
    """Write the names beside their rows, the first at the top; a dollar in a name begins no formula."""
    ax.set_yticks(range(len(names)), [str(name) for name in names], parse_math=False)
    ax.invert_yaxis()


def _axes(ax: Axes | None, rows: float) -> Axes:
    """Return the given axes, or new ones tall enough for this many rows."""
    if isinstance(ax, str | Path):
        raise TypeError(f"ax must be matplotlib axes; save those that are returned: ax.figure.savefig({str(ax)!r})")
    if ax is not None:
        check_type(ax, optional("matplotlib.axes", "plots", "plots").Axes, "matplotlib axes as ax")
        return ax
    return new_figure((7, float(np.clip(1.2 + 0.32 * rows, 3, 14)))).add_subplot()


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty matplotlib figure of this size in inches; needs `fgsv[plots]`.

    It avoids pyplot, which would keep the figure alive and may need a window system.
    """
    figure: Figure = optional("matplotlib.figure", "plots", "plots").Figure(figsize=size, layout="constrained")
    return figure
