"""The transforms for Beam YAML: plain arguments in, rows with a schema out; listed in ``providers.yaml``.

LdpPerturb: rows -> rows of reports                     LdpReadParquet: files -> Arrow batches, for the three others
LdpHistogram: rows of reports -> `HistogramRow`         LdpPrivateHistogram: rows -> `HistogramRow`, in one step

Whatever is wrong with the arguments, or does not fit the schema of the rows, is an error before anything runs.
"""

# Beam YAML describes a transform's arguments from its annotations, which therefore must be no strings:
# no ``from __future__ import annotations`` here.

import importlib
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import Row
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.utils.timestamp import Duration

from ldp_beam.histogram import Histogram, PrivateHistogram
from ldp_beam.perturb import Perturb
from ldp_beam.records import RecordsTransform
from ldp_beam.rows import DeadLetter
from ldp_beam.windows import Window, seconds
from ldp_core import DtypeError, FrequencyOracle, InputError, Mechanism, ParameterError, PlanError, PrivacyPlan, Secret
from ldp_core.columns import PYTHON_TYPES
from ldp_core.consistency import Consistency

PROVIDERS = Path(__file__).with_name("providers.yaml")
"""What to ``include`` in a pipeline's ``providers``."""

Config = Mapping[str, Any]
Fields = dict[str, Any]

_GOOD = "good"
_SCALARS = (bool, int, float, str, bytes, np.generic)


class _YamlTransform(beam.PTransform[Any, Any]):
    """Applies a transform of this package; its dead letters, if asked for, are an output of the name asked for."""

    def __init__(self, transform: RecordsTransform, error_handling: Config | None) -> None:
        super().__init__()
        self._errors = None
        if error_handling is not None:
            if not isinstance(error_handling, Mapping) or set(error_handling) != {"output"}:
                raise ParameterError("error_handling is {output: NAME}, the name of the output with the dead letters")
            self._errors = str(error_handling["output"])
            transform = transform.with_exception_handling(_GOOD, self._errors)
        self._transform = transform

    def _apply(self, rows: Any) -> tuple[Any, Any]:
        """The main output, and the dead letters or None."""
        out = rows | "Ldp" >> self._transform
        return (out, None) if self._errors is None else out

    def _result(self, good: Any, dead_letters: Any) -> Any:
        if self._errors is None:
            return good
        dead_letters |= "Dead letters" >> beam.Map(_same).with_output_types(DeadLetter)
        return {_GOOD: good, self._errors: dead_letters}


class LdpPerturb(_YamlTransform):
    """One private report a row: planned columns perturbed, the plan's ``keep`` passed on, all else dropped.

    Reports are rows with a schema: the type of the labels, or for bit vectors a list: of Booleans, or, ``packed``,
    of 64-bit words (signed, since Beam's schemas have no other: bit 63 is the sign).

    Args:
        plan (str | Mapping): the path of a plan in TOML, on any file system that Beam knows; or the plan itself,
            as ``{keep: [...], columns: {NAME: {mechanism: ..., epsilon: ..., domain: [...]}}}``.
        packed (bool): bit vectors as words rather than as Booleans.
        stabilize (bool): see `Perturb`.
        secret (Mapping): for keyed noise, with ``id``: where the worker gets the secret: ``{env: NAME}``,
            ``{file: PATH}``, or ``{function: package.module.name}``, which returns a `Secret`. Never the secret itself.
        id (str): the column that says whose row it is.
        error_handling (Mapping): ``{output: NAME}``: unusable rows are counted there as `DeadLetter` rows.

    Raises:
        PlanError: the plan cannot be read, is none, or names columns that the rows do not have.
        DtypeError: a column is of another type than its labels. (YAML reads ``no`` and ``on`` as Booleans: quote them.)
        ParameterError: other bad arguments.

    >>> plan = {"columns": {"os": {"mechanism": "unary_encoding", "epsilon": 1.0, "domain": ["ios", "android"]}}}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create([Row(os="ios", user="ann")])
    ...     reports = rows | LdpPerturb(plan=plan, packed=False)
    ...     _ = reports | beam.Map(lambda report: print(sorted(report.as_dict()), len(report.os)))
    ['os'] 2
    """

    def __init__(
        self,
        *,
        plan: str | Config,
        packed: bool = True,
        stabilize: bool = True,
        secret: Config | None = None,
        id: str | None = None,  # noqa: A002 (as in Perturb)
        error_handling: Config | None = None,
    ) -> None:
        _flags(packed=packed, stabilize=stabilize)
        self._plan = _plan(plan)
        self._id = id
        self._types = {name: m.report_type(packed=packed) for name, m in self._plan.columns.items()}
        self._nullable = {name for name, m in self._plan.columns.items() if m.nullable}
        perturb = Perturb(self._plan, packed=packed, stabilize=stabilize, key=_secret(secret), id=id)
        super().__init__(perturb, error_handling)

    def expand(self, pcoll: Any) -> Any:
        """See `beam.PTransform`."""
        fields = _fields(pcoll)
        if fields is not None:
            self._plan.check_columns(fields)
            _check_there([self._id], fields)
            for name, mechanism in self._plan.columns.items():
                _check_type(name, mechanism, fields)
        elif self._plan.keep and not _is_arrow(pcoll):
            raise PlanError(f"the plan keeps {list(self._plan.keep)}, of rows that have no schema to tell their types")
        reports, dead_letters = self._apply(pcoll)
        if not _is_arrow(pcoll):
            words = tuple(name for name, kind in self._types.items() if _is_unsigned(kind))
            reports |= "Rows" >> (beam.Map(_signed, words) if words else beam.Map(_same))
            kept = [(name, (fields or {})[name]) for name in self._plan.keep]
            reports.element_type = RowTypeConstraint.from_fields(
                [*((n, _python_type(kind, n in self._nullable)) for n, kind in self._types.items()), *kept]
            )
        return self._result(reports, dead_letters)


class LdpHistogram(_YamlTransform):
    """Estimate how many rows hold each value, from rows of reports: `HistogramRow`, per window, key, pane and value.

    Args:
        column (str): of the reports, as `LdpPerturb` makes them.
        mechanism (Mapping): that made them: ``{mechanism: unary_encoding, epsilon: 1.0, domain: [...]}``.
        plan (str | Mapping): or the plan, as for `LdpPerturb`, that has the column's mechanism.
        window: the length of fixed windows, as ``1h`` or in seconds; or ``{type: fixed, size: ...}``,
            ``{type: sliding, size: ..., period: ...}``, ``{type: sessions, gap: ...}`` or ``{type: global}``. None: the
            windows that the rows are in.
        event_time (str): column of the rows' times: times, or seconds since the epoch. None: the rows' timestamps.
        by (Sequence[str]): columns to tally by.
        confidence (float): of the intervals.
        simultaneous (bool): whether the intervals hold for all values together.
        consistency (str): make counts consistent by this method, as ``norm-sub``; biased, and off by default.
        allowed_lateness: as ``10m`` or in seconds.
        accumulation_mode (str): ``accumulating`` or ``discarding``.
        fill (Sequence): ``[start, end]``, in seconds or as quoted text in ISO 8601 with a zone, for rows of empty
            windows; the end may be null.
        fill_keys (Sequence[Sequence[str]]): with ``fill`` and ``by``: which keys to fill.
        error_handling (Mapping): ``{output: NAME}``: unusable rows are counted there as `DeadLetter` rows.

    Raises:
        ParameterError, DomainError, PlanError: bad arguments, or columns that the rows do not have.

    >>> mechanism = {"mechanism": "randomized_response", "epsilon": 50.0, "domain": [False, True]}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     reports = p | beam.Create([Row(crashed=True), Row(crashed=True)])
    ...     rows = reports | LdpHistogram(column="crashed", mechanism=mechanism)
    ...     _ = rows | beam.Map(lambda r: print(r.value, round(r.count), r.n))
    false 0 2
    true 2 2
    """

    _kind: ClassVar[type[Histogram] | type[PrivateHistogram]] = Histogram

    def __init__(
        self,
        *,
        column: str,
        mechanism: Config | None = None,
        plan: str | Config | None = None,
        window: str | float | Config | None = None,
        event_time: str | None = None,
        by: Sequence[str] = (),
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: str | None = None,
        allowed_lateness: str | float = 0,
        accumulation_mode: str = "accumulating",
        fill: Sequence[Any] | None = None,
        fill_keys: Sequence[Sequence[str]] | None = None,
        error_handling: Config | None = None,
    ) -> None:
        self._set(
            {},
            error_handling,
            column=column,
            mechanism=_mechanism(column, mechanism, plan),
            window=_window(window),
            event_time=event_time,
            by=by,
            confidence=confidence,
            simultaneous=simultaneous,
            consistency=consistency,
            allowed_lateness=allowed_lateness,
            accumulation_mode=accumulation_mode,
            fill=fill,
            fill_keys=fill_keys,
        )

    def _set(
        self,
        noise: dict[str, Any],
        error_handling: Config | None,
        *,
        column: str,
        mechanism: FrequencyOracle,
        event_time: str | None,
        by: Sequence[str],
        confidence: float,
        simultaneous: bool,
        consistency: str | None,
        accumulation_mode: str,
        fill: Sequence[Any] | None,
        fill_keys: Sequence[Sequence[str]] | None,
        window: Window,
        allowed_lateness: str | float,
    ) -> None:
        _flags(simultaneous=simultaneous)
        if isinstance(confidence, bool) or not isinstance(confidence, (int, float)):
            raise ParameterError(f"confidence must be a number in (0, 1), got {confidence!r}")
        modes = {"accumulating": AccumulationMode.ACCUMULATING, "discarding": AccumulationMode.DISCARDING}
        if accumulation_mode not in modes:
            raise ParameterError(f"accumulation_mode must be one of {sorted(modes)}, got {accumulation_mode!r}")
        if not isinstance(by, (str, list, tuple)):
            raise ParameterError(f"by is a list of columns, got {type(by).__name__}")
        transform = self._kind(
            column,
            mechanism,
            window=window,
            event_time=event_time,
            by=by,
            confidence=float(confidence),
            simultaneous=simultaneous,
            consistency=typing.cast("Consistency | None", consistency),
            allowed_lateness=allowed_lateness,
            accumulation_mode=None if window is None else modes[accumulation_mode],
            fill=_fill(fill),
            fill_keys=_fill_keys(fill_keys),
            **noise,
        )
        super().__init__(transform, error_handling)
        self._mechanism = mechanism
        self._column = column
        self._names = [column, *([by] if isinstance(by, str) else by), event_time]

    def expand(self, pcoll: Any) -> Any:
        """See `beam.PTransform`."""
        fields = _fields(pcoll)
        if fields is not None:
            _check_there(self._names, fields)
            self._check_column(fields)
        return self._result(*self._apply(self._prepared(pcoll)))

    def _check_column(self, fields: Fields) -> None:
        """Reports look different in different layouts: nothing to check."""

    def _prepared(self, pcoll: Any) -> Any:
        if _is_arrow(pcoll) or not _is_unsigned(self._mechanism.report_type(packed=True)):
            return pcoll
        names = tuple(name for name in self._names if name is not None)
        return pcoll | "Unsigned" >> beam.Map(_unsigned, self._column, names).with_output_types(Any)


class LdpPrivateHistogram(LdpHistogram):
    """`LdpPerturb` and `LdpHistogram` in one step: from rows of raw values; reports never leave memory.

    Args:
        column (str): of the raw values.
        mechanism (Mapping): to perturb them with.
        secret (Mapping): for keyed noise, with ``id``: see `LdpPerturb`.
        id (str): the column that says whose row it is.

    All others as for `LdpHistogram`.

    Raises:
        DtypeError: the column is of another type than the labels.
        ParameterError, DomainError, PlanError: see `LdpHistogram`.

    >>> mechanism = {"mechanism": "unary_encoding", "epsilon": 1.0, "domain": ["ios", "android"]}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create([Row(os="ios", t=5), Row(os="ios", t=65)])
    ...     out = rows | LdpPrivateHistogram(column="os", mechanism=mechanism, window="1m", event_time="t")
    ...     _ = out | beam.Map(lambda r: print(r.window_start, r.value, r.n))
    Timestamp(0) ios 1
    Timestamp(0) android 1
    Timestamp(60) ios 1
    Timestamp(60) android 1
    """

    _kind = PrivateHistogram

    def __init__(
        self,
        *,
        column: str,
        mechanism: Config | None = None,
        plan: str | Config | None = None,
        window: str | float | Config | None = None,
        event_time: str | None = None,
        by: Sequence[str] = (),
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: str | None = None,
        allowed_lateness: str | float = 0,
        accumulation_mode: str = "accumulating",
        fill: Sequence[Any] | None = None,
        fill_keys: Sequence[Sequence[str]] | None = None,
        secret: Config | None = None,
        id: str | None = None,  # noqa: A002 (as in Perturb)
        error_handling: Config | None = None,
    ) -> None:
        self._set(
            {"key": _secret(secret), "id": id},
            error_handling,
            column=column,
            mechanism=_mechanism(column, mechanism, plan),
            window=_window(window),
            event_time=event_time,
            by=by,
            confidence=confidence,
            simultaneous=simultaneous,
            consistency=consistency,
            allowed_lateness=allowed_lateness,
            accumulation_mode=accumulation_mode,
            fill=fill,
            fill_keys=fill_keys,
        )
        self._names.append(id)

    def _check_column(self, fields: Fields) -> None:
        _check_type(self._column, self._mechanism, fields)

    def _prepared(self, pcoll: Any) -> Any:
        return pcoll


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


# ---- arguments


def _plan(plan: Any) -> PrivacyPlan:
    if isinstance(plan, Mapping):
        return PrivacyPlan.from_dict(plan)
    if not isinstance(plan, str):
        raise PlanError(f"plan is a path or a mapping, got {type(plan).__name__}")
    text = None
    try:
        with FileSystems.open(plan) as file:
            text = file.read().decode("utf-8")
    except (BeamIOError, OSError, ValueError) as error:
        reason = type(error).__name__
    if text is None:
        raise PlanError(f"cannot read the plan {plan!r}: {reason}")
    return PrivacyPlan.from_toml(text + "\n")


def _mechanism(column: str, mechanism: Any, plan: Any) -> FrequencyOracle:
    if (mechanism is None) == (plan is None):
        raise ParameterError("give either a mechanism or a plan")
    if plan is not None:
        made = _plan(plan)[column]
    elif isinstance(mechanism, Mapping):
        made = Mechanism.from_dict(mechanism)
    else:
        raise ParameterError(f"mechanism is a mapping, got {type(mechanism).__name__}")
    if not isinstance(made, FrequencyOracle):
        raise ParameterError(
            f"a histogram needs a frequency oracle, got {made.name}: give a sketch its candidates, as the mechanism "
            "{mechanism: candidates (of rappor: rappor_candidates), sketch: {...}, domain: [...]}; means and heavy "
            "hitters are not in YAML"
        )
    return made


def _secret(secret: Any) -> Callable[[], Secret] | None:
    if secret is None:
        return None
    if not isinstance(secret, Mapping) or len(secret) != 1 or not isinstance(next(iter(secret.values())), str):
        raise ParameterError("secret is one of {env: NAME}, {file: PATH}, {function: package.module.name}")
    ((kind, where),) = secret.items()
    if kind == "env":
        return partial(Secret.from_env, where)
    if kind == "file":
        return partial(Secret.from_file, where)
    if kind != "function":
        raise ParameterError(f"secret is one of env, file and function, got {kind!r}")
    module, _, name = where.rpartition(".")
    function = None
    with suppress(ImportError, AttributeError, ValueError):
        function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise ParameterError(f"secret: there is no function {where!r} to import")
    return typing.cast(Callable[[], Secret], function)


def _window(window: Any) -> Window:
    if not isinstance(window, Mapping):
        return typing.cast(Window, window)
    lengths = {name: _length(value, name) for name, value in window.items() if name != "type"}
    kinds: dict[str, tuple[type, set[str]]] = {
        "fixed": (FixedWindows, {"size"}),
        "sliding": (SlidingWindows, {"size", "period"}),
        "sessions": (Sessions, {"gap"}),
        "global": (GlobalWindows, set()),
    }
    if window.get("type") not in kinds:
        raise ParameterError(f"the type of window must be one of {sorted(kinds)}, got {window.get('type')!r}")
    kind, needed = kinds[window["type"]]
    if set(lengths) != needed:
        raise ParameterError(f"a window of type {window['type']} has {sorted(needed)}, got {sorted(lengths)}")
    return typing.cast(Window, kind(*(lengths[name] for name in ("size", "period", "gap") if name in needed)))


def _length(value: Any, name: str) -> Duration:
    length = seconds(value, name=name)
    if not length:
        raise ParameterError(f"{name} of a window must be longer than 0 seconds")
    return Duration(micros=round(length * 1e6))


def _fill(fill: Any) -> tuple[Any, Any] | None:
    if fill is None:
        return None
    if not isinstance(fill, (list, tuple)) or len(fill) != 2:
        raise ParameterError("fill is [start, end]")
    return _time(fill[0]), None if fill[1] is None else _time(fill[1])


def _time(time: Any) -> Any:
    if not isinstance(time, str):
        return time
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        raise ParameterError(
            f"fill is seconds, or text in ISO 8601 like '2026-01-01T00:00:00Z', got {time!r}"
        ) from None


def _fill_keys(keys: Any) -> list[tuple[str, ...]] | None:
    if keys is None:
        return None
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, (list, tuple)) for key in keys):
        raise ParameterError("fill_keys is a list of lists of texts, one for each name in by")
    return [tuple(key) for key in keys]


def _flags(**flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ParameterError(f"{name} must be true or false, got {value!r}")


# ---- schemas


def _is_arrow(pcoll: Any) -> bool:
    return pcoll.element_type in (pa.RecordBatch, pa.Table)


def _fields(pcoll: Any) -> Fields | None:
    """Names and types of the columns; None where there is no schema."""
    if _is_arrow(pcoll):
        return None
    try:
        return dict(named_fields_from_element_type(pcoll.element_type))
    except (TypeError, ValueError, AttributeError):
        return None


def _check_there(names: Sequence[str | None], fields: Fields) -> None:
    missing = [name for name in names if name is not None and name not in fields]
    if missing:
        raise PlanError(f"there are no columns {missing}; the rows have {sorted(fields)}")


def _check_type(name: str, mechanism: Mechanism, fields: Fields) -> None:
    """Raise if values of the column's type cannot be labels; types that do not tell pass."""
    kind = fields[name]
    several = [t for t in typing.get_args(kind) if t is not type(None)]
    if len(several) == 1 and type(None) in typing.get_args(kind):
        kind = several[0]
    of_labels = mechanism.inputs.kind
    if isinstance(kind, type) and issubclass(kind, _SCALARS) and kind not in PYTHON_TYPES[of_labels]:
        raise DtypeError(f"column {name!r}: {mechanism.name} needs {of_labels} values, not {kind.__name__}")


def _python_type(kind: pa.DataType, nullable: bool = False) -> Any:
    """What a Beam schema calls an Arrow type of reports, which may be null, or lists of nulls."""
    if nullable:
        return typing.Optional[_python_type(kind)]  # noqa: UP045 (Beam reads this one)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return typing.Sequence[_python_type(kind.value_type)]  # type: ignore[misc]
    if pa.types.is_dictionary(kind):
        return _python_type(kind.value_type)
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str
    raise ParameterError(f"reports of type {kind} do not fit into a Beam row; use Arrow batches (LdpReadParquet)")


def _is_unsigned(kind: pa.DataType) -> bool:
    """Whether reports are lists of unsigned words."""
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_uint64(kind.value_type))


def _same(row: Any) -> Any:
    """The row.

    A step after all that ends bundles with rows: what a DoFn puts out in ``finish_bundle``, Beam 2.77 loses on its way
    into a DoFn with ``process_batch``, as WriteToJson and its like begin with (`DoOperation.finish` flushes first).
    """
    return row


def _signed(report: Any, columns: tuple[str, ...]) -> Row:
    """A report whose words are read as signed integers."""
    values = dict(report.items()) if isinstance(report, Mapping) else report.as_dict()
    for name in columns:
        if values[name] is not None:
            values[name] = [w - 2**64 if w is not None and w >= 2**63 else w for w in values[name]]
    return Row(**values)


def _unsigned(row: Any, column: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The named columns of a row, the words of reports as unsigned integers; what are none stay as they are."""
    values = {name: getattr(row, name, None) for name in names}
    words = values[column]
    if isinstance(words, (list, tuple, np.ndarray)) and not all(isinstance(w, (bool, np.bool_)) for w in words):
        values[column] = [int(w) % 2**64 if isinstance(w, (int, np.integer)) else w for w in words]
    return values
