"""The transforms for Beam YAML: plain arguments in, rows with a schema out; listed in ``providers.yaml``.

LdpPerturb: rows -> rows of reports                        LdpReadParquet: files -> Arrow batches, for the others

LdpHistogram: rows of reports -> `HistogramRow`            LdpPrivateHistogram: rows -> `HistogramRow`, in one step
LdpMean: rows of reports -> `MeanRow`                      LdpPrivateMean: rows -> `MeanRow`
LdpDistribution: rows of reports -> `DistributionRow`      LdpPrivateDistribution: rows -> `DistributionRow`
LdpHeavyHitters: rows of reports -> `HistogramRow`         LdpPrivateHeavyHitters: rows -> `HistogramRow`

LdpBoundContributions, LdpDeduplicate, LdpPrivacyLedger: rows -> those of them that may be perturbed

Whatever is wrong with the arguments, or does not fit the schema of the rows, is an error before anything runs. The
options are described in `ldp_beam.yaml._options`, and in ``__doc__`` and the signature of each transform.
"""

# Beam YAML describes a transform's arguments from its annotations, which therefore must be no strings:
# no ``from __future__ import annotations`` here.

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.typehints.row_type import RowTypeConstraint

from ldp_beam.elements.records import RecordsTransform
from ldp_beam.elements.rows import DeadLetter
from ldp_beam.estimates._tallying import Perturbing
from ldp_beam.estimates.distribution import Distribution, PrivateDistribution
from ldp_beam.estimates.heavy_hitters import HeavyHitters, PrivateHeavyHitters
from ldp_beam.estimates.histogram import Histogram, PrivateHistogram
from ldp_beam.estimates.mean import Mean, PrivateMean
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger
from ldp_beam.perturb import Perturb
from ldp_beam.yaml import _options as options
from ldp_beam.yaml import _rows as rows
from ldp_core import FrequencyOracle, InputError, ParameterError, PlanError

PROVIDERS = Path(__file__).with_name("providers.yaml")
"""What to ``include`` in a pipeline's ``providers``."""

_GOOD = "good"


class _YamlTransform(beam.PTransform[Any, Any]):
    """Applies a transform of this package; its dead letters, if asked for, are an output of the name asked for."""

    makes: ClassVar[type[RecordsTransform]]

    def _set(self, made: dict[str, Any]) -> None:
        """Make the transform from its arguments."""
        self._errors = made.pop("errors")
        self._transform = self.makes(**made)
        if self._errors is not None:
            self._transform = self._transform.with_exception_handling(_GOOD, self._errors)

    def _apply(self, pcoll: Any) -> tuple[Any, Any]:
        """The main output, and the dead letters or None."""
        out = pcoll | "Ldp" >> self._transform
        return (out, None) if self._errors is None else out

    def _result(self, good: Any, dead_letters: Any) -> Any:
        if self._errors is None:
            return good
        dead_letters |= "Dead letters" >> beam.Map(_same).with_output_types(DeadLetter)
        return {_GOOD: good, self._errors: dead_letters}


Kind = TypeVar("Kind", bound=type[_YamlTransform])


def _makes(transform: type[RecordsTransform], *groups: options.Group) -> Callable[[Kind], Kind]:
    """Give a class the options of these groups, of which its instances make ``transform``."""
    groups = (*groups, options.dead_letters)

    def given(cls: Kind) -> Kind:
        def init(self: _YamlTransform, **given: Any) -> None:
            beam.PTransform.__init__(self)
            self._set(options.arguments(groups, given))

        cls.__signature__ = init.__signature__ = options.signature(groups)  # type: ignore[attr-defined]
        cls.__init__ = init  # type: ignore[assignment]
        cls.makes = transform
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{options.description(groups)}"
        return cls

    return given


@_makes(Perturb, options.perturbing, options.keyed)
class LdpPerturb(_YamlTransform):
    """One private report a row: planned columns perturbed, the plan's ``keep`` passed on, all else dropped.

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
    ...     reports = people | LdpPerturb(plan=plan, packed=False)
    ...     _ = reports | beam.Map(lambda report: print(sorted(report.as_dict()), len(report.os)))
    ['os'] 2
    """

    def _set(self, made: dict[str, Any]) -> None:
        self._plan, self._id = made["plan"], made["id"]
        self._types = {name: m.reports.arrow_type(packed=made["packed"]) for name, m in self._plan.columns.items()}
        super()._set(made)

    def expand(self, pcoll: Any) -> Any:
        """See `beam.PTransform`."""
        fields = rows.fields_of(pcoll)
        if fields is not None:
            self._plan.check_columns(fields)
            rows.check_there([self._id], fields)
            for name, mechanism in self._plan.columns.items():
                rows.check_type(name, mechanism, fields)
        elif self._plan.keep and not rows.is_arrow(pcoll):
            raise PlanError(f"the plan keeps {list(self._plan.keep)}, of rows that have no schema to tell their types")
        reports, dead_letters = self._apply(pcoll)
        if not rows.is_arrow(pcoll):
            words = tuple(name for name, reported in self._types.items() if rows.is_words(reported))
            reports |= "Rows" >> (beam.Map(rows.signed, words) if words else beam.Map(_same))
            kept = [(name, (fields or {})[name]) for name in self._plan.keep]
            made = [
                (name, rows.python_type(self._types[name], mechanism.reports.nullable))
                for name, mechanism in self._plan.columns.items()
            ]
            reports.element_type = RowTypeConstraint.from_fields([*made, *kept])
        return self._result(reports, dead_letters)


class _Estimate(_YamlTransform):
    """From rows, of reports or of what the transform perturbs itself, to rows of estimates."""

    def _set(self, made: dict[str, Any]) -> None:
        self._column, self._mechanism, by = made["column"], made["mechanism"], made["by"]
        self._names = [self._column, *([by] if isinstance(by, str) else by), made["event_time"], made.get("id")]
        if issubclass(self.makes, (Histogram, PrivateHistogram)) and not isinstance(self._mechanism, FrequencyOracle):
            raise ParameterError(
                f"a histogram needs a frequency oracle, got {self._mechanism.name}: give a sketch its candidates, as "
                "the mechanism {mechanism: candidates (of rappor: rappor_candidates), sketch: {...}, domain: [...]}; "
                "of numbers take LdpMean, of values to be found LdpHeavyHitters"
            )
        super()._set(made)

    def expand(self, pcoll: Any) -> Any:
        """See `beam.PTransform`."""
        perturbs = issubclass(self.makes, Perturbing)
        fields = rows.fields_of(pcoll)
        if fields is not None:
            rows.check_there(self._names, fields)
            if perturbs:  # reports look different in different layouts
                rows.check_type(self._column, self._mechanism, fields)
        if not perturbs and not rows.is_arrow(pcoll) and rows.is_words(self._mechanism.reports.arrow_type(packed=True)):
            names = tuple(name for name in self._names if name is not None)
            pcoll |= "Unsigned" >> beam.Map(rows.unsigned, self._column, names).with_output_types(Any)
        return self._result(*self._apply(pcoll))


_TALLIED = (options.column_and_mechanism, options.windows_and_keys, options.intervals)


@_makes(Histogram, *_TALLIED, options.all_values)
class LdpHistogram(_Estimate):
    """Estimate how many rows hold each value, from rows of reports: `HistogramRow`, per window, key, pane and value.

    Raises:
        ParameterError, DomainError, PlanError: bad arguments, or columns that the rows do not have.

    >>> mechanism = {"mechanism": "randomized_response", "epsilon": 50.0, "domain": [False, True]}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     reports = p | beam.Create([beam.Row(crashed=True), beam.Row(crashed=True)])
    ...     found = reports | LdpHistogram(column="crashed", mechanism=mechanism)
    ...     _ = found | beam.Map(lambda r: print(r.value, round(r.count), r.n))
    false 0 2
    true 2 2
    """


@_makes(PrivateHistogram, *_TALLIED, options.all_values, options.keyed)
class LdpPrivateHistogram(_Estimate):
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


@_makes(Mean, *_TALLIED)
class LdpMean(_Estimate):
    """Estimate the mean of the numbers in a column of reports: one `MeanRow` per window, key and pane.

    Raises:
        ParameterError, DomainError, PlanError: see `LdpHistogram`; or a mechanism that is not for numbers.
    """


@_makes(PrivateMean, *_TALLIED, options.keyed)
class LdpPrivateMean(_Estimate):
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


@_makes(Distribution, *_TALLIED, options.square_wave)
class LdpDistribution(_Estimate):
    """Estimate how the numbers in a column of reports are distributed: a `DistributionRow` per window, key and bucket.

    Raises:
        ParameterError, DomainError, PlanError: see `LdpHistogram`; or a mechanism that is not for distributions.
    """


@_makes(PrivateDistribution, *_TALLIED, options.square_wave, options.keyed)
class LdpPrivateDistribution(_Estimate):
    """`LdpPerturb` and `LdpDistribution` in one step: from rows of numbers; reports never leave memory.

    Raises:
        DtypeError: the column holds no numbers.
        ParameterError, DomainError, PlanError: see `LdpDistribution`.

    >>> mechanism = {"mechanism": "square_wave", "epsilon": 1.0, "domain": {"low": 0, "high": 10}, "buckets": 64}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     numbers = p | beam.Create([beam.Row(s=2.0), beam.Row(s=4.0)])
    ...     shares = numbers | LdpPrivateDistribution(column="s", mechanism=mechanism, buckets=2)
    ...     _ = shares | beam.Map(lambda r: print(r.left, r.right, r.n))
    0.0 5.0 2
    5.0 10.0 2
    """


@_makes(HeavyHitters, *_TALLIED, options.search)
class LdpHeavyHitters(_Estimate):
    """Find the most frequent values, from rows of reports: one `HistogramRow` per window, key, pane and value found.

    Raises:
        ParameterError, DomainError, PlanError: see `LdpHistogram`; or a mechanism that is not ``heavy_hitters``.
    """


@_makes(PrivateHeavyHitters, *_TALLIED, options.search, options.keyed)
class LdpPrivateHeavyHitters(_Estimate):
    """`LdpPerturb` and `LdpHeavyHitters` in one step: from rows of raw values; reports never leave memory.

    Raises:
        DtypeError: the column is of another type than what is to be found.
        ParameterError, DomainError, PlanError: see `LdpHeavyHitters`.
    """


class _Limit(_YamlTransform):
    """From rows to some of them, with or without the id."""

    def _set(self, made: dict[str, Any]) -> None:
        self._id, self._event_time, self._drop_id = made["id"], made["event_time"], made["drop_id"]
        super()._set(made)

    def expand(self, pcoll: Any) -> Any:
        """See `beam.PTransform`."""
        fields = rows.fields_of(pcoll)
        if fields is not None:
            rows.check_there([self._id, self._event_time], fields)
        passed, dead_letters = self._apply(pcoll)
        if not rows.is_arrow(pcoll):
            passed |= "Rows" >> beam.Map(_same)
            passed.element_type = pcoll.element_type
        if fields is not None and self._drop_id:
            rest = [(name, declared) for name, declared in fields.items() if name != self._id]
            passed.element_type = RowTypeConstraint.from_fields(rest)
        return self._result(passed, dead_letters)


@_makes(BoundContributions, options.persons, options.contributions)
class LdpBoundContributions(_Limit):
    """At most ``per_window`` rows of each person and window of event time; see `BoundContributions`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """


@_makes(Deduplicate, options.persons, options.duplicates)
class LdpDeduplicate(_Limit):
    """The first row of each id and window of event time; see `Deduplicate`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.

    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     once = p | beam.Create([beam.Row(id="x1", os="ios")] * 3) | LdpDeduplicate(id="id", within="1h")
    ...     _ = once | beam.Map(lambda row: print(row.os))
    ios
    """


@_makes(PrivacyLedger, options.persons, options.budget)
class LdpPrivacyLedger(_Limit):
    """Rows pass while their person's budget pays for them; see `PrivacyLedger`.

    Raises:
        ParameterError, PlanError: bad arguments, or columns that the rows do not have.
    """


class LdpReadParquet(beam.PTransform[Any, Any]):
    """Parquet files as Arrow batches, one a row group: the fast way into the other transforms, and into them only.

    Beam's ``ReadFromParquet`` makes a row of each record, and refuses columns of dates and timestamps.

    Args:
        path (str): a file pattern.
        columns (Sequence[str]): to read; all if absent.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    _yaml_requires_inputs = False

    def __init__(self, *, path: str, columns: Sequence[str] | None = None) -> None:
        super().__init__()
        if not isinstance(path, str) or not (columns is None or isinstance(columns, (list, tuple))):
            raise ParameterError("path is a file pattern, and columns a list of names")
        self._read: Any = None
        with suppress(BeamIOError, OSError):
            self._read = beam.io.ReadFromParquetBatched(path, columns=None if columns is None else list(columns))
        if self._read is None:
            raise InputError(f"there are no files to read at {path!r}")

    def expand(self, pbegin: Any) -> Any:
        """See `beam.PTransform`."""
        tables = pbegin | "Read" >> self._read
        tables.element_type = pa.Table
        return tables


def _same(row: Any) -> Any:
    """The row.

    A step after all that ends bundles with rows: what a DoFn puts out in ``finish_bundle``, Beam 2.77 loses on its way
    into a DoFn with ``process_batch``, as WriteToJson and its like begin with (`DoOperation.finish` flushes first).
    """
    return row
