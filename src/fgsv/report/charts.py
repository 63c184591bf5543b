"""Charts of the report, as Vega-Lite specifications: documents without a version, drawn by any that the page has."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fgsv.plots import BLUE, GREY, ORANGE, SERIES

MOST_GROUPS = 60
STEP = 22

Spec = dict[str, Any]


def share_chart(frame: pd.DataFrame, name: str | None = None) -> Spec:
    """Return a dot with an interval for each group; a page can replace the rows of the data set called `name`."""
    frame = frame.rename(columns={"share_low": "low", "share_high": "high"})
    if len(frame) > MOST_GROUPS:
        frame = frame.loc[frame["share"].abs().nlargest(MOST_GROUPS).index]
    faceted = "output" in frame
    frame = frame.drop(columns=["points", "value", "stderr"]).astype(object)
    values = frame.where(frame.notna(), None).to_dict("records")  # JSON has no NaN; a null draws no interval
    data: Spec = {"values": values} | ({} if name is None else {"name": name})
    sign: Spec = {"condition": {"test": "datum.share < 0", "value": ORANGE}, "value": BLUE}
    tooltip = [_nominal("group"), *(_number(each, format=".2%") for each in ("share", "low", "high"))]
    base: Spec = {"y": _GROUPS, "color": sign, "tooltip": tooltip}
    if faceted:
        base |= {"color": _nominal("output", scale={"range": list(SERIES)}), "yOffset": _nominal("output")}
    x = _number("low", title="share", axis={"format": "%"})
    layers = [
        {"mark": _mark("rule", strokeWidth=2), "encoding": base | {"x": x, "x2": {"field": "high"}}},
        {"mark": _mark("circle", size=70, opacity=1), "encoding": base | {"x": _number("share")}},
    ]
    return _finished({"data": data, "layer": [*_zero(), *layers]}, height=STEP * len(values))


def convergence_chart(history: list[list[float]]) -> Spec:
    """Return the half-width of the widest share interval against the number of evaluations, on logarithmic axes."""
    rows = [{"evaluations": count, "half_width": width} for count, width in history]
    log = {"type": "log", "nice": False}
    axis = {"format": "%", "tickCount": 5}
    chart = {
        "data": {"values": rows},
        "mark": _mark("line", color=BLUE, point=True),
        "encoding": {
            "x": _number("evaluations", scale=log, title="evaluations"),
            "y": _number("half_width", scale=log, title="widest interval, ± share", axis=axis),
            "tooltip": [_number("evaluations"), _number("half_width", format=".2%")],
        },
    }
    return _finished(chart, height=220)


def gains_chart(attacks: list[Spec]) -> Spec:
    """Return what each group gains under GSV by each way of splitting; under FGSV every gain is zero."""
    chosen = list(dict.fromkeys(row["group"] for row in attacks))[:MOST_GROUPS]
    rows = [row | {"split": f"{row['way']}, {row['parts']}"} for row in attacks if row["group"] in chosen]
    ways, splits = (list(dict.fromkeys(row[name] for row in rows)) for name in ("way", "split"))
    splits.sort(
        key=lambda split: ways.index(split.rpartition(", ")[0])
    )  # in the order of the ways: small groups lack some splits
    legend = {"orient": "top", "title": "split"}
    colour = _nominal("way", sort=ways, scale={"range": list(SERIES)}, legend=legend)
    base: Spec = {"y": _GROUPS, "yOffset": _nominal("split", sort=splits), "color": colour}
    low, high = min(row["gain_low"] for row in rows), max(row["gain_high"] for row in rows)
    scale = {"domain": [max(-1.0, min(low, 0.0)), min(1.0, max(high, 0.0))], "clamp": True, "nice": True}
    x = _number("gain_low", title="gain in share under GSV", axis={"format": "%"}, scale=scale)
    tooltip = [_nominal("group"), _nominal("way"), _number("parts"), _number("gain", format=".2%")]
    dots = base | {"x": _number("gain"), "tooltip": tooltip}
    layers = [
        {"mark": _mark("rule"), "encoding": base | {"x": x, "x2": {"field": "gain_high"}}},
        {"mark": _mark("circle", size=50, opacity=1), "encoding": dots},
    ]
    return _finished({"data": {"values": rows}, "layer": [*_zero(), *layers]}, height=40 + 11 * len(rows))


def _zero() -> list[Spec]:
    """Return a line at zero and its label, so that nobody takes the edge of a chart for nothing."""
    data, x = {"values": [{"zero": 0, "label": "0"}]}, _number("zero")
    label = _mark("text", dy=-8, baseline="bottom", fontSize=12, color="currentColor")
    return [
        {"data": data, "mark": _mark("rule", color=GREY, strokeWidth=1.5), "encoding": {"x": x}},
        {"data": data, "mark": label, "encoding": {"x": x, "y": {"value": 0}, "text": _nominal("label")}},
    ]


def _finished(chart: Spec, height: int) -> Spec:
    """Return the specification of a chart that fills the width of its container."""
    axis = {"labelFontSize": 12, "titleFontSize": 12, "labelSeparation": 8, "gridColor": GREY, "gridOpacity": 0.25}
    ink = dict.fromkeys(("labelColor", "titleColor"), "currentColor")  # the page's, light or dark
    axis |= ink | dict.fromkeys(("domainColor", "tickColor"), GREY)
    config = {"view": {"stroke": None}, "axis": axis, "legend": ink, "background": "transparent"}
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return chart | size | {"config": config}


def _mark(kind: str, **options: Any) -> Spec:
    return {"type": kind, **options}


def _nominal(field: str, **options: Any) -> Spec:
    return {"field": field, "type": "nominal", **options}


def _number(field: str, **options: Any) -> Spec:
    return {"field": field, "type": "quantitative", **options}


_GROUPS = _nominal("group", sort=None, title=None, axis={"labelLimit": 140})
