"""Writes docs/api.md, the index of all public names, and README's table of mechanisms: ``python docs/make.py``.

Mechanisms come from `ldp_core/mechanisms/catalogue.py`: their pages, what they answer, and their order.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from ldp_core.mechanisms.catalogue import CATALOGUE, Entry

PAGE = Path(__file__).with_name("api.md")
README = Path(__file__).parents[1] / "README.md"


def _family(name: str, *bases: str) -> tuple[str, str]:
    """The guides and the names of a family of mechanisms."""
    entries = [entry for entry in CATALOGUE if entry.family == name]
    return " ".join(dict.fromkeys(entry.page for entry in entries)), " ".join([*bases, *_names(entries)])


def _names(entries: Iterable[Entry]) -> list[str]:
    return [entry.mechanism.__name__ for entry in entries]


GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "ldp_core": {
        "The line: reports, tallies, estimates": (
            "mechanisms consistency privacy",
            "Mechanism Tally Histogram Mean Distribution consistent",
        ),
        "What is asked of a tally": (
            "mechanisms numbers heavy_hitters",
            "HistogramEstimate MeanEstimate DistributionEstimate HeavyHittersEstimate",
        ),
        "Inputs": ("polars numbers heavy_hitters", "Domain Interval OpenDomain Prefixes"),
        "Frequency oracles": _family("oracles", "FrequencyOracle"),
        "Sketches": _family("sketches", "Sketch"),
        "Heavy hitters": _family("heavy hitters"),
        "Numbers": _family("numbers", "Numeric"),
        "Longitudinal collection": _family("longitudinal"),
        "Plans and several columns": (
            "several_columns polars",
            "PrivacyPlan compare_plans",
        ),
        "Planning before there are data": ("mechanisms", "recommend expected_error required_n required_epsilon"),
        "Clients that lie": ("mechanisms", "Influence"),
        "Randomness": ("longitudinal polars", "Keyed Secret"),
        "Errors": (
            "",
            "LdpError ParameterError DomainError DtypeError ReportError MechanismMismatchError PlanError InputError",
        ),
    },
    "ldp_polars": {
        "Perturb": ("polars", "perturb randomized_response unary_encode NoiseOptions Report"),
        "Tally and estimate": (
            "polars numbers heavy_hitters",
            "tally merge histogram estimate mean estimate_mean distribution estimate_distribution heavy_hitters "
            "find_heavy_hitters",
        ),
        "Clients that lie": ("mechanisms", "suspicious"),
        "Frames and plans": ("polars", "perturb_frame histograms explain sink_parquet read_plan"),
    },
    "ldp_beam": {
        "Perturb": ("beam", "Perturb RandomizedResponse UnaryEncode"),
        "Tally and estimate": (
            "beam numbers heavy_hitters",
            "Estimate Histogram PrivateHistogram Mean PrivateMean Distribution PrivateDistribution HeavyHitters "
            "PrivateHeavyHitters TallyCombineFn HistogramCombineFn",
        ),
        "A budget per person": ("budget", "BoundContributions PrivacyLedger Deduplicate"),
        "Rows": ("beam", "HistogramRow MeanRow DistributionRow DeadLetter"),
    },
    "ldp_beam.io": {
        "Sources and sinks": ("beam deploy live", "ReadKafka WriteKafka ReadPubSub WritePubSub WatchFolder"),
        "Messages": ("beam", "DecodeMessages encode decode"),
        "Histograms as batches, files, rows of BigQuery": (
            "beam deploy",
            "WriteHistograms HistogramBatches HISTOGRAM_SCHEMA histogram_batch histogram_line BIGQUERY_SCHEMA "
            "bigquery_row",
        ),
    },
}
"""Package to title to (guides, names)."""

HEAD = """# API

Every public name, by what it is for; the first line of its documentation. `help(name)` shows the rest: arguments,
shapes, units, errors, sources, and an example that runs as a test. This page is made by `python docs/make.py`.
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
        lines = [f"- `{name}`: {summary(package, name)}" for name in names.split()]
        parts.append("\n".join([f"### {title}\n", *([f"See {links}.\n"] if links else []), *lines, ""]))
    return "\n".join(parts)


def _link(guide: str, folder: str = "") -> str:
    title = "RAPPOR" if guide == "rappor" else guide.replace("_", " ")
    return f"[{title}]({folder}{guide}.md)"


def _methods(namespace: str) -> str:
    kind = getattr(import_module("ldp_polars.namespace"), namespace)
    return "`, `.ldp.".join(name for name in dir(kind) if not name.startswith("_"))


def summary(package: str, name: str) -> str:
    """The first line of the documentation of a public name."""
    value = getattr(import_module(package), name)
    if callable(value):
        return inspect.cleandoc(value.__doc__ or "").partition("\n")[0]
    for module in [module for key, module in sys.modules.items() if key.startswith(f"{package}.")]:  # a constant
        found = re.search(rf'^{name} = .*?^"""(.*?)(?:"""|\n)', inspect.getsource(module), re.DOTALL | re.MULTILINE)
        if found:
            return found[1]
    return ""


ROWS = """
| the same value of a person, again and again | keyed noise: `key=`, `id=` | [longitudinal](docs/longitudinal.md) |
| several columns of a record | `PrivacyPlan.split`, `.sampled`, `.fake` | [several columns](docs/several_columns.md) |
| no negative counts, the right sum | `.ldp.histogram(m, consistency="norm-sub")` | [consistency](docs/consistency.md) |
""".strip()
"""Of README's table: what is no mechanism."""


def table() -> str:
    """README's table: the questions that mechanisms answer, then `ROWS`."""
    lines = ["| the question | take | |", "| --- | --- | --- |"]
    for question in dict.fromkeys(entry.question for entry in CATALOGUE if entry.question):
        entries = [entry for entry in CATALOGUE if entry.question == question]
        names = ", ".join(f"`{name}`" for name in _names(entries))
        pages = ", ".join(_link(page, "docs/") for page in dict.fromkeys(entry.page for entry in entries))
        lines.append(f"| {question} | {names} | {pages} |")
    return "\n".join([*lines, ROWS])


def readme(text: str) -> str:
    """``text`` with the table in its place."""
    start, end = "<!-- made by docs/make.py -->\n", "\n<!-- until here -->"
    before, _, rest = text.partition(start)
    return "".join([before, start, table(), end, rest.partition(end)[2]])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
