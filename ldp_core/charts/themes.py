"""Colors and lines, light and dark. All colors of a picture are here, so that one picture can be shown in either.

Lines differ in lightness too, so that people with any kind of color blindness tell them apart; and each has a mark.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

from ldp_core.errors import ParameterError
from ldp_core.extras import import_extra

Theme: TypeAlias = Literal["light", "dark"]
Chart: TypeAlias = Any
"""An Altair chart of any kind."""


def altair() -> Any:
    """The package, which is an extra."""
    return import_extra("altair", "plot")


def themed(chart: Chart, theme: Theme | None) -> Chart:
    """A copy of an Altair chart with the colors of a theme; None takes them off.

    A chart with colors of its own cannot be a part of another chart: take them off first, and give them to the whole.

    Args:
        chart: as the functions of `ldp_plots` and the methods ``plot`` make them.
        theme: ``"light"``, ``"dark"`` or None.

    Raises:
        ParameterError: another theme.

    >>> from ldp_core import Mean
    >>> chart = Mean(21.5, 0.4, 20.716, 22.284, 10_000, 0.95).plot()
    >>> themed(chart, "dark").to_dict()["config"]["background"], themed(chart, None).config
    ('#14171c', Undefined)
    """
    alt = altair()
    if theme is not None and theme not in CONFIGS:
        raise ParameterError(f"theme must be one of {list(CONFIGS)} or None, got {theme!r}")
    made = chart.copy()
    made.config = alt.Undefined if theme is None else _config_of(theme)
    return made


@cache
def _config_of(theme: Theme) -> Any:
    """Altair's object of a config, which takes longer to make than the rest of a chart."""
    return altair().Config.from_dict(CONFIGS[theme])


def _config(
    background: str,
    text: str,
    faint: str,
    grid: str,
    bar: str,
    interval: str,
    miss: str,
    lines: list[str],
    ramp: list[str],
) -> dict[str, Any]:
    font = "system-ui, 'DejaVu Sans', 'Liberation Sans', sans-serif"
    titles = {"labelColor": text, "titleColor": text, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500}
    return {
        "background": background,
        "font": font,
        "padding": 12,
        "view": {"stroke": None},
        "title": {
            "color": text,
            "subtitleColor": faint,
            "anchor": "start",
            "frame": "group",
            "fontSize": 14,
            "subtitleFontSize": 12,
            "subtitlePadding": 4,
            "offset": 12,
        },
        "axis": {
            **titles,
            "labelFont": font,
            "gridColor": grid,
            "domainColor": faint,
            "tickColor": faint,
            "labelLimit": 220,
            "titlePadding": 8,
        },
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
        "header": {"labelColor": text, "titleColor": text, "labelFontSize": 12, "labelFontWeight": 600},
        "legend": {**titles, "symbolStrokeWidth": 2.5, "symbolOpacity": 1, "labelLimit": 200},
        "bar": {"color": bar},
        "rect": {"color": bar},
        "rule": {"color": interval},
        "line": {"strokeWidth": 2},
        "point": {"color": interval, "filled": True, "size": 60, "opacity": 1},
        "text": {"color": text, "fontSize": 12},
        "range": {"category": lines, "ordinal": lines, "ramp": ramp, "heatmap": ramp},
        "style": {
            "interval": {"color": interval, "stroke": interval, "strokeWidth": 2, "opacity": 1},
            "miss": {"color": miss, "stroke": miss, "strokeWidth": 4, "opacity": 1},
            "truth": {"color": lines[1], "stroke": background, "strokeWidth": 1, "size": 90, "opacity": 1},
            "zero": {"color": faint, "stroke": faint, "strokeWidth": 1},
            "on-faint": {"color": text, "fontSize": 12},  # on the two ends of the ramp
            "on-strong": {"color": background, "fontSize": 12},
        },
    }


CONFIGS: dict[str, dict[str, Any]] = {
    "light": _config(
        background="#ffffff",
        text="#1c2430",
        faint="#5b6675",
        grid="#e4e8ee",
        bar="#9dc0e6",
        interval="#1c2430",
        miss="#c4162a",
        lines=["#1f6fbf", "#d9660a", "#123f2e", "#b8658e", "#7a3df5", "#838a4f", "#36084c", "#4c4c08"],
        ramp=["#e3eefb", "#9dc0e6", "#4d8fd1", "#1f5f9e", "#123a63"],
    ),
    "dark": _config(
        background="#14171c",
        text="#e6eaf0",
        faint="#9aa5b4",
        grid="#2b323c",
        bar="#285d94",
        interval="#e6eaf0",
        miss="#ff7b85",
        lines=["#63a9f0", "#ffa14f", "#b8f5ab", "#f53d7a", "#f0e030", "#9f62f5", "#66ffe5", "#ababc9"],
        ramp=["#16324f", "#1f4f7d", "#2f6fae", "#84b8ec", "#d3e6fb"],
    ),
}
"""Vega-Lite's config of each theme."""
