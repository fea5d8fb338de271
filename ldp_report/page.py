"""One file of HTML with all that it needs: styles, scripts, data."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from ldp_core.engine import CHART_CONFIGS as CONFIGS
from ldp_report.results import Results


def report_page(results: Results, *, live: str | None = None) -> str:
    """A page of estimates: histograms by window with their intervals, totals, dead letters, and the plan in words.

    Whatever comes from the results is text on the page, and never HTML.

    Args:
        results: the estimates.
        live: an address, from which the page asks for new results.

    Returns:
        A whole file of HTML, which loads nothing else.

    >>> row = {"value": "<script>", "count": 12.0, "low": 3.0, "high": 21.0, "n": 100}
    >>> report_page(Results({"os": [row]})).count("<script>")  # ours alone
    1
    """
    data = {"live": live, **results.to_json()}
    return _page("Private estimates", "report.html", ["draw.js", "report.js"], data, connect=live is not None)


def planner_page(*, docs: str = "") -> str:
    """The planner: people, values and the smallest share worth seeing, to an epsilon, a mechanism and a plan.

    Args:
        docs: an address to which the page leads back, as of the site that it is a page of.

    Returns:
        A whole file of HTML, which loads nothing else; the same each time.

    >>> "planner" in planner_page().lower()
    True
    """
    page = _page("Privacy planner", "planner.html", ["draw.js", "formulas.js", "planner.js"], None, connect=False)
    back = f'<p class="screen"><a href="{escape(docs)}">Documentation</a></p>\n' if docs else ""
    return page.replace("<header>\n", f"<header>\n{back}", 1)


def _page(title: str, body: str, scripts: list[str], data: Any, *, connect: bool) -> str:
    style = colors() + asset("style.css")
    script = "".join(map(asset, scripts))
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    policy += "; base-uri 'none'; form-action 'none'" + ("; connect-src 'self'" if connect else "")
    held = "" if data is None else f'<script type="application/json" id="data">{embedded(data)}</script>\n'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{asset(body)}{held}<script>{script}</script>\n</body>\n</html>\n"
    )


def embedded(data: Any) -> str:
    r"""JSON that may stand within ``<script>``: nothing in it ends the element.

    >>> embedded({"value": "</script>"})
    '{"value": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def asset(name: str) -> str:
    """The text of a file of ``ldp_report/assets``."""
    return files("ldp_report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def colors() -> str:
    """The colors of `ldp_core.charts.themes` as variables of CSS; on paper they are the light ones."""
    light, dark = (_variables(CONFIGS[theme]) for theme in ("light", "dark"))
    return f":root {{{light}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{dark}}} }}\n"


def _variables(config: dict[str, Any]) -> str:
    lines = config["range"]["category"]
    named = {
        "background": config["background"],
        "text": config["title"]["color"],
        "faint": config["title"]["subtitleColor"],
        "grid": config["axis"]["gridColor"],
        "bar": config["bar"]["color"],
        "interval": config["rule"]["color"],
        "miss": config["style"]["miss"]["color"],
        "accent": lines[0],
        **{f"line{k}": color for k, color in enumerate(lines)},
        "panel": config["range"]["ramp"][0] if config["background"] == "#ffffff" else config["axis"]["gridColor"],
    }
    return " ".join(f"--{name}: {color};" for name, color in named.items())
