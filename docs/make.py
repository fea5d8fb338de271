"""Writes docs/api.md, the index of all public names, and tables of mechanisms: ``python docs/make.py``.

The tables are README's, by the questions that mechanisms answer, and those of docs/poisoning.md.

Mechanisms come from `ldp_core/mechanisms/catalogue.py`: their pages, what they answer, and their order.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from ldp_core import Mechanism, Numeric, ParameterError
from ldp_core.mechanisms.catalogue import CATALOGUE, Entry

PAGE = Path(__file__).with_name("api.md")
POISONING = Path(__file__).with_name("poisoning.md")
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
        "What many reports and people spend": (
            "accounting budget",
            "shuffled_epsilon sampled_epsilon parallel_epsilon total_epsilon best_guess",
        ),
        "Planning before there are data": ("mechanisms", "recommend expected_error required_n required_epsilon"),
        "Clients that lie": ("poisoning", "Influence"),
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
        "Perturb": ("polars", "perturb randomized_response unary_encode NoiseOptions Report"),
        "Tally and estimate": (
            "polars numbers heavy_hitters",
            "tally merge histogram estimate mean estimate_mean distribution estimate_distribution heavy_hitters "
            "find_heavy_hitters",
        ),
        "Clients that lie": ("poisoning", "suspicious"),
        "Frames and plans": (
            "polars",
            "bound perturb_frame histograms estimates explain simulate sink_parquet read_plan",
        ),
    },
    "ldp_beam": {
        "Perturb": ("beam", "Perturb RandomizedResponse UnaryEncode"),
        "Tally and estimate": (
            "beam numbers heavy_hitters",
            "Estimate Histogram PrivateHistogram Mean PrivateMean Distribution PrivateDistribution HeavyHitters "
            "PrivateHeavyHitters TallyCombineFn HistogramCombineFn AfterTallies",
        ),
        "A budget per person": ("budget", "BoundContributions PrivacyLedger Deduplicate"),
        "Rows": ("beam", "HistogramRow MeanRow DistributionRow DeadLetter"),
    },
    "ldp_beam.io": {
        "Sources and sinks": (
            "beam deploy live",
            "ReadEvents ReadKafka WriteKafka ReadPubSub WritePubSub WatchFolder WriteReports ReadReports",
        ),
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
| what a pile of shuffled reports reveals | `PrivacyPlan.shuffled`, `.explain` | [accounting](docs/accounting.md) |
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


SIZES = [(epsilon, d) for epsilon in (0.1, 1.0, 4.0) for d in (16, 1024)]
TARGETS = 10


def poisoning() -> str:
    """The tables of docs/poisoning.md: what one report moves, and what it gains for some values together."""
    moves: dict[str, list[str]] = {}
    gains: dict[str, list[str]] = {}
    for epsilon, d in SIZES:
        for entry in CATALOGUE:
            for name, m in entry.sized(d, epsilon).items():
                moves.setdefault(name, []).append(_moves(m))
                if not isinstance(m, Numeric):  # (of which there is one sum)
                    gains.setdefault(name, []).append(_gain(m))
    return "\n\n".join(
        [
            "What one report moves at most: one estimated count / all of them together.",
            _rows(moves),
            f"What one fake report gains for {TARGETS} values together, at most.",
            _rows(gains),
        ]
    )


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


def _gain(m: Mechanism) -> str:
    try:
        return _short(m.worst_gain(fake=1, targets=TARGETS))
    except ParameterError:
        return _UNKNOWN


_UNKNOWN = "no bound"


def _short(number: float) -> str:
    """Three digits, or all before the point."""
    if number == float("inf"):
        return _UNKNOWN
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def within(text: str, made: str) -> str:
    """``text`` with what is made in its place."""
    start, end = "<!-- made by docs/make.py -->\n", "\n<!-- until here -->"
    before, _, rest = text.partition(start)
    return "".join([before, start, made, end, rest.partition(end)[2]])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for path, made in ((README, table()), (POISONING, poisoning())):
        path.write_text(within(path.read_text(encoding="utf-8"), made), encoding="utf-8")
