"""The transforms for Beam YAML: plain arguments in, rows with a schema out; listed in ``providers.yaml``.

LdpReadCsv, LdpReadNdjson: files -> rows, or Arrow batches
LdpReadParquet: files -> Arrow batches, for the others     LdpWriteEstimates: rows of answers -> files
LdpPerturb: rows -> rows of reports
LdpEstimate: rows, of reports or of values -> rows of answers to any question
LdpCompare: rows of reports -> rows of differences between each window and the one before
LdpTable, LdpPrivateTable: rows, of reports or of values -> rows of pairs of values of two columns
LdpHistogram: rows of reports -> `HistogramRow`            LdpPrivateHistogram: rows -> `HistogramRow`, in one step
LdpBoundContributions, LdpDeduplicate, LdpPrivacyLedger: rows -> those of them that may be perturbed

Whatever is wrong with the arguments, or does not fit the schema of the rows, is an error before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from ldp_beam.estimates.comparing import Compare
from ldp_beam.estimates.transforms import Estimate, Histogram, PrivateHistogram, PrivateTable, Table
from ldp_beam.io.estimates import WriteEstimates
from ldp_beam.io.files import ReadCsv, ReadNdjson, ReadParquet
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger
from ldp_beam.perturb import Perturb, row_of_reports
from ldp_beam.yaml._adapter import Fields, LdpTransform
from ldp_core import Mechanism, ParameterError, PlanError

__all__ = [
    "PROVIDERS",
    "LdpBoundContributions",
    "LdpCompare",
    "LdpDeduplicate",
    "LdpEstimate",
    "LdpHistogram",
    "LdpPerturb",
    "LdpPrivacyLedger",
    "LdpPrivateHistogram",
    "LdpPrivateTable",
    "LdpReadCsv",
    "LdpReadNdjson",
    "LdpReadParquet",
    "LdpTable",
    "LdpWriteEstimates",
]

PROVIDERS = Path(__file__).with_name("providers.yaml")
"""What to ``include`` in a pipeline's ``providers``."""


class LdpPerturb(LdpTransform, makes=Perturb):
    """One private report per row: planned columns perturbed, the plan's ``keep`` passed on, all else dropped.

    Reports are rows with a schema: the type of the labels, or for bit vectors a list: of Booleans, or, ``packed``,
    of 64-bit words (signed, since Beam's schemas have no other: bit 63 is the sign); numbers of symbols and counters
    are integers.

    Raises:
        PlanError: the plan cannot be read, is none, or names columns that the rows do not have.
        DtypeError: a column is of another type than its labels. (YAML reads ``no`` and ``on`` as Booleans: quote them.)
        ParameterError: other bad arguments.

    >>> import apache_beam as beam
    >>> plan = {"columns": {"os": {"mechanism": "unary_encoding", "epsilon": 1.0, "domain": ["ios", "android"]}}}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     people = p | beam.Create([beam.Row(os="ios", user="ann")])
    ...     reports = people | LdpPerturb(plan=plan)
    ...     _ = reports | beam.Map(lambda report: print(sorted(report.as_dict()), len(report.os)))
    ['os'] 2
    """

    @override
    def perturbs(self) -> Mapping[str, Mechanism]:
        columns: Mapping[str, Mechanism] = self.read["plan"].columns
        return columns

    @override
    def type_of_rows(self, pcoll: Any, fields: Fields | None) -> Any:
        plan = self.read["plan"]
        if plan.keep and not fields:
            raise PlanError(f"the plan keeps {list(plan.keep)}, of rows that have no schema to tell their types")
        known = dict.fromkeys(plan.columns) if fields is None else fields
        return row_of_reports(plan, known, packed=self.read.get("packed", False))


class _Estimate(LdpTransform):
    """From rows, of reports or of values, to rows of answers; the mechanism may be that of the column in a plan."""

    more: ClassVar[tuple[str, ...]] = ("mechanism", "plan", "error_handling")

    @override
    def arguments(self, read: dict[str, Any]) -> dict[str, Any]:
        plan = read.pop("plan", None)
        if (read.get("mechanism") is None) == (plan is None):
            raise ParameterError("give either a mechanism or a plan")
        if plan is not None:
            read["mechanism"] = plan[read["column"]]
        self._mechanism = read["mechanism"]
        return read

    @override
    def perturbs(self) -> Mapping[str, Mechanism]:
        private = self.read.get("private", self.makes is PrivateHistogram)
        return {self.read["column"]: self._mechanism} if private else {}  # reports look different in different layouts


class LdpEstimate(_Estimate, makes=Estimate, question="ask"):
    """Answer a question about a column, from rows of reports or of values: rows per window, key and pane.

    Raises:
        ParameterError, DomainError, PlanError: bad arguments, a question that the mechanism cannot answer, or columns
            that the rows do not have.
        DtypeError: with ``private``: the column is of another type than the mechanism's values.

    >>> import apache_beam as beam
    >>> mechanism = {"mechanism": "hybrid", "epsilon": 50.0, "domain": {"low": 0, "high": 10}}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     numbers = p | beam.Create([beam.Row(s=2.0), beam.Row(s=4.0)])
    ...     mean = numbers | LdpEstimate(column="s", mechanism=mechanism, ask="mean", private=True)
    ...     _ = mean | beam.Map(lambda r: print(round(r.mean), r.n))
    3 2
    """


class LdpHistogram(_Estimate, makes=Histogram):
    """Estimate how many rows hold each value, from rows of reports: `LdpEstimate` that asks for a histogram."""


class LdpPrivateHistogram(_Estimate, makes=PrivateHistogram):
    """`LdpPerturb` and `LdpHistogram` in one step: from rows of raw values; reports never leave memory."""


class LdpTable(LdpTransform, makes=Table):
    """How many rows have each pair of values of two columns, and the rate of the second, from rows of reports.

    Raises:
        ParameterError, PlanError: bad arguments, reports that have no table, or columns that the rows do not have.

    >>> import apache_beam as beam
    >>> coin = {"mechanism": "randomized_response", "epsilon": 50.0, "domain": [False, True]}  # hardly any noise
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     reports = p | beam.Create([beam.Row(old=i < 2, crashed=i == 0) for i in range(4)])
    ...     table = reports | LdpTable(first="old", second="crashed", plan={"columns": {"old": coin, "crashed": coin}})
    ...     _ = table | beam.Map(lambda r: r.old and r.crashed and print(round(r.count), round(r.rate, 2)))
    1 0.5
    """


class LdpPrivateTable(LdpTransform, makes=PrivateTable):
    """`LdpPerturb` and `LdpTable` in one step: from rows of raw values; reports never leave memory."""

    @override
    def perturbs(self) -> Mapping[str, Mechanism]:
        return {self.read[name]: self.read["plan"][self.read[name]] for name in ("first", "second")}


class LdpCompare(_Estimate, makes=Compare):
    """By how much each window differs from the one before, from rows of reports; see `Compare`."""


class LdpBoundContributions(LdpTransform, makes=BoundContributions):
    """At most ``per_window`` rows of each person and window of event time; see `BoundContributions`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """


class LdpDeduplicate(LdpTransform, makes=Deduplicate):
    """The first row of each id and window of event time; see `Deduplicate`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.

    >>> import apache_beam as beam
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     once = p | beam.Create([beam.Row(id="x1", os="ios")] * 3) | LdpDeduplicate(id="id", within="1h")
    ...     _ = once | beam.Map(lambda row: print(row.os))
    ios
    """


class LdpPrivacyLedger(LdpTransform, makes=PrivacyLedger, plan_or_epsilon="plan"):
    """Rows pass while their person's budget pays for them; see `PrivacyLedger`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """


class LdpReadCsv(LdpTransform, makes=ReadCsv):
    """CSV files with a header line as rows, or as Arrow batches; see `ReadCsv`.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    _yaml_requires_inputs: ClassVar[bool] = False


class LdpReadNdjson(LdpTransform, makes=ReadNdjson):
    """Files of one JSON object a line as rows, or as Arrow batches; see `ReadNdjson`.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    _yaml_requires_inputs: ClassVar[bool] = False


class LdpReadParquet(LdpTransform, makes=ReadParquet):
    """Parquet files as Arrow batches: the fast way into the other transforms, and into them only; see `ReadParquet`.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    _yaml_requires_inputs: ClassVar[bool] = False


class LdpWriteEstimates(LdpTransform, makes=WriteEstimates):
    """Rows of answers to one question into files of a folder, one per window and bundle; see `WriteEstimates`.

    Raises:
        ParameterError: bad arguments.
    """

    more: ClassVar[tuple[str, ...]] = ()
