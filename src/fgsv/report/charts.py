"""Charts of the report, as Vega-Lite specifications."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fgsv.packages import optional
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
    alt = _altair()
    frame = frame.rename(columns={"share_low": "low", "share_high": "high"})
    outputs = list(dict.fromkeys(frame["output"])) if "output" in frame else []
    furthest = frame["share"].abs().groupby(frame["group"], sort=False).max()
    frame = frame[frame["group"].isin(furthest.nlargest(most_groups(max(1, len(outputs)))).index)]
    frame = frame.drop(columns=["players", "value", "stderr"]).astype(object)
    values = frame.where(frame.notna(), None).to_dict("records")  # JSON has no NaN; a null draws no interval
    data = alt.InlineData(values=values) if name is None else alt.InlineData(values=values, name=name)
    y = alt.Y("group:N", sort=None, title=None, axis=alt.Axis(labelLimit=140))
    sign = alt.ColorValue(BLUE, condition={"test": "datum.share < 0", "value": ORANGE})
    tooltip = [alt.Tooltip("group:N")] + [alt.Tooltip(f"{name}:Q", format=".2%") for name in ("share", "low", "high")]
    base = alt.Chart(data).encode(y=y, color=sign, tooltip=tooltip)
    if outputs:
        base = base.encode(
            color=alt.Color("output:N", sort=outputs, scale=alt.Scale(range=list(SERIES))),
            yOffset=alt.YOffset("output:N", sort=outputs),
        )
    x = alt.X("low:Q", title="share", axis=alt.Axis(format="%", tickCount=10))
    chart = (
        _zero()
        + base.mark_rule(strokeWidth=2).encode(x=x, x2=alt.X2("high:Q"))
        + base.mark_circle(size=70, opacity=1).encode(x=alt.X("share:Q"))
    )
    return _finished(chart, height=STEP * len(values))


def convergence_chart(history: list[list[float]]) -> dict[str, Any]:
    """Return the half-width of the widest share interval against the number of evaluations, on logarithmic axes."""
    alt = _altair()
    rows = [{"evaluations": count, "half_width": width} for count, width in history]
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(color=BLUE, point=True)
        .encode(
            x=alt.X("evaluations:Q", scale=alt.Scale(type="log", nice=False), title="evaluations"),
            y=alt.Y(
                "half_width:Q",
                scale=alt.Scale(type="log", nice=False),
                title="widest interval, ± share",
                axis=alt.Axis(format="%", tickCount=5),
            ),
            tooltip=[alt.Tooltip("evaluations:Q"), alt.Tooltip("half_width:Q", format=".2%")],
        )
    )
    return _finished(chart, height=220)


def gains_chart(attacks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what each group gains under GSV by each way of splitting; under FGSV every gain is zero."""
    alt = _altair()
    chosen = list(dict.fromkeys(row["group"] for row in attacks))[:MOST_ROWS]
    rows = [row | {"split": f"{row['way']}, {row['parts']}"} for row in attacks if row["group"] in chosen]
    y = alt.Y("group:N", sort=None, title=None, axis=alt.Axis(labelLimit=140))
    ways, splits = (list(dict.fromkeys(row[name] for row in rows)) for name in ("way", "split"))
    splits.sort(key=lambda split: ways.index(split.rpartition(", ")[0]))  # small groups lack some splits
    colour = alt.Color(
        "way:N",
        sort=ways,
        scale=alt.Scale(range=list(SERIES)),
        legend=alt.Legend(orient="top", title="split"),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=y, yOffset=alt.YOffset("split:N", sort=splits), color=colour
    )
    low, high = min(row["gain_low"] for row in rows), max(row["gain_high"] for row in rows)
    reach = [max(-1.0, min(low, 0.0)), min(1.0, max(high, 0.0))]
    x = alt.X(
        "gain_low:Q",
        title="gain in share under GSV",
        axis=alt.Axis(format="%", tickCount=10),
        scale=alt.Scale(domain=reach, clamp=True, nice=True),
    )
    dots = base.mark_circle(size=50, opacity=1).encode(
        x=alt.X("gain:Q"),
        tooltip=[*map(alt.Tooltip, ("group:N", "way:N", "parts:Q")), alt.Tooltip("gain:Q", format=".2%")],
    )
    return _finished(
        _zero() + base.mark_rule().encode(x=x, x2=alt.X2("gain_high:Q")) + dots, height=40 + 11 * len(rows)
    )


def _zero() -> Any:
    """Return a line at zero with its label, so that nobody takes the edge of a chart for zero."""
    alt = _altair()
    base = alt.Chart(alt.InlineData(values=[{"zero": 0, "label": "0"}])).encode(x=alt.X("zero:Q"))
    label = base.mark_text(dy=-8, baseline="bottom", fontSize=12, color="currentColor").encode(
        y=alt.YValue(0), text=alt.Text("label:N")
    )
    return base.mark_rule(color=GREY, strokeWidth=1.5) + label


def _finished(chart: Any, height: Any) -> dict[str, Any]:
    """Return the specification of a chart that fills the width of its container."""
    chart = chart.properties(width="container", height=height, autosize={"type": "fit-x", "contains": "padding"})
    axis = {"labelFontSize": 12, "titleFontSize": 12, "labelSeparation": 8, "gridColor": GREY, "gridOpacity": 0.25}
    ink = dict.fromkeys(("labelColor", "titleColor"), "currentColor")  # the page's, light or dark
    axis |= ink | dict.fromkeys(("domainColor", "tickColor"), GREY)
    config = {"view": {"stroke": None}, "axis": axis, "legend": ink, "background": "transparent"}
    return dict(chart.configure(**config).to_dict(validate=False))


def _altair() -> Any:
    return optional("altair", "reports", "report")
