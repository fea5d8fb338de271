"""The transforms for Beam YAML: plain arguments in, rows with a schema out; listed in ``providers.yaml``.

LdpReadCsv: files -> rows, or Arrow batches                LdpReadParquet: files -> Arrow batches, for the others
LdpPerturb: rows -> rows of reports
LdpEstimate: rows, of reports or of values -> rows of answers to any question
LdpHistogram: rows of reports -> `HistogramRow`            LdpPrivateHistogram: rows -> `HistogramRow`, in one step
LdpBoundContributions, LdpDeduplicate, LdpPrivacyLedger: rows -> those of them that may be perturbed

Whatever is wrong with the arguments, or does not fit the schema of the rows, is an error before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.typehints.row_type import RowTypeConstraint
from typing_extensions import override

from ldp_beam.elements.records import FlushedAtOnce
from ldp_beam.elements.rows import python_type
from ldp_beam.estimates.transforms import Estimate, Histogram, PrivateHistogram
from ldp_beam.io.files import ReadFiles
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger
from ldp_beam.perturb import Perturb
from ldp_beam.yaml import _rows
from ldp_beam.yaml._adapter import Config, LdpTransform
from ldp_beam.yaml._options import read_columns, read_names
from ldp_core import ParameterError, PlanError

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

    >>> plan = {"columns": {"os": {"mechanism": "unary_encoding", "epsilon": 1.0, "domain": ["ios", "android"]}}}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     people = p | beam.Create([beam.Row(os="ios", user="ann")])
    ...     reports = people | LdpPerturb(plan=plan)
    ...     _ = reports | beam.Map(lambda report: print(sorted(report.as_dict()), len(report.os)))
    ['os'] 2
    """

    @override
    def check(self, fields: _rows.Fields) -> None:
        plan = self.read["plan"]
        plan.check_columns(fields)
        for name, mechanism in plan.columns.items():
            _rows.check_type(name, mechanism, fields)

    @override
    def finished(self, out: Any, pcoll: Any) -> Any:
        if _rows.is_arrow(pcoll):
            return out
        plan, fields = self.read["plan"], _rows.fields_of(pcoll) or {}
        if plan.keep and not fields:
            raise PlanError(f"the plan keeps {list(plan.keep)}, of rows that have no schema to tell their types")
        out |= "Rows" >> FlushedAtOnce()
        made = []
        for name, mechanism in plan.columns.items():
            form = mechanism.reports
            kind = python_type(form.arrow_type(packed=self.read.get("packed", False)))
            made.append((name, kind | None if form.nullable else kind))
        out.element_type = RowTypeConstraint.from_fields([*made, *((name, fields[name]) for name in plan.keep)])
        return out


class _Estimate(LdpTransform):
    """From rows, of reports or of values, to rows of answers.

    Args:
        plan: or the plan, as for `LdpPerturb`, that has the column's mechanism.
    """

    mechanism: Config | None = None
    plan: str | Config | None = None

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
    def check(self, fields: _rows.Fields) -> None:
        if self.read.get("private", self.makes is PrivateHistogram):  # reports look different in different layouts
            _rows.check_type(self.read["column"], self._mechanism, fields)


class LdpEstimate(_Estimate, makes=Estimate, question="ask"):
    """Answer a question about a column, from rows of reports or of values: rows per window, key and pane.

    Raises:
        ParameterError, DomainError, PlanError: bad arguments, a question that the mechanism cannot answer, or columns
            that the rows do not have.
        DtypeError: with ``private``: the column is of another type than the mechanism's values.

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


class _Limit(LdpTransform):
    """From rows to some of them, with or without the id."""

    @override
    def finished(self, out: Any, pcoll: Any) -> Any:
        fields = _rows.fields_of(pcoll)
        if not _rows.is_arrow(pcoll):
            out |= "Rows" >> FlushedAtOnce()
            out.element_type = pcoll.element_type
        if fields is not None and self.read.get("drop_id", True):
            rest = [(name, declared) for name, declared in fields.items() if name != self.read["id"]]
            out.element_type = RowTypeConstraint.from_fields(rest)
        return out


class LdpBoundContributions(_Limit, makes=BoundContributions):
    """At most ``per_window`` rows of each person and window of event time; see `BoundContributions`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """


class LdpDeduplicate(_Limit, makes=Deduplicate):
    """The first row of each id and window of event time; see `Deduplicate`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.

    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     once = p | beam.Create([beam.Row(id="x1", os="ios")] * 3) | LdpDeduplicate(id="id", within="1h")
    ...     _ = once | beam.Map(lambda row: print(row.os))
    ios
    """


class LdpPrivacyLedger(_Limit, makes=PrivacyLedger, plan_or_epsilon="plan"):
    """Rows pass while their person's budget pays for them; see `PrivacyLedger`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """

    plan: str | Config


class _Files(LdpTransform):
    """Reads files; one worker reads a file.

    Args:
        path: a file pattern.
    """

    _yaml_requires_inputs: ClassVar[bool] = False
    form: ClassVar[str]

    @override
    def arguments(self, read: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(read["path"], str):
            raise ParameterError(f"path is a file pattern, got {type(read['path']).__name__}")
        columns, required = read.pop("columns", None), read.pop("required", ())
        read.pop("batches", None)
        if self.form == "parquet":
            self.schema = None if columns is None else read_columns(dict.fromkeys(read_names(columns), "string"))
        else:
            self.schema = read_columns(columns, required)
        return {**read, "form": self.form, "schema": self.schema}


class LdpReadCsv(_Files, makes=ReadFiles, pattern="path", form="", schema=""):
    """CSV files with a header line as rows, or as Arrow batches; only an empty field without quotes is null.

    So NA, null and NaN are text, as the country code NA is, and a quoted empty field is the empty text. (Beam's
    ``ReadFromCsv`` cannot tell them from a missing value.) A line of another number of fields, or with a value that
    is not of its column's type, is unusable: with ``error_handling`` it is counted, else the job ends.

    Args:
        columns: to read, and the type of each: ``string``, ``integer``, ``number``, ``boolean`` (true, false, 1, 0) or
            ``timestamp`` (ISO 8601, with a zone), as ``{os: string, time: number}``.
        required: columns whose null makes a line unusable, as one that counts in an expression.
        batches: Arrow batches rather than rows: the fast way into the other transforms, and into them only.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    form = "csv"

    columns: Config
    required: Sequence[str] = ()
    batches: bool = False

    @override
    def finished(self, out: Any, pcoll: Any) -> Any:
        if self.read.get("batches"):
            return out
        rows = out | "Rows" >> beam.FlatMap(_rows.rows_of)
        rows.element_type = RowTypeConstraint.from_fields(_rows.schema_fields(self.schema))
        return rows


class LdpReadParquet(_Files, makes=ReadFiles, pattern="path", form="", schema=""):
    """Parquet files as Arrow batches: the fast way into the other transforms, and into them only.

    Beam's ``ReadFromParquet`` makes a row of each record, and refuses columns of dates and timestamps.

    Args:
        columns: to read; all if absent.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    form = "parquet"

    columns: Sequence[str] | None = None
