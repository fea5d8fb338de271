"""Writes docs/api.md, the index of all public names, tables of mechanisms, pictures, and what notebooks show.

    python docs/make.py

The tables are README's, by the questions that mechanisms answer, and that of docs/poisoning.md. The pictures are
those of the pages, by the code above each, and what the command ldp shows in docs/command.md; all in docs/pictures.
The notebooks are those of examples/notebooks. They run here without Jupyter, and are saved as Jupyter saves them.

Mechanisms come from `ldp_core/mechanisms/catalog.py`: their pages, what they answer, and their order.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ldp_core import Mechanism, ParameterError
from ldp_core.mechanisms.catalog import CATALOG, Entry, mechanisms_of_size

PAGE = Path(__file__).with_name("api.md")
POISONING = Path(__file__).with_name("poisoning.md")
README = Path(__file__).parents[1] / "README.md"


def _family(name: str, *bases: str) -> tuple[str, str]:
    """The guides and the names of a family of mechanisms."""
    entries = [entry for entry in CATALOG if entry.family == name]
    return " ".join(dict.fromkeys(entry.page for entry in entries)), " ".join([*bases, *_names(entries)])


def _names(entries: Iterable[Entry]) -> list[str]:
    return [entry.mechanism.__name__ for entry in entries]


GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "ldp_core": {
        "The line: reports, tallies, estimates": (
            "mechanisms consistency privacy",
            "Mechanism Tallier Tally Result Histogram Mean Distribution consistent",
        ),
        "What differs": (
            "compare",
            "compare Comparison compare_persons compare_quantiles QuantileDifferences changes pool Pooled",
        ),
        "What is asked of a tally": (
            "mechanisms numbers heavy_hitters",
            "Question HistogramEstimate MeanEstimate DistributionEstimate HeavyHittersEstimate usual_question "
            "question_of estimates_metadata",
        ),
        "Ordered values": ("ordered", "RangeEstimate QuantilesEstimate MedianEstimate CdfEstimate Ranges Median Cdf"),
        "Tables": ("tables", "Joint Table TableEstimate fit_tables FittedTables"),
        "Weights": (
            "weights",
            "ratio total weighted_mean weighted_quantiles linear_fit Ratio Total WeightedMean Quantiles LinearFit",
        ),
        "Inputs": (
            "polars numbers ordered ranges heavy_hitters",
            "Domain Dates Interval WholeNumbers Cells OpenDomain Prefixes",
        ),
        "Frequency oracles": _family("oracles", "FrequencyOracle"),
        "Sketches": _family("sketches", "Sketch"),
        "Heavy hitters": _family("heavy hitters"),
        "Numbers": _family("numbers", "Numeric"),
        "Ranges": _family("ranges"),
        "Sets": _family("sets"),
        "Longitudinal collection": _family("longitudinal"),
        "Plans and several columns": ("several_columns polars", "PrivacyPlan compare_plans"),
        "What many reports and people spend": (
            "several_reports",
            "shuffled_epsilon sampled_epsilon parallel_epsilon total_epsilon best_guess",
        ),
        "Planning before there are data": ("mechanisms", "recommend expected_error required_n required_epsilon"),
        "False reports": ("poisoning", "Influence"),
        "Only sums leave": ("prio", "Vdaf"),
        "Randomness": ("longitudinal polars", "Keyed Secret"),
        "Auditing": ("audit", "audit Audit"),
        "What comes from outside": ("input", "Limits"),
        "Errors": (
            "",
            "LdpError ParameterError DomainError DtypeError ReportError MechanismMismatchError PlanError InputError "
            "LimitError LdpWarning",
        ),
    },
    "ldp_polars": {
        "Perturb": ("polars", "ldp perturb randomized_response unary_encode NoiseOptions Report"),
        "Tally and estimate": (
            "polars numbers heavy_hitters",
            "tally merge estimate histogram mean distribution heavy_hitters",
        ),
        "Ordered values": ("ordered", "range quantiles median cdf"),
        "Weights": ("weights", "weight ratio total weighted_mean weighted_quantiles linear_fit navigation_timing"),
        "Several plans": ("compare", "pool"),
        "False reports": ("poisoning", "suspicious"),
        "Frames and plans": (
            "polars",
            "bound perturb_frame histograms estimates compare table explain simulate sink_parquet read_plan "
            "window_start",
        ),
    },
    "ldp_beam": {
        "Perturb": ("beam", "Perturb RandomizedResponse UnaryEncode"),
        "Tally and estimate": (
            "beam numbers heavy_hitters",
            "Estimate Histogram PrivateHistogram Table PrivateTable TallyCombineFn EstimateCombineFn "
            "HistogramCombineFn AfterTallies RatioCombineFn",
        ),
        "What differs": ("compare", "Compare PoolCombineFn"),
        "A budget per person": ("several_reports", "BoundContributions PrivacyLedger Deduplicate"),
        "Rows": (
            "beam",
            "HistogramRow IntegerHistogramRow BooleanHistogramRow text_row MeanRow DistributionRow DeadLetter",
        ),
    },
    "ldp_plots": {"Estimates": ("plots", "estimate windows"), "Light and dark": ("plots", "themed")},
    "ldp_report": {
        "A report of estimates": ("report", "Results read_results report_page about RESULTS OF_ROWS"),
        "While a job runs": ("report live", "LivePage"),
        "The planner": ("report", "planner_page"),
    },
    "ldp_beam.io": {
        "Sources and sinks": (
            "beam deploy live",
            "ReadEvents ReadKafka WriteKafka ReadPubSub WritePubSub WatchFolder WriteReports ReadReports",
        ),
        "Messages": ("beam", "DecodeMessages encode decode"),
        "Estimates as batches, files, rows of BigQuery": (
            "beam deploy",
            "WriteEstimates EstimateBatches estimate_schema estimate_batch estimate_dict estimate_line "
            "bigquery_schema bigquery_row",
        ),
    },
}
"""Package to title to (guides, names)."""

HEAD = """# API

Every public name, by what it is for. `help(name)` shows its documentation, with an example that runs. The site has it
too, on a page for each package.
"""

NAMESPACES = """
As methods: of an expression `.ldp.{}`; of a DataFrame or LazyFrame `.ldp.{}`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_package(package, groups) for package, groups in GROUPS.items())])


def _package(package: str, groups: dict[str, tuple[str, str]]) -> str:
    parts = [f"## {package}\n"]
    if package == "ldp_polars":
        parts.append(NAMESPACES.format(*map(_methods, ("LdpExpr", "LdpDataFrame"))).lstrip("\n"))
    for title, (guides, names) in groups.items():
        links = ", ".join(_link(guide) for guide in guides.split())
        listed = ", ".join(f"`{name}`" for name in names.split())
        parts.append("\n".join([f"### {title}\n", f"{listed}. {f'See {links}.' if links else ''}".rstrip(), ""]))
    return "\n".join(parts)


def _link(guide: str, folder: str = "") -> str:
    title = "RAPPOR" if guide == "rappor" else guide.replace("_", " ")
    return f"[{title}]({folder}{guide}.md)"


def _methods(namespace: str) -> str:
    kind = getattr(import_module("ldp_polars.namespace"), namespace)
    return "`, `.ldp.".join(name for name in dir(kind) if not name.startswith("_"))


ROWS = """
| the same value of a person, again and again | keyed noise: `key=`, `id=` | [longitudinal](docs/longitudinal.md) |
| several columns | `PrivacyPlan.split`, `.sampled`, `.fake`, `.pairs` | [several columns](docs/several_columns.md) |
| what shuffled reports reveal | `PrivacyPlan.shuffled`, `.explain` | [several reports](docs/several_reports.md) |
| a range, a quantile, a curve | `.ldp.range`, `.median`, `.quantiles`, `.cdf` | [ordered values](docs/ordered.md) |
| a mean, a rate, a quantile in a private group | `.ldp.weight`, `.ldp.ratio` | [private groups](docs/weights.md) |
| two columns together: crash rate by version | `reports.ldp.table("version", "crashed")` | [tables](docs/tables.md) |
| is it different, from week to week, between groups | `.ldp.compare` | [comparisons](docs/compare.md) |
| no negative counts, the right sum | `.ldp.histogram(m, consistency="norm-sub")` | [consistency](docs/consistency.md) |
""".strip()
"""Of README's table: what is no mechanism."""


def table() -> str:
    """README's table: the questions that mechanisms answer, then `ROWS`."""
    lines = ["| the question | take | |", "| --- | --- | --- |"]
    for question in dict.fromkeys(entry.question for entry in CATALOG if entry.question):
        entries = [entry for entry in CATALOG if entry.question == question]
        names = ", ".join(f"`{name}`" for name in _names(entries))
        pages = ", ".join(_link(page, "docs/") for page in dict.fromkeys(entry.page for entry in entries))
        lines.append(f"| {question} | {names} | {pages} |")
    return "\n".join([*lines, ROWS])


SIZES = [(0.1, 1024), (1.0, 16), (4.0, 1024)]


def poisoning() -> str:
    """The table of docs/poisoning.md: what one report moves."""
    moves: dict[str, list[str]] = {}
    for epsilon, d in SIZES:
        for name, m in mechanisms_of_size(d, epsilon).items():
            moves.setdefault(name, []).append(_moves(m))
    return f"What one report moves at most: one estimated count / all of them together.\n\n{_rows(moves)}"


def _rows(cells: dict[str, list[str]]) -> str:
    head = ["mechanism", *(f"epsilon {epsilon:g}, d = {d}" for epsilon, d in SIZES)]
    rows = [head, ["---"] * len(head), *([name, *row] for name, row in cells.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _moves(m: Mechanism) -> str:
    try:
        influence = m.influence()
    except ParameterError:
        return _UNKNOWN
    return f"{_short(influence.one)} / {_short(influence.all)}"


_UNKNOWN = "no bound"


def _short(number: float) -> str:
    if number == float("inf"):
        return _UNKNOWN
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def within(text: str, made: str) -> str:
    """``text`` with what is made in its place."""
    start, end = "<!-- made by docs/make.py -->\n", "\n<!-- until here -->"
    before, _, rest = text.partition(start)
    return "".join([before, start, made, end, rest.partition(end)[2]])


# ---- pictures

PICTURES = Path(__file__).with_name("pictures")
_NAMED = re.compile(r"```python\n(.*?)```(?:\n\n<!-- picture: ([\w-]+) -->\n(?:<picture>.*?</picture>\n)?)?", re.DOTALL)


def pages_with_pictures() -> dict[str, str]:
    """Name to text."""
    pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.md"))}
    return {name: text for name, text in pages.items() if "<!-- picture: " in text}


def charts(text: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Of each picture on a page that code is above the Vega-Lite, by theme; blocks run in order, down to the last."""
    from ldp_plots import themed  # noqa: PLC0415 (the other pages need no Altair)

    names: dict[str, Any] = {}
    made = {}
    blocks = _NAMED.findall(text)
    while blocks and not blocks[-1][1]:
        blocks.pop()
    for code, name in blocks:
        with redirect_stdout(io.StringIO()):
            exec(compile(code, "a page", "exec"), names)  # noqa: S102 (our own page)
        if name:
            made[name] = {theme: themed(names["chart"], theme).to_dict() for theme in ("light", "dark")}
    return made


def digest(spec: Any) -> str:
    """Of a picture's Vega-Lite, whatever the version of Altair and the last digits of its numbers."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            names = {name: f"data{k}" for k, name in enumerate(x.get("datasets", ()))}
            if names:
                x = json.loads(re.sub("|".join(names), lambda found: names[found[0]], json.dumps(x)))
            return {key: plain(value) for key, value in x.items() if key != "$schema"}
        if isinstance(x, list):
            return [plain(item) for item in x]
        return float(f"{x:.6g}") if isinstance(x, float) else x

    return hashlib.sha256(json.dumps(plain(spec), sort_keys=True).encode()).hexdigest()[:16]


def file_of(name: str, theme: str) -> Path:
    """Where a picture is."""
    return PICTURES / (f"{name}.svg" if theme == "light" else f"{name}-{theme}.svg")


def draw(name: str, theme: str, spec: dict[str, Any]) -> None:
    """Write a picture, unless it is there and has these numbers: another version of vl-convert draws other curves."""
    path, mark = file_of(name, theme), f"<!-- {digest(spec)} -->"
    if not path.exists() or mark not in path.read_text(encoding="utf-8"):
        import vl_convert  # noqa: PLC0415 (only for pictures)

        path.write_text(f"{vl_convert.vegalite_to_svg(spec)}\n{mark}\n", encoding="utf-8")


PEOPLE = """
import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

r, n = np.random.default_rng(1), 20_000
columns = {
    "user": [f"user {k}" for k in range(n)],
    "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(k)) for k in r.integers(0, 28, n)],
    "os": r.choice(["ios", "android", "web"], n, p=[0.5, 0.4, 0.1]).tolist(),
    "minutes": r.exponential(12, n).clip(0, 60),
    "crashed": r.random(n) < 0.05,
}
pq.write_table(pa.table(columns), "people.parquet")
"""
"""Makes the data of docs/command.md."""
SCREENS = {
    "ldp-recommend": "recommend 16 --epsilon 1 --people 100000",
    "ldp-check": "plan check plan.toml people.parquet",
    "ldp-estimate": "estimate reports.parquet --repeats 1",
}
"""What the command shows in a terminal of 80 columns."""
_BEFORE = (
    "plan new plan.toml -c os=ios,android,web -c minutes=0:60 -c crashed=false,true --epsilon 3 --keep day",
    "perturb people.parquet reports.parquet --plan plan.toml --secret-file secret --id user",
)


def screens() -> dict[str, str]:
    """The text of each, with the terminal's codes for colors."""
    from ldp_cli.app import app  # noqa: PLC0415 (as Altair)

    made = {}
    settings = {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm-256color"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder), patch.dict(os.environ, settings):
        exec(PEOPLE, {})  # noqa: S102 (our own)
        Path("secret").write_text("07" * 32 + "\n", encoding="ascii")  # so that the page is the same each time
        for line in (*_BEFORE, *SCREENS.values()):
            out = io.StringIO()
            with redirect_stdout(out), redirect_stderr(io.StringIO()):
                app(shlex.split(line), prog_name="ldp", standalone_mode=False)
            made[line] = out.getvalue()
    return {name: made[line] for name, line in SCREENS.items()}


def photograph(name: str, text: str) -> None:
    """Write a picture of a terminal, light and dark, unless it is there and shows this text."""
    from rich import terminal_theme  # noqa: PLC0415 (as Altair)
    from rich._export_format import CONSOLE_SVG_FORMAT  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)  # (which it would fetch)
    form = form.replace("Fira Code", "DejaVu Sans Mono")
    themes = {"light": terminal_theme.DEFAULT_TERMINAL_THEME, "dark": terminal_theme.SVG_EXPORT_THEME}
    mark = f"<!-- {digest(text)} -->"
    for theme, colors in themes.items():
        path = file_of(name, theme)
        if path.exists() and mark in path.read_text(encoding="utf-8"):
            continue
        console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(text))
        title = f"ldp {SCREENS[name]}"
        svg = console.export_svg(title=title, theme=colors, code_format=form, unique_id=name)
        path.write_text(f"{svg}{mark}\n", encoding="utf-8")


def picture(name: str, alt: str) -> str:
    """A picture on a page, in the colors that the reader's browser asks for."""
    return "\n".join(
        [
            f"<!-- picture: {name} -->",
            "<picture>",
            f'<source media="(prefers-color-scheme: dark)" srcset="pictures/{name}-dark.svg">',
            f'<img alt="{alt}" src="pictures/{name}.svg">',
            "</picture>\n",
        ]
    )


def with_pictures(text: str) -> str:
    """The page, with each picture below its mark. Its alt text is written on the page, and kept."""
    pattern = re.compile(r'<!-- picture: ([\w-]+) -->\n(?:<picture>.*?alt="([^"]*)".*?</picture>\n)?', re.DOTALL)
    return pattern.sub(lambda found: picture(found[1], found[2] or found[1]), text)


# ---- notebooks

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


def executed(path: Path) -> str:
    """A notebook with what its cells show: what they print, and the last expression, charts as SVG."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with chdir(path.parent):
        for count, cell in enumerate(cells, 1):
            tree, printed, value = ast.parse("".join(cell["source"])), io.StringIO(), None
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            with redirect_stdout(printed):
                exec(compile(tree, path.name, "exec"), names)  # noqa: S102 (our own notebook)
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)  # noqa: S307
            outputs: list[dict[str, Any]] = []
            if text := printed.getvalue():
                outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
            if value is not None:
                data = _displayed(value, json.dumps(cell["outputs"]))
                outputs.append(
                    {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
                )
            cell |= {"execution_count": count, "outputs": outputs}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _displayed(value: Any, before: str) -> dict[str, list[str]]:
    """The forms of a value; of a picture that has not changed as it was saved before, as `draw` does."""
    if hasattr(value, "_repr_mimebundle_"):  # a chart
        mark = f"<!-- {digest(value.to_dict())} -->"
        if mark in before:
            [saved] = [out["data"] for out in json.loads(before) if mark in json.dumps(out)]
            return dict(saved)
        import vl_convert  # noqa: PLC0415 (only for pictures)

        svg = f"{vl_convert.vegalite_to_svg(value.to_dict())}\n{mark}"
        return {"image/svg+xml": _lines(svg), "text/plain": ["a chart"]}
    forms = {"text/html": value._repr_html_()} if hasattr(value, "_repr_html_") else {}
    return {kind: _lines(text) for kind, text in {**forms, "text/plain": repr(value)}.items()}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        notebook.write_text(executed(notebook), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    for path, made in ((README, table()), (POISONING, poisoning())):
        path.write_text(within(path.read_text(encoding="utf-8"), made), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for name, text in screens().items():
        photograph(name, text)
    for page_name, text in pages_with_pictures().items():
        PAGE.with_name(f"{page_name}.md").write_text(with_pictures(text), encoding="utf-8")
        for name, themes in charts(text).items():
            for theme, spec in themes.items():
                draw(name, theme, spec)
