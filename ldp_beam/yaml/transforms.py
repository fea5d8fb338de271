"""The transforms for Beam YAML: plain arguments in, rows with a schema out; listed in ``providers.yaml``.

LdpReadCsv: files -> rows, or Arrow batches                LdpReadParquet: files -> Arrow batches, for the others
LdpPerturb: rows -> rows of reports

LdpHistogram: rows of reports -> `HistogramRow`            LdpPrivateHistogram: rows -> `HistogramRow`, in one step
LdpMean: rows of reports -> `MeanRow`                      LdpPrivateMean: rows -> `MeanRow`
LdpDistribution: rows of reports -> `DistributionRow`      LdpPrivateDistribution: rows -> `DistributionRow`
LdpHeavyHitters: rows of reports -> `HistogramRow`         LdpPrivateHeavyHitters: rows -> `HistogramRow`

LdpBoundContributions, LdpDeduplicate, LdpPrivacyLedger: rows -> those of them that may be perturbed

Each is a dataclass whose fields are its options; those that several have are inherited, with their description. Beam
YAML reads names and types from ``__init__`` and descriptions from ``__doc__``. Whatever is wrong with the arguments,
or does not fit the schema of the rows, is an error before anything runs.
"""

# Beam YAML describes a transform's arguments from their annotations, which therefore must be no strings:
# no ``from __future__ import annotations`` here.

import inspect
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint
from typing_extensions import override

from ldp_beam.elements.records import FlushedAtOnce, RecordsTransform
from ldp_beam.estimates.transforms import (
    Distribution,
    HeavyHitters,
    Histogram,
    Mean,
    PrivateDistribution,
    PrivateHeavyHitters,
    PrivateHistogram,
    PrivateMean,
)
from ldp_beam.io.files import ReadFiles
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger
from ldp_beam.perturb import Perturb
from ldp_beam.yaml import _rows
from ldp_beam.yaml._options import (
    read_accumulation_mode,
    read_by,
    read_columns,
    read_fill,
    read_fill_keys,
    read_flag,
    read_key,
    read_mechanism,
    read_names,
    read_output,
    read_plan,
    read_window,
)
from ldp_core import FrequencyOracle, ParameterError, PlanError

Config = Mapping[str, Any]

PROVIDERS = Path(__file__).with_name("providers.yaml")
"""What to ``include`` in a pipeline's ``providers``."""

_GOOD = "good"


class _Described:
    """The section ``Args:`` of a subclass's docstring describes the options that it inherits, too."""

    _own: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        text = inspect.cleandoc(cls.__doc__ or "")
        found = re.search(r"Args:\n((?: .*\n?)+)\n?", text)
        cls._own = found[1].rstrip() if found else ""
        described = [base.__dict__["_own"] for base in reversed(cls.__mro__) if base.__dict__.get("_own")]
        cls.__doc__ = "\n".join([text.replace(found[0], "") if found else text, "", "Args:", *described])


@dataclass(kw_only=True, eq=False)
class _YamlTransform(_Described, beam.PTransform[Any, Any]):
    """Applies a transform of this package; its dead letters, if asked for, are an output of the name asked for.

    Args:
        error_handling: ``{output: NAME}``: unusable rows are counted there as `DeadLetter` rows.
    """

    makes: ClassVar[type[RecordsTransform]]

    error_handling: Config | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self._errors = read_output(self.error_handling)
        self._transform = self.makes(**self.arguments())
        if self._errors is not None:
            self._transform = self._transform.with_exception_handling(_GOOD, self._errors)

    def arguments(self) -> dict[str, Any]:
        """The options as arguments of what is made."""
        return {}

    def _apply(self, pcoll: Any) -> tuple[Any, Any]:
        """The main output, and the dead letters or None."""
        out = pcoll | "Ldp" >> self._transform
        return (out, None) if self._errors is None else out

    def _result(self, good: Any, dead_letters: Any) -> Any:
        if self._errors is None:
            return good
        return {_GOOD: good, self._errors: dead_letters}


@dataclass(kw_only=True, eq=False)
class _Keyed(_YamlTransform):
    """Perturbs, with noise that may stay the same.

    Args:
        key: for keyed noise, with ``id``: where the worker gets the secret: ``{env: NAME}``, ``{file: PATH}``, or
            ``{function: package.module.name}``, which returns a `Secret`. Never the secret itself.
        id: the column that says whose row it is.
        record: instead of ``id``, and with or without ``key``: the column that tells the rows apart; see `Perturb`.
        stabilize: see `Perturb`.
    """

    key: Config | None = None
    id: str | None = None
    record: str | None = None
    stabilize: bool = True

    @override
    def arguments(self) -> dict[str, Any]:
        noise = {"key": read_key(self.key), "id": self.id, "record": self.record}
        return {**super().arguments(), **noise, "stabilize": read_flag("stabilize", self.stabilize)}


@dataclass(kw_only=True, eq=False)
class LdpPerturb(_Keyed):
    """One private report a row: planned columns perturbed, the plan's ``keep`` passed on, all else dropped.

    Reports are rows with a schema: the type of the labels, or for bit vectors a list: of Booleans, or, ``packed``,
    of 64-bit words (signed, since Beam's schemas have no other: bit 63 is the sign); numbers of symbols and counters
    are integers.

    Args:
        plan: the path of a plan in TOML, on any file system that Beam knows; or the plan itself, as
            ``{keep: [...], columns: {NAME: {mechanism: ..., epsilon: ..., domain: [...]}}}``.
        packed: bit vectors as words rather than as Booleans.

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

    makes = Perturb

    plan: str | Config
    packed: bool = False

    @override
    def arguments(self) -> dict[str, Any]:
        self._plan = read_plan(self.plan)
        return {**super().arguments(), "plan": self._plan, "packed": read_flag("packed", self.packed)}

    @override
    def expand(self, pcoll: Any) -> Any:
        columns = self._plan.columns
        types = {name: m.reports.arrow_type(packed=self.packed) for name, m in columns.items()}
        fields = _rows.fields_of(pcoll)
        if fields is not None:
            self._plan.check_columns(fields)
            _rows.check_there([self.id, self.record], fields)
            for name, mechanism in columns.items():
                _rows.check_type(name, mechanism, fields)
        elif self._plan.keep and not _rows.is_arrow(pcoll):
            raise PlanError(f"the plan keeps {list(self._plan.keep)}, of rows that have no schema to tell their types")
        reports, dead_letters = self._apply(pcoll)
        if not _rows.is_arrow(pcoll):
            reports |= "Rows" >> FlushedAtOnce()
            kept = [(name, (fields or {})[name]) for name in self._plan.keep]
            made = [(name, _rows.python_type(types[name], m.reports.nullable)) for name, m in columns.items()]
            reports.element_type = RowTypeConstraint.from_fields([*made, *kept])
        return self._result(reports, dead_letters)


@dataclass(kw_only=True, eq=False)
class _Estimate(_YamlTransform):
    """From rows, of reports or of what the transform perturbs itself, to rows of estimates.

    Args:
        column: of the reports, as `LdpPerturb` makes them; of a transform that perturbs, of the raw values.
        mechanism: that made them, or is to: ``{mechanism: unary_encoding, epsilon: 1.0, domain: [...]}``.
        plan: or the plan, as for `LdpPerturb`, that has the column's mechanism.
        window: the length of fixed windows, as ``1h`` or in seconds; or ``{type: fixed, size: ...}``,
            ``{type: sliding, size: ..., period: ...}``, ``{type: sessions, gap: ...}`` or ``{type: global}``. None: the
            windows that the rows are in.
        event_time: column of the rows' times: times, or numbers since the epoch. None: the rows' timestamps.
        time_unit: of numbers in ``event_time``: ``s`` (default), ``ms``, ``us`` or ``ns``.
        by: columns to tally by.
        allowed_lateness: as ``10m`` or in seconds.
        accumulation_mode: ``accumulating`` or ``discarding``.
        fill: ``[start, end]``, in seconds or as quoted text in ISO 8601 with a zone, for rows of empty windows; the end
            may be null.
        fill_keys: with ``fill`` and ``by``: which keys to fill.
        confidence: of the intervals.
    """

    column: str
    mechanism: Config | None = None
    plan: str | Config | None = None
    window: str | float | Config | None = None
    event_time: str | None = None
    time_unit: str = "s"
    by: Sequence[str] = ()
    allowed_lateness: str | float = 0
    accumulation_mode: str = "accumulating"
    fill: Sequence[Any] | None = None
    fill_keys: Sequence[Sequence[str]] | None = None
    confidence: float = 0.95

    @override
    def arguments(self) -> dict[str, Any]:
        self._mechanism = read_mechanism(self.column, self.mechanism, self.plan)
        self._by = read_by(self.by)
        mode = read_accumulation_mode(self.accumulation_mode)
        return {
            **super().arguments(),
            "column": self.column,
            "mechanism": self._mechanism,
            "window": read_window(self.window),
            "event_time": self.event_time,
            "time_unit": self.time_unit,
            "by": self._by,
            "allowed_lateness": self.allowed_lateness,
            "accumulation_mode": None if self.window is None else mode,
            "fill": read_fill(self.fill),
            "fill_keys": read_fill_keys(self.fill_keys),
            "confidence": self.confidence,
        }

    @override
    def expand(self, pcoll: Any) -> Any:
        private = isinstance(self, _Keyed)
        names = [self.column, *self._by, self.event_time, *([self.id, self.record] if isinstance(self, _Keyed) else [])]
        fields = _rows.fields_of(pcoll)
        if fields is not None:
            _rows.check_there(names, fields)
            if private:  # reports look different in different layouts
                _rows.check_type(self.column, self._mechanism, fields)
        return self._result(*self._apply(pcoll))


@dataclass(kw_only=True, eq=False)
class LdpHistogram(_Estimate):
    """Estimate how many rows hold each value, from rows of reports: `HistogramRow`, per window, key, pane and value.

    Args:
        simultaneous: whether the intervals hold for all values together.
        consistency: make counts consistent by this method, as ``norm-sub``; biased, and off by default.

    Raises:
        ParameterError, DomainError, PlanError: bad arguments, or columns that the rows do not have.

    >>> mechanism = {"mechanism": "randomized_response", "epsilon": 50.0, "domain": [False, True]}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     reports = p | beam.Create([beam.Row(crashed=True), beam.Row(crashed=True)])
    ...     found = reports | LdpHistogram(column="crashed", mechanism=mechanism)
    ...     _ = found | beam.Map(lambda r: print(r.value, round(r.count), r.n))
    False 0 2
    True 2 2
    """

    makes: ClassVar[type[RecordsTransform]] = Histogram

    simultaneous: bool = False
    consistency: str | None = None

    @override
    def arguments(self) -> dict[str, Any]:
        made = super().arguments()
        if not isinstance(self._mechanism, FrequencyOracle):
            raise ParameterError(
                f"a histogram needs a frequency oracle, got {self._mechanism.name}: give a sketch its candidates, as "
                "the mechanism {mechanism: candidates (of rappor: rappor_candidates), sketch: {...}, domain: [...]}; "
                "of numbers take LdpMean, of values to be found LdpHeavyHitters"
            )
        return {**made, "simultaneous": read_flag("simultaneous", self.simultaneous), "consistency": self.consistency}


@dataclass(kw_only=True, eq=False)
class LdpPrivateHistogram(_Keyed, LdpHistogram):
    """`LdpPerturb` and `LdpHistogram` in one step: from rows of raw values; reports never leave memory.

    Raises:
        DtypeError: the column is of another type than the labels.
        ParameterError, DomainError, PlanError: see `LdpHistogram`.

    >>> mechanism = {"mechanism": "unary_encoding", "epsilon": 1.0, "domain": ["ios", "android"]}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     people = p | beam.Create([beam.Row(os="ios", t=5), beam.Row(os="ios", t=65)])
    ...     out = people | LdpPrivateHistogram(column="os", mechanism=mechanism, window="1m", event_time="t")
    ...     _ = out | beam.Map(lambda r: print(r.window_start, r.value, r.n))
    Timestamp(0) ios 1
    Timestamp(0) android 1
    Timestamp(60) ios 1
    Timestamp(60) android 1
    """

    makes = PrivateHistogram


@dataclass(kw_only=True, eq=False)
class LdpMean(_Estimate):
    """Estimate the mean of the numbers in a column of reports: one `MeanRow` per window, key and pane.

    Raises:
        ParameterError, DomainError, PlanError: see `LdpHistogram`; or a mechanism that is not for numbers.
    """

    makes: ClassVar[type[RecordsTransform]] = Mean


@dataclass(kw_only=True, eq=False)
class LdpPrivateMean(_Keyed, LdpMean):
    """`LdpPerturb` and `LdpMean` in one step: from rows of numbers; reports never leave memory.

    Raises:
        DtypeError: the column holds no numbers.
        ParameterError, DomainError, PlanError: see `LdpMean`.

    >>> mechanism = {"mechanism": "hybrid", "epsilon": 50.0, "domain": {"low": 0, "high": 10}}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     numbers = p | beam.Create([beam.Row(s=2.0), beam.Row(s=4.0)])
    ...     mean = numbers | LdpPrivateMean(column="s", mechanism=mechanism)
    ...     _ = mean | beam.Map(lambda r: print(round(r.mean), r.n))
    3 2
    """

    makes = PrivateMean


@dataclass(kw_only=True, eq=False)
class LdpDistribution(_Estimate):
    """Estimate how the numbers in a column of reports are distributed: a `DistributionRow` per window, key and bucket.

    Args:
        buckets: of a ``square_wave``: of the result; by default as many as the mechanism has.
        method: of a ``square_wave``: ``ems``, which smooths and is the default, or ``em``.

    Raises:
        ParameterError, DomainError, PlanError: see `LdpHistogram`; or a mechanism that is not for distributions.
    """

    makes: ClassVar[type[RecordsTransform]] = Distribution

    buckets: int | None = None
    method: str | None = None

    @override
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "buckets": self.buckets, "method": self.method}


@dataclass(kw_only=True, eq=False)
class LdpPrivateDistribution(_Keyed, LdpDistribution):
    """`LdpPerturb` and `LdpDistribution` in one step: from rows of numbers; reports never leave memory.

    Raises:
        DtypeError: the column holds no numbers.
        ParameterError, DomainError, PlanError: see `LdpDistribution`.

    >>> mechanism = {"mechanism": "square_wave", "epsilon": 1.0, "domain": {"low": 0, "high": 10}, "buckets": 64}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     numbers = p | beam.Create([beam.Row(s=2.0), beam.Row(s=4.0)])
    ...     shares = numbers | LdpPrivateDistribution(column="s", mechanism=mechanism, buckets=2)
    ...     _ = shares | beam.Map(lambda r: print(r.bucket_start, r.bucket_end, r.n))
    0.0 5.0 2
    5.0 10.0 2
    """

    makes = PrivateDistribution


@dataclass(kw_only=True, eq=False)
class LdpHeavyHitters(_Estimate):
    """Find the most frequent values, from rows of reports: one `HistogramRow` per window, key, pane and value found.

    Args:
        k: the most values to return.
        threshold: the least estimated count of what is returned. Default: so much that, with ``confidence``, no value
            is that nobody has.

    Raises:
        ParameterError, DomainError, PlanError: see `LdpHistogram`; or a mechanism that is not ``heavy_hitters``.
    """

    makes: ClassVar[type[RecordsTransform]] = HeavyHitters

    k: int
    threshold: float | None = None

    @override
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "k": self.k, "threshold": self.threshold}


@dataclass(kw_only=True, eq=False)
class LdpPrivateHeavyHitters(_Keyed, LdpHeavyHitters):
    """`LdpPerturb` and `LdpHeavyHitters` in one step: from rows of raw values; reports never leave memory.

    Raises:
        DtypeError: the column is of another type than what is to be found.
        ParameterError, DomainError, PlanError: see `LdpHeavyHitters`.
    """

    makes = PrivateHeavyHitters


@dataclass(kw_only=True, eq=False)
class _Limit(_YamlTransform):
    """From rows to some of them, with or without the id.

    Args:
        id: the column that says whose row it is; of `LdpDeduplicate`, which row.
        event_time: column of the rows' times: times, or numbers since the epoch. None: the rows' timestamps.
        time_unit: of numbers in ``event_time``: ``s`` (default), ``ms``, ``us`` or ``ns``.
        drop_id: whether the id goes no further. Keep it for keyed noise or a further limit.
        shards: number of pieces that the ids of a window are spread over, and so of workers that can share them.
        key: to hash ids with, as ``{env: NAME}``, ``{file: PATH}`` or ``{function: package.module.name}``.
        allowed_lateness: as ``10m`` or in seconds: how long a window's counts are kept after its end.
    """

    id: str
    event_time: str | None = None
    time_unit: str = "s"
    drop_id: bool = True
    shards: int = 16
    key: Config | None = None
    allowed_lateness: str | float = 0

    @override
    def arguments(self) -> dict[str, Any]:
        return {
            **super().arguments(),
            "id": self.id,
            "event_time": self.event_time,
            "time_unit": self.time_unit,
            "drop_id": read_flag("drop_id", self.drop_id),
            "shards": self.shards,
            "key": read_key(self.key),
            "allowed_lateness": self.allowed_lateness,
        }

    @override
    def expand(self, pcoll: Any) -> Any:
        fields = _rows.fields_of(pcoll)
        if fields is not None:
            _rows.check_there([self.id, self.event_time], fields)
        passed, dead_letters = self._apply(pcoll)
        if not _rows.is_arrow(pcoll):
            passed |= "Rows" >> FlushedAtOnce()
            passed.element_type = pcoll.element_type
        if fields is not None and self.drop_id:
            rest = [(name, declared) for name, declared in fields.items() if name != self.id]
            passed.element_type = RowTypeConstraint.from_fields(rest)
        return self._result(passed, dead_letters)


@dataclass(kw_only=True, eq=False)
class LdpBoundContributions(_Limit):
    """At most ``per_window`` rows of each person and window of event time; see `BoundContributions`.

    Args:
        per_window: at least 1.
        window: the length of fixed windows, as ``1d`` or in seconds, or ``{type: global}``, for ever. None: the windows
            that the rows are in.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """

    makes = BoundContributions

    per_window: int
    window: str | float | Config | None = None

    @override
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "per_window": self.per_window, "window": read_window(self.window)}


@dataclass(kw_only=True, eq=False)
class LdpDeduplicate(_Limit):
    """The first row of each id and window of event time; see `Deduplicate`.

    Args:
        within: rows of one id in one such window are duplicates; as ``window`` of `LdpBoundContributions`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.

    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     once = p | beam.Create([beam.Row(id="x1", os="ios")] * 3) | LdpDeduplicate(id="id", within="1h")
    ...     _ = once | beam.Map(lambda row: print(row.os))
    ios
    """

    makes = Deduplicate

    within: str | float | Config

    @override
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "within": read_window(self.within)}


@dataclass(kw_only=True, eq=False)
class LdpPrivacyLedger(_Limit):
    """Rows pass while their person's budget pays for them; see `PrivacyLedger`.

    Args:
        plan: that perturbs the rows; see `LdpPerturb`.
        budget: total epsilon of a person and period, exactly: a number, or text as ``3/10``.
        per: length of the period, as ``30d`` or in seconds. None: for ever.
        changes: how often the values of a person change at most. None: any number.
        change_times: ``secret``, or ``public`` if it is known which reports have the same value.
        keyed: whether the rows are perturbed with keyed noise.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """

    makes = PrivacyLedger

    plan: str | Config
    budget: float | str
    per: str | float | None = None
    changes: int | None = None
    change_times: str = "secret"
    keyed: bool = False

    @override
    def arguments(self) -> dict[str, Any]:
        return {
            **super().arguments(),
            "plan_or_epsilon": read_plan(self.plan),
            "budget": self.budget,
            "per": self.per,
            "changes": self.changes,
            "change_times": self.change_times,
            "keyed": read_flag("keyed", self.keyed),
        }


@dataclass(kw_only=True, eq=False)
class _Files(_YamlTransform):
    """Reads files; one worker reads a file.

    Args:
        path: a file pattern.
    """

    makes = ReadFiles
    form: ClassVar[str]
    _yaml_requires_inputs: ClassVar[bool] = False

    path: str

    @override
    def arguments(self) -> dict[str, Any]:
        if not isinstance(self.path, str):
            raise ParameterError(f"path is a file pattern, got {type(self.path).__name__}")
        return {**super().arguments(), "pattern": self.path, "form": self.form, "schema": self.schema()}

    @abstractmethod
    def schema(self) -> pa.Schema | None:
        """Of what is to be read."""

    def as_asked(self, read: Any) -> Any:
        """The batches, as what they are to be."""
        return read

    @override
    def expand(self, pbegin: Any) -> Any:
        read, dead_letters = self._apply(pbegin)
        return self._result(self.as_asked(read), dead_letters)


@dataclass(kw_only=True, eq=False)
class LdpReadCsv(_Files):
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
    def schema(self) -> pa.Schema:
        read_flag("batches", self.batches)
        return read_columns(self.columns, self.required)

    @override
    def as_asked(self, read: Any) -> Any:
        if self.batches:
            return read
        rows = read | "Rows" >> beam.FlatMap(_rows.rows_of)
        rows.element_type = RowTypeConstraint.from_fields(_rows.schema_fields(self.schema()))
        return rows


@dataclass(kw_only=True, eq=False)
class LdpReadParquet(_Files):
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

    @override
    def schema(self) -> pa.Schema | None:
        return None if self.columns is None else read_columns(dict.fromkeys(read_names(self.columns), "string"))
