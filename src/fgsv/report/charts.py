"""Charts of the report, as Vega-Lite specifications."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fgsv.plots import BLUE, GREY, ORANGE, SERIES

MOST_ROWS = 60
"""Shares that a chart shows: a row for each output of a group."""
STEP = 22


def most_groups(n_outputs: int) -> int:
    """Return how many groups a chart of shares shows, each with all its outputs.

    >>> most_groups(1), most_groups(3)
    (60, 20)
    """
    return max(1, MOST_ROWS // n_outputs)


def share_chart(frame: pd.DataFrame, name: str | None = None) -> dict[str, Any]:
    """Return a dot with an interval for each group; a page can replace the rows of the data set called `name`."""
    frame = frame.rename(columns={"share_low": "low", "share_high": "high"})
    outputs = list(dict.fromkeys(frame["output"])) if "output" in frame else []
    furthest = frame["share"].abs().groupby(frame["group"], sort=False).max()
    frame = frame[frame["group"].isin(furthest.nlargest(most_groups(max(1, len(outputs)))).index)]
    frame = frame.drop(columns=["players", "value", "stderr"]).astype(object)
    rows = frame.where(frame.notna(), None).to_dict("records")  # JSON has no NaN; a null draws no interval
    base: dict[str, Any] = {
        "y": _OF_GROUPS,
        "color": {"condition": {"test": "datum.share < 0", "value": ORANGE}, "value": BLUE},
        "tooltip": [_text("group"), *(_number(column, format=".2%") for column in ("share", "low", "high"))],
    }
    if outputs:
        base["color"] = _text("output", sort=outputs, scale={"range": list(SERIES)})
        base["yOffset"] = _text("output", sort=outputs)
    x = _number("low", title="share", axis={"format": "%", "tickCount": 10})
    layers = [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {**base, "x": x, "x2": {"field": "high"}}},
        {"mark": {"type": "circle", "size": 70, "opacity": 1}, "encoding": {**base, "x": _number("share")}},
    ]
    named = {} if name is None else {"name": name}
    return _finished({"layer": [*_ZERO, *layers], "data": {**named, "values": rows}}, height=STEP * len(rows))


def convergence_chart(history: list[list[float]]) -> dict[str, Any]:
    """Return the half-width of the widest share interval against the number of evaluations, on logarithmic axes."""
    logarithmic = {"type": "log", "nice": False}
    percent = {"format": "%", "tickCount": 5}
    encoding = {
        "x": _number("evaluations", scale=logarithmic, title="evaluations"),
        "y": _number("half_width", scale=logarithmic, title="widest interval, ± share", axis=percent),
        "tooltip": [_number("evaluations"), _number("half_width", format=".2%")],
    }
    rows = [{"evaluations": count, "half_width": width} for count, width in history]
    chart = {"mark": {"type": "line", "color": BLUE, "point": True}, "encoding": encoding, "data": {"values": rows}}
    return _finished(chart, height=220)


def gains_chart(attacks: list[dict[Any, Any]]) -> dict[str, Any]:
    """Return what each group gains under GSV by each way of splitting; under FGSV every gain is zero."""
    chosen = list(dict.fromkeys(row["group"] for row in attacks))[:MOST_ROWS]
    rows = [row | {"split": f"{row['way']}, {row['parts']}"} for row in attacks if row["group"] in chosen]
    ways, splits = (list(dict.fromkeys(row[name] for row in rows)) for name in ("way", "split"))
    splits.sort(key=lambda split: ways.index(split.rpartition(", ")[0]))  # small groups lack some splits
    legend = {"orient": "top", "title": "split"}
    base = {
        "y": _OF_GROUPS,
        "yOffset": _text("split", sort=splits),
        "color": _text("way", sort=ways, scale={"range": list(SERIES)}, legend=legend),
    }
    low, high = min(row["gain_low"] for row in rows), max(row["gain_high"] for row in rows)
    reach = {"domain": [max(-1.0, min(low, 0.0)), min(1.0, max(high, 0.0))], "clamp": True, "nice": True}
    x = _number("gain_low", title="gain in share under GSV", axis={"format": "%", "tickCount": 10}, scale=reach)
    tooltip = [_text("group"), _text("way"), _number("parts"), _number("gain", format=".2%")]
    dots = {"type": "circle", "size": 50, "opacity": 1}
    layers = [
        {"mark": {"type": "rule"}, "encoding": {**base, "x": x, "x2": {"field": "gain_high"}}},
        {"mark": dots, "encoding": {**base, "x": _number("gain"), "tooltip": tooltip}},
    ]
    return _finished({"layer": [*_ZERO, *layers], "data": {"values": rows}}, height=40 + 11 * len(rows))


def _text(field: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "nominal", **more}


def _number(field: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", **more}


_OF_GROUPS = _text("group", sort=None, title=None, axis={"labelLimit": 140})
_AT_ZERO = {"data": {"values": [{"zero": 0, "label": "0"}]}}
_ZERO = (
    {
        **_AT_ZERO,
        "mark": {"type": "rule", "color": GREY, "strokeWidth": 1.5},
        "encoding": {"x": _number("zero")},
    },
    {
        **_AT_ZERO,
        "mark": {"type": "text", "dy": -8, "baseline": "bottom", "fontSize": 12, "color": "currentColor"},
        "encoding": {"x": _number("zero"), "y": {"value": 0}, "text": _text("label")},
    },
)
"""A line at zero with its label, so that nobody takes the edge of a chart for zero."""


def _finished(chart: dict[str, Any], height: int) -> dict[str, Any]:
    """Return the specification of a chart that fills the width of its container."""
    axis = {"labelFontSize": 12, "titleFontSize": 12, "labelSeparation": 8, "gridColor": GREY, "gridOpacity": 0.25}
    ink = dict.fromkeys(("labelColor", "titleColor"), "currentColor")  # the page's, light or dark
    axis |= ink | dict.fromkeys(("domainColor", "tickColor"), GREY)
    config = {"view": {"stroke": None}, "axis": axis, "legend": ink, "background": "transparent"}
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**chart, **size, "config": config}
