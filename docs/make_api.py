"""Writes docs/api.md, the index of all public names: ``python docs/make_api.py``."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).with_name("api.md")

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "ldp_core": {
        "The line: reports, tallies, estimates": (
            "mechanisms consistency privacy",
            "Mechanism Tally Histogram Mean Distribution consistent",
        ),
        "Inputs": ("polars numbers heavy_hitters", "Domain Interval OpenDomain Prefixes"),
        "Frequency oracles": (
            "mechanisms",
            "FrequencyOracle RandomizedResponse UnaryEncoding SubsetSelection LocalHashing HadamardResponse "
            "BlockHadamardResponse ProjectiveGeometryResponse HybridProjectiveGeometryResponse "
            "ThresholdHistogramEncoding SummationHistogramEncoding",
        ),
        "Sketches": ("sketches rappor", "Sketch Candidates CountMeanSketch HadamardCountMeanSketch Rappor"),
        "Heavy hitters": ("heavy_hitters", "HeavyHitters"),
        "Numbers": ("numbers", "Numeric OneBitMean Piecewise Hybrid SquareWave StochasticRounding"),
        "Longitudinal collection": (
            "longitudinal",
            "LongitudinalRandomizedResponse LongitudinalUnaryEncoding Loloha DBitFlip",
        ),
        "Plans and several columns": (
            "several_columns polars",
            "PrivacyPlan SampledColumn FakeDataColumn compare_plans",
        ),
        "Planning before there are data": ("mechanisms", "recommend expected_error required_n required_epsilon"),
        "Randomness": ("longitudinal polars", "Randomness Keystream Keyed Secret"),
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
        "Frames and plans": ("polars", "perturb_frame histograms explain sink_parquet read_plan"),
    },
    "ldp_beam": {
        "Perturb": ("beam", "Perturb RandomizedResponse UnaryEncode"),
        "Tally and estimate": (
            "beam numbers heavy_hitters",
            "Histogram PrivateHistogram Mean PrivateMean Distribution PrivateDistribution HeavyHitters "
            "PrivateHeavyHitters TallyCombineFn HistogramCombineFn",
        ),
        "A budget per person": ("budget", "BoundContributions PrivacyLedger Deduplicate"),
        "Rows and coders": ("beam", "HistogramRow MeanRow DistributionRow DeadLetter RecordBatchCoder TallyCoder"),
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
shapes, units, errors, sources, and an example that runs as a test. This page is made by `python docs/make_api.py`.
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
        links = ", ".join(f"[{guide.replace('_', ' ')}]({guide}.md)" for guide in guides.split())
        lines = [f"- `{name}`: {summary(package, name)}" for name in names.split()]
        parts.append("\n".join([f"### {title}\n", *([f"See {links}.\n"] if links else []), *lines, ""]))
    return "\n".join(parts)


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


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
